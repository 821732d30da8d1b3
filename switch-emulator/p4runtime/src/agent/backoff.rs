//! Pauses between sessions: random ones up to a bound that doubles with every failure, so that a thousand agents do not
//! come back in the same moment.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use super::part;

/// Bound of the pause after the first failure: a guard lives for two slots without its agent.
const FIRST: Duration = Duration::from_millis(20);
/// The bound doubles up to this one.
const LAST: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// How long to wait after one more failure; `random` picks the place between nothing and the bound.
    pub fn next(&mut self, random: u64) -> Duration {
        let bound = FIRST.saturating_mul(1 << self.failures.min(16)).min(LAST);
        self.failures = self.failures.saturating_add(1);
        part(bound, random)
    }

    /// Something was done that a failing session does not do.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

/// 64 random bits from the operating system, by way of the hasher's keys.
pub(super) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_doubles_to_two_seconds_and_starts_again() {
        let mut backoff = Backoff::default();
        for bound in [20, 40, 80, 160, 320, 640, 1280, 2000, 2000] {
            let nanos = bound * 1_000_000;
            // The number before a multiple of the bound is the longest pause.
            assert_eq!(backoff.next(nanos - 1), Duration::from_nanos(nanos - 1));
        }
        backoff.reset();
        assert!(backoff.next(u64::MAX) < FIRST);
        assert_ne!(random(), random());
    }
}
