//! An independent judge of forests and optima: shares nothing with the planner but its public types.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Zero};
use sluice_formats::quantity::Rational;
use sluice_planners::forestcoll::{Direction, Fabric, Forest, Optimum};
use std::collections::{BTreeMap, BTreeSet};

pub type Hop = (u32, u32);

pub fn big(rational: &Rational) -> BigRational {
    BigRational::new(rational.numerator(), rational.denominator())
}

/// Bandwidth per link, parallel links added up.
pub fn bandwidths(fabric: &Fabric) -> BTreeMap<Hop, BigRational> {
    let mut sums = BTreeMap::new();
    for (from, to, bandwidth) in &fabric.links {
        *sums.entry((*from, *to)).or_insert_with(BigRational::zero) += big(bandwidth);
    }
    sums
}

/// Weighted load per hop.
pub fn loads(forest: &Forest) -> BTreeMap<Hop, u64> {
    let mut loads = BTreeMap::new();
    for tree in &forest.trees {
        let paths = tree.edges.iter().flat_map(|edge| edge.path.windows(2).map(|hop| (hop[0], hop[1])));
        let hops: Vec<Hop> = tree.hops.clone().unwrap_or_else(|| paths.collect());
        for hop in hops {
            *loads.entry(hop).or_insert(0) += tree.weight;
        }
    }
    loads
}

/// The cut's data over the bandwidth that leaves it.
pub fn cut_ratio(fabric: &Fabric, cut: &[u32]) -> BigRational {
    let inside: BTreeSet<u32> = cut.iter().copied().collect();
    assert!((0..fabric.compute as u32).any(|node| !inside.contains(&node)), "the cut holds all compute nodes");
    let weight: u64 =
        (0..fabric.compute).filter(|&node| inside.contains(&(node as u32))).map(|node| fabric.weight(node)).sum();
    let leaving =
        bandwidths(fabric).into_iter().filter(|((from, to), _)| inside.contains(from) && !inside.contains(to));
    let out: BigRational = leaving.map(|(_, bandwidth)| bandwidth).sum();
    BigRational::from(BigInt::from(weight)) / out
}

/// 1/x* by trying every cut. For fabrics of up to some 16 nodes.
pub fn brute_force(fabric: &Fabric) -> BigRational {
    let (nodes, compute) = (fabric.names.len(), fabric.compute);
    assert!(nodes <= 18, "2^{nodes} cuts are too many");
    let all = (1_u32 << compute) - 1;
    let links: Vec<(u32, u32, BigRational)> = bandwidths(fabric).into_iter().map(|((u, v), b)| (u, v, b)).collect();
    let mut best = BigRational::zero();
    for cut in 1_u32..1 << nodes {
        let weight: u64 = (0..compute).filter(|node| cut >> node & 1 == 1).map(|node| fabric.weight(node)).sum();
        if weight == 0 || cut & all == all {
            continue;
        }
        let leaving = links.iter().filter(|(u, v, _)| cut >> u & 1 == 1 && cut >> v & 1 == 0);
        let out: BigRational = leaving.map(|(_, _, bandwidth)| bandwidth).sum();
        let ratio = BigRational::from(BigInt::from(weight)) / out;
        if ratio > best {
            best = ratio;
        }
    }
    best
}

/// The least bandwidth out of a set with compute nodes inside and outside: no all-reduce by trees has a larger Σ x_v,
/// since what leaves such a set carries the roots inside outwards and the sums for those outside.
pub fn least_bandwidth(fabric: &Fabric) -> BigRational {
    let others = 1..fabric.compute as u32;
    let flows = others.flat_map(|other| [most(fabric, 0, other), most(fabric, other, 0)]);
    flows.min().expect("two compute nodes")
}

