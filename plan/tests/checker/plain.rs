//! Schedules of sends, recomputed plainly: every send against every other, sums as lists of the ranks in them, floats
//! where the checker has fractions.

use std::collections::BTreeSet;

use sluice_formats::quantity::{Capacity, Rational};
use sluice_formats::topology::{Kind, Topology};
use sluice_plan::plan::{Collective, Content, Decimal, Model, NodeId, Plan, Sends};

/// Tenant, source, number.
type Key = (String, usize, u64);

/// What a link does with a chunk.
struct Lane {
    alpha: f64,
    delta: u64,
    kappa: u64,
    /// Chunks per epoch; the last repeats.
    rates: Vec<f64>,
}

struct Sent {
    key: Key,
    from: usize,
    to: usize,
    /// One link, or the two of a hyper-edge.
    links: Vec<usize>,
    epoch: u64,
    usable: u64,
    kappa: u64,
    reduces: bool,
    lo: u64,
    hi: u64,
}

struct Plain<'a> {
    plan: &'a Plan,
    content: &'a Sends,
    topology: Topology,
    participants: Vec<usize>,
    lanes: Vec<Lane>,
    wanted: BTreeSet<(Key, usize)>,
    divisible: bool,
}

/// In how many epochs everybody has what it is owed; `None` for a schedule that is wrong.
pub fn finish(plan: &Plan) -> Option<u64> {
    Plain::new(plan)?.finish()
}

/// By send, after how many epochs its receiver can use it.
pub fn usable_after(plan: &Plan) -> Option<Vec<u64>> {
    let sent = Plain::new(plan)?.sent()?;
    Some(sent.iter().map(|send| send.usable - send.epoch).collect())
}

fn ceil(value: f64) -> u64 {
    (value - 1e-9).ceil().max(0.0) as u64
}

