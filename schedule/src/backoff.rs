//! Full jitter: a random time up to a bound that doubles with every failure, so that a thousand hosts do not come back
//! in the same moment.

#[cfg(feature = "mutants")]
use crate::mutant::{Mutant, Planted};
use crate::units::Nanos;

/// Bound of the wait after the first failure.
pub const FIRST: Nanos = Nanos::from_millis(50);
/// The bound doubles up to this one: a second less than the five within which a thousand hosts are to be back (P-16), for
/// after the last one has dialled it has its turn, is greeted, and hears its first answer.
pub const LAST: Nanos = Nanos::from_millis(4_000);

/// When to dial again whom one could not reach.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backoff {
    failures: u32,
    #[cfg(feature = "mutants")]
    planted: Planted,
}

impl Backoff {
    /// One with this defect, for tests that must notice it.
    #[cfg(feature = "mutants")]
    pub fn with_mutant(mutant: Mutant) -> Backoff {
        Backoff { failures: 0, planted: Planted::with(mutant) }
    }

    /// How long to wait after one more failure; `random` picks the place between nothing and the bound.
    pub fn next(&mut self, random: u64) -> Nanos {
        let bound = FIRST.times(1 << self.failures.min(16)).min(LAST);
        self.failures = self.failures.saturating_add(1);
        #[cfg(feature = "mutants")]
        if self.planted.is(Mutant::BackoffWithoutJitter) {
            return bound;
        }
        #[cfg(feature = "mutants")]
        if self.planted.is(Mutant::GivesUp) && self.failures > 1 {
            return LAST.times(1_000_000);
        }
        Nanos(random % bound.0)
    }

    /// The other end answered.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Promises: P-16
    #[test]
    fn the_bound_doubles_to_four_seconds_and_starts_again() {
        let mut backoff = Backoff::default();
        // The largest remainder shows the bound.
        let bounds: Vec<u64> = (0..9)
            .map(|_| {
                let probe = backoff;
                let most = (0..2000).map(|i| probe.clone().next(i * 7_919_777)).max().unwrap_or_default();
                backoff.next(0);
                most.0 / 1_000_000
            })
            .collect();
        assert!(bounds.windows(2).all(|pair| pair[1] + 60 >= pair[0]), "{bounds:?}");
        assert!(bounds[0] < 50 && bounds[8] <= 4000, "{bounds:?}");
        backoff.reset();
        assert!(backoff.next(u64::MAX) < FIRST);
    }

    proptest! {
        #[test]
        fn a_thousand_clients_dial_less_and_less_often(seed: u64, failures in 7_u32..12) {
            // Each dials at most once per mean wait; after the seventh failure that is 1.6 s and more.
            let clients = 1000_u64;
            let mut waited = Nanos::ZERO;
            for client in 0..clients {
                let mut backoff = Backoff::default();
                for _ in 0..failures {
                    backoff.next(0);
                }
                waited = waited.plus(backoff.next(crate::units::mixed(seed ^ client)));
            }
            prop_assert!(waited.as_secs_f64() / clients as f64 > 1.2, "{waited}");
        }
    }
}
