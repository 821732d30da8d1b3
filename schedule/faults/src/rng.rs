//! The one source of chance of a run: SplitMix64. Same seed, same run.
//!
//! What happens in a run is drawn by name ([`Rng::of`]), not from one stream: a message's fate does not change when an earlier
//! message is gone, so that a list of faults can be cut down without changing what is left of it.

use sluice_schedule::units::mixed;

/// A seeded generator.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }
    /// The generator of one thing that happens, named by numbers.
    pub fn of(seed: u64, name: &[u64]) -> Rng {
        Rng(name.iter().fold(mixed(seed), |hash, word| mixed(hash ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15)))
    }
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }
    /// A number in `from..to`; `from` if the range is empty.
    pub fn range(&mut self, from: u64, to: u64) -> u64 {
        if to <= from { from } else { from + self.next() % (to - from) }
    }
    /// A signed number in `-most..=most`.
    pub fn around(&mut self, most: u64) -> i64 {
        self.range(0, 2 * most + 1) as i64 - most as i64
    }
    /// True in `percent` of 100 cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.range(0, from.len() as u64) as usize]
    }
}
