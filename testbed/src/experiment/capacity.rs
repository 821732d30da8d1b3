//! How much one machine carries: all hosts of a star send at once, shaped, with real reduction and checks.

use serde::Serialize;
use sluice_schedule::{Bytes, Nanos, Rate};

use super::{Bench, mbps};
use crate::fabric::FabricSpec;
use crate::run::{FixedQueue, JobPlan, Placement, Policy, RunError, RunPlan};

/// Options of `sluice-experiment capacity`.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Hosts of the star.
    #[arg(long, default_value_t = 6)]
    pub hosts: usize,
    /// Link rates in Mbit/s.
    #[arg(long = "mbps", value_name = "MBPS", value_delimiter = ',', default_value = "200,500,1000,2000", value_parser = mbps)]
    pub rates: Vec<Rate>,
    /// Seconds per rate.
    #[arg(long, default_value_t = 5.0)]
    pub seconds: f64,
    /// Policy that shares the links.
    #[arg(long, default_value = "fair:cubic")]
    pub policy: Policy,
}

/// What was carried at one link rate.
#[derive(Clone, Debug, Serialize)]
pub struct CapacityPoint {
    /// Wire rate of every link, Mbit/s.
    pub link_mbps: f64,
    /// Sum over hosts of what they sent, payload Mbit/s.
    pub carried_mbps: f64,
    /// Least and mean utilisation of the host links' payload rate.
    pub utilisation: (f64, f64),
    /// Cores that the jobs used.
    pub job_cores: f64,
    /// Timers' lateness, p99 in µs.
    pub late_p99_us: u64,
}

/// A ring over all hosts without compute at each rate, for about as many seconds each.
///
/// # Errors
/// As a run.
pub fn capacity(bench: &Bench<'_>, settings: &Settings) -> Result<Vec<CapacityPoint>, RunError> {
    let mut points = Vec::new();
    let hosts = settings.hosts;
    for rate in &settings.rates {
        let fabric = FabricSpec::star(hosts, *rate, queue(*rate));
        let bytes = fabric.payload(*rate).over(Nanos::from_millis(200));
        let factor = 2.0 * (hosts as f64 - 1.0) / hosts as f64;
        let iterations = (settings.seconds / (0.2 * factor)).ceil().max(2.0) as u64;
        let job = JobPlan::ring("ring", hosts, bytes, iterations);
        let plan = RunPlan { name: "capacity".into(), fabric, jobs: vec![job], ..RunPlan::default() };
        let place = Placement { workers: (0..hosts).collect(), servers: Vec::new() };
        let run = bench.run(&plan, &mut FixedQueue::new(vec![place]), &settings.policy, "capacity")?;
        let up: Vec<f64> = run.links.iter().step_by(2).map(|l| l.utilisation).collect();
        points.push(CapacityPoint {
            link_mbps: rate.0 as f64 / 1e6,
            carried_mbps: run.jobs[0].acked as f64 * 8e-6 / run.jobs[0].figures.run_time_s,
            utilisation: (
                up.iter().copied().fold(f64::INFINITY, f64::min),
                up.iter().sum::<f64>() / up.len().max(1) as f64,
            ),
            job_cores: run.cpu.jobs / run.makespan_s,
            late_p99_us: run.lateness.p99_us,
        });
    }
    Ok(points)
}

/// A switch port's queue where nothing else is said: 5 ms at the link's rate, at least 100 full packets.
pub fn queue(rate: Rate) -> Bytes {
    Bytes(rate.over(Nanos::from_millis(5)).0.max(151_400))
}
