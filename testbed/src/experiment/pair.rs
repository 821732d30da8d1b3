//! Two jobs on one link whose computation takes as long as their communication: do their rounds interleave?

use serde::Serialize;
use sluice_schedule::{Nanos, Rate};

use super::capacity::queue;
use super::{Bench, mbps, millis};
use crate::fabric::FabricSpec;
use crate::run::{FixedQueue, JobPlan, Placement, Policy, RunError, RunPlan};

/// Options of `sluice-experiment pair`.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Link rate in Mbit/s.
    #[arg(long = "mbps", value_name = "MBPS", default_value = "500", value_parser = mbps)]
    pub rate: Rate,
    /// Time of a round alone, and of computing, ms.
    #[arg(long = "round-ms", value_name = "ROUND_MS", default_value = "400", value_parser = millis)]
    pub round: Nanos,
    /// Iterations of each job.
    #[arg(long, default_value_t = 24)]
    pub iterations: u64,
    /// Policies, each of which runs one job and then both.
    #[arg(long = "policy", value_name = "POLICY", value_delimiter = ',', default_value = "fair:cubic,sluice")]
    pub policies: Vec<Policy>,
}

/// One policy's outcome. Times in seconds.
#[derive(Clone, Debug, Serialize)]
pub struct PairResult {
    /// Under which it ran, as the command line names it.
    pub policy: String,
    /// Mean iteration time of the one job that has the link for itself.
    pub alone_s: f64,
    /// Mean iteration time over both jobs that share it.
    pub together_s: f64,
    /// `together_s / alone_s`: 1 is perfect interleaving, 1.5 is equal sharing of rounds that never part.
    pub ratio: f64,
    /// Mean over both ends of the time in which both jobs' rounds ran, as a part of the time in which one did.
    pub overlap: f64,
}

/// Rings of two ranks over a link; a round alone takes about as long as asked for, and so does computing.
///
/// # Errors
/// As a run.
pub fn pair(bench: &Bench<'_>, settings: &Settings) -> Result<Vec<PairResult>, RunError> {
    let Settings { rate, round, iterations, policies } = settings.clone();
    let fabric = FabricSpec::star(2, rate, queue(rate));
    let bytes = fabric.payload(rate).over(round);
    let job = |id: &str| JobPlan { compute: vec![round], ..JobPlan::ring(id, 2, bytes, iterations) };
    let place = Placement { workers: vec![0, 1], servers: Vec::new() };
    let mut results = Vec::new();
    for policy in &policies {
        let run = |ids: &[&str], name: &str| {
            let jobs = ids.iter().map(|id| job(id)).collect();
            // Rounds need some iterations to part; the first quarter is left out.
            let plan = RunPlan { fabric: fabric.clone(), jobs, warmup: iterations / 4, ..RunPlan::default() };
            let name = format!("{name}-{}", policy.file_part());
            bench.run(&plan, &mut FixedQueue::new(vec![place.clone(); ids.len()]), policy, &name)
        };
        let alone_s = run(&["a"], "alone")?.jobs[0].figures.iteration_s;
        let both = run(&["a", "b"], "pair")?;
        let together_s = both.jobs.iter().map(|j| j.figures.iteration_s).sum::<f64>() / 2.0;
        let (policy, overlap) = (policy.to_string(), both.overlap);
        results.push(PairResult { policy, alone_s, together_s, ratio: together_s / alone_s, overlap });
    }
    Ok(results)
}
