//! What a daemon costs while its host sends many flows.

use std::time::Duration;

use serde::Serialize;
use sluice_schedule::{Nanos, Rate};

use super::fail_open::plan;
use super::live::Live;
use super::{Bench, mbps};
use crate::run::{Policy, RunError};

/// Options of `sluice-experiment cost`.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Link rate in Mbit/s.
    #[arg(long = "mbps", value_name = "MBPS", default_value = "500", value_parser = mbps)]
    pub rate: Rate,
    /// Flows its host sends.
    #[arg(long, default_value_t = 64)]
    pub flows: usize,
    /// How long it is watched.
    #[arg(long, default_value_t = 20)]
    pub seconds: u64,
}

/// Cost of the daemon of the host that sends.
#[derive(Clone, Debug, Serialize)]
pub struct Cost {
    /// Flows it manages as sender.
    pub flows: usize,
    /// Part of one core.
    pub cpu: f64,
    /// Resident memory, MiB.
    pub rss_mib: f64,
    /// The same of the switch process.
    pub switch_cpu: f64,
    /// Of all flows, how many were managed at the end.
    pub managed: usize,
}

/// Runs flows from one host for some time.
///
/// # Errors
/// As a run.
pub fn cost(bench: &Bench<'_>, settings: &Settings) -> Result<Cost, RunError> {
    let &Settings { rate, flows, seconds } = settings;
    let (mut plan, place) = plan(rate, flows);
    // Rounds of a training job's length: beginning and ending them is part of the cost.
    plan.jobs[0].bytes = plan.fabric.payload(rate).over(Nanos::from_millis(400));
    plan.jobs[0].compute = vec![Nanos::from_millis(200)];
    plan.jobs[0].iterations = 100_000;
    let policy = Policy::Sluice { policy: None, nic: false };
    let mut live = Live::start(bench, &plan, &place, &policy, 100)?;
    live.run_for(Duration::from_secs(3))?;
    let cpu = |live: &Live| {
        (live.fabric.cgroups.daemon(0).cpu_us() as f64 / 1e6, live.fabric.cgroups.switches().cpu_us() as f64 / 1e6)
    };
    let (before, started) = (cpu(&live), std::time::Instant::now());
    live.run_for(Duration::from_secs(seconds))?;
    let (after, wall) = (cpu(&live), started.elapsed().as_secs_f64());
    let senders = 0..place.workers.len();
    let last = |rank| live.samples.iter().rev().find(|sample| sample.rank == rank);
    let managed = senders.filter_map(last).map(|s| s.flows.iter().filter(|f| f.1).count()).sum();
    Ok(Cost {
        flows,
        cpu: (after.0 - before.0) / wall,
        rss_mib: rss(live.daemons.pid(0)) as f64 / 1024.0,
        switch_cpu: (after.1 - before.1) / wall,
        managed,
    })
}

/// Resident memory of a process, KiB; 0 when it is gone.
fn rss(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    line.and_then(|l| l.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
