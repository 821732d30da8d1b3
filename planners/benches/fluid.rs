//! What column generation does over and over, by machines of a cluster: `cargo bench -p sluice-planners --bench fluid`. The
//! cheapest arcs between all nodes that copy, one root's cheapest routing tree over them, one root's cheapest paths; and,
//! once for a fabric, its symmetry.

#![allow(missing_docs, reason = "criterion's macros make undocumented functions")]

use criterion::{Criterion, criterion_group, criterion_main};
use sluice_formats::topology::r#gen::{Variant, dgx_a100_rail};
use sluice_plan::plan::Collective;
use sluice_planners::Run;
use sluice_planners::fluid::closure::Closure;
use sluice_planners::fluid::demand::Demand;
use sluice_planners::fluid::network::Network;
use sluice_planners::fluid::price::{cheapest_paths, cheapest_tree};
use sluice_planners::fluid::symmetry;
use std::hint::black_box;

fn pricing(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("fluid");
    group.sample_size(10);
    for machines in [4, 16] {
        let topology = dgx_a100_rail(machines, Variant::All).expect("a cluster");
        let network = Network::of(&topology);
        let members = topology.compute();
        let demand =
            |collective| Demand::of(&network, collective, &members, None).expect("a demand").blocks().remove(0);
        let (gather, exchange) = (demand(Collective::AllGather), demand(Collective::AllToAll));
        // Every link another price, as in the middle of a solution.
        let prices: Vec<f64> = (0..network.edges.len()).map(|edge| 1.0 + (edge * 7919 % 101) as f64 / 100.0).collect();
        let run = Run::quiet(1);
        group.bench_function(format!("arcs, {machines} machines"), |bench| {
            bench.iter(|| Closure::of(black_box(&network), &prices, &run));
        });
        let arcs = Closure::of(&network, &prices, &run).expect("arcs");
        group.bench_function(format!("tree, {machines} machines"), |bench| {
            bench.iter(|| cheapest_tree(black_box(&gather), &arcs));
        });
        group.bench_function(format!("paths, {machines} machines"), |bench| {
            bench.iter(|| cheapest_paths(&network, black_box(&exchange), &prices));
        });
        let mut marks = vec![0; network.nodes()];
        members.iter().for_each(|member| marks[*member] = 1);
        group.bench_function(format!("symmetry, {machines} machines"), |bench| {
            bench.iter(|| symmetry::find(black_box(&network), &marks, &[], &run));
        });
    }
    group.finish();
}

criterion_group!(benches, pricing);
criterion_main!(benches);
