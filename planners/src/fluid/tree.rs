//! What a block does with its data: routing trees and paths, and what they load.

use super::network::Network;
use std::collections::BTreeMap;

/// From one node that copies to the next, over links whose ends between do not.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Arc {
    /// The node that sends.
    pub from: u32,
    /// The node that receives, and may copy on.
    pub to: u32,
    /// Its links in order.
    pub path: Vec<u32>,
}

/// An out-tree over nodes that copy. Of a block that moves inward it stands in the fabric turned round.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tree {
    /// The node that all of it comes from.
    pub root: u32,
    /// Every arc stands behind the one that leads to where it begins.
    pub arcs: Vec<Arc>,
}

/// A way of one part of a block with shape `Paths`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Path {
    /// Where the part is wanted.
    pub end: u32,
    /// Its links in order, from the root.
    pub edges: Vec<u32>,
}

/// How one share of a block's data goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Route {
    /// One copy for all ends.
    Tree(Tree),
    /// A part for every end.
    Paths(Vec<Path>),
}

impl Route {
    /// How often each link is crossed by a unit of the block's data, by link.
    pub fn usage(&self) -> Vec<(u32, f64)> {
        let mut usage: BTreeMap<u32, f64> = BTreeMap::new();
        let mut cross = |path: &[u32]| path.iter().for_each(|edge| *usage.entry(*edge).or_default() += 1.0);
        match self {
            Route::Tree(tree) => tree.arcs.iter().for_each(|arc| cross(&arc.path)),
            Route::Paths(paths) => paths.iter().for_each(|path| cross(&path.edges)),
        }
        usage.into_iter().collect()
    }

    /// The links on the longest way from the root.
    pub fn depth(&self) -> usize {
        match self {
            Route::Paths(paths) => paths.iter().map(|path| path.edges.len()).max().unwrap_or(0),
            Route::Tree(tree) => {
                let mut depth: BTreeMap<u32, usize> = BTreeMap::from([(tree.root, 0)]);
                for arc in &tree.arcs {
                    let there = depth.get(&arc.from).copied().unwrap_or(0) + arc.path.len();
                    depth.insert(arc.to, there);
                }
                depth.into_values().max().unwrap_or(0)
            }
        }
    }

    /// Where a permutation of nodes and links moves it.
    #[must_use]
    pub fn moved(&self, nodes: &[u32], edges: &[u32]) -> Route {
        let path = |path: &[u32]| path.iter().map(|edge| edges[*edge as usize]).collect();
        let node = |node: u32| nodes[node as usize];
        match self {
            Route::Tree(tree) => Route::Tree(Tree {
                root: node(tree.root),
                arcs: tree
                    .arcs
                    .iter()
                    .map(|arc| Arc { from: node(arc.from), to: node(arc.to), path: path(&arc.path) })
                    .collect(),
            }),
            Route::Paths(paths) => {
                Route::Paths(paths.iter().map(|of| Path { end: node(of.end), edges: path(&of.edges) }).collect())
            }
        }
    }
}

/// A share of a block's data and how it goes; the shares of a block add up to one.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// How much of the block.
    pub part: f64,
    /// The tree, or the path to every end.
    pub route: Route,
}

/// What a unit of these shares loads on every limit of a network.
pub fn loads(network: &Network, shares: &[Share]) -> Vec<f64> {
    let mut of_edge = vec![0.0; network.edges.len()];
    for share in shares {
        share.route.usage().into_iter().for_each(|(edge, times)| of_edge[edge as usize] += share.part * times);
    }
    network.groups.iter().map(|group| group.edges.iter().map(|edge| of_edge[*edge as usize]).sum()).collect()
}
