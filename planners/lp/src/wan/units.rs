//! Units in which what a solver is to find lies near 1: the rates of a plan that is known, and the times that it takes.
//!
//! Solvers of conic programs work with absolute tolerances. In MB/s and s their answers are worth little once sizes
//! or capacities are more than two orders of magnitude apart; in units of the data-aware plan, whose rates are within
//! small factors of the best, they are exact.

use sluice_planners_wan::{Instance, Segment, weights};

/// Rates and times of a known plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Units {
    /// By segment, in MB/s.
    pub rates: Vec<f64>,
    /// By collective, in s.
    pub times: Vec<f64>,
    /// What the times add up to, in s.
    pub whole: f64,
}

impl Units {
    /// Those of a plan with constant rates by flow, which are one for each segment.
    pub fn of(instance: &Instance, segments: &[Segment], rates: &[f64]) -> Units {
        let of_segment =
            |segment: &Segment| segment.flows.iter().map(|flow| rates[*flow]).fold(f64::INFINITY, f64::min);
        let mut times = vec![0.0_f64; instance.collectives()];
        for (group, time) in instance.groups().iter().zip(weights::group_times(instance, rates)) {
            times[group.collective] = times[group.collective].max(time);
        }
        Units { rates: segments.iter().map(of_segment).collect(), whole: times.iter().sum(), times }
    }

    /// A segment's part of the time of its collective where its rate is the known one.
    pub fn part(&self, index: usize, segment: &Segment, collective: usize) -> f64 {
        segment.size / self.rates[index] / self.times[collective]
    }

    /// What a collective's time costs: its part of the sum.
    pub fn cost(&self, collective: usize) -> f64 {
        self.times[collective] / self.whole
    }

    /// An objective in these units as a mean time, in s.
    pub fn mean(&self, objective: f64) -> f64 {
        objective * self.whole / self.times.len() as f64
    }
}

/// Is every number finite and more than 0?
pub fn all_positive(numbers: &[f64]) -> bool {
    numbers.iter().all(|number| number.is_finite() && *number > 0.0)
}
