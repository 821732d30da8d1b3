//! When to dial again: [`sluice_schedule::backoff`] with this machine's own chance.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

/// The waits of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backoff(sluice_schedule::backoff::Backoff);

impl Backoff {
    /// How long to wait after one more failure; `random` picks the place between nothing and the bound.
    pub fn next(&mut self, random: u64) -> Duration {
        Duration::from_nanos(self.0.next(random).0)
    }
    pub fn reset(&mut self) {
        self.0.reset();
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
    fn random_bits_differ() {
        assert_ne!(random(), random());
    }
}
