//! What one run of one policy gave, and the arithmetic from raw observations to figures.

use std::collections::BTreeMap;

use serde::Serialize;

use super::measure::Lateness;
use crate::job::report::FlowReport;

/// One job's outcome. Times in seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct JobResult {
    /// Its id.
    pub id: String,
    /// Its model; may be empty.
    pub model: String,
    /// When it arrived, from the start of the run.
    pub arrival_s: f64,
    /// When its first compute phase began.
    pub start_s: f64,
    /// When its last round ended.
    pub end_s: f64,
    /// End minus arrival.
    pub jct_s: f64,
    /// End minus start.
    pub run_time_s: f64,
    /// Start minus arrival.
    pub wait_s: f64,
    /// Mean time from a round's begin to its end, without warm-up.
    pub round_s: f64,
    /// The time of all iterations by their number, without warm-up.
    pub iteration_s: f64,
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
        let mut jct: Vec<f64> = self.jobs.iter().map(|j| j.jct_s).collect();
        jct.sort_by(f64::total_cmp);
        self.jct_mean_s = mean(&jct);
        self.jct_p50_s = percentile(&jct, 0.50);
        self.jct_p99_s = percentile(&jct, 0.99);
        self.jct_max_s = percentile(&jct, 1.0);
        let first = self.jobs.iter().map(|j| j.arrival_s).fold(f64::INFINITY, f64::min);
        let last = self.jobs.iter().map(|j| j.end_s).fold(0.0, f64::max);
        self.makespan_s = if first.is_finite() { last - first } else { 0.0 };
        self.retransmits = self.jobs.iter().map(|j| j.retransmits).sum();
        self.overlap = overlap(&self.jobs, hosts);
    }
}

