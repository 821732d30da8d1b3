//! What one run of one policy gave, as plain data, and the figures that follow from its jobs.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::job::JobFigures;
use crate::stats::{mean, percentile};

/// One job's outcome.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct JobResult {
    /// Its times.
    #[serde(flatten)]
    pub figures: JobFigures,
    /// Begin and end of every round, seconds from the start of the run.
    #[serde(skip)]
    pub rounds: Vec<(f64, f64)>,
    /// Indices of the hosts its members ran on.
    pub hosts: Vec<usize>,
    /// Payload bytes that were acknowledged.
    pub acked: u64,
    /// Segments retransmitted.
    pub retransmits: u64,
    /// Congestion control of its flows when it ended, with their number.
    pub tcp: BTreeMap<String, usize>,
}

/// One directed link.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LinkResult {
    /// Its name, `h0->s0`.
    pub link: String,
    /// Payload bytes over (payload rate × makespan).
    pub utilisation: f64,
    /// Packets its queue dropped.
    pub drops: u64,
}

/// CPU seconds per group of processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CpuSeconds {
    /// All jobs.
    pub jobs: f64,
    /// All daemons.
    pub daemons: f64,
    /// The switches.
    pub switches: f64,
}

/// How late the machine's timers were over a run, µs: a busy machine makes every other number doubtful.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lateness {
    /// Median.
    pub p50_us: u64,
    /// 99th percentile.
    pub p99_us: u64,
    /// Largest.
    pub max_us: u64,
}

/// A point of a job's rate over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct RatePoint {
    /// End of the interval, seconds from the start of the run.
    pub t_s: f64,
    /// Payload rate over the interval, bit/s.
    pub rate: f64,
}

/// One run of one policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PolicyRun {
    /// The policy as asked for.
    pub policy: String,
    /// Which repeat, from 0.
    pub repeat: usize,
    /// Mean JCT.
    pub jct_mean_s: f64,
    /// Median.
    pub jct_p50_s: f64,
    /// 99th percentile (nearest rank).
    pub jct_p99_s: f64,
    /// Largest.
    pub jct_max_s: f64,
    /// Last end minus first arrival.
    pub makespan_s: f64,
    /// Every job, in the plan's order.
    pub jobs: Vec<JobResult>,
    /// Every directed link.
    pub links: Vec<LinkResult>,
    /// Mean over hosts: part of the time in which some job's round ran there that two or more jobs' did.
    pub overlap: f64,
    /// Segments that all jobs retransmitted.
    pub retransmits: u64,
    /// CPU time.
    pub cpu: CpuSeconds,
    /// How late the machine's timers were.
    pub lateness: Lateness,
    /// Payload bytes of cross traffic.
    pub cross_bytes: u64,
    /// Per job, its sending rate over time.
    #[serde(skip)]
    pub rates: Vec<Vec<RatePoint>>,
    /// Per directed link, its rate over time.
    #[serde(skip)]
    pub link_rates: Vec<Vec<RatePoint>>,
    /// Doubts and notes, for the report.
    pub notes: Vec<String>,
}

impl PolicyRun {
    /// Fills the figures that follow from `jobs`.
    pub fn summarise(&mut self, hosts: usize) {
        let mut jct: Vec<f64> = self.jobs.iter().map(|j| j.figures.jct_s).collect();
        jct.sort_by(f64::total_cmp);
        self.jct_mean_s = mean(&jct);
        self.jct_p50_s = percentile(&jct, 0.50);
        self.jct_p99_s = percentile(&jct, 0.99);
        self.jct_max_s = percentile(&jct, 1.0);
        let first = self.jobs.iter().map(|j| j.figures.arrival_s).fold(f64::INFINITY, f64::min);
        let last = self.jobs.iter().map(|j| j.figures.end_s).fold(0.0, f64::max);
        self.makespan_s = if first.is_finite() { last - first } else { 0.0 };
        self.retransmits = self.jobs.iter().map(|j| j.retransmits).sum();
        self.overlap = overlap(&self.jobs, hosts);
    }
}

/// Mean over hosts with any round: shared time over busy time.
fn overlap(jobs: &[JobResult], hosts: usize) -> f64 {
    let shares: Vec<f64> = (0..hosts)
        .filter_map(|host| {
            let mut edges: Vec<(f64, i32)> = jobs
                .iter()
                .filter(|j| j.hosts.contains(&host))
                .flat_map(|j| j.rounds.iter().flat_map(|&(from, to)| [(from, 1), (to, -1)]))
                .collect();
            edges.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let (mut busy, mut shared, mut depth, mut last) = (0.0, 0.0, 0, 0.0);
            for (t, step) in edges {
                busy += if depth > 0 { t - last } else { 0.0 };
                shared += if depth > 1 { t - last } else { 0.0 };
                (depth, last) = (depth + step, t);
            }
            (busy > 0.0).then(|| shared / busy)
        })
        .collect();
    mean(&shares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlap_is_shared_over_busy() {
        let job = |rounds| JobResult { hosts: vec![0], rounds, ..JobResult::default() };
        let jobs = [job(vec![(0.0, 2.0)]), job(vec![(1.0, 3.0), (5.0, 6.0)])];
        assert!((overlap(&jobs, 2) - 0.25).abs() < 1e-9);
    }
}
