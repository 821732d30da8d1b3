//! Cheapest ways from every node that copies to all others, over nodes between that do not copy: the arcs of which routing
//! trees are made.

use super::network::Network;
use super::tree::Arc;
use super::ways::{Ways, links_to};
use crate::run::{Run, Stopped};

/// The arcs of a fabric at given prices of its links.
#[derive(Clone, Debug, PartialEq)]
pub struct Closure<'a> {
    network: &'a Network,
    /// Nodes that copy, ascending.
    pub nodes: Vec<u32>,
    /// By node its place among `nodes`.
    place: Vec<Option<usize>>,
    /// From each of `nodes`, in their order.
    ways: Vec<Ways>,
}

impl<'a> Closure<'a> {
    /// All arcs of a fabric where a unit over each link costs this much, which is never below zero. One search for every
    /// node that copies, shared out among the threads.
    ///
    /// # Errors
    /// [`Stopped`], if the run ended first.
    pub fn of(network: &'a Network, prices: &[f64], run: &Run<'_>) -> Result<Closure<'a>, Stopped> {
        let nodes: Vec<u32> = (0..network.nodes() as u32).filter(|node| network.copies(*node)).collect();
        let from = |start: u32| Ways::from(network, start, prices, |node| !network.copies(node));
        let ways = run.each(nodes.len(), || (), |(), index| from(nodes[index]))?;
        let mut place = vec![None; network.nodes()];
        nodes.iter().enumerate().for_each(|(index, node)| place[*node as usize] = Some(index));
        Ok(Closure { network, nodes, place, ways })
    }

    /// The fabric whose arcs these are.
    pub fn network(&self) -> &'a Network {
        self.network
    }

    /// What a unit costs from one node to another; infinite where no arc leads, as from every node that cannot copy.
    pub fn cost(&self, from: u32, to: u32) -> f64 {
        self.place[from as usize].map_or(f64::INFINITY, |place| self.ways[place].cost[to as usize])
    }

    /// The arc from one node to another, if there is one.
    pub fn arc(&self, from: u32, to: u32) -> Option<Arc> {
        let ways = &self.ways[self.place[from as usize]?];
        links_to(self.network, &ways.came, from, to).map(|path| Arc { from, to, path })
    }
}
