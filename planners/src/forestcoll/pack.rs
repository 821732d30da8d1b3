//! Stage D: packing spanning out-trees into a graph of compute nodes.
//!
//! A batch of identical trees grows from its root edge by edge; an edge may be added as often as every other batch can
//! still be finished, which one flow from the edge's tail to its head tells (theorem 32 of the ForestColl paper). Three
//! things make that fast. Every node keeps its flow from all roots from one question to the next, and only what lost
//! its link looks for another way. Cuts that limited an answer are kept with their exact slack, and answer most
//! questions that end in a no. A batch that must become smaller gives the difference back to its root instead of
//! leaving a half-grown copy, so that all other batches are single roots and the graph needs no extra nodes.

mod cuts;
#[cfg(test)]
mod tests;

use super::Refusal;
use super::flow::Arena;
use super::network::{Arc, Network};
use super::split::SuppliedNetwork;
use crate::run::{Run, Stage};
use cuts::Cuts;

/// Identical logical trees: edges between compute nodes in order of growth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Batch {
    pub root: u32,
    pub weight: i64,
    pub edges: Vec<(u32, u32)>,
}

/// Packs `supply` trees per root. The network must be free of switches and feed every node.
pub(super) fn pack(fed: SuppliedNetwork, run: &Run) -> Result<Vec<Batch>, Refusal> {
    let total = fed.supply.iter().sum::<i64>() as usize;
    let mut packer = Packer::new(fed);
    let (mut batches, mut done) = (Vec::new(), 0);
    for root in 0..packer.nodes as u32 {
        while packer.supply[root as usize] > 0 {
            run.report(Stage::TreeConstruction, done, total)?;
            let batch = packer.grow(root, run)?;
            done += batch.weight as usize;
            batches.push(batch);
        }
    }
    run.report(Stage::TreeConstruction, done, total)?;
    Ok(batches)
}

/// A flow from all roots to one node, as it was when that node was last asked about.
#[derive(Clone, Debug)]
struct SinkFlow {
    flow: Vec<i64>,
    /// What came from each root.
    source: Vec<i64>,
}

struct Packer {
    nodes: usize,
    /// What trees have not used yet.
    network: Network,
    /// Arcs out of each node.
    out: Vec<Vec<u32>>,
    /// Trees per root that no batch has begun.
    supply: Vec<i64>,
    sinks: Vec<SinkFlow>,
    arena: Arena,
    cuts: Cuts,
    /// Upper bounds on the answer per arc, for the batch at hand.
    known: Vec<i64>,
    imbalance: Vec<i64>,
    touched: Vec<u32>,
}

/// The batch that grows.
struct Growing {
    root: u32,
    weight: i64,
    /// In order of joining.
    members: Vec<u32>,
    inside: Vec<bool>,
    edges: Vec<u32>,
}

impl Packer {
    /// Leaves out arcs without capacity and renumbers the others.
    fn new(fed: SuppliedNetwork) -> Self {
        let nodes = fed.compute;
        let live: Vec<usize> = (0..fed.network.arcs()).filter(|&arc| fed.network.capacity[arc] > 0).collect();
        let arcs = live.iter().map(|&arc| {
            let (from, to) = fed.network.ends[arc];
            Arc { from, to, capacity: fed.network.capacity[arc] }
        });
        let network = Network::new(nodes, arcs);
        let mut out = vec![Vec::new(); nodes];
        for (arc, &(from, _)) in (0..).zip(&network.ends) {
            out[from as usize].push(arc);
        }
        let sink =
            |flow: Vec<i64>| SinkFlow { flow: live.iter().map(|&arc| flow[arc]).collect(), source: fed.supply.clone() };
        Self {
            nodes,
            out,
            sinks: fed.flows.into_iter().map(sink).collect(),
            supply: fed.supply.clone(),
            arena: Arena::new(nodes),
            cuts: Cuts::new(nodes),
            known: vec![i64::MAX; network.arcs()],
            imbalance: vec![0; nodes],
            touched: Vec::new(),
            network,
        }
    }

    /// Grows one batch of as many of the root's trees as the widest way allows.
    fn grow(&mut self, root: u32, run: &Run) -> Result<Batch, Refusal> {
        let weight = std::mem::take(&mut self.supply[root as usize]);
        let mut inside = vec![false; self.nodes];
        inside[root as usize] = true;
        let mut batch =
            Growing { root, weight, members: vec![root], inside, edges: Vec::with_capacity(self.nodes - 1) };
        self.cuts.start(root);
        self.known.fill(i64::MAX);
        // Members and their arcs before this place have nothing for this weight any more.
        let mut place = (0, 0);
        while batch.members.len() < self.nodes {
            run.check()?;
            let arc = match self.full(&batch, &mut place)? {
                Some(arc) => arc,
                None => {
                    let (arc, weight) = self.widest(&batch)?;
                    self.shrink(&mut batch, weight);
                    place = (0, 0);
                    arc
                }
            };
            self.accept(&mut batch, arc);
        }
        let edges = batch.edges.iter().map(|&arc| self.network.ends[arc as usize]).collect();
        Ok(Batch { root, weight: batch.weight, edges })
    }

