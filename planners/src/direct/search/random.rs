//! Pseudo-random numbers that are the same everywhere: streams of SplitMix64.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

/// A stream of numbers from a seed.
#[derive(Clone, Debug)]
pub(super) struct Random(SplitMix64);

impl Random {
    /// The stream number `stream` of a seed.
    pub(super) fn new(seed: u64, stream: u64) -> Random {
        let start = SplitMix64::seed_from_u64(seed).next_u64() ^ stream.wrapping_mul(0xd134_2543_de82_ef95);
        Random(SplitMix64::seed_from_u64(start))
    }
    /// A number below `bound`, which is at least 1.
    pub(super) fn below(&mut self, bound: u32) -> u32 {
        // The high part of a product is as even as anyone needs here.
        (((self.0.next_u64() >> 32) * u64::from(bound)) >> 32) as u32
    }
    /// One of these; `None` of nothing.
    pub(super) fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        of.get(self.below(of.len().max(1) as u32) as usize)
    }
}