/// The largest flow from one node to another, by shortest ways with room left.
fn most(fabric: &Fabric, from: u32, to: u32) -> BigRational {
    let (mut room, mut flow) = (bandwidths(fabric), BigRational::zero());
    loop {
        let mut back: BTreeMap<u32, u32> = BTreeMap::new();
        let mut queue = std::collections::VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            for (&(_, next), _) in room.range((node, 0)..=(node, u32::MAX)).filter(|(_, room)| !room.is_zero()) {
                if next != from && !back.contains_key(&next) {
                    back.insert(next, node);
                    queue.push_back(next);
                }
            }
        }
        if !back.contains_key(&to) {
            return flow;
        }
        let way = std::iter::successors(Some(to), |node| back.get(node).copied()).collect::<Vec<_>>();
        let hops: Vec<Hop> = way.windows(2).map(|pair| (pair[1], pair[0])).collect();
        let least = hops.iter().map(|hop| room[hop].clone()).min().expect("a hop");
        for (u, v) in hops {
            *room.entry((u, v)).or_insert_with(BigRational::zero) -= &least;
            *room.entry((v, u)).or_insert_with(BigRational::zero) += &least;
        }
        flow += least;
    }
}

/// The acceptance test of a forest: spanning trees over paths that exist, k trees per root, no link overloaded.
pub fn check(fabric: &Fabric, forest: &Forest) -> Result<(), String> {
    let bandwidths = bandwidths(fabric);
    let compute = fabric.compute as u32;
    let mut per_root = vec![0_u64; fabric.compute];
    for (number, tree) in forest.trees.iter().enumerate() {
        let fail = |what: String| Err(format!("tree {number}: {what}"));
        if tree.weight == 0 {
            return fail("weighs nothing".into());
        }
        per_root[tree.root as usize] += tree.weight;
        let mut parent = vec![None; fabric.compute];
        for edge in &tree.edges {
            let (above, below) =
                if forest.direction == Direction::Out { (edge.src, edge.dst) } else { (edge.dst, edge.src) };
            if above >= compute || below >= compute || below == tree.root {
                return fail(format!("edge {} to {}", edge.src, edge.dst));
            }
            if parent[below as usize].replace(above).is_some() {
                return fail(format!("node {below} has two parents"));
            }
            let path = &edge.path;
            if path.len() < 2 || path[0] != edge.src || path[path.len() - 1] != edge.dst {
                return fail(format!("path {path:?} is not from {} to {}", edge.src, edge.dst));
            }
            if path[1..path.len() - 1].iter().any(|&node| node < compute) {
                return fail(format!("path {path:?} leads through a compute node"));
            }
            if let Some(hop) = path.windows(2).find(|hop| !bandwidths.contains_key(&(hop[0], hop[1]))) {
                return fail(format!("hop {hop:?} is no link"));
            }
        }
        for node in (0..compute).filter(|&node| node != tree.root) {
            let (mut at, mut steps) = (node, 0);
            while at != tree.root {
                let Some(above) = parent[at as usize] else { return fail(format!("node {at} has no parent")) };
                (at, steps) = (above, steps + 1);
                if steps > compute {
                    return fail(format!("node {node} is on a cycle"));
                }
            }
        }
        if let Some(hops) = &tree.hops {
            check_hops(fabric, forest, tree.root, hops).or_else(fail)?;
        }
    }
    if let Some(k) = forest.k {
        for (node, &found) in per_root.iter().enumerate() {
            if found != k * fabric.weight(node) {
                return Err(format!("root {node} has {found} trees instead of {k} times {}", fabric.weight(node)));
            }
        }
    }
    for (hop, load) in loads(forest) {
        let Some(bandwidth) = bandwidths.get(&hop) else { return Err(format!("hop {hop:?} is no link")) };
        let most = big(&forest.u) * bandwidth;
        if BigRational::from(BigInt::from(load)) > most {
            return Err(format!("link {hop:?} carries {load} trees and has room for {most}"));
        }
    }
    Ok(())
}