/// Arithmetic mean; 0 of nothing.
pub fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// Nearest rank ⌈q·n⌉ of a sorted list; 0 of nothing.
pub fn percentile(sorted: &[f64], q: f64) -> f64 {
    let rank = (q * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(0.0)
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

/// What the members of one job reported, as it comes in.
#[derive(Clone, Debug, Default)]
pub struct JobLog {
    /// Members that connected.
    pub connected: usize,
    /// Members that are done.
    pub done: usize,
    /// Per iteration: first compute begin, first round begin and last round end of workers, ns; and how many members.
    pub iterations: Vec<IterationLog>,
    /// Per member: (t, acked) samples.
    pub samples: Vec<(u64, usize, u64)>,
    /// Flows at the end.
    pub flows: Vec<FlowReport>,
}

/// One iteration over all members.
#[derive(Clone, Copy, Debug)]
pub struct IterationLog {
    /// First compute begin, CLOCK_MONOTONIC ns.
    pub compute_start: u64,
    /// First round begin of a worker.
    pub round_start: u64,
    /// Last round end of any member.
    pub round_end: u64,
}

impl JobLog {
    /// A member finished iteration `i`.
    pub fn iteration(&mut self, worker: bool, i: u64, compute_start: u64, round_start: u64, round_end: u64) {
        let at = usize::try_from(i).unwrap_or(usize::MAX).min(10_000_000);
        let fresh = IterationLog { compute_start: u64::MAX, round_start: u64::MAX, round_end: 0 };
        if self.iterations.len() <= at {
            self.iterations.resize(at + 1, fresh);
        }
        let log = &mut self.iterations[at];
        if worker {
            log.compute_start = log.compute_start.min(compute_start);
            log.round_start = log.round_start.min(round_start);
        }
        log.round_end = log.round_end.max(round_end);
    }

    /// When the last round ended, CLOCK_MONOTONIC ns.
    pub fn end(&self) -> u64 {
        self.iterations.iter().map(|i| i.round_end).max().unwrap_or(0)
    }

    /// Mean round and iteration time in seconds, without the first `warmup` iterations.
    ///
    /// Workers drift apart, so that an iteration of one overlaps the next of another: an iteration's time is what the
    /// whole takes by their number, and the means of iterations add up to the job's time, as in the simulator.
    pub fn means(&self, warmup: u64) -> (f64, f64) {
        let skip = usize::try_from(warmup).unwrap_or(0).min(self.iterations.len().saturating_sub(1));
        let seconds = |ns: u64| ns as f64 / 1e9;
        let counted = &self.iterations[skip..];
        let rounds: Vec<f64> = counted.iter().map(|i| seconds(i.round_end.saturating_sub(i.round_start))).collect();
        let begin = counted.first().map_or(0, |i| i.compute_start);
        let end = counted.iter().map(|i| i.round_end).max().unwrap_or(0);
        (mean(&rounds), seconds(end.saturating_sub(begin)) / counted.len().max(1) as f64)
    }

    /// The job's sending rate in steps of `step_ns` from `begin`.
    pub fn rates(&self, begin: u64, step_ns: u64, members: usize) -> Vec<RatePoint> {
        let end = self.end().max(begin);
        let steps = usize::try_from((end - begin) / step_ns.max(1) + 1).unwrap_or(0).min(1_000_000);
        let mut bytes = vec![0.0; steps];
        for member in 0..members {
            let mine = self.samples.iter().filter(|(_, m, _)| *m == member);
            let mut before: Option<(u64, u64)> = None;
            for &(t, _, acked) in mine {
                if let Some((t0, acked0)) = before {
                    spread(&mut bytes, begin, step_ns, (t0, t), acked.saturating_sub(acked0) as f64);
                }
                before = Some((t, acked));
            }
        }
        let rate = |b: f64| b * 8.0 / (step_ns as f64 / 1e9);
        let at = |i: usize| (i as u64 + 1) as f64 * step_ns as f64 / 1e9;
        bytes.into_iter().enumerate().map(|(i, b)| RatePoint { t_s: at(i), rate: rate(b) }).collect()
    }
}

/// Adds `amount`, spread evenly over `from..to`, to the steps it covers.
fn spread(steps: &mut [f64], begin: u64, step: u64, (from, to): (u64, u64), amount: f64) {
    let (from, to) = (from.max(begin) - begin, to.max(begin) - begin);
    if to <= from {
        return;
    }
    let per_ns = amount / (to - from) as f64;
    for i in from / step..=to / step {
        let inside = (to.min((i + 1) * step)).saturating_sub(from.max(i * step));
        if let Some(slot) = steps.get_mut(usize::try_from(i).unwrap_or(usize::MAX)) {
            *slot += per_ns * inside as f64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let v = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(percentile(&v, 0.5), 2.0);
        assert_eq!(percentile(&v, 0.99), 4.0);
        assert_eq!(percentile(&[], 0.5), 0.0);
    }

    #[test]
    fn overlap_is_shared_over_busy() {
        let job = |rounds| JobResult { hosts: vec![0], rounds, ..JobResult::default() };
        let jobs = [job(vec![(0.0, 2.0)]), job(vec![(1.0, 3.0), (5.0, 6.0)])];
        assert!((overlap(&jobs, 2) - 0.25).abs() < 1e-9);
    }

    #[test]
    fn bytes_are_spread_over_the_steps_they_cover() {
        let mut steps = vec![0.0; 4];
        spread(&mut steps, 100, 10, (105, 125), 20.0);
        assert_eq!(steps, [5.0, 10.0, 5.0, 0.0]);
    }

    #[test]
    fn iterations_that_overlap_are_counted_once() {
        let mut log = JobLog::default();
        for i in 0..4 {
            let begin = i * 1_000_000_000;
            log.iteration(true, i, begin, begin + 400_000_000, begin + 1_200_000_000);
            log.iteration(true, i, begin + 200_000_000, begin + 600_000_000, begin + 1_400_000_000);
        }
        let (round_s, iteration_s) = log.means(1);
        assert!((round_s - 1.0).abs() < 1e-9);
        assert!((iteration_s - 3.4 / 3.0).abs() < 1e-9, "{iteration_s}");
        assert_eq!(JobLog::default().means(1), (0.0, 0.0));
    }
}
