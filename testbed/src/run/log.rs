//! What the members of a job reported during a run, and the arithmetic from those observations to times and rates.

use std::collections::BTreeMap;

use sluice_report::RatePoint;
use sluice_report::stats::mean;

use crate::job::report::FlowReport;

/// What the members of one job reported, as it comes in.
#[derive(Clone, Debug, Default)]
pub struct JobLog {
    pub connected: usize,
    pub done: usize,
    /// Per iteration: first compute begin, first round begin and last round end of workers, ns; and how many members.
    pub iterations: Vec<IterationLog>,
    pub samples: Vec<AckSample>,
    pub flows: Vec<FlowReport>,
    /// By iteration, lane and place in the lane: when a flow of a plan began and ended, CLOCK_MONOTONIC ns.
    pub passages: BTreeMap<(u64, usize, usize), Passage>,
}

/// When a flow of a plan began and ended, as far as its ends have said, CLOCK_MONOTONIC ns.
#[derive(Clone, Copy, Debug, Default)]
pub struct Passage {
    pub began: Option<u64>,
    pub ended: Option<u64>,
}

/// What one member had acknowledged by some time.
#[derive(Clone, Copy, Debug)]
pub struct AckSample {
    /// CLOCK_MONOTONIC, ns.
    pub t_ns: u64,
    pub rank: usize,
    /// Payload bytes since the job began.
    pub acked: u64,
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
            let mut mine = self.samples.iter().filter(|sample| sample.rank == member);
            let Some(mut before) = mine.next() else { continue };
            for sample in mine {
                let acked = sample.acked.saturating_sub(before.acked) as f64;
                spread(&mut bytes, begin, step_ns, (before.t_ns, sample.t_ns), acked);
                before = sample;
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
