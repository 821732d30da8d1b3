//! What flows do when their daemon is killed, stopped or cut off, and when it comes back.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde::Serialize;
use sluice_schedule::{Nanos, Rate};

use super::capacity::queue;
use super::live::Live;
use super::{Bench, mbps};
use crate::fabric::FabricSpec;
use crate::job::{self, Arch};
use crate::run::{JobPlan, Placement, Policy, RunError, RunPlan};

/// Options of `sluice-experiment fail-open`.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Link rate in Mbit/s.
    #[arg(long = "mbps", value_name = "MBPS", default_value = "500", value_parser = mbps)]
    pub rate: Rate,
    /// Flows its host sends.
    #[arg(long, default_value_t = 8)]
    pub flows: usize,
    /// How often each fault.
    #[arg(long, default_value_t = 1)]
    pub repeats: usize,
}

/// What was done to the daemon of the job's first worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// `kill -9`, then started again.
    Kill,
    /// SIGSTOP, then SIGCONT.
    Stop,
    /// Its management link down, then up.
    Partition,
}

/// What happened. Times in ms after the fault.
#[derive(Clone, Debug, Serialize)]
pub struct FailOpen {
    /// What was done to the daemon.
    pub fault: Fault,
    /// Flows of the host.
    pub flows: usize,
    /// Until every flow was back on ordinary congestion control; none: they stay managed, as in a partition.
    pub released_ms: Option<f64>,
    /// The longest time in which some flow had nothing acknowledged, from the fault until the daemon was back.
    pub silence_ms: f64,
    /// What the host sent meanwhile.
    pub rates: Rates,
    /// From the return until every flow was managed again, ms; none for a partition.
    pub readopted_ms: Option<f64>,
}

/// Payload rates of a host, Mbit/s, each over a second.
#[derive(Clone, Debug, Serialize)]
pub struct Rates {
    /// Just before the fault.
    pub before: f64,
    /// Just after it.
    pub after: f64,
    /// Some time after the daemon was back.
    pub back: f64,
}

/// Connections that one process of a job opens.
const FLOWS_EACH: usize = 1024;

/// A parameter-server job without compute: one worker on host 0, `flows` servers on the others.
pub fn plan(rate: Rate, flows: usize) -> (RunPlan, Placement) {
    let fabric = FabricSpec::star(3, rate, queue(rate));
    // A round of some seconds, so that data is always there to send.
    let bytes = fabric.payload(rate).over(Nanos::from_millis(30_000));
    // More connections than a process can have open are several processes'.
    let workers = flows.div_ceil(FLOWS_EACH).max(1);
    let servers = flows.div_ceil(workers);
    let job = JobPlan { arch: Arch::Ps, servers, ..JobPlan::ring("steady", workers, bytes, 100) };
    let place = Placement { workers: vec![0; workers], servers: (0..servers).map(|i| 1 + i % 2).collect() };
    (RunPlan { name: "fail-open".into(), fabric, jobs: vec![job], ..RunPlan::default() }, place)
}

/// Every fault under load, as often as asked for.
///
/// # Errors
/// As a run; or flows that are not captured, not released or not captured again within seconds.
pub fn fail_open(bench: &Bench<'_>, settings: &Settings) -> Result<Vec<FailOpen>, RunError> {
    let faults = [Fault::Kill, Fault::Stop, Fault::Partition];
    let turns = faults.into_iter().flat_map(|fault| std::iter::repeat_n(fault, settings.repeats));
    turns.map(|fault| one(bench, settings.rate, settings.flows, fault)).collect()
}

/// One fault under load.
fn one(bench: &Bench<'_>, rate: Rate, flows: usize, fault: Fault) -> Result<FailOpen, RunError> {
    let (plan, place) = plan(rate, flows);
    let policy = Policy::Sluice { policy: None, nic: false };
    let mut live = Live::start(bench, &plan, &place, &policy, 4)?;
    live.until(0, true, Duration::from_secs(10))?;
    live.run_for(Duration::from_secs(2))?;
    let second = 1_000_000_000;
    let at = job::now();
    match fault {
        Fault::Kill => live.daemons.kill(0),
        Fault::Stop => live.daemons.signal(0, Signal::SIGSTOP),
        Fault::Partition => live.fabric.set_link("h0", "mgmt0", false)?,
    }
    let ms = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1e6;
    let released_ms = match fault {
        Fault::Partition => None,
        _ => Some(ms(at, live.until(0, false, Duration::from_secs(10))?)),
    };
    live.run_for(Duration::from_millis(1_500))?;
    let back = job::now();
    match fault {
        Fault::Kill => live.daemons.restart(&live.fabric, 0)?,
        Fault::Stop => live.daemons.signal(0, Signal::SIGCONT),
        Fault::Partition => live.fabric.set_link("h0", "mgmt0", true)?,
    }
    let readopted_ms = match fault {
        Fault::Partition => None,
        _ => Some(ms(back, live.until(0, true, Duration::from_secs(10))?)),
    };
    live.run_for(Duration::from_millis(1_500))?;
    let end = job::now();
    Ok(FailOpen {
        fault,
        flows,
        released_ms,
        silence_ms: live.longest_silence(0, at, back),
        rates: Rates {
            before: live.rate(0, at - second, at),
            after: live.rate(0, at, at + second),
            back: live.rate(0, end - second, end),
        },
        readopted_ms,
    })
}
