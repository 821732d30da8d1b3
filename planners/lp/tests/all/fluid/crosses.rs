//! Other planners on the same fabrics: none is better than what these programs say, and some must be as good.

use crate::fluid::samples::{Draws, eulerian, read};
use crate::fluid::{figures, of_all};
use sluice_formats::quantity::{Rational, Unit};
use sluice_formats::topology::{Kind, Topology};
use sluice_plan::plan::Collective;
use sluice_planners::direct::{self, Edge, Graph, Hardware, bfb};
use sluice_planners::forestcoll::{self, optimum};
use sluice_planners::teccl::lane::EpochLength;
use sluice_planners::teccl::{self, Volume};
use sluice_planners::{Request, Run};
use sluice_planners_lp::alltoall::{self, Way, throughput};
use sluice_planners_lp::fluid::solve::{Method, Strength};

#[test]
fn packed_trees_are_as_fast_where_nothing_copies_on_the_way() {
    let run = Run::quiet(1);
    for case in 0..220 {
        let topology = read(&eulerian(case));
        let request = Request::of_all(Collective::AllGather);
        let packing = forestcoll::Instance::new(&topology, &request, "t").expect("can be packed");
        let packed = optimum(packing.fabric(), false, &run).expect("an optimum").inverse_x;
        let trees = of_all(&topology, Collective::AllGather, Strength::Tree, Method::Auto);
        assert_eq!(trees.latency.exact.as_ref(), Some(&packed), "case {case}: {:?}", trees.latency);
        for strength in [Strength::Relax, Strength::Dup] {
            let (latency, _) = figures(&topology, Collective::AllGather, strength, Method::Auto);
            assert!((latency - packed.to_f64()).abs() <= 1e-7 * latency, "case {case}, {strength:?}: {latency}");
        }
    }
}

#[test]
fn all_reduces_of_packed_trees_are_as_fast() {
    let run = Run::quiet(1);
    for case in 0..40 {
        let topology = read(&eulerian(case));
        let request = Request::of_all(Collective::AllReduce);
        let packing = forestcoll::Instance::new(&topology, &request, "t").expect("can be packed");
        let packed = forestcoll::all_reduce(packing.fabric(), false, &run).expect("an optimum").sum_x;
        let trees = of_all(&topology, Collective::AllReduce, Strength::Tree, Method::Auto);
        assert_eq!(trees.latency.exact, packed.recip(), "case {case}: {:?}", trees.latency);
    }
}

/// A graph of so many permutations: every vertex has as many links in as out.
fn regular(n: usize, degree: usize, case: u64) -> Graph {
    let mut draws = Draws::of(case);
    let mut edges = Vec::new();
    for number in 0..degree {
        let circle = draws.shuffled(n);
        // The first goes through all vertices, the others keep none in its place either.
        let step = 1 + if number == 0 { 0 } else { draws.below(n - 1) };
        edges.extend((0..n).map(|at| Edge { tail: circle[at] as u32, head: circle[(at + step) % n] as u32 }));
    }
    Graph::new(n as u32, edges).expect("a graph")
}

fn abstract_fabric(graph: &Graph) -> Topology {
    let hardware = Hardware { capacity: "1", latency: None, kind: Kind::Gpu };
    direct::topology(graph, "t", &hardware).expect("a topology")
}

#[test]
fn steps_of_direct_graphs_take_no_less() {
    let mut reached = 0;
    for case in 0..40 {
        let graph = regular(4 + case as usize % 4, 2 + case as usize % 2, case);
        let stepped = bfb::cost(&graph, &Run::quiet(1)).expect("a schedule").load_sum.to_f64();
        let topology = abstract_fabric(&graph);
        let (latency, _) = figures(&topology, Collective::AllGather, Strength::Tree, Method::Auto);
        assert!(latency <= stepped * (1.0 + 1e-9), "case {case}: {latency} and {stepped}");
        reached += usize::from((latency - stepped).abs() <= 1e-9 * stepped);
    }
    assert!(reached > 0, "some of them are as good");
}

#[test]
fn rates_of_all_to_alls_agree() {
    for case in 0..12 {
        let graph = regular(4 + case as usize % 4, 2 + case as usize % 2, 100 + case);
        let way = Way::By(alltoall::Method::Program);
        let options = alltoall::Options { way, ..alltoall::Options::default() };
        let rate = throughput(&graph, None, &options, &Run::quiet(1)).expect("a rate").rate;
        let (latency, _) = figures(&abstract_fabric(&graph), Collective::AllToAll, Strength::Tree, Method::Auto);
        assert!((latency * rate - 1.0).abs() <= 1e-6, "case {case}: {latency} and {rate}");
    }
}

#[test]
fn epochs_end_no_sooner() {
    for case in 0..40 {
        let topology = read(&in_bytes(eulerian(case)));
        let mut options = teccl::Options::of(Volume::Chunk(Rational::from(25_000)));
        (options.chunks, options.epoch, options.theta) = (1 + case % 3, EpochLength::Fast, Rational::ZERO);
        assert!(!options.free_second_hop && topology.unit() != Unit::Abstract);
        let request = Request::of_all(Collective::AllGather);
        let instance = teccl::Instance::new(&topology, &request, &options, "t");
        let instance = instance.unwrap_or_else(|problems| panic!("case {case}: {problems}"));
        let made = teccl::make(&instance, None, &Run::quiet(1)).expect("a schedule");
        let (latency, _) = figures(&topology, Collective::AllGather, Strength::Tree, Method::Auto);
        // Seconds per GB of every participant.
        let least = latency * options.chunks as f64 * 25e3 / 1e9;
        let found = made.figures.finish_us.to_f64() / 1e6;
        assert!(found >= least * (1.0 - 1e-9), "case {case}: {found} and {least}");
    }
}

/// The same fabric with capacities in GB/s.
fn in_bytes(mut file: serde_json::Value) -> serde_json::Value {
    for link in file["links"].as_array_mut().expect("links") {
        link["capacity"] = format!("{} GB/s", link["capacity"].as_str().expect("a number")).into();
    }
    file
}
