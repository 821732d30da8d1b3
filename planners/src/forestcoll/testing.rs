//! Small random graphs and sums over all their cuts, for the tests beside the stages.

use super::fabric::Graph;
use super::network::Arc;
use super::{Fabric, fabric};
use sluice_formats::quantity::Rational;

/// Random rings on top of each other: balanced and connected; compute nodes first. Every second graph is two groups of
/// nodes with more inside than between, where cuts matter more than links.
pub(super) fn rings(compute: usize, switches: usize, seed: u64) -> Graph {
    let nodes = compute + switches;
    let mut state = seed;
    let mut dice = move |sides: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % sides
    };
    let mut links = Vec::new();
    let mut ring = |among: Vec<u32>, length: usize, rate: usize, dice: &mut dyn FnMut(usize) -> usize| {
        let mut order = among;
        (1..order.len()).for_each(|at| order.swap(at, dice(at + 1)));
        let rate = Rational::from(rate as u64);
        links.extend((0..length).map(|at| (order[at], order[(at + 1) % length], rate.clone())));
    };
    let all: Vec<u32> = (0..nodes as u32).collect();
    let grouped = seed % 2 == 1;
    for number in 0..if grouped { 1 + dice(2) } else { 3 + dice(3) } {
        let length = if number == 0 { nodes } else { 2 + dice(nodes - 1) };
        let rate = 1 + dice(if grouped { 3 } else { 9 });
        ring(all.clone(), length, rate, &mut dice);
    }
    for group in 0..if grouped { 2 } else { 0 } {
        let members: Vec<u32> = all.iter().copied().filter(|node| node % 2 == group).collect();
        for _ in 0..if members.len() > 1 { 2 + dice(2) } else { 0 } {
            let rate = 2 + dice(9);
            ring(members.clone(), members.len(), rate, &mut dice);
        }
    }
    let names = (0..nodes).map(|node| node.to_string()).collect();
    fabric::scaled(&Fabric { names, compute, links, ..Fabric::default() }, false).expect("rings are valid")
}

/// The least capacity out of a node set, plus the supply outside it, over the sets that `wanted` accepts.
pub(super) fn least_cut(nodes: usize, arcs: &[Arc], supply: &[i64], wanted: impl Fn(u32) -> bool) -> Option<i64> {
    let cuts = (0_u32..1 << nodes).filter(|&cut| wanted(cut));
    let value = |cut: u32| -> i64 {
        let out = arcs.iter().filter(|arc| cut >> arc.from & 1 == 1 && cut >> arc.to & 1 == 0).map(|arc| arc.capacity);
        let outside = supply.iter().enumerate().filter(|(node, _)| cut >> node & 1 == 0).map(|(_, supply)| supply);
        out.sum::<i64>() + outside.sum::<i64>()
    };
    cuts.map(value).min()
}
