//! Which blocks, links and nodes symmetry makes equal, so that one of each stands for all in a program.

use super::demand::{Block, Demand};
use super::view::View;

/// Blocks that are images of each other, by one of them.
#[derive(Clone, Debug)]
pub struct Class {
    /// How many they are.
    pub count: usize,
    /// One of them; of an all-reduce the two phases of one root: the sum, then its spread.
    pub blocks: Vec<Merged>,
}

/// A block with what stays in its place up to permutations that keep its root.
#[derive(Clone, Debug)]
pub struct Merged {
    /// The block.
    pub block: Block,
    /// By link of its view the class.
    pub edges: Vec<u32>,
    /// By node of its view the class.
    pub nodes: Vec<u32>,
    /// One end of each class of ends; none of a block of paths, whose ends are served together.
    pub ends: Vec<MergedEnd>,
}

/// An end with what stays in its place up to permutations that keep it and the root.
#[derive(Clone, Debug)]
pub struct MergedEnd {
    /// The node.
    pub end: u32,
    /// By link of the view the class.
    pub edges: Vec<u32>,
    /// By node of the view the class.
    pub nodes: Vec<u32>,
}

/// What is equal to what.
#[derive(Clone, Debug)]
pub struct Merging {
    /// The blocks.
    pub classes: Vec<Class>,
    /// By limit its class.
    pub limits: Vec<u32>,
    /// Does every class choose how much of one unit is summed up at its roots?
    pub shares_roots: bool,
}

/// How a block that moves one way sees the fabric.
#[derive(Clone, Debug)]
pub struct Views {
    /// Outward.
    pub out: View,
    /// Inward: the fabric turned round.
    pub inward: View,
}

impl Views {
    /// The view of a block.
    pub fn of(&self, block: &Block) -> &View {
        match block.direction {
            super::demand::Direction::Out => &self.out,
            super::demand::Direction::In => &self.inward,
        }
    }
}

impl Merging {
    /// Nothing is equal to anything else.
    pub fn nothing(views: &Views, demand: &Demand) -> Merging {
        let all = |count: usize| (0..count as u32).collect::<Vec<_>>();
        let merged = |block: &Block| {
            let network = &views.of(block).network;
            let (edges, nodes) = (all(network.edges.len()), all(network.nodes()));
            let end = |end: &u32| MergedEnd { end: *end, edges: edges.clone(), nodes: nodes.clone() };
            let ends = match block.shape {
                super::demand::Shape::Tree => block.ends.iter().map(end).collect(),
                super::demand::Shape::Paths => Vec::new(),
            };
            Merged { block: block.clone(), edges, nodes, ends }
        };
        let shares_roots = matches!(demand, Demand::AllReduce { .. });
        let blocks = demand.blocks();
        let together = if shares_roots { 2 } else { 1 };
        let class = |blocks: &[Block]| Class { count: 1, blocks: blocks.iter().map(merged).collect() };
        Merging {
            classes: blocks.chunks(together).map(class).collect(),
            limits: all(views.out.network.groups.len()),
            shares_roots,
        }
    }
}
