//! Planning in epochs without a solver: one row of each table, the largest fabric, and the check of a plan.

use criterion::{Criterion, criterion_group, criterion_main};
use sluice_formats::quantity::size;
use sluice_formats::topology::{Topology, import};
use sluice_plan::check::check;
use sluice_plan::plan::Collective;
use sluice_planners::teccl::lane::EpochLength;
use sluice_planners::teccl::{Instance, Made, Options, Volume, make};
use sluice_planners::{Request, Run};

fn fabric(name: &str) -> Topology {
    let all = include_str!("../tests/teccl/fabrics.jsonl");
    let line = all.lines().find(|line| line.contains(&format!("\"{name}\""))).expect("there");
    import::teccl(line.as_bytes(), name, false).expect("valid")
}

fn planned(topology: &Topology, collective: Collective, output: &str, epoch: EpochLength) -> Made {
    let volume = Volume::Size(size(output).expect("a size"));
    let options = Options { epoch, free_second_hop: true, ..Options::of(volume) };
    let instance = Instance::new(topology, &Request::of_all(collective), &options, "t").expect("valid");
    make(&instance, None, &Run::quiet(1)).expect("a plan")
}

fn teccl(c: &mut Criterion) {
    let mut group = c.benchmark_group("teccl");
    group.sample_size(10);
    let (two, four) = (fabric("NDv2-2"), fabric("NDv2-4"));
    let mut row = |name: &str, topology: &Topology, collective, output: &str, epoch: EpochLength| {
        group.bench_function(name, |b| b.iter(|| planned(topology, collective, output, epoch.clone())));
    };
    row("all-gather, NDv2 × 2, 1 GB, fast", &two, Collective::AllGather, "1GB", EpochLength::Fast);
    row("all-gather, NDv2 × 2, 16 kB, fast", &two, Collective::AllGather, "16kB", EpochLength::Fast);
    row("all-to-all, NDv2 × 2, 1 GB, slow", &two, Collective::AllToAll, "1GB", EpochLength::Slow);
    row("all-gather, NDv2 × 4, 16 kB, fast", &four, Collective::AllGather, "16kB", EpochLength::Fast);
    let made = planned(&four, Collective::AllGather, "1GB", EpochLength::Fast);
    group.bench_function("check of a plan, NDv2 × 4", |b| b.iter(|| check(&made.plan, Some(&four))));
    group.finish();
}

criterion_group!(benches, teccl);
criterion_main!(benches);