/// A pruned tree: every compute node but the root is fed once, and what feeds anything is fed from the root.
fn check_hops(fabric: &Fabric, forest: &Forest, root: u32, hops: &[Hop]) -> Result<(), String> {
    let out: Vec<Hop> = match forest.direction {
        Direction::Out => hops.to_vec(),
        Direction::In => hops.iter().map(|&(from, to)| (to, from)).collect(),
    };
    let able = if forest.direction == Direction::Out { &fabric.multicast } else { &fabric.aggregate };
    let can = |node: u32| able.get(node as usize).copied().unwrap_or(false);
    for node in 0..fabric.compute as u32 {
        let fed = out.iter().filter(|hop| hop.1 == node).count();
        if fed != usize::from(node != root) {
            return Err(format!("node {node} is fed {fed} times"));
        }
    }
    for node in fabric.compute as u32..fabric.names.len() as u32 {
        let (into, from) =
            (out.iter().filter(|hop| hop.1 == node).count(), out.iter().filter(|hop| hop.0 == node).count());
        let balanced = if can(node) { into <= from && (into > 0 || from == 0) } else { into == from };
        if !balanced {
            return Err(format!("switch {node} gets {into} streams and sends {from}"));
        }
    }
    let mut reached = BTreeSet::from([root]);
    let mut left: Vec<Hop> = out;
    loop {
        let before = left.len();
        left.retain(|&(from, to)| {
            let now = reached.contains(&from);
            if now {
                reached.insert(to);
            }
            !now
        });
        if left.is_empty() {
            return Ok(());
        }
        if left.len() == before {
            return Err(format!("nothing feeds {left:?}"));
        }
    }
}

/// Everything an optimal plan promises: the cut proves the bound, the forest reaches it and saturates the cut.
pub fn check_optimal(fabric: &Fabric, optimum: &Optimum, forest: &Forest) -> Result<(), String> {
    check(fabric, forest)?;
    if cut_ratio(fabric, &optimum.cut) != big(&optimum.inverse_x) {
        return Err(format!("the cut's ratio is not {}", optimum.inverse_x));
    }
    if Some(optimum.k) != forest.k || optimum.u != forest.u {
        return Err("the forest is for another k".into());
    }
    if big(&forest.u) != big(&optimum.inverse_x) * BigRational::from(BigInt::from(optimum.k)) {
        return Err(format!("U = {} is not k/x* = {} * {}", forest.u, optimum.k, optimum.inverse_x));
    }
    if forest.direction == Direction::Out && forest.trees.iter().all(|tree| tree.hops.is_none()) {
        saturated(fabric, optimum, forest)?;
    }
    Ok(())
}

/// Every link that leaves the bottleneck is full, and each tree from inside leaves it once.
fn saturated(fabric: &Fabric, optimum: &Optimum, forest: &Forest) -> Result<(), String> {
    let inside: BTreeSet<u32> = optimum.cut.iter().copied().collect();
    let crosses = |from: u32, to: u32| inside.contains(&from) && !inside.contains(&to);
    let loads = loads(forest);
    for ((from, to), bandwidth) in bandwidths(fabric).into_iter().filter(|&((from, to), _)| crosses(from, to)) {
        let load = BigRational::from(BigInt::from(loads.get(&(from, to)).copied().unwrap_or(0)));
        if load != big(&forest.u) * bandwidth {
            return Err(format!("bottleneck link {from} to {to} is not full"));
        }
    }
    for tree in forest.trees.iter().filter(|tree| inside.contains(&tree.root)) {
        let hops = tree.edges.iter().flat_map(|edge| edge.path.windows(2));
        let crossings = hops.filter(|hop| crosses(hop[0], hop[1])).count();
        if crossings != 1 {
            return Err(format!("a tree from {} leaves the bottleneck {crossings} times", tree.root));
        }
    }
    Ok(())
}

/// N·x*, the algorithm bandwidth of an all-gather (with shares: their sum instead of N).
pub fn algbw(fabric: &Fabric, inverse_x: &Rational) -> BigRational {
    let total: u64 = (0..fabric.compute).map(|node| fabric.weight(node)).sum();
    BigRational::from(BigInt::from(total)) * (BigRational::one() / big(inverse_x))
}
