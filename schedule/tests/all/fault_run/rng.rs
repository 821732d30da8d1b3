//! The one source of chance of a run: SplitMix64. Same seed, same run.

/// A seeded generator.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
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
