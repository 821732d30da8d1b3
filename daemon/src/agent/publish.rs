//! Shows the state a few times per second: the snapshot behind HTTP, and the service manager's status line.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use sluice_logs::NotifyState;
use sluice_schedule::Nanos;

use super::Agent;
use crate::clock;
use crate::conditions::ConditionCode;

/// A snapshot is made this often while somebody looks; several per second look alive to a person.
const EVERY: Nanos = Nanos::from_millis(250);
/// And this often while nobody does.
const RARELY: Nanos = Nanos::from_millis(1_000);
/// Pauses are so many times as long as a snapshot took of a processor at least: one of thousands of flows costs the loop some
/// milliseconds, and nobody reads them faster.
const SHARE: u64 = 50;
/// Somebody looks if he asked within this time.
const LOOKS: Nanos = Nanos::from_millis(5_000);

impl Agent {
    /// Publishes if it is time, or at once.
    pub(super) fn publish(&mut self, at_once: bool) {
        let now = self.core.now();
        let asked = Nanos(self.shared.asked.load(Ordering::Relaxed));
        let pause = if now.mono.minus(asked) < LOOKS { EVERY } else { RARELY };
        let pause = pause.max(self.publish_took.times(SHARE));
        if !at_once && now.mono.minus(self.published) < pause {
            return;
        }
        let first = self.published.0 == 0;
        // What comes at the end of a turn is late: it counts from when it was due, so that there are so many on average.
        let due = self.published.plus(pause);
        self.published = if !at_once && now.mono.minus(due) < pause { due } else { now.mono };
        let spent = clock::thread_cpu();
        self.facts.number(&self.core);
        let mut snapshot = crate::snapshot::take(&self.core, &self.facts);
        snapshot.counters.refused_connections(&self.identity.refusals.counts());
        snapshot.counters.commands_unrecorded = self.shared.unrecorded.load(Ordering::Relaxed);
        let line = format!(
            "{}, {}{}; {} jobs, {} flows",
            snapshot.daemon.mode.as_str(),
            snapshot.daemon.state.as_str(),
            if snapshot.conditions.iter().any(|c| c.code == ConditionCode::Unauthenticated) {
                ", unauthenticated"
            } else {
                ""
            },
            snapshot.jobs.len(),
            snapshot.flows.len()
        );
        if first || at_once || now.slot.0.is_multiple_of(64) {
            self.manager.tell(&NotifyState::Status(&line));
        }
        self.snapshots.send_replace(Arc::new(snapshot));
        self.publish_took = clock::thread_cpu().minus(spent);
    }
}
