//! Where a run's time goes (`sluice sim run --profile`): the machine's clock around sharing and around the scheduler.
//!
//! What is left is the engine's: the queue of events, jobs and rounds, and what is written down. Reading the clock twice
//! per part costs time itself, so nothing is measured unless it is asked for.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::result::SimResult;

/// Time of the machine in two parts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Computing rates: finding what hangs together, filling, planning what happens next.
    pub sharing: Duration,
    /// In the scheduler under test.
    pub scheduler: Duration,
}

/// The parts of a run in seconds; together they are its wall time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Parts {
    /// See [`Profile::sharing`].
    pub sharing_s: f64,
    /// See [`Profile::scheduler`].
    pub scheduler_s: f64,
    /// Everything else.
    pub events_s: f64,
}

impl Parts {
    /// Of a run that took so long.
    pub fn of(profile: Profile, wall: Duration) -> Parts {
        let events = wall.saturating_sub(profile.sharing).saturating_sub(profile.scheduler);
        Parts {
            sharing_s: profile.sharing.as_secs_f64(),
            scheduler_s: profile.scheduler.as_secs_f64(),
            events_s: events.as_secs_f64(),
        }
    }
}

/// Measures if it was asked to.
#[derive(Debug, Default)]
pub(super) struct Stopwatch {
    on: bool,
    pub(super) so_far: Profile,
}

impl Stopwatch {
    pub(super) fn new(on: bool) -> Stopwatch {
        Stopwatch { on, so_far: Profile::default() }
    }

    /// What was measured; nothing where nothing was.
    pub(super) fn profile(&self) -> Option<Profile> {
        self.on.then_some(self.so_far)
    }

    /// A part begins.
    pub(super) fn begin(&self) -> Option<Instant> {
        self.on.then(Instant::now)
    }

    /// Sharing that began then is over.
    pub(super) fn shared(&mut self, began: Option<Instant>) {
        self.so_far.sharing += began.map_or(Duration::ZERO, |b| b.elapsed());
    }

    /// The scheduler's turn that began then is over.
    pub(super) fn decided(&mut self, began: Option<Instant>) {
        self.so_far.scheduler += began.map_or(Duration::ZERO, |b| b.elapsed());
    }
}

/// The profiles of runs as a table, plain text: time by part, events and ends of flows per second, the 90th percentile
/// of what one decision of one host took, and the most memory that the process ever had, which runs share.
pub fn table(runs: &[SimResult]) -> String {
    let width = runs.iter().map(|r| r.result.policy.len()).max().unwrap_or(0).max("profile".len());
    let mut out = format!(
        "{:width$}  {:>10} {:>10} {:>10} {:>10} {:>11} {:>9} {:>11} {:>12} {:>10}\n",
        "profile",
        "wall",
        "sharing",
        "scheduler",
        "events",
        "events",
        "a second",
        "flow ends",
        "decision p90",
        "memory"
    );
    for run in runs {
        let (m, f) = (&run.machine, &run.result.figures);
        let parts = m.profile.unwrap_or_default();
        let decision = if m.decisions > 0 { format!("{:.1} µs", m.decision_us[2]) } else { "-".to_owned() };
        let memory = m.peak_memory_bytes.map_or("-".to_owned(), |bytes| format!("{} MiB", bytes >> 20));
        out += &format!(
            "{:width$}  {:>8.3} s {:>8.3} s {:>8.3} s {:>8.3} s {:>11} {:>9.0} {:>11} {decision:>12} {memory:>10}\n",
            run.result.policy,
            m.wall_s,
            parts.sharing_s,
            parts.scheduler_s,
            parts.events_s,
            f.events,
            m.events_per_s,
            f.flow_ends,
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_to_the_whole_and_nothing_is_measured_unasked() {
        let profile = Profile { sharing: Duration::from_millis(20), scheduler: Duration::from_millis(30) };
        let parts = Parts::of(profile, Duration::from_millis(100));
        assert!((parts.sharing_s + parts.scheduler_s + parts.events_s - 0.1).abs() < 1e-12, "{parts:?}");
        let mut off = Stopwatch::new(false);
        let began = off.begin();
        off.shared(began);
        assert_eq!((began, off.profile()), (None, None));
        let mut on = Stopwatch::new(true);
        let began = on.begin();
        on.decided(began.map(|b| b - Duration::from_millis(5)));
        assert!(on.profile().is_some_and(|p| p.scheduler >= Duration::from_millis(5) && p.sharing.is_zero()));
    }
}
