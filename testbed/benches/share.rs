//! The simulator's inner loop: one max–min computation, and whole runs under equal sharing.
//!
//! `cargo bench -p sluice-testbed --bench share`; what a run's throughput counts are its events, as `sluice sim run
//! --profile` does: arrivals, ends of compute phases, begins and ends of flows, bounds and marks reached.

use std::path::Path;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use sluice_testbed::scenario::random::Stream;
use sluice_testbed::scenario::{Notation, Scenario};
use sluice_testbed::sim::share::Share;
use sluice_testbed::sim::{Change, Orders, Scheduler, Watch, World, run};

/// Servers of a rack, racks under an edge switch; 10, 20 and 40 Gbit/s from tier to tier.
const WIDE: u64 = 10;

/// Puts flows between random hosts of the three tiers to the problem.
fn build(share: &mut Share, ends: &[[u64; 2]], hosts: u64) {
    let (racks, edges) = (hosts.div_ceil(WIDE), hosts.div_ceil(WIDE * WIDE));
    share.clear();
    (0..2 * hosts).for_each(|_| _ = share.link(1.25e9));
    (0..2 * racks).for_each(|_| _ = share.link(2.5e9));
    (0..2 * edges).for_each(|_| _ = share.link(5e9));
    for &[from, to] in ends {
        let (rack, edge) = (2 * hosts, 2 * (hosts + racks));
        let mut hop = |link: u64| share.hop(link as u32);
        hop(2 * from);
        if from / WIDE != to / WIDE {
            hop(rack + 2 * (from / WIDE));
            hop(rack + 2 * (to / WIDE) + 1);
        }
        if from / WIDE / WIDE != to / WIDE / WIDE {
            hop(edge + 2 * (from / WIDE / WIDE));
            hop(edge + 2 * (to / WIDE / WIDE) + 1);
        }
        hop(2 * to + 1);
        share.flow(0, 1.0, f64::INFINITY);
    }
}

fn sharing(c: &mut Criterion) {
    let mut group = c.benchmark_group("one-max-min");
    for (name, flows, hosts) in
        [("50-in-a-rack", 50, 10), ("1000-over-three-tiers", 1000, 1000), ("4000-over-three-tiers", 4000, 1000)]
    {
        let mut lot = Stream::new(1, "share");
        let ends: Vec<[u64; 2]> = (0..flows).map(|_| [lot.below(hosts), lot.below(hosts)]).collect();
        let mut share = Share::default();
        group.bench_function(name, |b| {
            b.iter(|| {
                build(&mut share, &ends, hosts);
                share.solve().len()
            });
        });
    }
    group.finish();
}

/// Orders nothing: equal shares.
struct Equal;

impl Scheduler for Equal {
    fn decide(&mut self, _: &World<'_>, _: &[Change], _: &mut Orders) {}
    fn reads_progress(&self) -> bool {
        false
    }
    fn wants_edges(&self) -> bool {
        false
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

criterion_group!(benches, sharing, engine);
criterion_main!(benches);
