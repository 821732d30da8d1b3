//! How fast the simulator is: equal sharing on the three-tier network of `sim-1000-short`, or one like it.
//!
//! ```text
//! cargo run --release -p sluice-testbed --example sim_speed -- [hosts] [packed|spread|random] [event|slot] [jobs] [iterations]
//! ```
//!
//! Prints events, ends of flows, and how many of each per second of the machine's clock. Hosts come in racks of ten.

use std::path::Path;
use std::time::Instant;

use anyhow::Context as _;
use sluice_testbed::scenario::{Notation, Policy, Scenario};
use sluice_testbed::sim::{Change, Orders, Scheduler, SimResult, Watch, World, run};

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

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let arg = |i: usize, or: &str| args.get(i).map_or(or, String::as_str).to_owned();
    let hosts: u64 = arg(0, "1000").parse().context("hosts: a whole number")?;
    let (placement, mode) = (arg(1, "packed"), arg(2, "event"));
    let jobs = arg(3, &(hosts * 6 / 5).to_string());
    let iterations = arg(4, "20");
    let (racks, edges) = (hosts.div_ceil(10), hosts.div_ceil(100));
    let text = format!(
        r#"
version = 1
name = "speed"
seed = 7
[time]
mode = "{mode}"
[network]
kind = "three-tier"
servers_per_rack = 10
racks_per_edge = {}
edges = {edges}
gpus = 8
gbps = [10, 20, 40]
[placement]
policy = "{placement}"
[defaults]
compute_scale = 0.25
[arrivals]
kind = "synthetic"
length_s = 60
initial_jobs = {jobs}
initial_spread_s = 10
max_jobs = {jobs}
iterations = {iterations}
mix = [
  {{model = "vgg19", arch = "ring", workers = 3}},
  {{model = "vgg16", arch = "ps", workers = 2, servers = 2}},
  {{model = "resnet50", arch = "ps", workers = 2, servers = 2}},
  {{model = "gpt2", arch = "ring", workers = 3}},
]
"#,
        racks.div_ceil(edges)
    );
    let begin = Instant::now();
    let scenario = Scenario::parse(&text, Notation::Toml, "speed", Path::new("."))?;
    let load = begin.elapsed();
    let begin = Instant::now();
    let outcome = run(&scenario, &mut Equal, &Watch::default())?;
    let wall = begin.elapsed();
    let policy: Policy = "fair".parse().map_err(anyhow::Error::msg)?;
    let result = SimResult::of(&scenario, &policy, &outcome, wall);
    let (f, m) = (&result.result.figures, &result.machine);
    println!(
        "{} hosts, {placement}, {mode}: load {:.3} s, run {:.3} s, mean JCT {:.3} s, {} jobs at once, {} flows at once",
        scenario.network.hosts.len(),
        load.as_secs_f64(),
        m.wall_s,
        f.jct_mean_s,
        f.concurrency.jobs_max,
        f.concurrency.flows_max
    );
    println!(
        "{} events ({:.0}/s), {} ends of flows ({:.0}/s), {} sharings ({:.2} µs of run each), {} MiB at most",
        f.events,
        m.events_per_s,
        f.flow_ends,
        m.flow_ends_per_s,
        outcome.shares,
        m.wall_s * 1e6 / outcome.shares.max(1) as f64,
        m.peak_memory_bytes.unwrap_or(0) >> 20
    );
    Ok(())
}
