//! Which blocks, links and nodes symmetry makes equal, so that one of each stands for all in a program.

use super::demand::{Block, Demand, Direction, Shape};
use super::network::Network;
use super::symmetry::automorphism::Automorphism;
use super::symmetry::orbits::{Orbits, Pairs, pairs};
use super::symmetry::{self};
use super::view::View;
use crate::run::{Run, Stopped};

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
    /// The block that is merged.
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
    /// The end, by node.
    pub end: u32,
    /// By link of the view the class.
    pub edges: Vec<u32>,
    /// By node of the view the class.
    pub nodes: Vec<u32>,
}

/// What is equal to what.
#[derive(Clone, Debug)]
pub struct Merging {
    /// Blocks that are images of each other, once each.
    pub classes: Vec<Class>,
    /// By limit its class.
    pub limits: Vec<u32>,
    /// Does every class choose how much of one unit is summed up at its roots?
    pub shares_roots: bool,
}

/// How a block that moves one way sees the fabric.
#[derive(Clone, Debug)]
pub struct Views {
    /// Outward: the fabric as it is.
    pub out: View,
    /// Inward: the fabric turned round.
    pub inward: View,
}

impl Views {
    /// The view of a block.
    pub fn of(&self, block: &Block) -> &View {
        match block.direction {
            Direction::Out => &self.out,
            Direction::In => &self.inward,
        }
    }
}

impl Merging {
    /// Nothing is equal to anything else.
    pub fn nothing(views: &Views, demand: &Demand) -> Merging {
        let merged = |block: &Block| Merged::nothing(views.of(block), block);
        let shares_roots = matches!(demand, Demand::AllReduce { .. });
        let blocks = demand.blocks();
        let together = if shares_roots { 2 } else { 1 };
        let class = |blocks: &[Block]| Class { count: 1, blocks: blocks.iter().map(merged).collect() };
        Merging {
            classes: blocks.chunks(together).map(class).collect(),
            limits: (0..views.out.network.groups.len() as u32).collect(),
            shares_roots,
        }
    }

    /// What the automorphisms of the fabric make equal that keep these marks of its nodes. Blocks must be alike but for
    /// their roots; where they are not, nothing is equal.
    ///
    /// # Errors
    /// [`Stopped`], if the run ended first.
    pub fn of(
        views: &Views,
        network: &Network,
        demand: &Demand,
        marks: &[u32],
        run: &Run<'_>,
    ) -> Result<Merging, Stopped> {
        let (blocks, shares_roots) = (demand.blocks(), matches!(demand, Demand::AllReduce { .. }));
        let jobs: Vec<&[Block]> = blocks.chunks(if shares_roots { 2 } else { 1 }).collect();
        let mut roots: Vec<u32> = jobs.iter().map(|job| job[0].root).collect();
        roots.sort_unstable();
        roots.dedup();
        let around = symmetry::find(network, marks, &[], run)?;
        if roots.len() < jobs.len() || around.generators.is_empty() {
            return Ok(Merging::nothing(views, demand));
        }
        let orbits = Orbits::of_nodes(network, &around.generators);
        let mut classes: Vec<Class> = Vec::new();
        let mut known: Vec<u32> = Vec::new();
        for job in jobs {
            let orbit = orbits.class(job[0].root);
            if let Some(place) = known.iter().position(|known| *known == orbit) {
                classes[place].count += 1;
                continue;
            }
            known.push(orbit);
            let pairs = pairs(network, marks, job[0].root, &job[0].ends, run)?;
            let blocks = job.iter().map(|block| merged(views.of(block), block, &pairs)).collect();
            classes.push(Class { count: 1, blocks });
        }
        let limits = Orbits::of_groups(network, &around.generators).classes;
        Ok(Merging { classes, limits, shares_roots })
    }
}

impl Merged {
    /// A block in which nothing is equal to anything else.
    pub fn nothing(view: &View, block: &Block) -> Merged {
        let all = |count: usize| (0..count as u32).collect::<Vec<_>>();
        let (edges, nodes) = (all(view.network.edges.len()), all(view.network.nodes()));
        let end = |end: &u32| MergedEnd { end: *end, edges: edges.clone(), nodes: nodes.clone() };
        let ends = match block.shape {
            Shape::Tree => block.ends.iter().map(end).collect(),
            Shape::Paths => Vec::new(),
        };
        Merged { block: block.clone(), edges, nodes, ends }
    }
}

/// A block's links, nodes and ends up to what keeps its root.
fn merged(view: &View, block: &Block, pairs: &Pairs) -> Merged {
    let (nodes, edges) = view_orbits(view, &pairs.stabiliser);
    let end = |pair: &symmetry::orbits::Pair| {
        let (nodes, edges) = view_orbits(view, &pair.stabiliser);
        MergedEnd { end: pair.end, edges, nodes }
    };
    let ends = match block.shape {
        Shape::Tree => pairs.pairs.iter().map(end).collect(),
        Shape::Paths => Vec::new(),
    };
    Merged { block: block.clone(), edges, nodes, ends }
}

/// Orbits of the nodes and the links of a view.
fn view_orbits(view: &View, generators: &[Automorphism]) -> (Vec<u32>, Vec<u32>) {
    let induced: Vec<(Vec<u32>, Vec<u32>)> =
        generators.iter().map(|generator| view.induced(&generator.nodes, &generator.edges)).collect();
    let nodes = Orbits::of(view.network.nodes(), induced.iter().map(|(nodes, _)| &nodes[..]));
    let edges = Orbits::of(view.network.edges.len(), induced.iter().map(|(_, edges)| &edges[..]));
    (nodes.classes, edges.classes)
}
