//! Looking on while a simulation runs, from another thread if need be, and stopping it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sluice_schedule::Nanos;

/// One task that runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Running {
    /// Its place among the tasks.
    pub task: usize,
    /// How many events were handled so far.
    pub events: u64,
    /// Virtual time so far.
    pub now: Nanos,
    /// Jobs that have ended.
    pub ended: u64,
}

/// How far a run is, and whether it should go on.
#[derive(Debug, Default)]
pub struct Watch {
    events: AtomicU64,
    now: AtomicU64,
    ended: AtomicU64,
    cancelled: AtomicBool,
    profiles: bool,
}

impl Watch {
    /// Also measures where the run's time goes, if `profiles` is set.
    pub fn new(profiles: bool) -> Watch {
        Watch { profiles, ..Watch::default() }
    }

    /// Is the run's time to be measured?
    pub fn profiles(&self) -> bool {
        self.profiles
    }

    /// How far the run is that is task number `task`.
    pub(super) fn running(&self, task: usize) -> Running {
        let [events, now, ended] = [&self.events, &self.now, &self.ended].map(|seen| seen.load(Ordering::Relaxed));
        Running { task, events, now: Nanos(now), ended }
    }

    /// The run ends with [`super::SimError::Cancelled`] soon.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Says how far the run is; true when it should stop.
    pub(super) fn tell(&self, events: u64, now: u64, ended: u64) -> bool {
        self.events.store(events, Ordering::Relaxed);
        self.now.store(now, Ordering::Relaxed);
        self.ended.store(ended, Ordering::Relaxed);
        self.cancelled.load(Ordering::Relaxed)
    }
}
