//! What a daemon counts of its decisions and of being late at a slot's edge, between two looks.

use std::time::Duration;

use sluice_wire::snapshot::{Histogram, Snapshot};

use crate::chaos::ground::Stage;
use crate::run::RunError;

/// A daemon of thousands of flows on a busy machine may take longer for an answer than one is waited for.
const ASKED: usize = 5;

/// What was observed between two looks.
pub fn between(before: &Histogram, after: &Histogram) -> Histogram {
    let counts = after.counts.iter().zip(&before.counts).map(|(after, before)| after.saturating_sub(*before)).collect();
    Histogram { bounds: after.bounds.clone(), counts, sum: after.sum - before.sum }
}

/// Where so large a part of the observations ends, ms, evenly spread inside a bucket. NaN, which is within no bar, where
/// nothing was observed.
pub fn within(histogram: &Histogram, part: f64) -> f64 {
    if histogram.count() == 0 {
        return f64::NAN;
    }
    let wanted = histogram.count() as f64 * part;
    let (mut seen, mut low) = (0.0, 0.0);
    for (count, high) in histogram.counts.iter().zip(histogram.bounds.iter().chain(histogram.bounds.last())) {
        let count = *count as f64;
        if seen + count >= wanted && count > 0.0 {
            return (low + (high - low) * (wanted - seen) / count) * 1e3;
        }
        (seen, low) = (seen + count, *high);
    }
    low * 1e3
}

/// What a daemon observed of its decisions and of being late at a slot's edge, over some time.
#[derive(Clone, Debug)]
pub struct Deciding {
    decisions: Histogram,
    lateness: Histogram,
    /// Decisions at a slot's edge: how many others there are depends on what others say.
    at_edges: u64,
    seconds: f64,
}

impl Deciding {
    /// Between two snapshots of one daemon.
    pub fn between(before: &Snapshot, after: &Snapshot) -> Deciding {
        let (was, is) = (&before.counters, &after.counters);
        Deciding {
            decisions: between(&was.decision_s, &is.decision_s),
            lateness: between(&was.lateness_s, &is.lateness_s),
            at_edges: is.decisions_slot.saturating_sub(was.decisions_slot),
            seconds: after.taken_unix_ns.saturating_sub(before.taken_unix_ns) as f64 / 1e9,
        }
    }

    /// Decisions at a slot's edge in a second, by the daemon's own clock; NaN: in no time.
    pub fn each_second(&self) -> f64 {
        self.at_edges as f64 / self.seconds
    }

    /// p99 of both, ms.
    pub fn p99(&self) -> [f64; 2] {
        [&self.decisions, &self.lateness].map(|histogram| within(histogram, 0.99))
    }

    /// With what was observed at another time.
    pub fn with(self, other: &Deciding) -> Deciding {
        Deciding {
            decisions: together(&self.decisions, &other.decisions),
            lateness: together(&self.lateness, &other.lateness),
            at_edges: self.at_edges + other.at_edges,
            seconds: self.seconds + other.seconds,
        }
    }
}

/// What was observed at two times, as one.
fn together(one: &Histogram, other: &Histogram) -> Histogram {
    let counts = one.counts.iter().zip(&other.counts).map(|(one, other)| one + other).collect();
    Histogram { bounds: one.bounds.clone(), counts, sum: one.sum + other.sum }
}

/// What host 0's daemon observes while the job runs for so long.
///
/// # Errors
/// The daemon does not answer, or the job failed.
pub fn deciding(stage: &mut Stage, time: Duration) -> Result<Deciding, RunError> {
    let before = shown(stage)?;
    stage.live.run_for(time)?;
    Ok(Deciding::between(&before, &shown(stage)?))
}

/// What host 0's daemon says of itself.
///
/// # Errors
/// It does not answer.
pub fn shown(stage: &Stage) -> Result<Snapshot, RunError> {
    (0..ASKED).find_map(|_| stage.snapshot(0)).ok_or_else(|| RunError::Plan("the daemon of h0 does not answer".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_lies_inside_its_bucket() {
        let histogram = Histogram { bounds: vec![0.001, 0.002], counts: vec![50, 50, 0], sum: 0.0 };
        assert!((within(&histogram, 0.5) - 1.0).abs() < 1e-9, "{}", within(&histogram, 0.5));
        assert!((within(&histogram, 0.75) - 1.5).abs() < 1e-9);
        let later = Histogram { bounds: vec![0.001, 0.002], counts: vec![50, 60, 0], sum: 0.0 };
        assert_eq!(between(&histogram, &later).counts, [0, 10, 0]);
        assert!(within(&Histogram::default(), 0.99).is_nan(), "nothing was observed, quickly or not");
    }

    #[test]
    fn no_decision_is_no_quick_one() {
        let (before, mut after) = (Snapshot::default(), Snapshot::default());
        assert!(Deciding::between(&before, &after).each_second().is_nan());
        after.taken_unix_ns = 2_000_000_000;
        let none = Deciding::between(&before, &after);
        assert!(none.each_second() < 1e-9 && none.p99().iter().all(|p99| p99.is_nan()));
        after.counters.decisions_slot = 30;
        after.counters.decision_s.observe(0.001);
        let some = Deciding::between(&before, &after);
        assert!((some.each_second() - 15.0).abs() < 1e-9 && some.p99()[0] > 0.0);
        assert!((some.with(&none).each_second() - 7.5).abs() < 1e-9);
    }
}
