//! Every answer of the packer against all cuts of small graphs, and batches that fit the links.

use super::*;
use crate::forestcoll::fixed::floored;
use crate::forestcoll::optimum::{Trees, newton};
use crate::forestcoll::testing::rings;

fn fed(compute: usize, seed: u64) -> SuppliedNetwork {
    let graph = rings(compute, 0, seed);
    let Trees { k, u } = newton(&graph, &Run::quiet(1)).expect("an optimum").trees(&graph);
    let network = Network::new(compute, floored(&graph, u));
    SuppliedNetwork::new(network, compute, vec![k; compute], &Run::quiet(1)).expect("flows").expect("fed")
}

/// By all cuts: the least capacity out of a set with `from` and without `to`, less the other batches that must leave.
fn by_cuts(packer: &Packer, batch: &Growing, arc: u32) -> i64 {
    let (from, to) = packer.network.ends[arc as usize];
    let cuts = (0_u32..1 << packer.nodes).filter(|cut| cut >> from & 1 == 1 && cut >> to & 1 == 0);
    let slack = |cut: u32| -> i64 {
        let inside = |node: u32| cut >> node & 1 == 1;
        let arcs = packer.network.ends.iter().zip(&packer.network.capacity);
        let out: i64 = arcs.filter(|((from, to), _)| inside(*from) && !inside(*to)).map(|(_, capacity)| capacity).sum();
        out - (0..).zip(&packer.supply).filter(|(root, _)| inside(*root)).map(|(_, supply)| supply).sum::<i64>()
    };
    let least = cuts.map(slack).min().expect("cuts");
    least.min(packer.network.capacity[arc as usize]).min(batch.weight)
}

#[test]
fn every_answer_is_that_of_all_cuts() {
    let (mut answers, mut limited) = (0, 0);
    for seed in 0..40 {
        let mut packer = Packer::new(fed(3 + seed as usize % 5, seed));
        for root in 0..packer.nodes as u32 {
            while packer.supply[root as usize] > 0 {
                let weight = std::mem::take(&mut packer.supply[root as usize]);
                let mut inside = vec![false; packer.nodes];
                inside[root as usize] = true;
                let mut batch = Growing { root, weight, members: vec![root], inside, edges: Vec::new() };
                packer.cuts.start(root);
                packer.known.fill(i64::MAX);
                while batch.members.len() < packer.nodes {
                    for arc in 0..packer.network.arcs() as u32 {
                        let (from, to) = packer.network.ends[arc as usize];
                        if !batch.inside[from as usize] || batch.inside[to as usize] {
                            continue;
                        }
                        let exact = by_cuts(&packer, &batch, arc);
                        // No bound is below the truth, and asking for as much as the bound allows ends at it.
                        loop {
                            let bound = packer.bound(arc).min(batch.weight);
                            assert!(bound >= exact, "seed {seed}: bound {bound} below {exact}");
                            if bound == 0 || packer.ask(arc, bound).expect("an answer") {
                                assert_eq!(bound, exact, "seed {seed}");
                                break;
                            }
                        }
                        answers += 1;
                        limited += usize::from(exact < batch.weight.min(packer.network.capacity[arc as usize]));
                    }
                    let (arc, weight) = packer.widest(&batch).expect("an edge");
                    let weight = weight.min(batch.weight);
                    if weight < batch.weight {
                        packer.shrink(&mut batch, weight);
                    }
                    packer.accept(&mut batch, arc);
                }
            }
        }
    }
    assert!(answers > 2000 && limited > 100, "{answers} answers, {limited} limited by a cut");
}

#[test]
fn batches_span_and_use_no_link_too_often() {
    for seed in 0..60 {
        let fed = fed(2 + seed as usize % 7, seed);
        let (supply, nodes) = (fed.supply.clone(), fed.compute);
        let mut left = fed.network.clone();
        let batches = pack(fed, &Run::quiet(1)).expect("a packing");
        let mut roots = vec![0; nodes];
        for batch in &batches {
            roots[batch.root as usize] += batch.weight;
            let mut seen = vec![false; nodes];
            seen[batch.root as usize] = true;
            for &(from, to) in &batch.edges {
                assert!(seen[from as usize] && !std::mem::replace(&mut seen[to as usize], true));
                let arc = left.find(from, to).expect("a link");
                left.capacity[arc as usize] -= batch.weight;
            }
            assert!(seen.iter().all(|seen| *seen));
        }
        assert_eq!(roots, supply);
        assert!(left.capacity.iter().all(|&capacity| capacity >= 0), "seed {seed}");
    }
}

#[test]
fn too_little_capacity_is_noticed() {
    let mut fed = fed(4, 1);
    fed.supply[0] += 1;
    assert_eq!(pack(fed, &Run::quiet(1)).expect_err("one tree too many").code(), "INTERNAL_INVARIANT");
}
