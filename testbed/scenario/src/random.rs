//! The only randomness of a scenario: SplitMix64 streams, one per purpose (`simulation.md` section 2.10).

use sluice_schedule::units::fnv1a64;

/// One output of SplitMix64 for this state.
pub const fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A stream of pseudo-random numbers.
#[derive(Clone, Debug)]
pub struct Stream {
    state: u64,
}

impl Stream {
    /// The stream of this scenario seed with this label.
    pub const fn new(seed: u64, label: &str) -> Stream {
        Stream { state: seed ^ fnv1a64(label.as_bytes()) }
    }

    /// The next 64 bits.
    pub const fn bits(&mut self) -> u64 {
        let out = mix(self.state);
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        out
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
