//! The figures of one simulated run as plain data: every metric of `simulation.md` section 8, in the order of the JSON.

use serde::Serialize;

use crate::job::JobFigures;
use crate::stats::{mean, percentile};

/// A distribution in six numbers; percentiles are nearest ranks. All 0 where there is nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
}

impl Spread {
    /// Of these values, in any order.
    pub fn of(mut values: Vec<f64>) -> Spread {
        // Summed in the order given, which is that of the file, before sorting.
        let mean = mean(&values);
        values.sort_by(f64::total_cmp);
        let at = |q| percentile(&values, q);
        Spread { mean, p50: at(0.5), p95: at(0.95), p99: at(0.99), min: at(0.0), max: at(1.0) }
    }
}

/// What one simulated job took.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SimJob {
    /// Its times as a user sees them.
    #[serde(flatten)]
    pub figures: JobFigures,
    /// Run time alone on its hosts under equal sharing.
    pub isolated_run_s: f64,
    /// Run time over that.
    pub slowdown: f64,
    /// Samples per second, where the batch is a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed: Option<f64>,
    /// Flow-seconds in which a flow was at the bound its predecessor set.
    pub dependency_stall_s: f64,
    /// Network flows in a round.
    pub flows: usize,
    /// Names of its hosts, workers by rank, then servers.
    pub hosts: Vec<String>,
}

/// Means over time and largest values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Concurrency {
    /// Running jobs, mean over the makespan.
    pub jobs_mean: f64,
    /// Most jobs that ran at once.
    pub jobs_max: u64,
    /// Active flows of jobs, mean over the makespan.
    pub flows_mean: f64,
    /// Most flows that were active at once.
    pub flows_max: u64,
}

/// How evenly jobs were slowed down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Fairness {
    /// Jain's index of 1/slowdown: 1 is even.
    pub jain: f64,
    /// Largest over smallest slowdown.
    pub max_over_min: f64,
}

/// Everything about one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Ids of jobs without an end at `end_s`; they are in no mean.
    pub unfinished: Vec<String>,
    /// Mean completion time of the jobs that ended.
    pub jct_mean_s: f64,
    /// Median of them (nearest rank).
    pub jct_p50_s: f64,
    /// 99th percentile of them (nearest rank).
    pub jct_p99_s: f64,
    /// The longest of them.
    pub jct_max_s: f64,
    /// Mean JCT with the jobs' weights.
    pub jct_weighted_mean_s: f64,
    /// Last end minus first arrival.
    pub makespan_s: f64,
    /// Completion times of the jobs that ended, seconds.
    pub jct: Spread,
    /// The same of jobs with at least one network flow.
    pub jct_networked: Spread,
    /// End minus start, seconds.
    pub run_time: Spread,
    /// Start minus arrival, seconds.
    pub wait: Spread,
    /// Run time over isolated run time.
    pub slowdown: Spread,
    /// Rounds of all jobs.
    pub round_s: Spread,
    /// Iterations of all jobs.
    pub iteration_s: Spread,
    /// How even the slowdowns were.
    pub fairness: Fairness,
    /// Running jobs and active flows.
    pub concurrency: Concurrency,
    /// Flow-seconds at a bound, all jobs.
    pub dependency_stall_s: f64,
    /// Mean over links with any job's flow: part of that time in which two or more jobs had flows there.
    pub overlap: f64,
    /// Bytes of cross traffic delivered, counted once per link.
    pub cross_link_bytes: f64,
    /// Utilisation by tier of links.
    pub tiers: Vec<Tier>,
    /// Events of the simulation.
    pub events: u64,
    /// How often a flow of a job ended its round.
    pub flow_ends: u64,
    /// Virtual time at the end.
    pub end_s: f64,
    /// Every job that ended, in file order.
    pub jobs: Vec<SimJob>,
    /// Every link that carried anything.
    pub links: Vec<LinkFigures>,
}

/// What one directed link carried.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LinkFigures {
    /// Its ends, `h0->s0`; parallel cables have one name.
    pub link: String,
    /// Bytes delivered over it.
    pub bytes: f64,
    /// Bytes over capacity × makespan.
    pub utilisation: f64,
    /// Part of the makespan in which any flow was active on it.
    pub busy: f64,
    /// Part of the time with any job's flow in which two or more jobs had some.
    pub overlap: f64,
}

/// Links between the same kinds of nodes in one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Tier {
    /// `host-up`, `host-down`, or the letters of the switches' names: `t-e`.
    pub tier: String,
    /// Number of links in the tier.
    pub links: usize,
    /// Mean of their utilisation, 0 to 1.
    pub mean: f64,
    /// Largest of their utilisation.
    pub max: f64,
}
