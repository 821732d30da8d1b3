//! What is replayed plainly: copies and pieces, sums, room on links and in buffers.

use std::collections::BTreeSet;

use super::{Key, Plain, Sent};

impl Plain<'_> {
    /// When the last who wants this part of a chunk can use it, if every sender has it in time. Its source has it from an
    /// epoch on.
    pub fn copied(&self, key: &Key, here: &[&Sent], begins: u64) -> Option<u64> {
        let wants = |node: usize| self.wanted.contains(&(key.clone(), node));
        let count = |holds: &dyn Fn(&Sent) -> bool| here.iter().filter(|send| holds(send)).count();
        for send in here {
            let (node, now) = (send.from, send.epoch);
            let leaving = count(&|other| other.from == node && other.epoch == now);
            let can_send = if self.is_switch(node) {
                let there = count(&|other| other.to == node && other.usable == now);
                if self.topology.nodes()[node].can.copy { there > 0 } else { there >= leaving }
            } else {
                let own = usize::from(node == key.1 && begins <= now);
                let there = own + count(&|other| other.to == node && other.usable <= now);
                let left = count(&|other| other.from == node && other.epoch < now);
                if self.divisible { !wants(node) && there >= left + leaving } else { there > 0 }
            };
            if !can_send {
                return None;
            }
        }
        let mut last = 0;
        for node in (0..self.topology.nodes().len()).filter(|node| wants(*node)) {
            let usable: Vec<u64> = here.iter().filter(|send| send.to == node).map(|send| send.usable).collect();
            if self.divisible && usable.len() != 1 {
                return None;
            }
            last = last.max(*usable.iter().min()?);
        }
        Some(last)
    }

    /// The epoch from which on a chunk's own node has the whole sum.
    pub fn sum(&self, key: &Key, of: &[&Sent]) -> Option<u64> {
        let nodes = self.topology.nodes();
        // What every node holds: a list of parts, each a list of ranks.
        let mut held: Vec<Vec<Vec<usize>>> = vec![Vec::new(); nodes.len()];
        self.participants.iter().for_each(|node| held[*node].push(vec![*node]));
        let add = |held: &mut Vec<Vec<Vec<usize>>>, node: usize, part: Vec<usize>| match held[node].first_mut() {
            Some(there) if nodes[node].can.reduce => there.extend(part),
            _ => held[node].push(part),
        };
        let sums: Vec<&&Sent> = of.iter().filter(|send| send.reduces).collect();
        let epochs: BTreeSet<u64> = sums.iter().flat_map(|send| [send.epoch, send.usable]).collect();
        let mut flying: Vec<(u64, usize, Vec<usize>)> = Vec::new();
        let mut complete = None;
        let is_whole = |held: &[Vec<Vec<usize>>]| {
            let [only] = &held[key.1][..] else { return false };
            let ranks: BTreeSet<usize> = only.iter().copied().collect();
            only.len() == ranks.len() && ranks.len() == self.participants.len()
        };
        for now in epochs {
            for (_, node, part) in flying.extract_if(.., |(usable, ..)| *usable == now) {
                add(&mut held, node, part);
            }
            for of_switches in [true, false] {
                for send in sums.iter().filter(|send| send.epoch == now && self.is_switch(send.from) == of_switches) {
                    if held[send.from].is_empty() {
                        return None;
                    }
                    let part = held[send.from].remove(0);
                    if send.usable == now {
                        add(&mut held, send.to, part);
                    } else {
                        flying.push((send.usable, send.to, part));
                    }
                }
            }
            if (0..nodes.len()).any(|node| self.is_switch(node) && !held[node].is_empty()) {
                return None;
            }
            if complete.is_none() && is_whole(&held) {
                complete = Some(now);
            }
        }
        complete
    }

    /// Does no link, and no switch of hyper-edges, begin more than it can?
    pub fn has_room(&self, all: &[Sent]) -> bool {
        let links = self.topology.links();
        for send in all {
            let begun = |other: &&Sent| other.epoch <= send.epoch && send.epoch < other.epoch + other.kappa;
            let also: Vec<&Sent> = all.iter().filter(begun).collect();
            if let [link] = send.links[..] {
                let lane = &self.lanes[link];
                let rate = lane.rates[(send.epoch as usize).min(lane.rates.len() - 1)];
                let same: Vec<&&Sent> = also.iter().filter(|other| other.links == send.links).collect();
                if self.divisible {
                    let chunk = self.content.model.chunk.value().to_f64();
                    let bytes: u64 = same.iter().map(|other| other.hi - other.lo).sum();
                    if bytes as f64 > rate * chunk + (chunk / 1e6).max(1.0) + 1e-6 {
                        return false;
                    }
                } else if same.len() as f64 > (rate * lane.kappa as f64 + 1e-9).floor() {
                    return false;
                }
                continue;
            }
            let switch = links[send.links[0]].to;
            let crossing: Vec<&&Sent> =
                also.iter().filter(|other| other.links.len() == 2 && links[other.links[0]].to == switch).collect();
            let into = links.iter().filter(|link| link.to == switch).count();
            let out = links.iter().filter(|link| link.from == switch).count();
            if crossing.len() > into.min(out)
                || crossing.iter().filter(|other| other.from == send.from).count() > 1
                || crossing.iter().filter(|other| other.to == send.to).count() > 1
            {
                return false;
            }
        }
        true
    }

    /// Does nobody hold more for others than it has room for?
    pub fn has_buffers(&self, all: &[Sent]) -> bool {
        if self.ignores("buffer") {
            return true;
        }
        let epochs: BTreeSet<u64> = all.iter().flat_map(|send| [send.epoch, send.usable]).collect();
        let keys: BTreeSet<&Key> = all.iter().map(|send| &send.key).collect();
        for (node, of) in self.topology.nodes().iter().enumerate() {
            let Some(buffer) = of.buffer.as_ref().filter(|_| !self.is_switch(node)) else { continue };
            for now in &epochs {
                let mut bytes = 0.0;
                for key in &keys {
                    if key.1 == node || self.wanted.contains(&((*key).clone(), node)) {
                        continue;
                    }
                    let of: Vec<&Sent> = all.iter().filter(|send| send.key == **key).collect();
                    let comes = of.iter().filter(|send| send.to == node);
                    let goes = of.iter().filter(|send| send.from == node);
                    if self.divisible {
                        let sum = |sends: &mut dyn Iterator<Item = &&Sent>| {
                            sends.map(|send| send.hi - send.lo).sum::<u64>() as f64
                        };
                        bytes += sum(&mut comes.filter(|send| send.usable <= *now));
                        bytes -= sum(&mut goes.filter(|send| send.epoch <= *now));
                        continue;
                    }
                    // Until a send that is not in the very epoch of the arrival before it.
                    let comes: Vec<u64> = comes.map(|send| send.usable).collect();
                    let stays = |send: &&&Sent| {
                        let came = comes.iter().filter(|usable| **usable <= send.epoch).max();
                        came.is_some_and(|came| *came < send.epoch && *came <= *now && *now <= send.epoch)
                    };
                    if goes.filter(stays).count() > 0 {
                        bytes += self.content.model.chunk.value().to_f64();
                    }
                }
                if bytes > buffer.to_f64() + 1e-6 {
                    return false;
                }
            }
        }
        true
    }
}
