//! How often the loop turns while flows have demand: at once when something happens, seldom when nothing does.
//!
//! The kernel tells when a flow begins to send and when the bytes of its round have arrived, holders tell what others
//! promise: a turn by the clock finds little new. It looks after processes whose pages say more than their sockets, and
//! after kernels that tell nothing. Its cost grows with the number of flows and is spent on cold caches, so the loop keeps
//! such turns to a part of a core ([`Pace::PART`]) and lets the time between them follow from what turns have cost, in CPU
//! time: waiting for a busy core is no reason to look less often.
//!
//! Turns for what happens keep to a part as well, a larger one ([`Pace::REST`]): with thousands of flows something happens
//! all the time, and a loop that turned each time would take more than a real-time thread may.

use std::time::Duration;

use sluice_schedule::Nanos;

/// A time, as the runtime has it.
pub(super) fn span(time: Nanos) -> Duration {
    Duration::from_nanos(time.0)
}

/// What turns cost, and what follows from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// Running mean of the CPU time of a turn.
    cost: Nanos,
    /// The same of all that the thread does from turn to turn: what a turn decided has to be written and sent as well.
    whole: Nanos,
}

impl Pace {
    /// Turns by the clock may take this part of a core: one in so many.
    pub const PART: u64 = 100;
    /// The least time between two looks.
    pub const MIN: Nanos = Nanos::from_millis(20);
    /// The most, where turns are no dearer than others: two looks per slot of 60 ms.
    pub const MAX: Nanos = Nanos::from_millis(30);
    /// A turn for what holders say comes at least this long after the last turn, so that the news of many hosts is taken
    /// in at once.
    pub const MIN_GATHER: Nanos = Nanos::from_millis(2);
    /// So long at most: where turns cost much, or the news of many hosts comes one by one.
    pub const MAX_GATHER: Nanos = Nanos::from_millis(5);
    /// The same for what the kernel tells, at least: the flows of a round begin together and end together.
    pub const SETTLE: Nanos = Nanos(500_000);
    /// Whatever happens, the loop rests so many times as long as a turn takes with all that follows from it. That is a
    /// quarter of a core: half of what ends a real-time thread ([`Bound::DECIDING`](sluice_realtime::Bound::DECIDING)), since
    /// the turns of a slot's edge and requests do not wait.
    pub const REST: u64 = 3;
    /// Beyond [`Pace::REST`] times this the rest grows as the square of what a turn takes: the two turns of each slot that do
    /// not wait leave little of a core then.
    const DEAR: Nanos = Nanos::from_millis(1);
    /// No rest is longer: a slot of 60 ms, whose edge is a look.
    pub const MAX_REST: Nanos = Nanos::from_millis(60);
    /// Turns over which the mean is taken.
    const TURNS: u64 = 16;

    /// A turn took so much CPU time, and with it so much went since the turn before.
    pub fn turned(&mut self, took: Nanos, whole: Nanos) {
        let mean = |mean: Nanos, new: Nanos| match mean.0 {
            0 => new,
            mean => Nanos(mean.saturating_mul(Pace::TURNS - 1).saturating_add(new.0) / Pace::TURNS),
        };
        (self.cost, self.whole) = (mean(self.cost, took), mean(self.whole, whole));
    }

    /// While some flow has demand, the loop looks this often.
    pub fn tick(&self) -> Nanos {
        self.cost.times(Pace::PART).max(Pace::MIN).min(Pace::MAX).max(self.rest())
    }

    /// How long after a turn there may be one for what holders say: they, too, keep to a part of a core.
    pub fn gather(&self) -> Nanos {
        self.cost.times(Pace::PART).max(Pace::MIN_GATHER).min(Pace::MAX_GATHER).max(self.rest())
    }

    /// How long after a turn there may be one for what the kernel tells.
    pub fn settle(&self) -> Nanos {
        Pace::SETTLE.max(self.rest())
    }

    /// How long the loop rests after a turn.
    pub fn rest(&self) -> Nanos {
        let times = Pace::REST.max(self.whole.0 / Pace::DEAR.0);
        self.whole.times(times).min(Pace::MAX_REST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cheap_turns_are_often_and_dear_ones_rare() {
        let mut pace = Pace::default();
        assert_eq!(pace.tick(), Pace::MIN);
        let ms = Nanos::from_millis;
        for (took, tick, gather, settle) in [
            (10, Pace::MIN, Pace::MIN_GATHER, Pace::SETTLE),
            (30, Pace::MIN, ms(3), Pace::SETTLE),
            (250, ms(25), Pace::MAX_GATHER, Nanos(750_000)),
            (2_050, Pace::MAX, Nanos(6_150_000), Nanos(6_150_000)),
            (5_050, Pace::MAX, Nanos(25_250_000), Nanos(25_250_000)),
            (7_050, Nanos(49_350_000), Nanos(49_350_000), Nanos(49_350_000)),
            (20_000, Pace::MAX_REST, Pace::MAX_REST, Pace::MAX_REST),
            (1, Pace::MIN, Pace::MIN_GATHER, Pace::SETTLE),
        ] {
            let took_ns = Nanos(took * 1_000);
            (0..300).for_each(|_| pace.turned(took_ns, took_ns));
            assert!(pace.tick().0.abs_diff(tick.0) < 100_000, "{took} us: {}", pace.tick());
            assert!(pace.gather().0.abs_diff(gather.0) < 100_000, "{took} us: {}", pace.gather());
            assert!(pace.settle().0.abs_diff(settle.0) < 100_000, "{took} us: {}", pace.settle());
        }
        (0..300).for_each(|_| pace.turned(Nanos(10_000), ms(2)));
        assert_eq!(pace.tick(), Pace::MIN, "what is sent costs no look");
        assert!(pace.settle().0.abs_diff(ms(6).0) < 100_000, "but a rest: {}", pace.settle());
        pace.turned(Nanos::MAX, Nanos::MAX);
        assert_eq!((pace.tick(), pace.settle()), (Pace::MAX_REST, Pace::MAX_REST), "no overflow");
    }
}
