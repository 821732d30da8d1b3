//! The fabric in numbers: nodes that copy or do not, links with costs, and limits on sets of links.
//!
//! Rates are floats, divided by the largest of them so that a program's numbers stay around one; what a plan claims is
//! recomputed exactly from the topology. Edge indices are those of the topology's links.

use sluice_formats::quantity::{Capacity, Rational};
use sluice_formats::topology::{Can, Topology};

/// A link one way; what it can carry is among the network's limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Edge {
    /// The node it leaves.
    pub from: u32,
    /// The node it enters.
    pub to: u32,
    /// What a unit over it costs in the second objective.
    pub cost: f64,
}

/// A limit on what a set of links carries together.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Its links, ascending, each once.
    pub edges: Vec<u32>,
    /// Units of data per unit of time, over [`Network::scale`].
    pub rate: f64,
}

/// Nodes, links and limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// By node what it can do with data.
    pub can: Vec<Can>,
    /// By link; links stand in the order of the topology.
    pub edges: Vec<Edge>,
    /// First the links with a limit of their own, in their order, then the topology's groups, in theirs: the order in
    /// which a plan's certificate lists prices. A group without limit has an infinite rate.
    pub groups: Vec<Group>,
    /// The largest rate, in the topology's base unit; 1 where there is none.
    pub scale: f64,
    outward: Vec<Vec<u32>>,
    inward: Vec<Vec<u32>>,
}

impl Network {
    /// The fabric that a topology describes. Self-loops carry nothing; the caller has refused them.
    pub fn of(topology: &Topology) -> Network {
        let rate = |capacity: &Capacity| capacity.finite().map_or(f64::INFINITY, Rational::to_f64);
        let links = topology.links().iter().zip(0..);
        let single = links.filter(|(link, _)| link.capacity.finite().is_some());
        let single = single.map(|(link, index)| Group { edges: vec![index], rate: rate(&link.capacity) });
        let joint = topology.groups().iter().map(|group| {
            let edges = group.links.iter().map(|link| *link as u32).collect();
            Group { edges, rate: rate(&group.capacity) }
        });
        let groups: Vec<Group> = single.chain(joint).collect();
        let edge = |link: &sluice_formats::topology::Link| Edge {
            from: link.from as u32,
            to: link.to as u32,
            cost: link.cost.to_f64(),
        };
        let can = topology.nodes().iter().map(|node| node.can).collect();
        Network::new(can, topology.links().iter().map(edge).collect(), groups)
    }

    /// A fabric of these parts, whose rates are still in their own unit.
    pub fn new(can: Vec<Can>, edges: Vec<Edge>, mut groups: Vec<Group>) -> Network {
        let finite = groups.iter().map(|group| group.rate).filter(|rate| rate.is_finite());
        let largest = finite.fold(0.0, f64::max);
        let scale = if largest > 0.0 { largest } else { 1.0 };
        groups.iter_mut().for_each(|group| group.rate /= scale);
        let (mut outward, mut inward) = (vec![Vec::new(); can.len()], vec![Vec::new(); can.len()]);
        for (edge, index) in edges.iter().zip(0..) {
            outward[edge.from as usize].push(index);
            inward[edge.to as usize].push(index);
        }
        Network { can, edges, groups, scale, outward, inward }
    }

    /// The same fabric with all links turned round, in which nodes copy that could add up: trees from a root in it are
    /// sums at that root in this one. Links keep their indices.
    #[must_use]
    pub fn reversed(&self) -> Network {
        let turned = |edge: &Edge| Edge { from: edge.to, to: edge.from, ..*edge };
        let swapped = |can: &Can| Can { copy: can.reduce, reduce: can.copy, ..*can };
        Network {
            can: self.can.iter().map(swapped).collect(),
            edges: self.edges.iter().map(turned).collect(),
            groups: self.groups.clone(),
            scale: self.scale,
            outward: self.inward.clone(),
            inward: self.outward.clone(),
        }
    }

    /// The links that leave a node.
    pub fn out(&self, node: u32) -> &[u32] {
        &self.outward[node as usize]
    }
    /// The links that enter a node.
    pub fn into(&self, node: u32) -> &[u32] {
        &self.inward[node as usize]
    }
    /// How many nodes there are; they are numbered from 0.
    pub fn nodes(&self) -> usize {
        self.can.len()
    }
    /// Can a node copy?
    pub fn copies(&self, node: u32) -> bool {
        self.can[node as usize].copy
    }
    /// Limits that limit something, with their place among all.
    pub fn limits(&self) -> impl Iterator<Item = (usize, &Group)> {
        self.groups.iter().enumerate().filter(|(_, group)| group.rate.is_finite())
    }

    /// What a unit over each link costs where a unit of each limit has this price: by link the sum over its limits.
    pub fn edge_prices(&self, prices: &[f64]) -> Vec<f64> {
        let mut of_edge = vec![0.0; self.edges.len()];
        for (group, price) in self.groups.iter().zip(prices).filter(|(_, price)| **price != 0.0) {
            group.edges.iter().for_each(|edge| of_edge[*edge as usize] += price);
        }
        of_edge
    }

    /// The fewest links from a node to every other; `None`: no way leads there.
    pub fn hops(&self, from: u32) -> Vec<Option<u32>> {
        let mut hops = vec![None; self.nodes()];
        hops[from as usize] = Some(0);
        let mut queue = std::collections::VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            let next = hops[node as usize].map(|hops: u32| hops + 1);
            for edge in self.out(node) {
                let to = self.edges[*edge as usize].to;
                if hops[to as usize].is_none() {
                    hops[to as usize] = next;
                    queue.push_back(to);
                }
            }
        }
        hops
    }
}
