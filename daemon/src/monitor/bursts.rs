//! How much a process sends from pause to pause, as the kernel counts it, so that nobody goes first by calling a long round
//! many short ones. Pure.
//!
//! A page says where rounds begin and end, and a short round goes before a long one. What the kernel counted says how much
//! comes before the next pause, whatever the page calls it: what is left of that is left of the round, at least.

use sluice_schedule::{Bytes, Nanos};

/// A silence shorter than this is no pause.
const PAUSE: Nanos = Nanos::from_millis(20);
/// Bursts that are remembered; the middle one is the measure, so that a single odd one moves nothing.
const REMEMBERED: usize = 8;
/// The middle of fewer says nothing.
const LEAST: usize = 3;
/// So many rounds in one burst, and it is the burst that counts.
const ROUNDS: u32 = 3;
/// Bursts that are longer by less than an eighth, and so many bytes, than what was said are what was said: the kernel tells
/// the end of an honest round to the byte.
const PART: u64 = 8;
const SLACK: Bytes = Bytes(256 << 10);

/// The bursts of one process.
#[derive(Clone, Debug, Default)]
pub struct Bursts {
    sent: Bytes,
    /// Bytes of the rounds that the page called so in this burst: of those before, and of the present one.
    said: Bytes,
    present: Bytes,
    moved_at: Nanos,
    rounds: u32,
    last: Vec<Bytes>,
}

impl Bursts {
    /// Looks once. `moved`: acknowledged since the last look; `queued`: written and not acknowledged.
    pub fn look(&mut self, now: Nanos, moved: Bytes, queued: Bytes) {
        if moved > Bytes::ZERO {
            self.sent = self.sent.plus(moved);
            self.moved_at = now;
        } else if self.sent > Bytes::ZERO && queued == Bytes::ZERO && now.minus(self.moved_at) >= PAUSE {
            if self.last.len() == REMEMBERED {
                self.last.remove(0);
            }
            self.last.push(std::mem::take(&mut self.sent));
            (self.rounds, self.said, self.present) = (0, Bytes::ZERO, Bytes::ZERO);
        }
    }

    /// The page says that a round begins.
    pub fn round_began(&mut self) {
        self.rounds = self.rounds.saturating_add(1);
        self.said = self.said.plus(std::mem::take(&mut self.present));
    }

    /// So many bytes the present round has, as the page says.
    pub fn says(&mut self, round: Bytes) {
        self.present = self.present.max(round);
    }

    /// What comes at least before the next pause: the rest of a burst as they were of late; of one that goes on beyond
    /// that, round after round, as much again as it had.
    pub fn left(&self) -> Bytes {
        let usual = self.middle();
        let said = self.said.plus(self.present);
        match () {
            () if self.rounds < ROUNDS && usual <= said.plus(Bytes(said.0 / PART)).plus(SLACK) => Bytes::ZERO,
            () if self.sent < usual => usual.minus(self.sent),
            () if self.rounds >= ROUNDS => self.sent,
            () => Bytes::ZERO,
        }
    }

    fn middle(&self) -> Bytes {
        if self.last.len() < LEAST {
            return Bytes::ZERO;
        }
        let mut sorted = self.last.clone();
        sorted.sort_unstable();
        sorted.get((sorted.len() - 1) / 2).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// One burst of `bytes` in looks of 5 ms, called `rounds` rounds, and a pause. What was left at each look, as told.
    fn burst(bursts: &mut Bursts, at: &mut u64, bytes: u64, rounds: u64) -> Vec<u64> {
        let (mut left, mut sent) = (Vec::new(), 0);
        for step in 0..20 {
            if step % (20 / rounds) == 0 {
                bursts.round_began();
                bursts.says(Bytes(bytes / rounds));
            }
            // What the page says is left of the present round counts too.
            let each = bytes / rounds;
            let said = (each * (step / (20 / rounds) + 1)).saturating_sub(sent);
            left.push(bursts.left().0.max(said));
            let part = bytes * (step + 1) / 20 - sent;
            sent += part;
            *at += 5;
            bursts.look(Nanos::from_millis(*at), Bytes(part), Bytes(bytes - sent));
        }
        for _ in 0..10 {
            *at += 5;
            bursts.look(Nanos::from_millis(*at), Bytes::ZERO, Bytes::ZERO);
        }
        left
    }

    proptest! {
        #[test]
        fn whoever_calls_one_round_many_has_as_much_left_as_one_who_does_not(
            sizes in prop::collection::vec(90_u64..110, 6..20), rounds in prop::sample::select(vec![2_u64, 4, 5, 10, 20]),
        ) {
            let (mut honest, mut liar) = (Bursts::default(), Bursts::default());
            let (mut a, mut b) = (0, 0);
            for (i, size) in sizes.iter().enumerate() {
                let bytes = size << 20;
                let told = burst(&mut liar, &mut b, bytes, rounds);
                burst(&mut honest, &mut a, bytes, 1);
                if i >= LEAST {
                    // The honest one says all of it; what is told of the other is never less than that by more than the
                    // bursts differ from each other.
                    for (step, left) in told.iter().enumerate() {
                        let truth = bytes - bytes * step as u64 / 20;
                        prop_assert!(left + bytes / 4 >= truth, "{left} of {truth} in step {step}");
                    }
                }
            }
        }

        #[test]
        fn any_counts_are_survived(looks in prop::collection::vec((0_u64..100, any::<u64>(), any::<u64>(), any::<bool>()), 0..200)) {
            let (mut bursts, mut at) = (Bursts::default(), 0);
            for (step, moved, queued, round) in looks {
                at += step;
                bursts.look(Nanos::from_millis(at), Bytes(moved), Bytes(queued));
                if round {
                    bursts.round_began();
                }
                bursts.left();
            }
        }
    }

    #[test]
    fn equal_bursts_leave_a_liar_nothing() {
        let (mut bursts, mut at) = (Bursts::default(), 0);
        for i in 0..6 {
            let told = burst(&mut bursts, &mut at, 100 << 20, 10);
            if i >= LEAST {
                let truth = (0..20).map(|step| (100 << 20) - ((100 << 20) * step / 20));
                assert!(told.iter().zip(truth).all(|(left, truth)| left.abs_diff(truth) <= truth / 50), "{told:?}");
            }
        }
    }

    #[test]
    fn who_never_pauses_is_taken_to_go_on() {
        let mut bursts = Bursts::default();
        for i in 1..=100 {
            bursts.round_began();
            bursts.says(Bytes(1 << 20));
            bursts.look(Nanos::from_millis(i * 5), Bytes(1 << 20), Bytes(1 << 20));
        }
        assert_eq!(bursts.left(), Bytes(100 << 20));
    }
}
