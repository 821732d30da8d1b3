//! Cuts that once limited an edge, each with its exact slack, so that they answer later questions without a flow.
//!
//! A cut is a set of nodes A. Its slack is the capacity out of A less what still has to leave it: every tree not begun
//! whose root is in A, and the batch at hand if all of it is in A. An edge out of A takes from the slack unless it is
//! the one by which the batch leaves A. Stored the other way round, as one bit per cut at each node, a question is a
//! few word operations.

/// Cuts kept at a time; the one that was of no use for longest makes room.
const MAX_CUTS: usize = 256;
const WORDS: usize = MAX_CUTS / 64;

#[derive(Clone, Debug)]
pub(super) struct Cuts {
    /// Per node: the cuts that have it inside.
    inside: Vec<[u64; WORDS]>,
    /// The cuts that are in use.
    live: [u64; WORDS],
    /// The cuts that the batch at hand has left, or has never been in.
    left: [u64; WORDS],
    slack: [i64; MAX_CUTS],
    used: [u64; MAX_CUTS],
    clock: u64,
}

/// The cuts in a set.
fn each(bits: [u64; WORDS]) -> impl Iterator<Item = usize> {
    bits.into_iter().enumerate().flat_map(|(word, mut bits)| {
        std::iter::from_fn(move || {
            let bit = bits.trailing_zeros() as usize;
            bits &= bits.wrapping_sub(1);
            (bit < 64).then_some(word * 64 + bit)
        })
    })
}

impl Cuts {
    pub fn new(nodes: usize) -> Self {
        Self {
            inside: vec![[0; WORDS]; nodes],
            live: [0; WORDS],
            left: [0; WORDS],
            slack: [0; MAX_CUTS],
            used: [0; MAX_CUTS],
            clock: 0,
        }
    }

    /// Cuts with `from` inside and `to` outside.
    fn crossed(&self, from: u32, to: u32) -> [u64; WORDS] {
        let (from, to) = (&self.inside[from as usize], &self.inside[to as usize]);
        std::array::from_fn(|word| from[word] & !to[word])
    }

    /// A batch begins at a root: its trees move from those not begun to the batch, no slack changes.
    pub fn start(&mut self, root: u32) {
        self.left = std::array::from_fn(|word| self.live[word] & !self.inside[root as usize][word]);
    }

    /// No edge from `from` to `to` can take more than this.
    pub fn bound(&mut self, from: u32, to: u32) -> i64 {
        let crossed = self.crossed(from, to);
        let limiting = std::array::from_fn(|word| crossed[word] & self.left[word]);
        let Some(least) = each(limiting).min_by_key(|&cut| self.slack[cut]) else { return i64::MAX };
        self.used[least] = self.clock;
        self.slack[least]
    }

    /// The batch took an edge with all its weight.
    pub fn grown(&mut self, from: u32, to: u32, weight: i64) {
        let crossed = self.crossed(from, to);
        for cut in each(std::array::from_fn(|word| crossed[word] & self.left[word])) {
            self.slack[cut] -= weight;
        }
        self.clock += 1;
        for word in 0..WORDS {
            self.left[word] |= self.live[word] & !self.inside[to as usize][word];
        }
    }

    /// An edge of the batch got capacity back.
    pub fn returned(&mut self, from: u32, to: u32, amount: i64) {
        for cut in each(self.crossed(from, to)) {
            self.slack[cut] += amount;
        }
    }

    /// The root got trees back that the batch gave up.
    pub fn restored(&mut self, root: u32, amount: i64) {
        let inside = self.inside[root as usize];
        for cut in each(std::array::from_fn(|word| inside[word] & self.left[word])) {
            self.slack[cut] -= amount;
        }
    }

    /// Keeps a cut that limits the batch at hand, which has left it.
    pub fn keep(&mut self, inside: &[bool], slack: i64) {
        let free = (0..MAX_CUTS).find(|cut| self.live[cut / 64] >> (cut % 64) & 1 == 0);
        let cut = free.unwrap_or_else(|| (0..MAX_CUTS).min_by_key(|&cut| self.used[cut]).unwrap_or(0));
        let (word, bit) = (cut / 64, 1 << (cut % 64));
        for (node, &inside) in self.inside.iter_mut().zip(inside) {
            if inside { node[word] |= bit } else { node[word] &= !bit }
        }
        self.live[word] |= bit;
        self.left[word] |= bit;
        self.slack[cut] = slack;
        self.used[cut] = self.clock;
    }
}