impl Plain<'_> {
    fn new(plan: &Plan) -> Option<Plain<'_>> {
        let Content::Sends(content) = &plan.body.content else { return None };
        let topology = Topology::build((**plan.body.topology.inline.as_ref()?).clone(), "").ok()?;
        let participants = match &plan.body.participants {
            Some(list) => list.iter().map(|node| topology.node(plan.id(*node))).collect::<Option<_>>()?,
            None => topology.compute(),
        };
        let divisible = content.model.divisible == Some(true);
        let (lanes, wanted) = (Vec::new(), BTreeSet::new());
        let mut plain = Plain { plan, content, topology, participants, lanes, wanted, divisible };
        plain.lanes = plain.lanes()?;
        plain.wanted = plain.wanted()?;
        Some(plain)
    }
    fn ignores(&self, key: &str) -> bool {
        self.plan.body.ignored.iter().flatten().any(|ignored| &**ignored == key)
    }
    fn node(&self, node: NodeId) -> Option<usize> {
        self.topology.node(self.plan.id(node))
    }
    fn is_switch(&self, node: usize) -> bool {
        matches!(self.topology.nodes()[node].kind, Kind::Switch | Kind::Nic)
    }
    fn collective(&self) -> Collective {
        self.plan.body.collective
    }
    /// Does anything have to be added up?
    fn adds(&self) -> bool {
        matches!(self.collective(), Collective::ReduceScatter | Collective::Reduce | Collective::AllReduce)
    }

    fn lanes(&self) -> Option<Vec<Lane>> {
        let model: &Model = &self.content.model;
        let (tau, chunk) = (model.tau.value().to_f64(), model.chunk.value().to_f64());
        let theta = model.theta.as_ref().map_or(0.0, Rational::to_f64);
        if tau <= 0.0 || chunk <= 0.0 || theta < 0.0 || (self.divisible && chunk.fract() != 0.0) {
            return None;
        }
        let links = self.topology.links();
        let mut slow = vec![(0.0, 1.0); links.len()];
        let mut named = BTreeSet::new();
        for straggler in model.stragglers.iter().flatten() {
            let add = straggler.alpha_add.as_ref().map_or(0.0, |add| Decimal::value(add).to_f64());
            let times = straggler.beta_mul.as_ref().map_or(1.0, |times| Decimal::value(times).to_f64());
            let hit: Vec<usize> = match (straggler.link, straggler.node) {
                (Some(link), None) if (link as usize) < links.len() => vec![link as usize],
                (None, Some(node)) => {
                    let node = self.node(node)?;
                    (0..links.len()).filter(|link| links[*link].from == node || links[*link].to == node).collect()
                }
                _ => return None,
            };
            if add < 0.0 || times <= 0.0 || !named.insert((straggler.link, straggler.node.map(|node| node.0))) {
                return None;
            }
            for link in hit {
                slow[link] = (slow[link].0 + add, slow[link].1 * times);
            }
        }
        let mut lanes = Vec::new();
        let mut pairs = BTreeSet::new();
        for (link, (add, times)) in links.iter().zip(slow) {
            let chunks = |capacity: &Capacity| Some(capacity.finite()?.to_f64() * tau / chunk / times);
            let nominal = chunks(&link.capacity)?;
            if nominal <= 0.0 || link.from == link.to || !pairs.insert((link.from, link.to)) {
                return None;
            }
            let kappa = ceil(1.0 / nominal).max(1);
            let rates = match &link.per_epoch {
                Some(list) if !self.ignores("capacity_per_epoch") => {
                    if (kappa > 1 && !self.divisible) || self.adds() {
                        return None;
                    }
                    list.iter().map(chunks).collect::<Option<_>>()?
                }
                _ => vec![nominal],
            };
            let alpha = link.latency.to_f64() + add;
            let delta = if alpha / tau <= theta + 1e-12 { 0 } else { ceil(alpha / tau) };
            lanes.push(Lane { alpha, delta, kappa: if self.divisible { 1 } else { kappa }, rates });
        }
        Some(lanes)
    }

    /// Who wants which chunk; of what is added up, who has something to add to it.
    fn wanted(&self) -> Option<BTreeSet<(Key, usize)>> {
        let mut wanted = BTreeSet::new();
        let distinct: BTreeSet<usize> = self.participants.iter().copied().collect();
        let root = self.plan.body.root.map(|root| self.node(root));
        if distinct.len() < self.participants.len() || distinct.len() < 2 || !self.topology.groups().is_empty() {
            return None;
        }
        let rooted = self.collective().is_rooted();
        if root.is_some() != rooted || root.is_some_and(|root| root.is_none_or(|root| !distinct.contains(&root))) {
            return None;
        }
        let model = &self.content.model;
        match &self.plan.body.demands {
            None => {
                let like = match self.collective() {
                    Collective::Custom => return None,
                    Collective::ReduceScatter | Collective::AllReduce => Collective::AllGather,
                    Collective::Reduce => Collective::Broadcast,
                    other => other,
                };
                pairs(&mut wanted, "", like, &self.participants, root.flatten(), model.chunks)?;
            }
            Some(_) if self.collective() != Collective::Custom => return None,
            Some(demands) => {
                let names: BTreeSet<&str> = demands.tenants.iter().map(|tenant| &*tenant.name).collect();
                if names.len() < demands.tenants.len() {
                    return None;
                }
                for tenant in &demands.tenants {
                    match (&tenant.triples, tenant.collective) {
                        (Some(triples), None) => {
                            for (source, chunk, target) in triples {
                                let (source, target) = (self.node(*source)?, self.node(*target)?);
                                let key = (tenant.name.to_string(), source, *chunk);
                                if source == target || !wanted.insert((key, target)) {
                                    return None;
                                }
                            }
                        }
                        (None, Some(collective)) => {
                            let listed = tenant.participants.as_ref();
                            let listed = listed.map(|list| list.iter().map(|node| self.node(*node)).collect());
                            let group: Vec<usize> = listed.unwrap_or(Some(self.participants.clone()))?;
                            let root = tenant.root.map(|root| self.node(root));
                            let inside = root.is_none_or(|root| root.is_some_and(|root| group.contains(&root)));
                            if root.is_some() != collective.is_rooted() || !inside {
                                return None;
                            }
                            let chunks = tenant.chunks.unwrap_or(model.chunks);
                            pairs(&mut wanted, &tenant.name, collective, &group, root.flatten(), chunks)?;
                        }
                        _ => return None,
                    }
                }
            }
        }
        let nodes = self.topology.nodes();
        let ends = |(key, target): &(Key, usize)| nodes[key.1].is_compute() && nodes[*target].is_compute();
        let keys: BTreeSet<&Key> = wanted.iter().map(|(key, _)| key).collect();
        let shared = keys.len() < wanted.len();
        let limited = nodes.iter().any(|node| node.buffer.is_some()) && !self.ignores("buffer");
        let odd = wanted.is_empty()
            || !wanted.iter().all(ends)
            || self.divisible && (shared || self.adds())
            || self.adds() && limited;
        (!odd).then_some(wanted)
    }

    fn sent(&self) -> Option<Vec<Sent>> {
        let model = &self.content.model;
        let links = self.topology.links();
        let find = |from, to| links.iter().position(|link| (link.from, link.to) == (from, to));
        let hyper = model.hyper_edges == Some(true);
        if hyper && links.iter().any(|link| self.is_switch(link.from) && self.is_switch(link.to)) {
            return None;
        }
        let tenants: Vec<&str> =
            self.plan.body.demands.iter().flat_map(|all| &all.tenants).map(|tenant| &*tenant.name).collect();
        let mut all = Vec::new();
        for send in &self.content.sends {
            let entry = &*send.entry;
            let (from, to, source) = (self.node(entry.from)?, self.node(entry.to)?, self.node(entry.src)?);
            let tenant = match (entry.tenant.as_deref(), &tenants[..]) {
                (None, []) => "",
                (None, [only]) => only,
                (Some(name), known) if known.contains(&name) => name,
                _ => return None,
            };
            let key = (tenant.to_string(), source, entry.chunk);
            if entry.epoch > 1 << 40 || !self.wanted.iter().any(|(wanted, _)| *wanted == key) {
                return None;
            }
            let (mut on, mut after, mut kappa) = (Vec::new(), 0, 0);
            match entry.via {
                None => {
                    let link = find(from, to)?;
                    if hyper && (self.is_switch(from) || self.is_switch(to)) {
                        return None;
                    }
                    let free = model.free_second_hop == Some(true) && self.is_switch(from) && !self.is_switch(to);
                    kappa = self.lanes[link].kappa;
                    after += self.lanes[link].delta + if free { 0 } else { kappa };
                    on.push(link);
                }
                Some(via) => {
                    let via = self.node(via)?;
                    if !hyper || !self.is_switch(via) || find(from, to).is_some() || from == to {
                        return None;
                    }
                    on.extend([find(from, via)?, find(via, to)?]);
                    let tau = model.tau.value().to_f64();
                    let alpha: f64 = on.iter().map(|link| self.lanes[*link].alpha).sum();
                    let theta = model.theta.as_ref().map_or(0.0, Rational::to_f64);
                    on.iter().for_each(|link| kappa = kappa.max(self.lanes[*link].kappa));
                    after += kappa + if alpha / tau <= theta + 1e-12 { 0 } else { ceil(alpha / tau) };
                }
            }
            let (lo, hi) = match (self.divisible, entry.offset, entry.bytes) {
                (false, None, None) => (0, 1),
                (true, Some(offset), Some(bytes)) if bytes > 0 => (offset, offset.checked_add(bytes)?),
                _ => return None,
            };
            if self.divisible && hi as f64 > model.chunk.value().to_f64() {
                return None;
            }
            let reduces = entry.reduces();
            let only_adds = self.adds() && self.collective() != Collective::AllReduce;
            if reduces && (!self.adds() || from == source) || !reduces && only_adds {
                return None;
            }
            let usable = entry.epoch + after;
            all.push(Sent { key, from, to, links: on, epoch: entry.epoch, usable, kappa, reduces, lo, hi });
        }
        Some(all)
    }

    fn finish(&self) -> Option<u64> {
        let all = self.sent()?;
        let twice = |i: usize, a: &Sent| {
            all[..i].iter().any(|b| (&a.key, &a.links, a.epoch, a.lo) == (&b.key, &b.links, b.epoch, b.lo))
        };
        if all.iter().enumerate().any(|(i, send)| twice(i, send)) || !self.has_room(&all) || !self.has_buffers(&all) {
            return None;
        }
        let keys: BTreeSet<&Key> = self.wanted.iter().map(|(key, _)| key).collect();
        let mut finish = 0;
        for key in keys {
            let whole = if self.divisible { self.content.model.chunk.value().to_u64()? } else { 1 };
            let of: Vec<&Sent> = all.iter().filter(|send| send.key == *key).collect();
            let mut begins = Some(0);
            if self.adds() {
                begins = Some(self.sum(key, &of)?);
                finish = finish.max(begins?);
            }
            let copies: Vec<&Sent> = of.into_iter().filter(|send| !send.reduces).collect();
            if self.adds() && self.collective() != Collective::AllReduce {
                continue;
            }
            let mut cuts: BTreeSet<u64> = copies.iter().flat_map(|send| [send.lo, send.hi]).collect();
            cuts.extend([0, whole]);
            let cuts: Vec<u64> = cuts.into_iter().collect();
            for part in cuts.windows(2) {
                let here: Vec<&Sent> =
                    copies.iter().copied().filter(|send| send.lo <= part[0] && part[1] <= send.hi).collect();
                finish = finish.max(self.copied(key, &here, begins?)?);
            }
        }
        Some(finish)
    }

    /// When the last who wants this part of a chunk can use it, if every sender has it in time. Its source has it from an
    /// epoch on.
    fn copied(&self, key: &Key, here: &[&Sent], begins: u64) -> Option<u64> {
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
    fn sum(&self, key: &Key, of: &[&Sent]) -> Option<u64> {
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
    fn has_room(&self, all: &[Sent]) -> bool {
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
    fn has_buffers(&self, all: &[Sent]) -> bool {
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

/// What a plain collective asks for.
fn pairs(
    wanted: &mut BTreeSet<(Key, usize)>,
    tenant: &str,
    collective: Collective,
    group: &[usize],
    root: Option<usize>,
    chunks: u64,
) -> Option<()> {
    let distinct: BTreeSet<&usize> = group.iter().collect();
    if chunks == 0 || chunks > 1000 || distinct.len() < group.len() || group.len() < 2 {
        return None;
    }
    for source in group {
        for (rank, target) in (0..).zip(group).filter(|(_, target)| *target != source) {
            let (from_root, to_root) = (root == Some(*source), root == Some(*target));
            let numbers = match collective {
                Collective::AllGather => 0..chunks,
                Collective::AllToAll => rank * chunks..(rank + 1) * chunks,
                Collective::Broadcast if from_root => 0..chunks,
                Collective::Scatter if from_root => rank * chunks..(rank + 1) * chunks,
                Collective::Gather if to_root => 0..chunks,
                Collective::Broadcast | Collective::Scatter | Collective::Gather => continue,
                _ => return None,
            };
            wanted.extend(numbers.map(|number| ((tenant.to_string(), *source, number), *target)));
        }
    }
    Some(())
}
