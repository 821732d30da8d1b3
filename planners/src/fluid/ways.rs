//! Cheapest ways from one node: Dijkstra's search at given prices of links. Of ways that cost the same the one over fewer
//! links is taken, and of those the one that enters by the lower link, so that the result is the same every time.

use super::network::Network;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Nothing enters the node.
pub(super) const NO_LINK: u32 = u32::MAX;

/// The cheapest ways from one node to all others.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ways {
    /// By node; infinite where no way leads.
    pub cost: Vec<f64>,
    /// By node the last link of the way to it; [`NO_LINK`] at the start and where no way leads.
    pub came: Vec<u32>,
}

impl Ways {
    /// From `start`, over nodes between that `passes` lets through. No price is below zero.
    pub fn from(network: &Network, start: u32, prices: &[f64], passes: impl Fn(u32) -> bool) -> Ways {
        let count = network.nodes();
        let mut ways = Ways { cost: vec![f64::INFINITY; count], came: vec![NO_LINK; count] };
        let mut hops = vec![u32::MAX; count];
        ways.cost[start as usize] = 0.0;
        hops[start as usize] = 0;
        // Floats that are not below zero stand in the order of their bits.
        let mut open = BinaryHeap::from([Reverse((0.0_f64.to_bits(), 0_u32, start))]);
        while let Some(Reverse((bits, far, node))) = open.pop() {
            let cost = f64::from_bits(bits);
            let outdated = (cost, far) != (ways.cost[node as usize], hops[node as usize]);
            if outdated || (node != start && !passes(node)) {
                continue;
            }
            for link in network.out(node) {
                let to = network.edges[*link as usize].to as usize;
                let (there, next) = (cost + prices[*link as usize], far + 1);
                let shorter = next < hops[to] || (next == hops[to] && *link < ways.came[to]);
                if there < ways.cost[to] || (there == ways.cost[to] && shorter) {
                    (ways.cost[to], hops[to], ways.came[to]) = (there, next, *link);
                    open.push(Reverse((there.to_bits(), next, to as u32)));
                }
            }
        }
        ways
    }
}

/// The links of a way from `start` to `end`, in order, by the link that enters each node; `None`: no way leads there.
pub(super) fn links_to(network: &Network, came: &[u32], start: u32, end: u32) -> Option<Vec<u32>> {
    let (mut links, mut node) = (Vec::new(), end);
    while node != start {
        let link = came[node as usize];
        if link == NO_LINK {
            return None;
        }
        links.push(link);
        node = network.edges[link as usize].from;
    }
    links.reverse();
    Some(links)
}
