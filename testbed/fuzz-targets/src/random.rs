//! Numbers that look random and are the same in each run: splitmix64, so that a seed says everything.

/// A generator.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// One that begins with this seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `bound`; 0 where there is none.
    pub fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { (self.number() >> 8) as usize % bound }
    }

    /// True once in so many times.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of a list; `None` of an empty one.
    pub fn of<'a, T>(&mut self, list: &'a [T]) -> Option<&'a T> {
        list.get(self.below(list.len()))
    }

    /// A part of this many places: where it begins and ends, short ones more often.
    pub fn range(&mut self, length: usize) -> std::ops::Range<usize> {
        let begin = self.below(length + 1);
        let most = if self.once_in(4) { length - begin } else { (length - begin).min(16) };
        begin..begin + self.below(most + 1)
    }

    /// A number at which programs go wrong, or near one.
    pub fn edge(&mut self) -> u64 {
        let bit = 1_u64 << self.below(64);
        match self.below(6) {
            0 => self.below(4) as u64,
            1 => bit,
            2 => bit.wrapping_sub(1),
            3 => bit.wrapping_neg(),
            4 => u64::MAX - self.below(4) as u64,
            _ => self.number() >> self.below(64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_says_everything_and_bounds_hold() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            (0..100).map(|_| random.number()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        let mut random = Random::new(1);
        for length in (0..40).chain([1000]) {
            assert!(random.below(length) < length.max(1));
            let range = random.range(length);
            assert!(range.start <= range.end && range.end <= length, "{range:?} of {length}");
        }
        assert_eq!(random.of::<u8>(&[]), None);
    }
}
