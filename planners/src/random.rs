//! Numbers that look random and are the same everywhere: SplitMix64 (Steele, Lea and Flood, 2014).

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

/// Scatters a number over 64 bits, different numbers to different places.
pub(crate) fn scatter(number: u64) -> u64 {
    SplitMix64::seed_from_u64(number).next_u64()
}

/// A sequence of numbers, the same one for the same seed.
#[derive(Clone, Debug)]
pub(crate) struct Random(SplitMix64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(SplitMix64::seed_from_u64(seed))
    }
    /// One of many sequences of a seed.
    pub(crate) fn stream(seed: u64, stream: u64) -> Random {
        Random::new(scatter(seed) ^ stream.wrapping_mul(0xd134_2543_de82_ef95))
    }
    /// The upper half of the next 64 bits.
    pub(crate) fn half(&mut self) -> u32 {
        (self.0.next_u64() >> 32) as u32
    }
    /// A number below `bound`, which is at least 1.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        // The high part of a product is as even as anyone needs here.
        ((u64::from(self.half()) * u64::from(bound)) >> 32) as u32
    }
    /// What is left of the next 64 bits when divided by `divisor`, which is at least 1.
    pub(crate) fn remainder(&mut self, divisor: u32) -> u32 {
        (self.0.next_u64() % u64::from(divisor)) as u32
    }
    /// One of these; `None` of nothing.
    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        of.get(self.below(of.len().max(1) as u32) as usize)
    }
    pub(crate) fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            list.swap(i, self.half() as usize % (i + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plans made from a seed are written down in tests and benchmarks: the numbers must never change.
    #[test]
    fn numbers_stay_what_they_are() {
        assert_eq!(scatter(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(scatter(1_477_776_061_723_855_037), 1_985_237_415_132_408_290);
        assert_eq!(Random::new(0).half(), 0xe220_a839);
        assert_eq!(Random::new(0).below(1 << 16), 0xe220);
        assert_eq!(Random::new(0).remainder(1 << 16), 0xcdaf);
        assert_eq!(Random::stream(0, 0).half(), (scatter(scatter(0)) >> 32) as u32);
    }
}
