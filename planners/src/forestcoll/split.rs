//! Stage C: switches give way to direct links between compute nodes, without losing a tree.
//!
//! Splitting off takes an amount from a link into a switch and a link out of it, and adds it to the link between their
//! other ends (section 4.5.3, appendix B.5.2 of the ForestColl paper). It may go as far as every compute node still
//! gets a flow of all supply. For every compute node such a flow is kept, and an attempt is made first and mended
//! after: most flows pass through the pair itself and move to the new link at once, the others look for another way.
//! Every cut that loses capacity loses exactly the amount split, so that the largest shortfall of a flow is exactly
//! how much the attempt was too large. No flow over the whole graph is computed again.

use super::Refusal;
use super::flow::Arena;
use super::network::Network;
use crate::run::{Run, Stage};

#[cfg(test)]
mod tests;

/// One splitting: `amount` units from `from` through `switch` to `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Split {
    pub from: u32,
    pub switch: u32,
    pub to: u32,
    pub amount: i64,
}

/// A graph with the flow of all supply to each compute node.
#[derive(Clone, Debug)]
pub(super) struct SuppliedNetwork {
    /// The graph; what is left of it after the splittings.
    pub network: Network,
    /// Compute nodes are the nodes below it.
    pub compute: usize,
    /// What each compute node sends to every other one.
    pub supply: Vec<i64>,
    /// One flow per compute node, as its sink.
    pub flows: Vec<Vec<i64>>,
}

impl SuppliedNetwork {
    /// Finds the flows; `None` if some compute node cannot be fed.
    pub fn new(network: Network, compute: usize, supply: Vec<i64>, run: &Run) -> Result<Option<Self>, Refusal> {
        let flows = run.each(
            compute,
            || Arena::new(network.nodes()),
            |arena, sink| {
                let mut flow = vec![0; network.arcs()];
                for (node, &supply) in (0..).zip(&supply) {
                    arena.give(node, supply);
                }
                arena.push(&network, &mut flow, sink as u32, i64::MAX);
                (arena.clear() == 0).then_some(flow)
            },
        )?;
        let flows: Option<Vec<_>> = flows.into_iter().collect();
        Ok(flows.map(|flows| Self { network, compute, supply, flows }))
    }
}

/// Removes every switch; the splittings in the order in which they were made.
pub(super) fn remove_switches(fed: &mut SuppliedNetwork, run: &Run) -> Result<Vec<Split>, Refusal> {
    let nodes = fed.network.nodes();
    let mut splitter = Splitter::new(fed);
    let mut splits = Vec::new();
    // Small switches first: box switches become links inside a box before the fabric between boxes is looked at.
    let mut switches: Vec<u32> = (splitter.fed.compute as u32..nodes as u32).collect();
    switches.sort_by_key(|&switch| (splitter.fed.network.adjacent[switch as usize].len(), switch));
    for (done, &switch) in switches.iter().enumerate() {
        run.report(Stage::SwitchRemoval, done, switches.len())?;
        splitter.remove(switch, &mut splits, run)?;
    }
    run.report(Stage::SwitchRemoval, switches.len(), switches.len())?;
    Ok(splits)
}

struct Splitter<'a> {
    fed: &'a mut SuppliedNetwork,
    arena: Arena,
    /// Sinks, those that stopped an attempt of late first.
    order: Vec<u32>,
    /// Tight cuts, as bits per node: none of them ever gains capacity.
    cuts: Vec<Vec<u64>>,
    words: usize,
}

/// Tight cuts kept; beyond that the oldest is forgotten, which costs time and nothing else.
const MAX_CUTS: usize = 1024;

fn holds(bits: &[u64], node: u32) -> bool {
    bits[node as usize / 64] >> (node % 64) & 1 == 1
}

impl<'a> Splitter<'a> {
    fn new(fed: &'a mut SuppliedNetwork) -> Self {
        let nodes = fed.network.nodes();
        let order = (0..fed.compute as u32).collect();
        Self { arena: Arena::new(nodes), order, cuts: Vec::new(), words: nodes.div_ceil(64), fed }
    }

    fn remove(&mut self, switch: u32, splits: &mut Vec<Split>, run: &Run) -> Result<(), Refusal> {
        let (mut into, mut out) = (Vec::new(), Vec::new());
        for half in &self.fed.network.adjacent[switch as usize] {
            if self.fed.network.capacity[(half.code >> 1) as usize] > 0 {
                if half.code & 1 == 0 { &mut out } else { &mut into }.push((half.to, half.code >> 1));
            }
        }
        into.sort_unstable();
        out.sort_unstable();
        for &(to, out_arc) in &out {
            run.check()?;
            let mut blocked = vec![0; self.words];
            for cut in &self.cuts {
                block(&mut blocked, cut, switch, to);
            }
            // The next port first, the link back to where the data came from last: that one wastes capacity.
            let start = into.partition_point(|&(from, _)| from <= to);
            let turned = into[start..].iter().chain(&into[..start]);
            let (back, forth): (Vec<_>, Vec<_>) = turned.partition(|&&(from, _)| from == to);
            for &(from, in_arc) in forth.into_iter().chain(back) {
                if self.fed.network.capacity[out_arc as usize] == 0 {
                    break;
                }
                if self.fed.network.capacity[in_arc as usize] == 0 || holds(&blocked, from) {
                    continue;
                }
                let known = self.cuts.len();
                let amount = self.split((from, in_arc), switch, (to, out_arc))?;
                for cut in &self.cuts[known.min(self.cuts.len())..] {
                    block(&mut blocked, cut, switch, to);
                }
                if amount > 0 {
                    splits.push(Split { from, switch, to, amount });
                }
            }
            if self.fed.network.capacity[out_arc as usize] > 0 {
                return Err(Refusal::InternalInvariant { what: "a switch keeps bandwidth that cannot be split off" });
            }
            if self.cuts.len() > MAX_CUTS {
                self.cuts.drain(..self.cuts.len() - MAX_CUTS);
            }
        }
        if into.iter().any(|&(_, arc)| self.fed.network.capacity[arc as usize] > 0) {
            return Err(Refusal::InternalInvariant { what: "a switch keeps bandwidth that comes in" });
        }
        self.fed.network.isolate(switch);
        Ok(())
    }

