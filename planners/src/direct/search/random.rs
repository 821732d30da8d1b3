//! Pseudo-random numbers that are the same everywhere (SplitMix64, public domain).

/// A stream of numbers from a seed.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    /// The stream number `stream` of a seed.
    pub(super) fn new(seed: u64, stream: u64) -> Random {
        let mut random = Random(seed);
        let start = random.next() ^ stream.wrapping_mul(0xd134_2543_de82_ef95);
        Random(start)
    }
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    /// A number below `bound`, which is at least 1.
    pub(super) fn below(&mut self, bound: u32) -> u32 {
        // The high part of a product is as even as anyone needs here.
        ((u64::from((self.next() >> 32) as u32) * u64::from(bound)) >> 32) as u32
    }
    /// One of these; `None` of nothing.
    pub(super) fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        of.get(self.below(of.len().max(1) as u32) as usize)
    }
}
