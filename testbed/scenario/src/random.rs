//! The only randomness of a scenario: SplitMix64 streams, one per purpose (`simulation.md` section 2.10).

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use sluice_schedule::units::fnv1a64;

/// One output of SplitMix64 for this state.
pub fn mix(state: u64) -> u64 {
    SplitMix64::seed_from_u64(state).next_u64()
}

/// A stream of pseudo-random numbers.
#[derive(Clone, Debug)]
pub struct Stream(SplitMix64);

impl Stream {
    /// The stream of this scenario seed with this label.
    pub fn new(seed: u64, label: &str) -> Stream {
        Stream(SplitMix64::seed_from_u64(seed ^ fnv1a64(label.as_bytes())))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in [0, n), without bias; 0 when n is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        if n == 0 {
            return 0;
        }
        // 2⁶⁴ mod n; numbers at or above 2⁶⁴ minus that would favour the small results.
        let odd = (u64::MAX % n + 1) % n;
        loop {
            let x = self.bits();
            if x <= u64::MAX - odd {
                return x % n;
            }
        }
    }

    /// An index below `len`.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// Roughly normal with mean 0 and deviation 1: the sum of twelve uniforms less six.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_values_of_the_format() {
        assert_eq!(fnv1a64(b"arrivals"), 0xb10b_c22c_a203_cc53);
        let mut s = Stream::new(1, "arrivals");
        assert_eq!(
            [s.bits(), s.bits(), s.bits()],
            [0xa075_6a12_c9b7_b6b5, 0x10b3_c3a5_bcb0_7af2, 0xa403_210f_14b7_ba2e]
        );
        let mut s = Stream::new(1, "placement");
        assert_eq!([s.bits(), s.bits()], [0x8b7f_246a_3788_5d20, 0x111b_9420_57ca_ba2e]);
    }

    #[test]
    fn below_stays_below() {
        let mut s = Stream::new(7, "test");
        for n in 1..200 {
            assert!(s.below(n) < n);
        }
        assert_eq!(s.below(0), 0);
    }
}
