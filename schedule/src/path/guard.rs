//! Two guards around a decision: nobody waits for ever, and what is told to others does not flap.

use crate::units::Nanos;

/// How long a flow or a round has been deferred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    since: Option<Nanos>,
}

impl Waiting {
    /// Takes a decision in: deferred means it has demand and got no more than its floor.
    pub fn decided(&mut self, now: Nanos, deferred: bool) {
        self.since = if deferred { self.since.or(Some(now)) } else { None };
    }
    /// True if it has waited `most` (`schedule.max_wait_ms`) or longer: it goes now, whatever it costs.
    pub fn due(&self, now: Nanos, most: Nanos) -> bool {
        self.since.is_some_and(|since| now.minus(since) >= most)
    }
}

/// Decides whether a round's key has moved far enough to be published: by a quarter of what was told last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyHysteresis {
    told: Option<Nanos>,
}

impl KeyHysteresis {
    /// The key to publish: the one told last until `key` has moved by 25 % of it. `key` is remembered when it is told.
    pub fn key(&mut self, key: Nanos) -> Nanos {
        match self.told {
            Some(told) if told.0.abs_diff(key.0) < (told.0 / 4).max(1) => told,
            _ => {
                self.told = Some(key);
                key
            }
        }
    }
    /// A round began: its first key is told whatever the last round's was.
    pub fn reset(&mut self) {
        self.told = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_starts_with_the_first_deferral_and_ends_with_service() {
        let most = Nanos(100);
        let mut waiting = Waiting::default();
        assert!(!waiting.due(Nanos(1_000), most));
        waiting.decided(Nanos(1_000), true);
        waiting.decided(Nanos(1_060), true);
        assert!(!waiting.due(Nanos(1_099), most));
        assert!(waiting.due(Nanos(1_100), most));
        waiting.decided(Nanos(1_110), false);
        assert!(!waiting.due(Nanos(2_000), most));
    }

    #[test]
    fn a_wait_of_zero_is_due_at_once() {
        let mut waiting = Waiting::default();
        waiting.decided(Nanos(5), true);
        assert!(waiting.due(Nanos(5), Nanos::ZERO));
    }

    #[test]
    fn a_tenfold_reduction_of_a_key_is_told_about_ten_times() {
        let mut key = KeyHysteresis::default();
        let (mut times, mut last) = (0, Nanos::MAX);
        for now in (100_000..=1_000_000_u64).rev() {
            let published = key.key(Nanos(now));
            assert!(published.0 >= now && published.0 - now <= published.0 / 4);
            times += u32::from(published != last);
            last = published;
        }
        assert!((8..=10).contains(&times), "{times}");
    }

    #[test]
    fn a_key_of_zero_is_told_and_left() {
        let mut key = KeyHysteresis::default();
        assert_eq!(key.key(Nanos(8)), Nanos(8));
        assert_eq!(key.key(Nanos::ZERO), Nanos::ZERO);
        assert_eq!(key.key(Nanos(1)), Nanos(1));
    }
}
