//! Where a run's time goes (`sluice sim run --profile`): the machine's clock around sharing and around the scheduler.
//!
//! What is left is the engine's: the queue of events, jobs and rounds, and what is written down. Reading the clock twice
//! per part costs time itself, so nothing is measured unless it is asked for.

use std::time::{Duration, Instant};

use sluice_report::simulated::Parts;

/// Time of the machine in two parts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Computing rates: finding what hangs together, filling, planning what happens next.
    pub sharing: Duration,
    /// In the scheduler under test.
    pub scheduler: Duration,
}

impl Profile {
    /// The parts of a run that took so long.
    pub fn parts(self, wall: Duration) -> Parts {
        let events = wall.saturating_sub(self.sharing).saturating_sub(self.scheduler);
        Parts {
            sharing_s: self.sharing.as_secs_f64(),
            scheduler_s: self.scheduler.as_secs_f64(),
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

    /// A part of a step begins; `None` where nobody wants a profile.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_to_the_whole_and_nothing_is_measured_unasked() {
        let profile = Profile { sharing: Duration::from_millis(20), scheduler: Duration::from_millis(30) };
        let parts = profile.parts(Duration::from_millis(100));
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
