//! Gives back what does not help: a job that managing makes slower.

use crate::units::Nanos;

/// Watches whether a job's rounds are faster with orders than without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Benefit {
    /// Rounds in a row that were slower.
    slower: u32,
    /// Rounds in a row that were not.
    good: u32,
    /// How often the job was released since it last did well.
    releases: u32,
    until: Option<Nanos>,
}

impl Benefit {
    /// Rounds in a row that decide.
    const ROUNDS: u32 = 5;
    /// A round is slower if it takes more than eleven tenths of the baseline.
    const SLOWER: (u64, u64) = (11, 10);
    const FIRST_PAUSE: Nanos = Nanos::from_millis(60_000);
    /// 64 minutes.
    const MAX_DOUBLINGS: u32 = 6;

    /// Takes a finished, managed round in. `baseline` is what the job's rounds took unmanaged; zero is unknown and
    /// says nothing. True if the job is to be released now; it is due again after 1, 2, 4 … 64 minutes.
    pub fn round(&mut self, now: Nanos, took: Nanos, baseline: Nanos) -> bool {
        if baseline == Nanos::ZERO {
            return false;
        }
        let (more, than) = Benefit::SLOWER;
        if u128::from(took.0) * u128::from(than) <= u128::from(baseline.0) * u128::from(more) {
            self.slower = 0;
            self.good = self.good.saturating_add(1);
            if self.good >= Benefit::ROUNDS {
                self.releases = 0;
            }
            return false;
        }
        self.good = 0;
        self.slower += 1;
        if self.slower < Benefit::ROUNDS {
            return false;
        }
        let pause = Benefit::FIRST_PAUSE.times(1 << self.releases.min(Benefit::MAX_DOUBLINGS));
        self.until = Some(now.plus(pause));
        self.slower = 0;
        self.releases = self.releases.saturating_add(1);
        true
    }

    /// True if the job is to be managed: never released, or its pause is over.
    pub fn managed(&self, now: Nanos) -> bool {
        self.until.is_none_or(|until| now >= until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000_000_000;

    fn rounds(benefit: &mut Benefit, now: Nanos, took: u64, times: usize) -> Vec<bool> {
        (0..times).map(|_| benefit.round(now, Nanos(took), Nanos(100))).collect()
    }

    #[test]
    fn five_slower_rounds_in_a_row_release_the_job() {
        let (mut benefit, now) = (Benefit::default(), Nanos(MINUTE));
        assert_eq!(rounds(&mut benefit, now, 111, 4), [false; 4]);
        assert_eq!(rounds(&mut benefit, now, 110, 1), [false]);
        assert_eq!(rounds(&mut benefit, now, 111, 5), [false, false, false, false, true]);
        assert!(!benefit.managed(now) && !benefit.managed(Nanos(2 * MINUTE - 1)) && benefit.managed(Nanos(2 * MINUTE)));
    }

    #[test]
    fn the_pause_doubles_up_to_64_minutes_and_starts_over_after_good_rounds() {
        let (mut benefit, mut now) = (Benefit::default(), Nanos::ZERO);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            assert_eq!(rounds(&mut benefit, now, 200, 5).last(), Some(&true));
            let until = (0..=64).map(|m| now.plus(Nanos(m * MINUTE))).find(|at| benefit.managed(*at));
            let until = until.unwrap_or(Nanos::MAX);
            pauses.push(until.minus(now).0 / MINUTE);
            now = until;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 64]);
        rounds(&mut benefit, now, 90, 5);
        rounds(&mut benefit, now, 200, 5);
        assert!(benefit.managed(now.plus(Nanos(MINUTE))));
    }

    #[test]
    fn without_a_baseline_there_is_no_verdict() {
        let mut benefit = Benefit::default();
        assert!((0..100).all(|_| !benefit.round(Nanos(0), Nanos(u64::MAX), Nanos::ZERO)));
        assert!(benefit.managed(Nanos(0)));
    }
}
