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

/// When a snapshot is due: those that nobody asked for take a [`SHARE`]th of the loop's processor at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Due {
    /// From when on the pause after the last one counts; zero: there was none.
    last: Nanos,
    /// What the last one took of a processor.
    took: Nanos,
}

impl Due {
    /// Is one made now? Then it counts as made. `looks`: somebody reads them.
    fn comes(&mut self, now: Nanos, looks: bool, at_once: bool) -> bool {
        let pause = if looks { EVERY } else { RARELY };
        let pause = pause.max(self.took.times(SHARE));
        if !at_once && now.minus(self.last) < pause {
            return false;
        }
        // What comes at the end of a turn is late: it counts from when it was due, so that there are so many on average.
        let due = self.last.plus(pause);
        self.last = if !at_once && now.minus(due) < pause { due } else { now };
        true
    }
}

impl Agent {
    /// Publishes if it is time, or at once.
    pub(super) fn publish(&mut self, at_once: bool) {
        let now = self.core.now();
        let asked = Nanos(self.shared.asked.load(Ordering::Relaxed));
        let first = self.due == Due::default();
        if !self.due.comes(now.mono, now.mono.minus(asked) < LOOKS, at_once) {
            return;
        }
        let spent = clock::thread_cpu();
        self.facts.number(&self.core);
        let mut snapshot = crate::snapshot::take(&self.core, &self.facts);
        snapshot.counters.refused_connections(&self.identity.refusals.counts());
        snapshot.counters.commands_unrecorded = self.shared.unrecorded.load(Ordering::Relaxed);
        self.shared.turned_away.tell(&mut snapshot.counters);
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
        self.due.took = clock::thread_cpu().minus(spent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of a minute with turns so far apart, in which each snapshot takes what `cost` says: how many there were, and what all
    /// but the last took together. The loop stands still while one is made.
    fn minute(turn: Nanos, looks: bool, cost: impl Fn(usize) -> Nanos) -> (usize, Nanos) {
        let (began, mut due) = (Nanos::from_millis(5_000), Due::default());
        let (mut now, mut made, mut took) = (began, 0, Nanos::ZERO);
        while now.minus(began) < Nanos::from_millis(60_000) {
            if due.comes(now, looks, made == 0) {
                took = took.plus(due.took);
                due.took = cost(made);
                now = now.plus(due.took);
                made += 1;
            }
            now = now.plus(turn);
        }
        (made, took)
    }

    #[test]
    fn cheap_snapshots_come_four_times_a_second_while_somebody_looks_and_once_while_nobody_does() {
        for turn in [2, 7, 30, 60] {
            let made = |looks| minute(Nanos::from_millis(turn), looks, |_| Nanos(200_000)).0;
            assert!((239..=241).contains(&made(true)), "turns of {turn} ms: {}", made(true));
            assert!((59..=61).contains(&made(false)), "turns of {turn} ms: {}", made(false));
        }
    }

    #[test]
    fn dear_snapshots_take_a_fiftieth_of_the_time_at_most() {
        let ms = Nanos::from_millis;
        let costs: [&[u64]; 5] = [&[20], &[100], &[6, 9, 30], &[1, 40, 0, 3, 12], &[0, 0, 0, 200]];
        for (turn, looks) in [2, 7, 30, 60, 400].into_iter().flat_map(|turn| [(turn, true), (turn, false)]) {
            for costs in costs {
                let (made, took) = minute(ms(turn), looks, |at| ms(costs[at % costs.len()]));
                assert!(took.times(50) <= ms(60_000), "{costs:?} ms, turns of {turn} ms: {took} of a minute");
                assert!(made > 10, "{costs:?} ms, turns of {turn} ms: {made}");
            }
            let (made, _) = minute(ms(turn), looks, |_| ms(20));
            assert!((58..=61).contains(&made), "a second apart, turns of {turn} ms: {made}");
        }
    }

    #[test]
    fn one_that_is_asked_for_comes_at_once_and_the_next_after_a_whole_pause() {
        let ms = Nanos::from_millis;
        let mut due = Due::default();
        assert!(due.comes(ms(5_000), true, true), "the first");
        assert!(due.comes(ms(5_001), true, true) && !due.comes(ms(5_250), true, false));
        assert!(due.comes(ms(5_251), true, false));
        due.took = ms(100);
        assert!(due.comes(ms(5_252), true, true), "however dear the last one was");
        assert!(!due.comes(ms(10_251), true, false) && due.comes(ms(10_252), true, false));
    }
}
