//! Routing trees against all trees there are.

use super::*;
use crate::fluid::demand::{Block, Direction, Shape};
use crate::fluid::network::{Edge, Network};
use crate::fluid::price::{cheapest_paths, cheapest_tree, price};
use crate::fluid::testing::{arcs_from, costs, networks};
use crate::fluid::tree::Route;
use crate::run::Run;
use proptest::prelude::*;
use sluice_formats::quantity::Rational;
use sluice_formats::topology::Can;

/// The least cost of all ways to give every end and any other nodes a parent, without circles.
fn by_trying(network: &Network, prices: &[f64], root: u32, ends: &[u32]) -> f64 {
    let n = network.nodes();
    let arcs: Vec<Vec<f64>> = (0..n as u32)
        .map(|from| if network.copies(from) { arcs_from(network, from, prices) } else { vec![f64::INFINITY; n] })
        .collect();
    let root = root as usize;
    let mut best = f64::INFINITY;
    for choice in 0..n.pow(n as u32) {
        // Who is its own parent is no part of the tree.
        let parent = |node: usize| choice / n.pow(node as u32) % n;
        let climbs = |node: usize| (0..n).fold(node, |node, _| if node == root { root } else { parent(node) }) == root;
        let wanted = |node: usize| ends.contains(&(node as u32));
        let fits = (0..n).all(|node| node == root || climbs(node) || (parent(node) == node && !wanted(node)));
        if fits {
            let inside = (0..n).filter(|node| *node != root && parent(*node) != *node);
            best = best.min(inside.map(|node| arcs[parent(node)][node]).sum());
        }
    }
    best
}

/// Panics unless the tree is one: arcs behind their parents, over links that hang together and nodes that do not copy.
fn assert_routes(network: &Network, tree: &Tree, ends: &[u32]) {
    let mut reached = vec![tree.root];
    for arc in &tree.arcs {
        assert!(reached.contains(&arc.from) && !reached.contains(&arc.to), "an arc stands at the wrong place");
        assert!(network.copies(arc.from), "an arc leaves a node that cannot copy");
        let mut node = arc.from;
        for (place, link) in arc.path.iter().enumerate() {
            assert!(place == 0 || !network.copies(node), "an arc passes a node that copies");
            assert_eq!(network.edges[*link as usize].from, node);
            node = network.edges[*link as usize].to;
        }
        assert_eq!(node, arc.to);
        reached.push(arc.to);
    }
    assert!(ends.iter().all(|end| reached.contains(end)), "an end is not reached");
}

fn block(root: u32, ends: Vec<u32>, shape: Shape) -> Block {
    Block { root, ends, units: Rational::ONE, direction: Direction::Out, shape }
}

