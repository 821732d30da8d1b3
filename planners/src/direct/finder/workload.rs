//! How long a collective takes on a candidate.

use sluice_formats::quantity::Rational;

/// An all-reduce of some size on machines of some speed. Seconds, bytes, bytes per second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Latency of a step.
    pub alpha: Rational,
    /// Size of the vector.
    pub size: Rational,
    /// Of a machine: all its ports together.
    pub bandwidth: Rational,
}

impl Workload {
    /// Seconds of an all-reduce: a reduce-scatter of `reduce`, an all-gather of `gather` (both τ), `steps` each.
    /// `None` for a bandwidth of nothing.
    pub fn all_reduce(&self, steps: u32, reduce: &Rational, gather: &Rational) -> Option<Rational> {
        let per_time = self.size.checked_div(&self.bandwidth)?;
        let latency = &self.alpha * &Rational::from(2 * u64::from(steps));
        Some(&latency + &(&(reduce + gather) * &per_time))
    }
}
