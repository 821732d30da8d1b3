//! How much a process sends from pause to pause, as the kernel counts it, so that nobody goes first by calling a long round
//! many short ones. Pure.
//!
//! A page says where rounds begin and end, and a short round goes before a long one. What the kernel counted says how much
//! comes before the next pause, whatever the page calls it: what is left of that is left of the round, at least.
//!
//! A pause is a silence of the application, not of the network: a flow that is held back still empties its send buffer
//! while its job computes, and rounds that ran together for that reason are no lie.

use sluice_schedule::{Bytes, Nanos};

/// A silence shorter than this is no pause.
const PAUSE: Nanos = Nanos::from_millis(20);
/// Bursts that are remembered; the middle one is the measure, so that a single odd one moves nothing.
const REMEMBERED: usize = 8;
/// The middle of fewer says nothing.
const LEAST: usize = 3;
/// So many rounds in one burst, and it is the burst that counts.
const ROUNDS: u32 = 3;
/// Who never pauses is taken to go on as long as this: longer, and a job of short rounds would wait for ever.
const GOES_ON: Nanos = Nanos::from_millis(1_000);
/// Bursts that are longer by less than an eighth, and so many bytes, than what was said are what was said: the kernel tells
/// the end of an honest round to the byte.
const PART: u64 = 8;
const SLACK: Bytes = Bytes(256 << 10);

/// The bursts of one process.
#[derive(Clone, Debug, Default)]
pub struct Bursts {
    /// Bytes written in this burst, and those of all bursts that were not acknowledged at the last look.
    written: Bytes,
    queued: Bytes,
    wrote_at: Nanos,
    moved_at: Nanos,
    /// What was acknowledged of late: of older bytes ever less counts.
    recent: Bytes,
    looked_at: Nanos,
    /// Bytes of the rounds that the page called so in this burst: of those before, and of the present one.
    said: Bytes,
    present: Bytes,
    rounds: u32,
    last: Vec<Bytes>,
}

impl Bursts {
    /// Looks once. `moved`: acknowledged since the last look; `queued`: written and not acknowledged; `quiet`: the page says
    /// that nothing is being sent.
    pub fn look(&mut self, now: Nanos, moved: Bytes, queued: Bytes, quiet: bool) {
        let wrote = moved.plus(queued).minus(self.queued);
        self.queued = queued;
        self.written = self.written.plus(wrote);
        let passed = now.minus(std::mem::replace(&mut self.looked_at, now)).min(GOES_ON);
        let kept = u128::from(self.recent.0) * u128::from(GOES_ON.minus(passed).0) / u128::from(GOES_ON.0);
        self.recent = Bytes(u64::try_from(kept).unwrap_or(u64::MAX)).plus(moved);
        if moved > Bytes::ZERO {
            self.moved_at = now;
        }
        if wrote > Bytes::ZERO {
            self.wrote_at = now;
        }
        let still =
            now.minus(self.wrote_at) >= PAUSE && (quiet || queued == Bytes::ZERO && now.minus(self.moved_at) >= PAUSE);
        if still && self.written > Bytes::ZERO {
            if self.last.len() == REMEMBERED {
                self.last.remove(0);
            }
            self.last.push(std::mem::take(&mut self.written));
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
        let sent = self.written.minus(self.queued);
        match () {
            () if self.rounds < ROUNDS && usual <= said.plus(Bytes(said.0 / PART)).plus(SLACK) => Bytes::ZERO,
            () if sent < usual => usual.minus(sent),
            () if self.rounds >= ROUNDS => sent.min(self.recent),
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
            bursts.look(Nanos::from_millis(*at), Bytes(part), Bytes(bytes - sent), false);
        }
        for _ in 0..10 {
            *at += 5;
            bursts.look(Nanos::from_millis(*at), Bytes::ZERO, Bytes::ZERO, true);
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
        fn any_counts_are_survived(looks in prop::collection::vec((0_u64..100, any::<u64>(), any::<u64>(), any::<[bool; 2]>()), 0..200)) {
            let (mut bursts, mut at) = (Bursts::default(), 0);
            for (step, moved, queued, [round, quiet]) in looks {
                at += step;
                bursts.look(Nanos::from_millis(at), Bytes(moved), Bytes(queued), quiet);
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
    fn who_never_pauses_is_taken_to_go_on_but_not_for_ever() {
        let (mut bursts, mut at) = (Bursts::default(), 0);
        let mut sends = |bursts: &mut Bursts, looks: u64| {
            for _ in 0..looks {
                at += 5;
                bursts.round_began();
                bursts.says(Bytes(1 << 20));
                bursts.look(Nanos::from_millis(at), Bytes(1 << 20), Bytes(1 << 20), false);
            }
            bursts.left()
        };
        let first = sends(&mut bursts, 50);
        assert!(first >= Bytes(40 << 20), "{first}");
        let later = sends(&mut bursts, 10_000);
        assert!(later >= Bytes(150 << 20) && later <= Bytes(220 << 20), "{later}");
    }

    #[test]
    fn a_job_that_is_held_back_and_computes_while_its_buffer_empties_is_no_liar() {
        let (mut bursts, mut at) = (Bursts::default(), 0);
        let (round, rate, buffer) = (8_u64 << 20, 65_000, 1_400_000); // 13 Mbit/s, by looks of 5 ms
        let mut queued = 0;
        for _ in 0..6 {
            bursts.round_began();
            let mut unwritten = round;
            while unwritten > 0 {
                let moved = queued.min(rate / 8);
                queued -= moved;
                // A writer is woken when a third of the buffer is free.
                let room = if queued <= buffer * 2 / 3 { (buffer - queued).min(unwritten) } else { 0 };
                (queued, unwritten) = (queued + room, unwritten - room);
                at += 5;
                bursts.look(Nanos::from_millis(at), Bytes(moved), Bytes(queued), false);
                bursts.says(Bytes(round));
                assert_eq!(bursts.left(), Bytes::ZERO);
            }
            for _ in 0..12 {
                let moved = queued.min(rate / 8);
                queued -= moved;
                at += 5;
                bursts.look(Nanos::from_millis(at), Bytes(moved), Bytes(queued), true);
            }
            assert!(queued > 0, "the buffer never empties");
        }
    }
}