fn usage_costs(route: &Route, prices: &[f64]) -> f64 {
    route.usage().iter().map(|(edge, times)| prices[*edge as usize] * times).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn fluid_trees_are_the_cheapest_there_are(network in networks(6), wanted in 1_u32..64) {
        let prices = costs(&network);
        let ends: Vec<u32> = (1..network.nodes() as u32).filter(|node| wanted >> node & 1 == 1).collect();
        prop_assume!(!ends.is_empty());
        let closure = Closure::of(&network, &prices, &Run::quiet(2)).expect("not stopped");
        let least = by_trying(&network, &prices, 0, &ends);
        let Some(found) = cheapest(&closure, 0, &ends) else {
            prop_assert!(least.is_infinite());
            return Ok(());
        };
        prop_assert_eq!((found.cost, found.bound, found.exact), (least, least, true));
        assert_routes(&network, &found.tree, &ends);
        let block = block(0, ends, Shape::Tree);
        let priced = price(&network, &block, &prices, &closure).expect("reached");
        prop_assert_eq!(usage_costs(&priced.route, &prices), least);
        prop_assert_eq!(&priced.route, &Route::Tree(found.tree));
        // A dual ascent alone is a bound; so is what is found without trying sets.
        let dense = Dense::of(&closure, 0, &block.ends);
        let ascent = Ascent::of(&dense).expect("reached");
        prop_assert!(ascent.bound <= least + 1e-9);
        let mut search = Search { dense: &dense, best: None, arcs_left: MAX_ARCS_TRIED };
        let useful = ascent.useful(&dense, f64::INFINITY);
        search.improve(&useful);
        prop_assert!(search.least() >= least);
        prop_assert!(search.least().is_finite());
    }

    #[test]
    fn fluid_arcs_and_paths_are_the_cheapest_and_then_the_shortest(network in networks(8)) {
        let prices = costs(&network);
        let closure = Closure::of(&network, &prices, &Run::quiet(1)).expect("not stopped");
        // A link more costs a little more than nothing.
        let longer: Vec<f64> = prices.iter().map(|price| price + 1.0 / 1024.0).collect();
        for from in 0..network.nodes() as u32 {
            let least = arcs_from(&network, from, &longer);
            for to in 0..network.nodes() as u32 {
                let arc = closure.arc(from, to);
                if !network.copies(from) || least[to as usize].is_infinite() {
                    prop_assert!(arc.is_none() && closure.cost(from, to).is_infinite());
                    continue;
                }
                let arc = arc.expect("there is a way");
                let cost: f64 = arc.path.iter().map(|link| longer[*link as usize]).sum();
                prop_assert_eq!(cost, least[to as usize]);
                prop_assert_eq!(closure.cost(from, to), cost - arc.path.len() as f64 / 1024.0);
            }
        }
        let hops = network.hops(0);
        let ends: Vec<u32> = (1..network.nodes() as u32).filter(|end| hops[*end as usize].is_some()).collect();
        // All nodes pass data on when each end has its own, as if none copied.
        let can = network.can.iter().map(|can| Can { copy: false, ..*can }).collect();
        let plain = Network::new(can, network.edges.clone(), Vec::new());
        let least = arcs_from(&plain, 0, &prices);
        let priced = cheapest_paths(&network, &block(0, ends.clone(), Shape::Paths), &prices).expect("reached");
        prop_assert_eq!(priced.cost, ends.iter().map(|end| least[*end as usize]).sum::<f64>());
        prop_assert_eq!(usage_costs(&priced.route, &prices), priced.cost);
        prop_assert_eq!(priced.bound, priced.cost);
    }
}

/// Boxes of ends around a memory each, all memories joined over a switch: entering a box is dear, inside it is cheap.
fn boxes(count: u32, ends_each: u32) -> (Network, Vec<u32>) {
    let copies = Can { store: true, copy: true, reduce: false };
    let passes = Can { store: false, copy: false, reduce: false };
    let (mut can, mut edges, mut ends) = (vec![copies, passes], Vec::new(), Vec::new());
    let mut both = |a: u32, b: u32, cost: f64| {
        edges.push(Edge { from: a, to: b, cost });
        edges.push(Edge { from: b, to: a, cost });
    };
    both(0, 1, 1.0);
    for _ in 0..count {
        let memory = can.len() as u32;
        can.push(copies);
        both(1, memory, 10.0);
        for _ in 0..ends_each {
            let end = can.len() as u32;
            can.push(copies);
            ends.push(end);
            both(memory, end, 1.0);
            both(1, end, 10.0);
        }
    }
    (Network::new(can, edges, Vec::new()), ends)
}

#[test]
fn fluid_trees_with_many_optional_nodes_are_proven_by_the_bound() {
    let (network, ends) = boxes(40, 3);
    let prices = costs(&network);
    let closure = Closure::of(&network, &prices, &Run::quiet(2)).expect("not stopped");
    let found = cheapest(&closure, 0, &ends).expect("reached");
    assert_routes(&network, &found.tree, &ends);
    // By box one way in (1 + 10) to the memory and three of 1: or to an end, back to the memory and out to two.
    assert_eq!(found.cost, 40.0 * (11.0 + 3.0));
    assert!(found.bound <= found.cost && found.bound > 0.9 * found.cost);
    assert!(!found.exact || found.bound == found.cost);
}

#[test]
fn fluid_ends_out_of_reach_are_named() {
    let (mut network, ends) = boxes(1, 2);
    let far = ends[1];
    let edges: Vec<Edge> = network.edges.iter().filter(|edge| edge.to != far).copied().collect();
    network = Network::new(network.can.clone(), edges, Vec::new());
    let prices = costs(&network);
    let closure = Closure::of(&network, &prices, &Run::quiet(1)).expect("not stopped");
    let trees = cheapest_tree(&block(0, ends.clone(), Shape::Tree), &closure).expect_err("out of reach");
    let paths = cheapest_paths(&network, &block(0, ends, Shape::Paths), &prices).expect_err("out of reach");
    assert_eq!((trees.code(), trees), (paths.code(), paths));
}
