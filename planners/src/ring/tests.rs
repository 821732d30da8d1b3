//! Rings on fabrics of every sort, all of them plans that the checker accepts, and their times by hand.

use super::*;
use sluice_formats::topology::r#gen::{Wiring, complete, dgx_a100, hypercube, ring, star, torus};
use sluice_formats::topology::import;

fn made(topology: &Topology, collective: Collective) -> Result<Plan, Problems> {
    let second = topology.compute()[1];
    let root = collective.is_rooted().then(|| &*topology.nodes()[second].id);
    make(topology, &Request { collective, participants: None, root, ignore: &[] }, "t")
}

/// Time per byte, as its reciprocal in the unit of the first link.
fn bandwidth(topology: &Topology, collective: Collective) -> Rational {
    let plan = made(topology, collective).unwrap_or_else(|errors| panic!("{errors}"));
    let per_byte = Cost::new(&plan, topology).expect("a good plan").per_byte();
    topology.unit().express(&per_byte.recip().expect("a time"))
}

fn fraction(p: i64, q: i64) -> Rational {
    Rational::new(p, q).expect("not over zero")
}

fn of_paper(name: &str) -> Topology {
    let lines = include_str!("../../tests/teccl/fabrics.jsonl");
    let line = lines.lines().find(|line| line.contains(&format!("\"name\":\"{name}\""))).expect("a fabric");
    import::teccl(line.as_bytes(), name, false).expect("readable")
}

#[test]
fn every_collective_on_every_fabric() {
    let fabrics = [
        star(&["1", "2", "3", "1", "2"]),
        complete(5, "4GB/s"),
        ring(6, "5Gbit/s", true),
        ring(5, "7/2", false),
        torus(&[3, 4], "1"),
        hypercube(4, "2"),
        dgx_a100(2, Wiring::Plain),
    ];
    for topology in
        fabrics.map(|made| made.expect("valid")).iter().chain(&["DGX1", "NDv2-2", "NDv2-4", "DGX2-2"].map(of_paper))
    {
        for collective in SUPPORT.collectives {
            let plan = made(topology, *collective).unwrap_or_else(|errors| panic!("{}: {errors}", topology.name()));
            assert_eq!(plan.body.collective, *collective);
            let Content::Trees(trees) = &plan.body.content else { continue };
            // Chains: nobody has two who get from it, or two to get from.
            for tree in trees.forests.iter().flat_map(|forest| &forest.trees) {
                let mut ends: Vec<NodeId> = tree.edges.iter().map(|edge| edge.src).collect();
                ends.sort_unstable();
                ends.dedup();
                assert_eq!(
                    (ends.len(), tree.edges.len()),
                    (topology.compute().len() - 1, topology.compute().len() - 1)
                );
            }
        }
    }
}

#[test]
fn the_narrowest_hop_is_the_limit() {
    let one_way = ring(5, "7/2", false).expect("valid");
    assert_eq!(bandwidth(&one_way, Collective::AllGather), fraction(35, 8));
    // Both ways at once.
    let both = ring(6, "6", true).expect("valid");
    assert_eq!(bandwidth(&both, Collective::AllGather), fraction(72, 5));
    assert_eq!(bandwidth(&both, Collective::AllReduce), fraction(36, 5));
    assert_eq!(bandwidth(&both, Collective::Broadcast), fraction(12, 1));
    // From each source 1 + 2 + 3/2 hops of a sixth each way.
    assert_eq!(bandwidth(&both, Collective::AllToAll), fraction(8, 1));
    // 25 GB/s from box to box each way, with half of the data: ports inside are shared and are no limit.
    let boxes = dgx_a100(2, Wiring::Plain).expect("valid");
    assert_eq!(bandwidth(&boxes, Collective::AllGather), fraction(50 * 16, 15));
    // A ring of 50 GB/s cables inside, and both ways.
    assert_eq!(bandwidth(&of_paper("DGX1"), Collective::AllGather), fraction(100 * 8, 7));
    // Between chassis 12.5 GB/s, one way only.
    assert_eq!(bandwidth(&of_paper("NDv2-4"), Collective::AllGather), fraction(25 * 16, 31));
}

#[test]
fn latency_adds_up_along_the_ring() {
    let plan = made(&of_paper("DGX1"), Collective::AllReduce).expect("a ring");
    let cost = Cost::new(&plan, &of_paper("DGX1")).expect("a good plan");
    assert_eq!(cost.latency(), fraction(14 * 7, 10_000_000));
}

#[test]
fn without_a_ring_there_is_none() {
    let line = "a b 1\nb a 1\nb c 1\nc b 1\n";
    let edges = import::Edges { kind: sluice_formats::topology::Kind::Gpu, switches: &[] };
    let line = import::edges(line.as_bytes(), "line", &edges).expect("readable");
    assert_eq!(made(&line, Collective::AllGather).expect_err("a line").code(), NO_RING);
    // A bipartite graph whose sides differ has none; that is found out in bounded time.
    let mut text = String::new();
    for a in 0..9 {
        for b in 0..10 {
            text += &format!("a{a} b{b} 1\nb{b} a{a} 1\n");
        }
    }
    let sides = import::edges(text.as_bytes(), "sides", &edges).expect("readable");
    assert_eq!(made(&sides, Collective::AllGather).expect_err("no ring").code(), NO_RING);
}

#[test]
fn too_many_and_unequal_are_refused() {
    let many = star(&vec!["1"; 257]).expect("valid");
    assert_eq!(made(&many, Collective::AllToAll).expect_err("too many").code(), E_LIMIT);
    assert!(made(&many, Collective::AllGather).is_ok());
    let refused = made(&complete(4, "1").expect("valid"), Collective::Custom).expect_err("no collective");
    assert_eq!((refused.code(), &*refused.all()[0].key), ("E_RANGE", "collective"));
}
