//! Every splitting against all cuts of small graphs, and flows that stay flows.

use super::*;
use crate::forestcoll::fabric::Graph;
use crate::forestcoll::fixed::floored;
use crate::forestcoll::network::Arc;
use crate::forestcoll::optimum::{Trees, newton};
use crate::forestcoll::testing::{least_cut, rings};
use std::collections::BTreeMap;

/// Capacities and supply at the optimum.
fn scaled(graph: &Graph) -> (Vec<Arc>, Vec<i64>) {
    let Trees { k, u } = newton(graph, &Run::quiet(1)).expect("an optimum").trees(graph);
    (floored(graph, u), vec![k; graph.compute])
}

fn fed(graph: &Graph, arcs: &[Arc], supply: &[i64]) -> SuppliedNetwork {
    let network = Network::new(graph.nodes, arcs.iter().copied());
    SuppliedNetwork::new(network, graph.compute, supply.to_vec(), &Run::quiet(1)).expect("flows").expect("fed")
}

/// The least cut that leaves out a compute node: what every one of them gets.
fn least(graph: &Graph, arcs: &BTreeMap<(u32, u32), i64>, supply: &[i64]) -> i64 {
    let all = (1 << graph.compute) - 1;
    let arcs: Vec<Arc> = arcs.iter().map(|(&(from, to), &capacity)| Arc { from, to, capacity }).collect();
    least_cut(graph.nodes, &arcs, supply, |cut| cut & all != all).expect("cuts")
}

fn apply(arcs: &mut BTreeMap<(u32, u32), i64>, split: &Split, amount: i64) -> bool {
    *arcs.entry((split.from, split.switch)).or_default() -= amount;
    *arcs.entry((split.switch, split.to)).or_default() -= amount;
    if split.from != split.to {
        *arcs.entry((split.from, split.to)).or_default() += amount;
    }
    arcs.values().all(|&capacity| capacity >= 0)
}

#[test]
fn each_splitting_is_as_large_as_all_cuts_allow() {
    let (mut limited, mut total) = (0, 0);
    for seed in 0..200 {
        let graph = rings(3 + seed as usize % 5, 1 + seed as usize % 4, seed);
        let (arcs, supply) = scaled(&graph);
        let needed = supply.iter().sum::<i64>();
        let mut fed = fed(&graph, &arcs, &supply);
        let mut arcs: BTreeMap<(u32, u32), i64> =
            arcs.into_iter().map(|arc| ((arc.from, arc.to), arc.capacity)).collect();
        let mut splitter = Splitter::new(&mut fed);
        for switch in graph.compute as u32..graph.nodes as u32 {
            let around: Vec<(u32, u32)> =
                arcs.keys().copied().filter(|&(from, to)| from == switch || to == switch).collect();
            let pairs = around.iter().flat_map(|&into| around.iter().map(move |&out| (into, out)));
            // First back to where it came from, which wastes capacity and soon meets a tight cut.
            let mut pairs: Vec<_> = pairs.filter(|(into, out)| into.1 == switch && out.0 == switch).collect();
            pairs.sort_by_key(|(into, out)| into.0 != out.1);
            for (into, out) in pairs {
                let arc = |ends: (u32, u32)| splitter.fed.network.find(ends.0, ends.1).expect("an arc");
                let (in_arc, out_arc) = (arc(into), arc(out));
                let most = arcs[&into].min(arcs[&out]);
                if most == 0 {
                    continue;
                }
                let amount = splitter.split((into.0, in_arc), switch, (out.1, out_arc)).expect("flows");
                let split = Split { from: into.0, switch, to: out.1, amount };
                if amount < most {
                    let mut more = arcs.clone();
                    apply(&mut more, &split, amount + 1);
                    assert!(least(&graph, &more, &supply) < needed, "seed {seed}: {split:?} could be larger");
                    limited += 1;
                }
                apply(&mut arcs, &split, amount);
                assert!(least(&graph, &arcs, &supply) >= needed, "seed {seed}: {split:?} starves a node");
                total += 1;
            }
        }
    }
    assert!(limited > 150 && total > 1500, "{limited} of {total} splittings were limited by a cut");
}

#[test]
fn splittings_add_up_to_what_is_left() {
    for seed in 0..80 {
        let graph = rings(3 + seed as usize % 5, 1 + seed as usize % 4, seed);
        let (arcs, supply) = scaled(&graph);
        let needed = supply.iter().sum::<i64>();
        let mut fed = fed(&graph, &arcs, &supply);
        let splits = remove_switches(&mut fed, &Run::quiet(1)).expect("no switch left");
        let mut arcs: BTreeMap<(u32, u32), i64> =
            arcs.into_iter().map(|arc| ((arc.from, arc.to), arc.capacity)).collect();
        assert!(splits.iter().all(|split| split.amount > 0 && apply(&mut arcs, split, split.amount)));
        assert!(least(&graph, &arcs, &supply) >= needed, "seed {seed}");
        arcs.retain(|_, capacity| *capacity > 0);
        let ends = fed.network.ends.iter().copied().zip(fed.network.capacity.iter().copied());
        assert_eq!(arcs, ends.filter(|(_, capacity)| *capacity > 0).collect());
        assert!(arcs.keys().all(|&(from, to)| from.max(to) < graph.compute as u32));
    }
}

#[test]
fn flows_stay_flows() {
    for seed in 0..40 {
        let graph = rings(4 + seed as usize % 4, 2, seed);
        let (arcs, supply) = scaled(&graph);
        let mut fed = fed(&graph, &arcs, &supply);
        remove_switches(&mut fed, &Run::quiet(1)).expect("no switch left");
        for (sink, flow) in fed.flows.iter().enumerate() {
            let mut gain: Vec<i64> = supply.iter().copied().chain([0, 0]).collect();
            for ((&(from, to), &flow), &capacity) in fed.network.ends.iter().zip(flow).zip(&fed.network.capacity) {
                assert!((0..=capacity).contains(&flow));
                gain[from as usize] -= flow;
                gain[to as usize] += flow;
            }
            let total = supply.iter().sum::<i64>();
            assert!(gain.iter().enumerate().all(|(node, &gain)| gain == if node == sink { total } else { 0 }));
        }
    }
}

#[test]
fn a_graph_that_feeds_too_little_is_noticed() {
    let network = Network::new(2, [(0, 1), (1, 0)].map(|(from, to)| Arc { from, to, capacity: 3 }));
    assert!(SuppliedNetwork::new(network.clone(), 2, vec![3, 3], &Run::quiet(1)).expect("flows").is_some());
    assert!(SuppliedNetwork::new(network, 2, vec![4, 3], &Run::quiet(1)).expect("flows").is_none());
}
