//! What each compute node sends to each other one, over links it may share with others.
//!
//! Per sender and per purpose there is one flow from the sender through switches into other compute nodes, where it
//! ends. Where there is no switch, that is simply a share of each link.

use crate::forestcoll::fabric::Graph;
use crate::forestcoll::network::Arc;
use crate::forestcoll::paths::Way;
use sluice_formats::quantity::Rational;
use std::collections::BTreeMap;

#[cfg(test)]
mod tests;

/// What a flow is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Sums on their way to a root.
    Reduce,
    /// Results on their way out of it.
    Broadcast,
}

/// The variables of the program: first one amount per compute node, then these flows.
#[derive(Clone, Debug)]
pub(super) struct Commodities {
    compute: usize,
    flows: Vec<Flow>,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    kind: Kind,
    sender: u32,
    from: u32,
    to: u32,
    /// The link, by its place in the graph.
    link: usize,
}

pub(super) type Row = Vec<(usize, Rational)>;

impl Commodities {
    pub fn new(graph: &Graph) -> Self {
        let mut flows = Vec::new();
        for sender in 0..graph.compute as u32 {
            let relays = relays(graph, sender);
            for (link, &Arc { from, to, .. }) in graph.arcs.iter().enumerate() {
                if to != sender && (from == sender || relays[from as usize]) {
                    let flow = |kind| Flow { kind, sender, from, to, link };
                    flows.extend([Kind::Reduce, Kind::Broadcast].map(flow));
                }
            }
        }
        Self { compute: graph.compute, flows }
    }

    pub fn variables(&self) -> usize {
        self.compute + self.flows.len()
    }

    fn each(&self) -> impl Iterator<Item = (usize, &Flow)> {
        (self.compute..).zip(&self.flows)
    }

    /// Links carry no more than they can, switches send no more than they get: rows and their bounds.
    pub fn rows(&self, graph: &Graph) -> Vec<(Row, i64)> {
        let mut links: Vec<(Row, i64)> = graph.arcs.iter().map(|arc| (Row::new(), arc.capacity)).collect();
        let mut switches: BTreeMap<(Kind, u32, u32), Row> = BTreeMap::new();
        for (variable, flow) in self.each() {
            links[flow.link].0.push((variable, Rational::ONE));
            for (end, sign) in [(flow.from, Rational::ONE), (flow.to, -&Rational::ONE)] {
                if end as usize >= self.compute {
                    switches.entry((flow.kind, flow.sender, end)).or_default().push((variable, sign));
                }
            }
        }
        links.into_iter().chain(switches.into_values().map(|row| (row, 0))).collect()
    }

    /// The amounts rooted inside a set are no more than what can leave it, or come in where it is a reduction.
    pub fn cut(&self, kind: Kind, inside: &[bool]) -> Row {
        let roots = inside.iter().enumerate().filter(|(_, inside)| **inside).map(|(node, _)| (node, Rational::ONE));
        let crossing = self.each().filter(|(_, flow)| {
            let (from, to) = turned(kind, flow.sender, flow.to);
            flow.kind == kind && (flow.to as usize) < self.compute && inside[from as usize] && !inside[to as usize]
        });
        roots.chain(crossing.map(|(variable, _)| (variable, -&Rational::ONE))).collect()
    }

    /// How much each compute node sends to each other one, as arcs of out-trees.
    pub fn pairs(&self, kind: Kind, values: &[i64]) -> Vec<Arc> {
        let ends = self.each().filter(|(_, flow)| flow.kind == kind && (flow.to as usize) < self.compute);
        let pair = |(variable, flow): (usize, &Flow)| {
            let (from, to) = turned(kind, flow.sender, flow.to);
            Arc { from, to, capacity: values[variable] }
        };
        ends.map(pair).collect()
    }

    /// The ways behind [`Commodities::pairs`].
    pub fn ways(&self, kind: Kind, values: &[i64]) -> Vec<Way> {
        let mut left: BTreeMap<(u32, u32, u32), i64> = BTreeMap::new();
        for (variable, flow) in self.each().filter(|(_, flow)| flow.kind == kind) {
            left.insert((flow.sender, flow.to, flow.from), values[variable]);
        }
        let ends: Vec<(u32, u32, u32)> = left.keys().copied().filter(|end| (end.1 as usize) < self.compute).collect();
        let mut ways = Vec::new();
        for (sender, to, from) in ends {
            while left[&(sender, to, from)] > 0 {
                let mut way = back(&mut left, sender, to, from);
                if let Some(way) = &mut way
                    && kind == Kind::Broadcast
                {
                    way.nodes.reverse();
                }
                ways.extend(way);
            }
        }
        ways
    }
}

/// A pair as an edge of an out-tree: reductions are planned with all links turned round.
fn turned(kind: Kind, sender: u32, receiver: u32) -> (u32, u32) {
    match kind {
        Kind::Broadcast => (sender, receiver),
        Kind::Reduce => (receiver, sender),
    }
}

/// Follows a sender's flow back from `to`, whose last hop is from `from`, and takes what goes that way: the nodes from
/// `to` to the sender. `None` if it met a circle, which it then took out of the flow.
fn back(left: &mut BTreeMap<(u32, u32, u32), i64>, sender: u32, to: u32, from: u32) -> Option<Way> {
    let mut nodes = vec![to, from];
    let mut at = from;
    while at != sender {
        // A switch sends no more than it gets, so that there is something to follow.
        let into = left.range((sender, at, 0)..=(sender, at, u32::MAX)).find(|(_, amount)| **amount > 0);
        at = into.map_or(sender, |(&(_, _, from), _)| from);
        if let Some(start) = nodes.iter().position(|&seen| seen == at) {
            nodes.push(at);
            take(left, sender, &nodes[start..]);
            return None;
        }
        nodes.push(at);
    }
    let units = take(left, sender, &nodes);
    Some(Way { nodes, units })
}

/// Takes the most that goes along hops, given from their end to their start.
fn take(left: &mut BTreeMap<(u32, u32, u32), i64>, sender: u32, path: &[u32]) -> i64 {
    let hops = path.windows(2).map(|hop| (sender, hop[0], hop[1]));
    let amount = hops.clone().filter_map(|hop| left.get(&hop)).min().copied().unwrap_or(0);
    hops.for_each(|hop| {
        left.entry(hop).and_modify(|left| *left -= amount);
    });
    amount
}

/// The switches that a sender gets to without passing another compute node.
fn relays(graph: &Graph, sender: u32) -> Vec<bool> {
    let mut reached = vec![false; graph.nodes];
    let mut queue = vec![sender];
    while let Some(node) = queue.pop() {
        for &Arc { to, .. } in graph.arcs.iter().filter(|arc| arc.from == node && arc.to as usize >= graph.compute) {
            if !std::mem::replace(&mut reached[to as usize], true) {
                queue.push(to);
            }
        }
    }
    reached
}
