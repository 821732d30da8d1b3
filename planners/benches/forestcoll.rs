//! ForestColl by size, stage and way: `cargo bench -p sluice-planners --bench forestcoll`.

#![allow(missing_docs, reason = "criterion's macros make undocumented functions")]

#[allow(dead_code, reason = "the tests use the rest of it")]
#[path = "../tests/all/forestcoll/fabrics.rs"]
mod fabrics;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use fabrics::{a100, heterogeneous, mi250};
use sluice_planners::Run;
use sluice_planners::forestcoll::{Collective, Options, all_reduce, optimum, plan};
use std::hint::black_box;

fn optima(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("optimum");
    for boxes in [2, 16, 128] {
        let fabric = a100(boxes);
        group.bench_with_input(BenchmarkId::new("a100", boxes * 8), &fabric, |bench, fabric| {
            bench.iter(|| optimum(black_box(fabric), false, &Run::quiet(2)));
        });
    }
    group.finish();
}

fn forests(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("forest");
    group.sample_size(10);
    let cases = [("a100", 128, a100(16)), ("mi250", 128, mi250(8)), ("mi250 k=83", 32, mi250(2))];
    for (name, gpus, fabric) in cases {
        for symmetry in [true, false] {
            let options = Options { symmetry, ..Options::default() };
            let way = if symmetry { "symmetry" } else { "general" };
            group.bench_with_input(BenchmarkId::new(format!("{name} {way}"), gpus), &fabric, |bench, fabric| {
                bench.iter(|| plan(black_box(fabric), Collective::AllGather, &options, &Run::quiet(2)));
            });
        }
    }
    for gpus in [32, 64, 128] {
        let fabric = heterogeneous(gpus, 1);
        group.bench_with_input(BenchmarkId::new("heterogeneous", gpus), &fabric, |bench, fabric| {
            bench.iter(|| plan(black_box(fabric), Collective::AllGather, &Options::default(), &Run::quiet(2)));
        });
    }
    group.finish();
}

fn programs(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("all-reduce program");
    group.sample_size(10);
    let fabric = heterogeneous(5, 3);
    group.bench_function("heterogeneous 5", |bench| {
        bench.iter(|| all_reduce(black_box(&fabric), false, &Run::quiet(2)))
    });
    group.finish();
}

criterion_group!(benches, optima, forests, programs);
criterion_main!(benches);
