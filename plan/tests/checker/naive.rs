//! Plans nobody would want, but right: one tree of shortest paths per root, and all-to-all over shortest paths.

use std::collections::VecDeque;

use sluice_formats::quantity::{Rational, Unit};
use sluice_formats::topology::Topology;
use sluice_plan::check::check;
use sluice_plan::plan::{
    Collective, Content, Direction, Edge, Exact, Forest, Names, Nullable, Pair, Paths, PerByte, Plan, Tree, Trees,
};

/// For every node the node before it on a shortest path from `root`; against the links if `reversed`.
fn parents(topology: &Topology, root: usize, reversed: bool) -> Vec<Option<usize>> {
    let mut near = vec![Vec::new(); topology.nodes().len()];
    for link in topology.links() {
        if reversed { near[link.to].push(link.from) } else { near[link.from].push(link.to) }
    }
    let mut parents = vec![None; near.len()];
    let mut queue = VecDeque::from([root]);
    while let Some(node) = queue.pop_front() {
        for next in &near[node] {
            if *next != root && parents[*next].is_none() {
                parents[*next] = Some(node);
                queue.push_back(*next);
            }
        }
    }
    parents
}

fn tree(topology: &Topology, names: &mut Names, root: usize, direction: Direction, weight: u64) -> Tree {
    let parents = parents(topology, root, direction == Direction::In);
    let mut name = |node: usize| names.intern(&topology.nodes()[node].id);
    let mut edges = Vec::new();
    for node in topology.compute().into_iter().filter(|node| *node != root) {
        let mut path = vec![name(node)];
        let mut at = node;
        loop {
            at = parents[at].expect("connected");
            path.push(name(at));
            if topology.nodes()[at].is_compute() {
                break;
            }
        }
        if direction == Direction::Out {
            path.reverse();
        }
        let (src, dst) = (path[0], path[path.len() - 1]);
        edges.push(Edge { src, dst, via: path[1..path.len() - 1].into() });
    }
    Tree { edges, ends: None, hops: None, root: name(root), weight: Rational::from(weight) }
}

/// Every participant's tree; for a rooted collective only the root's.
pub fn trees(topology: &Topology, collective: Collective) -> Plan {
    let mut names = Names::default();
    let compute = topology.compute();
    let root = collective.is_rooted().then(|| compute[1]);
    let mut forest = |direction| {
        let of = |node: &usize| (*node, if root.is_some() { 1 } else { topology.nodes()[*node].weight });
        let roots = compute.iter().filter(|node| root.is_none_or(|root| root == **node)).map(of);
        let roots: Vec<(usize, u64)> = roots.filter(|(_, weight)| *weight > 0).collect();
        let trees =
            roots.into_iter().map(|(node, weight)| tree(topology, &mut names, node, direction, weight)).collect();
        Forest { u: None, direction, fixed_k: None, k: Nullable(Some(1)), trees }
    };
    let forests = match collective {
        Collective::AllGather | Collective::Broadcast => vec![forest(Direction::Out)],
        Collective::ReduceScatter | Collective::Reduce => vec![forest(Direction::In)],
        _ => vec![forest(Direction::In), forest(Direction::Out)],
    };
    let participants = compute.iter().map(|node| names.intern(&topology.nodes()[*node].id)).collect();
    let root = root.map(|root| names.intern(&topology.nodes()[root].id));
    let mut plan = Plan::new(topology, collective, names, Content::Trees(Trees { forests }));
    (plan.body.participants, plan.body.root) = (Some(participants), root);
    claim(&mut plan);
    plan
}

/// Half of every pair's data on each of two equal shortest paths.
pub fn paths(topology: &Topology, collective: Collective) -> Plan {
    let mut names = Names::default();
    let compute = topology.compute();
    let root = collective.is_rooted().then(|| compute[1]);
    let mut pairs = Vec::new();
    for src in &compute {
        let parents = parents(topology, *src, false);
        for dst in compute.iter().filter(|dst| *dst != src) {
            let owes = match collective {
                Collective::Scatter => root == Some(*src),
                Collective::Gather => root == Some(*dst),
                _ => true,
            };
            if !owes {
                continue;
            }
            let mut path = vec![*dst];
            while path[path.len() - 1] != *src {
                path.push(parents[path[path.len() - 1]].expect("connected"));
            }
            path.reverse();
            let path: Vec<_> = path.into_iter().map(|node| names.intern(&topology.nodes()[node].id)).collect();
            for _ in 0..2 {
                let amount = Rational::new(1, 2).expect("a half");
                pairs.push(Pair { amount, dst: path[path.len() - 1], path: path.clone(), src: path[0] });
            }
        }
    }
    let root = root.map(|root| names.intern(&topology.nodes()[root].id));
    let mut plan = Plan::new(topology, collective, names, Content::Paths(Paths { pairs }));
    plan.body.root = root;
    claim(&mut plan);
    plan
}

/// Claims what the checker computes; the textbook figures are asserted elsewhere.
pub fn claim(plan: &mut Plan) {
    let report = check(plan, None);
    assert_eq!(report.violation, None);
    let figures = report.figures.expect("computed");
    plan.body.claim.time_per_byte =
        Some(PerByte { value: figures.time_per_byte, seconds: figures.unit != Unit::Abstract });
    plan.body.claim.algorithm_bandwidth = figures.algorithm_bandwidth.map(Exact);
    plan.body.claim.optimal = Some(false);
}
