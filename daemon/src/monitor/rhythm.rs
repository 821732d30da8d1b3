//! Whether a connection moves its bytes in rounds: bursts with pauses between them, as gradients do and a download does
//! not. Pure.

use sluice_schedule::{Bytes, Nanos};

/// A silence shorter than this is no pause.
const PAUSE: Nanos = Nanos::from_millis(40);
/// Fewer bytes between two pauses are words, no burst.
const LEAST: Bytes = Bytes(256 << 10);
/// So many bursts, each followed by a pause, are rounds.
const ROUNDS: u8 = 2;

/// What was seen of one connection so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rhythm {
    moved: Bytes,
    moved_at: Nanos,
    burst: Bytes,
    rounds: u8,
    began: bool,
}

impl Rhythm {
    /// Looks once. `moved`: all bytes in both directions since the connection began. A pause counts from the last look that
    /// saw movement to this one, so looks that are further apart than the pauses see none.
    pub fn look(&mut self, now: Nanos, moved: Bytes) {
        if !std::mem::replace(&mut self.began, true) {
            (self.moved, self.moved_at) = (moved, now);
            return;
        }
        if moved > self.moved {
            self.burst = self.burst.plus(moved.minus(self.moved));
            (self.moved, self.moved_at) = (moved, now);
        } else if self.burst > Bytes::ZERO && now.minus(self.moved_at) >= PAUSE {
            if self.burst >= LEAST {
                self.rounds = self.rounds.saturating_add(1);
            }
            self.burst = Bytes::ZERO;
        }
    }

    /// It has shown rounds to somebody else.
    pub fn known(&mut self) {
        self.rounds = self.rounds.max(ROUNDS);
    }

    /// Has it shown rounds?
    pub fn shown(&self) -> bool {
        self.rounds >= ROUNDS
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Looks every `every` ms for a time at a connection that sends `bytes` in `busy` ms of each `period`.
    fn seen(every: u64, busy: u64, period: u64, bytes: u64) -> bool {
        let mut rhythm = Rhythm::default();
        let at = |ms: u64| {
            let whole = ms / period;
            whole * bytes + bytes * (ms % period).min(busy) / busy
        };
        (0..3_000 / every).for_each(|i| rhythm.look(Nanos::from_millis(i * every), Bytes(at(i * every))));
        rhythm.shown()
    }

    #[test]
    fn gradients_are_rounds_and_a_download_is_none() {
        assert!(seen(20, 100, 300, 10 << 20));
        assert!(!seen(20, 300, 300, 10 << 20), "no pause");
        assert!(!seen(20, 100, 300, 100 << 10), "words");
        assert!(!seen(20, 280, 300, 10 << 20), "pauses shorter than a look can tell");
        assert!(!seen(20, 100, 2_900, 10 << 20), "once");
    }

    proptest! {
        #[test]
        fn what_never_pauses_is_never_a_round(steps in prop::collection::vec(1_u64..1 << 24, 1..200)) {
            let (mut rhythm, mut moved) = (Rhythm::default(), 0);
            for (i, step) in steps.iter().enumerate() {
                moved += step;
                rhythm.look(Nanos::from_millis(i as u64 * 20), Bytes(moved));
            }
            prop_assert!(!rhythm.shown());
        }

        #[test]
        fn rounds_are_seen_whatever_their_size(busy in 20_u64..200, rest in 80_u64..400, bytes in 1_u64 << 19..1 << 30) {
            prop_assert!(seen(20, busy, busy + rest, bytes));
        }
    }
}
