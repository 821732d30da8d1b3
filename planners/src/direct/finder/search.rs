//! Offsets of circulants whose breadth-first schedule takes the least time in few steps: tried at random, from a fixed
//! seed, so that the same question has the same answer.
//!
//! A circulant looks the same from every vertex, so one receiver decides. Its schedule takes the least time if and only
//! if, at every distance, no set of its links is the only way for more than its share of the sources there.

use crate::direct::bfb;
use crate::direct::family::{Family, Half};
use crate::random::Random;

/// Degrees beyond which nothing is tried: the sets of links are too many.
const MAX_DEGREE: u32 = 8;
const FAR: u16 = u16::MAX;

/// The directed circulant of the fewest steps found; `work` bounds the links looked at.
pub fn directed(n: u32, d: u32, work: u64) -> Option<Family> {
    if !(2..=MAX_DEGREE).contains(&d) || n <= d || n >= u32::from(FAR) {
        return None;
    }
    let mut trial = Trial::new(n, d);
    let mut random = sequence(n, d, 1);
    let mut best = None;
    let mut offsets = vec![1; d as usize];
    let tries = tries(n - 1, d);
    let mut round = 0;
    while round < tries && trial.work < work && trial.most_steps > trial.least_steps {
        if d == 2 && round < u64::from(n) {
            // Few enough to try them all.
            offsets[1] = round as u32;
        } else {
            let fixed = random.remainder(2) as usize;
            offsets[0] = 1;
            offsets[fixed..].iter_mut().for_each(|offset| *offset = 1 + random.remainder(n - 1));
        }
        round += 1;
        if trial.improves(&offsets) {
            let mut offsets = offsets.clone();
            offsets.sort_unstable();
            best = Some(Family::DirectedCirculant { n, offsets });
        }
    }
    best
}

/// The circulant of the fewest steps found; an odd degree takes the offset n/2 once.
pub fn undirected(n: u32, d: u32, work: u64) -> Option<Family> {
    let odd = d % 2 == 1;
    if !(3..=MAX_DEGREE).contains(&d) || n <= d || n >= u32::from(FAR) || (odd && n % 2 == 1) {
        return None;
    }
    let pairs = (d / 2) as usize;
    let most = (n - 1) / 2;
    let mut trial = Trial::new(n, d);
    let mut random = sequence(n, d, 2);
    let mut best = None;
    let mut offsets = vec![1; pairs];
    let tries = tries(most, d / 2);
    let mut round = 0;
    while round < tries && trial.work < work && trial.most_steps > trial.least_steps {
        round += 1;
        let fixed = (random.remainder(2) as usize).min(pairs - 1);
        offsets[0] = 1;
        offsets[fixed..].iter_mut().for_each(|offset| *offset = 1 + random.remainder(most));
        let both = offsets.iter().flat_map(|offset| [*offset, n - offset]);
        let steps: Vec<u32> = both.chain(odd.then_some(n / 2)).collect();
        if trial.improves(&steps) {
            let mut offsets = offsets.clone();
            offsets.sort_unstable();
            offsets.extend(odd.then_some(n / 2));
            let half = if odd { Half::Single } else { Half::Refused };
            best = Some(Family::Circulant { n, offsets, half });
        }
    }
    best
}

/// A sequence of its own for every size and kind of graph.
fn sequence(n: u32, d: u32, kind: u64) -> Random {
    Random::new(u64::from(n) << 32 | u64::from(d) << 8 | kind)
}

/// So many tries as find almost all sets of `d` of `n` offsets: several times as many as there are.
fn tries(n: u32, d: u32) -> u64 {
    let sets = (0..u64::from(d)).fold(1_u64, |sets, i| sets.saturating_mul(u64::from(n).saturating_sub(i)) / (i + 1));
    // Offsets are drawn in any order and alike ones too, so a set comes up less often than once in so many.
    sets.saturating_mul(16).max(64)
}

/// One try after the other, each against the best so far.
struct Trial {
    n: u32,
    /// The best must stay below this.
    most_steps: u16,
    /// No graph of this size has fewer.
    least_steps: u16,
    /// Links looked at until now, in all tries.
    work: u64,
    far: Vec<u16>,
    queue: Vec<u32>,
}

impl Trial {
    fn new(n: u32, d: u32) -> Trial {
        let least = bfb::fewest_steps(n, d).unwrap_or(0);
        Trial {
            n,
            most_steps: FAR,
            least_steps: u16::try_from(least).unwrap_or(FAR),
            work: 0,
            far: Vec::new(),
            queue: Vec::new(),
        }
    }

    /// Has the graph fewer steps than the best so far, and the least time? Then it is the best.
    fn improves(&mut self, offsets: &[u32]) -> bool {
        // Offsets that are alike or nothing are a try too, or nothing would end where all are.
        self.work += 1;
        let alike = offsets.iter().enumerate().any(|(i, offset)| *offset == 0 || offsets[..i].contains(offset));
        if alike || !self.reaches(offsets) || !self.is_balanced(offsets) {
            return false;
        }
        self.most_steps = self.queue.last().map_or(0, |last| self.far[*last as usize]);
        true
    }

    /// Distances from 0, as long as they stay below the best.
    fn reaches(&mut self, offsets: &[u32]) -> bool {
        self.far.clear();
        self.far.resize(self.n as usize, FAR);
        self.queue.clear();
        self.queue.push(0);
        self.far[0] = 0;
        let mut next = 0;
        while let Some(&v) = self.queue.get(next) {
            next += 1;
            let further = self.far[v as usize] + 1;
            self.work += offsets.len() as u64;
            for offset in offsets {
                let mut head = v + offset;
                if head >= self.n {
                    head -= self.n;
                }
                if self.far[head as usize] == FAR {
                    if further >= self.most_steps {
                        return false;
                    }
                    self.far[head as usize] = further;
                    self.queue.push(head);
                }
            }
        }
        self.queue.len() == self.n as usize
    }

    /// Can every distance's vertices be shared out equally over the links they may come by? Each set of links takes
    /// those that can come by no other.
    fn is_balanced(&self, offsets: &[u32]) -> bool {
        let d = offsets.len();
        let mut counts = vec![0_u32; 1_usize << d];
        let mut from = 1;
        while from < self.queue.len() {
            let distance = self.far[self.queue[from] as usize];
            let level = self.queue[from..].iter().take_while(|v| self.far[**v as usize] == distance);
            counts.fill(0);
            let mut all = 0;
            for &v in level {
                let by = |offset: &u32| self.far[((v + self.n - offset) % self.n) as usize] == distance - 1;
                let links = offsets.iter().enumerate().filter(|(_, offset)| by(offset));
                counts[links.map(|(link, _)| 1_usize << link).sum::<usize>()] += 1;
                all += 1;
            }
            // From how many come by exactly these links to how many come by no others.
            for link in 0..d {
                for links in (0..counts.len()).filter(|links| links & 1 << link != 0) {
                    counts[links] += counts[links & !(1 << link)];
                }
            }
            let too_many =
                |(links, confined): (usize, &u32)| *confined as usize * d > all * links.count_ones() as usize;
            if counts.iter().enumerate().any(too_many) {
                return false;
            }
            from += all;
        }
        true
    }
}
