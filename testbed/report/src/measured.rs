//! What one run of one policy gave, as plain data that a file gives back as it was, but for what is only drawn.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::job::JobFigures;

/// What one job took, and what its flows did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobResult {
    /// Its times as a user sees them.
    #[serde(flatten)]
    pub figures: JobFigures,
    /// Begin and end of every round, seconds from the start of the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rounds: Vec<(f64, f64)>,
    /// Indices of the hosts its members ran on.
    pub hosts: Vec<usize>,
    /// Payload bytes that were acknowledged.
    pub acked: u64,
    /// Segments that its flows retransmitted.
    pub retransmits: u64,
    /// Congestion control of its flows when it ended, with their number.
    pub tcp: BTreeMap<String, usize>,
    /// When the flows of its plan went, of a job that has some, by iteration, lane and place in the lane.
    #[serde(skip)]
    pub flows: Vec<FlowTimes>,
}

/// When a flow of a plan's lane went, in seconds from the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowTimes {
    /// In which iteration, from 0.
    pub iteration: u64,
    /// Its lane, as the plan counts them.
    pub lane: usize,
    /// Its place in the lane.
    pub flow: usize,
    /// Its sender began; `None`: never said.
    pub began_s: Option<f64>,
    /// Its receiver had the last byte; `None`: never said.
    pub ended_s: Option<f64>,
}

/// One direction of a cable over the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkResult {
    /// Its two ends, `h0->s0`.
    pub link: String,
    /// Payload bytes over (payload rate × makespan).
    pub utilisation: f64,
    /// Packets its queue dropped.
    pub drops: u64,
}

/// CPU seconds per group of processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuSeconds {
    /// Of the processes of all jobs.
    pub jobs: f64,
    /// Of all hosts' `sluiced`.
    pub daemons: f64,
    /// Of `sluice-switch`, which stands for all switches.
    pub switches: f64,
}

/// How late the machine's timers were over a run, µs: a busy machine makes every other number doubtful.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lateness {
    /// Half of the timers were no later.
    pub p50_us: u64,
    /// 99 of 100 were no later.
    pub p99_us: u64,
    /// How late the latest was.
    pub max_us: u64,
}

/// A point of a job's rate over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RatePoint {
    /// End of the interval, seconds from the start of the run.
    pub t_s: f64,
    /// Payload rate over the interval, bit/s.
    pub rate: f64,
}

/// One run of one policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PolicyRun {
    /// The policy as asked for.
    pub policy: String,
    /// Which repeat, from 0.
    pub repeat: usize,
    /// Mean completion time of all jobs.
    pub jct_mean_s: f64,
    /// Median of them (nearest rank).
    pub jct_p50_s: f64,
    /// 99th percentile (nearest rank).
    pub jct_p99_s: f64,
    /// The longest of them.
    pub jct_max_s: f64,
    /// Last end minus first arrival.
    pub makespan_s: f64,
    /// Every job, in the plan's order.
    pub jobs: Vec<JobResult>,
    /// Both directions of every cable.
    pub links: Vec<LinkResult>,
    /// Mean over hosts: part of the time in which some job's round ran there that two or more jobs' did.
    pub overlap: f64,
    /// Segments that all jobs retransmitted.
    pub retransmits: u64,
    /// CPU time of all processes, by group.
    pub cpu: CpuSeconds,
    /// How late the machine's timers were.
    pub lateness: Lateness,
    /// Payload bytes that receivers of cross traffic got from the first job's arrival to the last job's end.
    pub cross_bytes: u64,
    /// How long that was, seconds.
    pub cross_interval_s: f64,
    /// Per job, its sending rate over time.
    #[serde(skip)]
    pub rates: Vec<Vec<RatePoint>>,
    /// Per directed link, its rate over time.
    #[serde(skip)]
    pub link_rates: Vec<Vec<RatePoint>>,
    /// Doubts and notes, for the report.
    pub notes: Vec<String>,
}
