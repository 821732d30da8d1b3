//! BFB by graph: `cargo bench -p sluice-planners --bench bfb`. Costs with every receiver solved (`all`), and with one where the
//! graph looks alike from everywhere (`one`); schedules with all their sends.

#![allow(missing_docs, reason = "criterion's macros make undocumented functions")]

use criterion::{Criterion, criterion_group, criterion_main};
use sluice_planners::Run;
use sluice_planners::direct::bfb::{Options, all_gather, cost};
use sluice_planners::direct::{Edge, Graph, Symmetry};
use std::hint::black_box;

/// Every vertex leads to `heads`.
fn graph(n: u32, heads: impl Fn(u32) -> Vec<u32>) -> Graph {
    let edges = (0..n).flat_map(|tail| heads(tail).into_iter().map(move |head| Edge { tail, head })).collect();
    Graph::new(n, edges).expect("a graph")
}

fn hypercube(k: u32) -> Graph {
    graph(1 << k, |x| (0..k).map(|bit| x ^ 1 << bit).collect())
}

fn torus(side: u32) -> Graph {
    let at = |x: u32, y: u32| x % side * side + y % side;
    graph(side * side, |v| {
        let (x, y) = (v / side, v % side);
        vec![at(x + 1, y), at(x + side - 1, y), at(x, y + 1), at(x, y + side - 1)]
    })
}

fn kautz(d: u32, n: u32) -> Graph {
    let (wide, n) = (u64::from(n), n);
    graph(n, |x| (1..=d).map(|a| ((u64::from(d) * wide - u64::from(d * x + a) % wide) % wide) as u32).collect())
}

fn costs(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("bfb cost");
    group.sample_size(10);
    let cases = [("hypercube 1024", hypercube(10)), ("torus 50x50", torus(50)), ("Pi(4,1024)", kautz(4, 1024))];
    for (name, graph) in cases {
        for threads in [1, 2] {
            group.bench_function(format!("{name}, all, {threads} threads"), |bench| {
                bench.iter(|| cost(black_box(&graph), &Run::quiet(threads)));
            });
        }
        if !name.starts_with("Pi") {
            let graph = graph.with_symmetry(Symmetry::VertexTransitive);
            group
                .bench_function(format!("{name}, one"), |bench| bench.iter(|| cost(black_box(&graph), &Run::quiet(1))));
        }
    }
    group.finish();
}

fn schedules(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("bfb all-gather");
    group.sample_size(10);
    let options = Options::default();
    for (name, graph) in [("hypercube 1024", hypercube(10)), ("torus 50x50", torus(50)), ("Pi(4,1024)", kautz(4, 1024))]
    {
        group.bench_function(name, |bench| bench.iter(|| all_gather(black_box(&graph), &options, &Run::quiet(2))));
    }
    group.finish();
}

criterion_group!(benches, costs, schedules);
criterion_main!(benches);
