//! One unmanaged CUBIC flow that shares a host's link with jobs: what it gets beside managed flows, and beside CUBIC.

use serde::Serialize;
use sluice_scenario::{CrossFlow, NodeIx};
use sluice_schedule::{Bytes, Nanos, Rate};

use super::capacity::queue;
use super::{Bench, mbps};
use crate::fabric::FabricSpec;
use crate::run::{FixedQueue, JobPlan, Placement, Policy, RunError, RunPlan};

/// Runs beside one CUBIC flow.
const BASELINES: usize = 3;
/// Not counted at the start, seconds: what is compared is where both sides settle.
const SETTLING: f64 = 10.0;

/// Options of `sluice-experiment beside`.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Link rate in Mbit/s.
    #[arg(long = "mbps", value_name = "MBPS", default_value = "500", value_parser = mbps)]
    pub rate: Rate,
    /// How long the flow lasts; the first ten seconds are not counted.
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u64).range(12..))]
    pub seconds: u64,
    /// Policy of the jobs.
    #[arg(long, default_value = "sluice")]
    pub policy: Policy,
    /// Numbers of job flows beside it.
    #[arg(long, value_delimiter = ',', default_value = "1,4")]
    pub flows: Vec<usize>,
}

/// What was shared beside one number of job flows.
#[derive(Clone, Debug, Serialize)]
pub struct BesideResult {
    /// The policy of the jobs.
    pub policy: String,
    /// Job flows into the shared link.
    pub flows: usize,
    /// What the unmanaged flow got once settled, payload Mbit/s.
    pub unmanaged_mbps: f64,
    /// What the job flows got together on that link.
    pub jobs_mbps: f64,
    /// `unmanaged_mbps` over what it got beside one CUBIC flow.
    pub ratio: f64,
}

/// The flow goes from host 1 to host 0; jobs' rings between host 2 and host 0 send into the same link without a pause.
/// First beside one CUBIC flow, three times, since two CUBIC flows share unevenly from run to run; then beside each
/// number of flows under the policy. Ratios are to the mean of the three.
///
/// # Errors
/// As a run.
pub fn beside(bench: &Bench<'_>, settings: &Settings) -> Result<Vec<BesideResult>, RunError> {
    let &Settings { rate, seconds, ref policy, flows: ref numbers } = settings;
    let cubic = Policy::Fair(Some("cubic".into()));
    let mut results: Vec<BesideResult> = Vec::new();
    let cases = [(&cubic, 1); BASELINES].into_iter().chain(numbers.iter().map(|n| (policy, *n)));
    for (policy, flows) in cases {
        let fabric = FabricSpec::star(3, rate, queue(rate));
        let time = Nanos::from_millis(seconds * 1000);
        // Enough for the whole time even if the jobs had the link for themselves.
        let bytes = Bytes(fabric.payload(rate).over(Nanos::from_millis(500)).0 / flows as u64);
        let jobs = (0..flows).map(|i| JobPlan::ring(format!("j{i}"), 2, bytes, seconds * 2 + 2)).collect();
        let start = Nanos::from_millis(500);
        let cross = vec![CrossFlow { src: NodeIx(1), dst: NodeIx(0), start, end: start.plus(time), rate: None }];
        let plan = RunPlan { fabric, jobs, cross, ..RunPlan::default() };
        let places = vec![Placement { workers: vec![2, 0], servers: Vec::new() }; flows];
        let name = format!("beside-{flows}-{}", policy.file_part());
        let run = bench.run(&plan, &mut FixedQueue::new(places), policy, &name)?;
        let during = |points: &Vec<sluice_report::RatePoint>| {
            let settled = |p: &&sluice_report::RatePoint| p.t_s > SETTLING && p.t_s < 0.5 + seconds as f64;
            let inside: Vec<f64> = points.iter().filter(settled).map(|p| p.rate).collect();
            sluice_report::stats::mean(&inside) / 1e6
        };
        // Nothing else leaves host 1, and its acknowledgements go the other way.
        let sender = run.links.iter().position(|link| link.link == "h1->s0");
        let unmanaged_mbps = sender.and_then(|at| run.link_rates.get(at)).map_or(0.0, during);
        // Ring flows run both ways with the same bytes; half of them enter host 0.
        let jobs_mbps = run.rates.iter().map(|points| during(points) / 2.0).sum();
        results.push(BesideResult { policy: policy.to_string(), flows, unmanaged_mbps, jobs_mbps, ratio: 1.0 });
    }
    let base: Vec<f64> = results.iter().take(BASELINES).map(|r| r.unmanaged_mbps).collect();
    let base = sluice_report::stats::mean(&base);
    results.iter_mut().for_each(|r| r.ratio = r.unmanaged_mbps / base);
    Ok(results)
}
