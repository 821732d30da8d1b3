//! Whole runs of the simulator under equal sharing.
//!
//! `cargo bench -p sluice-simulate --bench engine`; what a run's throughput counts are its events, as `sluice sim run
//! --profile` does: arrivals, ends of compute phases, begins and ends of flows, bounds and marks reached.

use std::path::Path;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use sluice_scenario::{Notation, Scenario};
use sluice_simulate::{Change, Needs, Orders, Scheduler, Watch, World, run};

/// Servers of a rack, racks under an edge switch.
const WIDE: u64 = 10;

/// Orders nothing: equal shares.
struct Equal;

impl Scheduler for Equal {
    fn decide(&mut self, _: &World<'_>, _: &[Change], _: &mut Orders) {}
    fn needs(&self) -> Needs {
        Needs::CHANGES
    }
}

/// The network and the mix of `sim-1000`, two GPUs a server so that jobs go over the network, a job for every fourth GPU.
fn scenario(hosts: u64, mode: &str) -> Scenario {
    let (edges, jobs) = (hosts / WIDE / WIDE, hosts / 2);
    let text = format!(
        r#"
        version = 1
        name = "speed"
        seed = 7
        time = {{ mode = "{mode}" }}
        network = {{ kind = "three-tier", servers_per_rack = 10, racks_per_edge = 10, edges = {edges}, gpus = 2, gbps = [10, 20, 40] }}
        placement = {{ policy = "packed" }}
        defaults = {{ compute_scale = 0.25 }}
        [arrivals]
        kind = "synthetic"
        length_s = 60
        initial_jobs = {jobs}
        initial_spread_s = 10
        max_jobs = {jobs}
        iterations = 10
        mix = [
            {{ model = "vgg19", arch = "ring", workers = 3 }}, {{ model = "vgg16", arch = "ps", workers = 2, servers = 2 }},
            {{ model = "resnet50", arch = "ps", workers = 2, servers = 2 }}, {{ model = "gpt2", arch = "ring", workers = 3 }},
        ]
        "#
    );
    Scenario::parse(&text, Notation::Toml, "speed", Path::new(".")).unwrap_or_else(|e| panic!("{e}"))
}

fn engine(c: &mut Criterion) {
    let mut group = c.benchmark_group("engine-fair");
    group.sample_size(10);
    for mode in ["event", "slot"] {
        for hosts in [100, 1000, 4000] {
            let scenario = scenario(hosts, mode);
            let go = || run(&scenario, &mut Equal, &Watch::default()).unwrap_or_else(|e| panic!("{e}"));
            group.throughput(Throughput::Elements(go().events));
            group.bench_function(BenchmarkId::new(mode, hosts), |b| b.iter(go));
        }
    }
    group.finish();
}

criterion_group!(benches, engine);
criterion_main!(benches);