    /// Splits as much as possible off one pair of links; says how much.
    fn split(&mut self, (from, in_arc): (u32, u32), switch: u32, (to, out_arc): (u32, u32)) -> Result<i64, Refusal> {
        let network = &mut self.fed.network;
        let (into, out) = (in_arc as usize, out_arc as usize);
        let amount = network.capacity[into].min(network.capacity[out]);
        let old = network.arcs();
        let direct = (from != to).then(|| network.arc(from, to) as usize);
        let new = network.arcs() > old;
        if new {
            self.fed.flows.iter_mut().for_each(|flow| flow.push(0));
        }
        network.capacity[into] -= amount;
        network.capacity[out] -= amount;
        if let Some(direct) = direct {
            network.capacity[direct] += amount;
        }

        let mut short = Vec::new();
        let mut worst: Option<(i64, usize)> = None;
        for (place, &sink) in self.order.iter().enumerate() {
            let flow = &mut self.fed.flows[sink as usize];
            let over_in = (flow[into] - network.capacity[into]).max(0);
            let over_out = (flow[out] - network.capacity[out]).max(0);
            if over_in == 0 && over_out == 0 {
                continue;
            }
            let through = over_in.min(over_out);
            flow[into] -= over_in;
            flow[out] -= over_out;
            if let Some(direct) = direct {
                flow[direct] += through;
            }
            // What is above `through` has lost one of the two links: the tail still has it, the head waits for it.
            let (tail, head, moved) =
                if over_in > over_out { (from, switch, over_in - through) } else { (switch, to, over_out - through) };
            if moved > 0 {
                self.arena.give(tail, moved);
                self.arena.fill(network, flow, sink, head, moved);
                self.arena.push(network, flow, sink, i64::MAX);
                let left = self.arena.take(tail);
                if left > 0 {
                    short.push((sink, tail, left));
                    if worst.is_none_or(|(most, _)| left > most) {
                        worst = Some((left, place));
                    }
                    if left == amount {
                        break;
                    }
                }
            }
        }
        let Some((excess, place)) = worst else { return Ok(amount) };
        self.order[..=place].rotate_right(1);
        self.keep_cut(&short, excess);

        let network = &mut self.fed.network;
        network.capacity[into] += excess;
        network.capacity[out] += excess;
        if let Some(direct) = direct {
            network.capacity[direct] -= excess;
            for flow in &mut self.fed.flows {
                let over = (flow[direct] - network.capacity[direct]).max(0);
                flow[direct] -= over;
                flow[into] += over;
                flow[out] += over;
            }
        }
        for (sink, tail, left) in short {
            self.arena.give(tail, left);
            self.arena.push(network, &mut self.fed.flows[sink as usize], sink, i64::MAX);
            if self.arena.clear() > 0 {
                return Err(Refusal::InternalInvariant { what: "taking a splitting back does not restore a flow" });
            }
        }
        if new && amount == excess {
            network.pop();
            self.fed.flows.iter_mut().for_each(|flow| {
                flow.pop();
            });
        }
        Ok(amount - excess)
    }

    /// The cut behind the largest shortfall is tight once the splitting is as large as it may be.
    fn keep_cut(&mut self, short: &[(u32, u32, i64)], excess: i64) {
        let Some(&(sink, tail, left)) = short.iter().find(|short| short.2 == excess) else { return };
        self.arena.give(tail, left);
        let mut bits = vec![0; self.words];
        let inside = self.arena.reach(&self.fed.network, &self.fed.flows[sink as usize]);
        for (node, _) in inside.iter().enumerate().filter(|(_, inside)| **inside) {
            bits[node / 64] |= 1 << (node % 64);
        }
        self.arena.clear();
        self.cuts.push(bits);
    }
}

/// Marks the ingress ports that a tight cut forbids for this switch and egress port.
fn block(blocked: &mut [u64], cut: &[u64], switch: u32, to: u32) {
    match (holds(cut, switch), holds(cut, to)) {
        (false, true) => blocked.iter_mut().zip(cut).for_each(|(word, cut)| *word |= cut),
        (true, false) => blocked.iter_mut().zip(cut).for_each(|(word, cut)| *word |= !cut),
        _ => {}
    }
}
