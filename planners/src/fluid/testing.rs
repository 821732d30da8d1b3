//! For tests: small fabrics at random, and plain answers to compare with.

use super::network::{Edge, Group, Network};
use proptest::prelude::*;
use sluice_formats::topology::Can;

/// Fabrics of 2 to `most` nodes with all mixes of abilities, parallel links, links without limit, and one group that
/// overlaps them. Costs are small whole numbers, often zero. Node 0 stores, copies and adds up.
pub fn networks(most: usize) -> impl Strategy<Value = Network> {
    let links = proptest::collection::vec((0..most, 0..most, 0_u8..4, 0_u8..5), 1..4 * most);
    let parts = (2..=most, proptest::collection::vec(0_u8..8, most), links, any::<u32>(), 1_u8..6);
    parts.prop_map(|(count, flags, links, joint, rate)| {
        let can = |flags: u8| Can { store: flags & 1 != 0, copy: flags & 2 != 0, reduce: flags & 4 != 0 };
        let can = (0..count).map(|node| can(if node == 0 { 7 } else { flags[node] })).collect();
        let ends = links.iter().map(|(from, to, cost, rate)| (from % count, to % count, *cost, *rate));
        let ends: Vec<_> = ends.filter(|(from, to, _, _)| from != to).collect();
        let edge = |from: usize, to: usize, cost: u8| Edge { from: from as u32, to: to as u32, cost: f64::from(cost) };
        let edges = ends.iter().map(|(from, to, cost, _)| edge(*from, *to, *cost)).collect();
        let single = ends.iter().zip(0..).filter(|((_, _, _, rate), _)| *rate > 0);
        let mut groups: Vec<Group> =
            single.map(|((_, _, _, rate), index)| Group { edges: vec![index], rate: f64::from(*rate) }).collect();
        let together: Vec<u32> = (0..ends.len() as u32).filter(|edge| joint >> (edge % 32) & 1 == 1).collect();
        if !together.is_empty() {
            groups.push(Group { edges: together, rate: f64::from(rate) });
        }
        Network::new(can, edges, groups)
    })
}

/// What second objectives cost, as prices.
pub fn costs(network: &Network) -> Vec<f64> {
    network.edges.iter().map(|edge| edge.cost).collect()
}

/// What it costs to go from a node to every other over nodes that do not copy, by going over all links again and again.
pub fn arcs_from(network: &Network, start: u32, prices: &[f64]) -> Vec<f64> {
    let mut cost = vec![f64::INFINITY; network.nodes()];
    cost[start as usize] = 0.0;
    for _ in 0..network.nodes() {
        for (edge, price) in network.edges.iter().zip(prices) {
            if edge.from == start || !network.copies(edge.from) {
                cost[edge.to as usize] = cost[edge.to as usize].min(cost[edge.from as usize] + price);
            }
        }
    }
    cost
}