    /// The next arc, from the oldest member on, that takes the whole batch.
    fn full(&mut self, batch: &Growing, place: &mut (usize, usize)) -> Result<Option<u32>, Refusal> {
        while let Some(&member) = batch.members.get(place.0) {
            while let Some(&arc) = self.out[member as usize].get(place.1) {
                place.1 += 1;
                let to = self.network.ends[arc as usize].1;
                if !batch.inside[to as usize] && self.bound(arc) >= batch.weight && self.ask(arc, batch.weight)? {
                    return Ok(Some(arc));
                }
            }
            *place = (place.0 + 1, 0);
        }
        Ok(None)
    }

    /// The arc that takes the largest part of the batch, and how much that is.
    fn widest(&mut self, batch: &Growing) -> Result<(u32, i64), Refusal> {
        loop {
            let mut best = (0, 0);
            for &member in &batch.members {
                for at in 0..self.out[member as usize].len() {
                    let arc = self.out[member as usize][at];
                    if !batch.inside[self.network.ends[arc as usize].1 as usize] {
                        let bound = self.bound(arc);
                        if bound > best.1 {
                            best = (arc, bound);
                        }
                    }
                }
            }
            if best.1 == 0 {
                return Err(Refusal::InternalInvariant { what: "no edge can be added to an unfinished tree" });
            }
            if self.ask(best.0, best.1)? {
                return Ok(best);
            }
        }
    }

    /// What is known without a flow about how much an arc may take.
    fn bound(&mut self, arc: u32) -> i64 {
        let (from, to) = self.network.ends[arc as usize];
        let bound = self.network.capacity[arc as usize].min(self.known[arc as usize]);
        if bound == 0 { 0 } else { self.cuts.bound(from, to).min(bound) }
    }

    /// Whether an arc may take `amount`; if not, how much it may is known from then on.
    fn ask(&mut self, arc: u32, amount: i64) -> Result<bool, Refusal> {
        let (from, to) = self.network.ends[arc as usize];
        self.sync(to)?;
        let sink = &mut self.sinks[to as usize];
        if self.network.residual(&sink.flow, 2 * arc) >= amount {
            return Ok(true);
        }
        self.arena.give(from, amount);
        let got = self.arena.push(&self.network, &mut sink.flow, to, amount);
        sink.source[from as usize] += got;
        if got == amount {
            return Ok(true);
        }
        self.known[arc as usize] = got;
        self.cuts.keep(self.arena.reach(&self.network, &sink.flow), got);
        self.arena.clear();
        Ok(false)
    }

    /// Makes a node's flow fit the capacities and roots as they are now.
    fn sync(&mut self, node: u32) -> Result<(), Refusal> {
        let sink = &mut self.sinks[node as usize];
        for (arc, (flow, &capacity)) in sink.flow.iter_mut().zip(&self.network.capacity).enumerate() {
            if *flow > capacity {
                let (from, to) = self.network.ends[arc];
                self.imbalance[from as usize] += *flow - capacity;
                self.imbalance[to as usize] -= *flow - capacity;
                self.touched.extend([from, to]);
                *flow = capacity;
            }
        }
        for (root, (source, &supply)) in (0..).zip(sink.source.iter_mut().zip(&self.supply)) {
            if *source != supply {
                self.imbalance[root as usize] += supply - *source;
                self.touched.push(root);
                *source = supply;
            }
        }
        if self.touched.is_empty() {
            return Ok(());
        }
        self.imbalance[node as usize] = 0;
        for &other in &self.touched {
            if self.imbalance[other as usize] > 0 {
                self.arena.give(other, std::mem::take(&mut self.imbalance[other as usize]));
            }
        }
        for &other in &self.touched {
            let lack = -std::mem::take(&mut self.imbalance[other as usize]);
            self.arena.fill(&self.network, &mut sink.flow, node, other, lack);
        }
        self.touched.clear();
        self.arena.push(&self.network, &mut sink.flow, node, i64::MAX);
        if self.arena.clear() > 0 {
            return Err(Refusal::InternalInvariant { what: "a node cannot get what every root has left" });
        }
        Ok(())
    }

    fn accept(&mut self, batch: &mut Growing, arc: u32) {
        let (from, to) = self.network.ends[arc as usize];
        self.network.capacity[arc as usize] -= batch.weight;
        self.cuts.grown(from, to, batch.weight);
        batch.inside[to as usize] = true;
        batch.members.push(to);
        batch.edges.push(arc);
    }

    /// Makes the batch smaller; the root and the links get back what it no longer needs.
    fn shrink(&mut self, batch: &mut Growing, weight: i64) {
        let back = batch.weight - weight;
        for &arc in &batch.edges {
            self.network.capacity[arc as usize] += back;
            let (from, to) = self.network.ends[arc as usize];
            self.cuts.returned(from, to, back);
        }
        self.supply[batch.root as usize] += back;
        self.cuts.restored(batch.root, back);
        // Slack has grown: earlier answers no longer hold.
        self.known.fill(i64::MAX);
        batch.weight = weight;
    }
}
