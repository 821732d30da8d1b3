//! What a plan consists of: trees over compute nodes, each edge with its way through switches.

use super::network::{self, Network};
use super::{Fabric, Refusal};
use sluice_formats::quantity::Rational;
use std::sync::Arc;

/// Whether data leaves the roots or comes together in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Out-trees, of an all-gather and a broadcast.
    Out,
    /// In-trees: reduce-scatter, reduce. Edges and paths lead towards the root.
    In,
}

/// Trees of every root for one collective.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forest {
    /// Out of the roots or into them.
    pub direction: Direction,
    /// Trees per root and unit of weight; `None` where roots have shares of their own (the all-reduce program).
    pub k: Option<u64>,
    /// Trees per unit of bandwidth: no link of bandwidth b carries more than U·b trees.
    pub u: Rational,
    /// Whether the caller fixed k.
    pub fixed_k: bool,
    /// The trees, by root.
    pub trees: Vec<Tree>,
}

/// As many identical trees as its weight says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// The compute node whose data it carries.
    pub root: u32,
    /// How many identical trees it stands for.
    pub weight: u64,
    /// One edge per other compute node, in order of growth from the root.
    pub edges: Vec<Edge>,
    /// Physical links used after switches took over copying or adding; they replace the paths in every load.
    pub hops: Option<Vec<(u32, u32)>>,
}

/// One edge of a tree, in flow direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The compute node that sends.
    pub src: u32,
    /// The compute node that receives.
    pub dst: u32,
    /// All nodes on the way, both ends included; switches between them. Shared by trees that go the same way.
    pub path: Arc<[u32]>,
}

impl Forest {
    /// How many different trees there are.
    pub fn batches(&self) -> usize {
        self.trees.len()
    }

    /// How many trees, identical ones counted.
    pub fn trees(&self) -> u64 {
        self.trees.iter().map(|tree| tree.weight).sum()
    }

    /// The same trees, used the other way round.
    pub fn reversed(mut self) -> Self {
        self.direction = match self.direction {
            Direction::Out => Direction::In,
            Direction::In => Direction::Out,
        };
        let mut turned: std::collections::HashMap<Arc<[u32]>, Arc<[u32]>> = std::collections::HashMap::new();
        for tree in &mut self.trees {
            for edge in &mut tree.edges {
                std::mem::swap(&mut edge.src, &mut edge.dst);
                let back = turned.entry(edge.path.clone());
                edge.path = back.or_insert_with(|| edge.path.iter().rev().copied().collect()).clone();
            }
            for hop in tree.hops.iter_mut().flatten() {
                *hop = (hop.1, hop.0);
            }
        }
        self
    }
}

/// An arc for every pair of nodes that links join, to count loads on.
fn links_of(fabric: &Fabric) -> Network {
    let arcs = fabric.links.iter().map(|&(from, to, _)| network::Arc { from, to, capacity: 0 });
    Network::new(fabric.names.len(), arcs)
}

/// Checks a finished forest against the fabric it was made for: every tree spans, every root has its trees, every
/// link carries at most U·b. Linear in the size of the forest; a failure is a defect of the planner.
pub(super) fn verify(fabric: &Fabric, forest: &Forest) -> Result<(), Refusal> {
    let broken = |what| Err(Refusal::InternalInvariant { what });
    let links = links_of(fabric);
    let mut load = vec![0_i128; links.arcs()];
    let mut per_root = vec![0_u64; fabric.compute];
    let mut fed = vec![usize::MAX; fabric.compute];
    for (number, tree) in forest.trees.iter().enumerate() {
        per_root[tree.root as usize] += tree.weight;
        fed[tree.root as usize] = number;
        if tree.edges.len() + 1 != fabric.compute {
            return broken("a tree does not span all compute nodes");
        }
        for edge in &tree.edges {
            let (parent, child) = match forest.direction {
                Direction::Out => (edge.src, edge.dst),
                Direction::In => (edge.dst, edge.src),
            };
            // Edges come in order of growth, so that the parent is in the tree and the child is not.
            if fed[parent as usize] != number || std::mem::replace(&mut fed[child as usize], number) == number {
                return broken("a tree is not a tree");
            }
            let inner = edge.path.get(1..edge.path.len().saturating_sub(1)).unwrap_or_default();
            let ends = (edge.path.first(), edge.path.last()) == (Some(&edge.src), Some(&edge.dst));
            if !ends || inner.iter().any(|&node| (node as usize) < fabric.compute) {
                return broken("a path does not lead through switches from end to end");
            }
            if tree.hops.is_none() {
                for hop in edge.path.windows(2) {
                    let Some(link) = links.find(hop[0], hop[1]) else { return broken("a path uses no link") };
                    load[link as usize] += i128::from(tree.weight);
                }
            }
        }
        let ends = tree.hops.iter().flatten().map(|hop| if forest.direction == Direction::Out { hop.1 } else { hop.0 });
        let served = ends.filter(|&node| (node as usize) < fabric.compute).count();
        if tree.hops.is_some() && served != tree.edges.len() {
            return broken("a pruned tree does not serve every compute node once");
        }
        for &(from, to) in tree.hops.iter().flatten() {
            let Some(link) = links.find(from, to) else { return broken("a pruned tree uses no link") };
            load[link as usize] += i128::from(tree.weight);
        }
    }
    if let Some(k) = forest.k {
        let short = |node: usize| u128::from(per_root[node]) != u128::from(k) * u128::from(fabric.weight(node));
        if (0..fabric.compute).any(short) {
            return broken("the trees of a root do not add up to k");
        }
    }
    within(fabric, &links, &load, &forest.u)
}

/// Checks that forests which run at the same time fit the links together.
pub(super) fn verify_together(fabric: &Fabric, forests: &[Forest]) -> Result<(), Refusal> {
    let links = links_of(fabric);
    let mut load = vec![0_i128; links.arcs()];
    for tree in forests.iter().flat_map(|forest| &forest.trees) {
        for hop in tree.edges.iter().flat_map(|edge| edge.path.windows(2)) {
            if let Some(link) = links.find(hop[0], hop[1]) {
                load[link as usize] += i128::from(tree.weight);
            }
        }
    }
    forests.iter().try_for_each(|forest| within(fabric, &links, &load, &forest.u))
}

/// Whether no load exceeds U·b.
fn within(fabric: &Fabric, links: &Network, load: &[i128], u: &Rational) -> Result<(), Refusal> {
    let mut bandwidth = vec![Rational::ZERO; links.arcs()];
    for (from, to, rate) in &fabric.links {
        if let Some(link) = links.find(*from, *to) {
            bandwidth[link as usize] += rate;
        }
    }
    for (&load, bandwidth) in load.iter().zip(&bandwidth) {
        if Rational::new(load, 1).is_none_or(|load| load > u * bandwidth) {
            return Err(Refusal::InternalInvariant { what: "a link carries more trees than it has room for" });
        }
    }
    Ok(())
}
