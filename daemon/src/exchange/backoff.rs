//! Full jitter: a random time up to a bound that doubles with every failure, so that a thousand hosts do not come back
//! in the same moment.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

/// Bound of the wait after the first failure.
const FIRST: Duration = Duration::from_millis(50);
/// The bound doubles up to this one.
const LAST: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, Default)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// How long to wait after one more failure; `random` picks the place between nothing and the bound.
    pub fn next(&mut self, random: u64) -> Duration {
        let bound = FIRST.saturating_mul(1_u32 << self.failures.min(16)).min(LAST);
        self.failures = self.failures.saturating_add(1);
        let nanos = u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(random % nanos.max(1))
    }
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

/// 64 random bits from the operating system, by way of the hasher's keys.
pub fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_doubles_to_five_seconds_and_starts_again() {
        let mut backoff = Backoff::default();
        // The largest remainder shows the bound.
        let bounds: Vec<u64> = (0..9)
            .map(|_| {
                let mut probe = backoff;
                let most = (0..2000).map(|i| probe.clone().next(i * 7_919_777)).max().unwrap_or_default();
                backoff.next(0);
                probe.reset();
                most.as_millis() as u64
            })
            .collect();
        assert!(bounds.windows(2).all(|pair| pair[1] + 60 >= pair[0]), "{bounds:?}");
        assert!(bounds[0] < 50 && bounds[8] <= 5000, "{bounds:?}");
        backoff.reset();
        assert!(backoff.next(u64::MAX) < FIRST);
    }

    #[test]
    fn random_bits_differ() {
        assert_ne!(random(), random());
    }
}
