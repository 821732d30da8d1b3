//! The numbers of the workload generator: SplitMix64 (Steele, Lea and Flood, 2014) and what is drawn from it, to the bit.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

/// A sequence of numbers, the same one for the same seed: its state begins as the seed.
#[derive(Clone, Debug)]
pub struct Random(SplitMix64);

impl Random {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Random {
        Random(SplitMix64::seed_from_u64(seed))
    }
    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }
    /// A number in [0, 1), of 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }
    /// A whole number below `bound`; 0 for a bound of 0.
    pub fn below(&mut self, bound: usize) -> usize {
        // The product may round up to the bound only for bounds beyond 2⁵³.
        ((self.unit() * bound as f64) as usize).min(bound.saturating_sub(1))
    }
    /// A number of the normal distribution, by the cosine of Box and Muller; the sine is thrown away.
    pub fn normal(&mut self, mean: f64, deviation: f64) -> f64 {
        let radius = 1.0 - self.unit();
        let angle = self.unit();
        mean + deviation * (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_numbers_of_seed_1_are_those_of_the_page() {
        let mut random = Random::new(1);
        assert_eq!(
            [random.bits(), random.bits(), random.bits()],
            [0x910a_2dec_8902_5cc1, 0xbeeb_8da1_658e_ec67, 0xf893_a2ee_fb32_555e]
        );
        let mut random = Random::new(1);
        let drawn = [random.normal(5.0, 2.5), random.normal(5.0, 2.5), random.normal(5.0, 2.5)];
        assert_eq!(drawn, [4.914_331_695_520_372, -1.250_168_733_424_669, 5.219_306_170_787_216]);
    }

    #[test]
    fn whole_numbers_stay_below_their_bound() {
        let mut random = Random::new(7);
        assert!((0..1000).all(|_| random.below(3) < 3));
        assert_eq!(random.below(0), 0);
        assert!(random.below(usize::MAX) < usize::MAX);
    }
}
