//! How often a stream may say something: once a second, or four times on request.

use std::str::FromStr;

use sluice_schedule::Nanos;

/// Events a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hz {
    /// One a second.
    #[default]
    One,
    /// Four a second.
    Four,
}

/// Another rate than those there are.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("hz = {0} is no rate of this stream; allowed are 1 and 4")]
pub struct UnknownHz(String);

impl FromStr for Hz {
    type Err = UnknownHz;

    fn from_str(text: &str) -> Result<Hz, UnknownHz> {
        match text {
            "1" => Ok(Hz::One),
            "4" => Ok(Hz::Four),
            // What is told back is short, whatever came.
            other => Err(UnknownHz(other.chars().take(16).filter(|c| !c.is_control()).collect())),
        }
    }
}

impl Hz {
    /// The time between two events.
    pub const fn every(self) -> Nanos {
        match self {
            Hz::One => Nanos::from_millis(1000),
            Hz::Four => Nanos::from_millis(250),
        }
    }
}

/// Lets something happen so often, on average, and never twice as often.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    every: Nanos,
    next: Nanos,
}

impl Pace {
    /// At once for the first time.
    pub const fn new(hz: Hz) -> Pace {
        Pace { every: hz.every(), next: Nanos::ZERO }
    }

    /// May it happen now? It did, if so. What comes a little early counts for its time, so that a source of the same rate whose
    /// times vary is not halved.
    pub fn take(&mut self, now: Nanos) -> bool {
        let early = Nanos(self.every.0 / 4);
        if now.plus(early) < self.next {
            return false;
        }
        let soonest = now.plus(Nanos(self.every.0 / 2));
        self.next = self.next.plus(self.every).max(soonest).min(now.plus(self.every).plus(early));
        true
    }

    /// The next time that all streams have in common: whoever waits for it is told what others are.
    pub fn next_common(hz: Hz, now: Nanos) -> Nanos {
        Nanos((now.0 / hz.every().0).saturating_add(1).saturating_mul(hz.every().0))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn another_rate_is_an_error_that_names_those_there_are() {
        assert_eq!(("1".parse(), "4".parse()), (Ok(Hz::One), Ok(Hz::Four)));
        for text in ["", "0", "2", "04", "four", "1000000000000000000000\n"] {
            let error = text.parse::<Hz>().expect_err(text).to_string();
            assert!(error.contains("allowed are 1 and 4") && error.len() < 80, "{error}");
        }
    }

    #[test]
    fn a_source_of_the_same_rate_passes_whole() {
        let mut pace = Pace::new(Hz::One);
        // As a daemon publishes it: at the end of the turn in which a second is over.
        let times = (0..100_u64).map(|n| Nanos(1_000_000_000 * n + 60_000_000 * (n * 7 % 5)));
        assert_eq!(times.filter(|time| pace.take(*time)).count(), 100);
    }

    #[test]
    fn streams_of_one_rate_wait_for_the_same_moment_and_slower_ones_for_some_of_them() {
        let at = |hz, now| Pace::next_common(hz, Nanos::from_millis(now)).0 / 1_000_000;
        assert_eq!((at(Hz::Four, 1001), at(Hz::Four, 1249), at(Hz::Four, 1250)), (1250, 1250, 1500));
        assert_eq!((at(Hz::One, 1001), at(Hz::One, 1999), at(Hz::One, 2000)), (2000, 2000, 3000));
    }

    proptest! {
        #[test]
        fn it_is_never_more_often_than_its_rate(
            four in any::<bool>(),
            start in 0..u64::MAX / 2,
            gaps in prop::collection::vec(0_u64..400_000_000, 1..300),
        ) {
            let hz = if four { Hz::Four } else { Hz::One };
            let mut pace = Pace::new(hz);
            let (mut now, mut taken) = (start, Vec::new());
            for gap in gaps {
                if pace.take(Nanos(now)) {
                    taken.push(now);
                }
                now += gap;
            }
            let every = hz.every().0;
            let allowed = (now - start) / every + 2;
            prop_assert!(taken.len() as u64 <= allowed, "{} in {}", taken.len(), now - start);
            // Not twice as often, and none is left out for longer than it takes for something to come.
            prop_assert!(taken.windows(2).all(|two| two[1] - two[0] >= every / 4));
            prop_assert!(taken.windows(2).all(|two| two[1] - two[0] <= every * 5 / 4 + 400_000_000));
        }
    }
}
