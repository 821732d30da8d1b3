//! What the best breadth-first schedule on a Cayley graph costs, from one receiver: the inner loop of the search.
//!
//! The arcs are x → x·s. Left multiplication moves every vertex to every other, so one receiver is like all. A source at
//! distance t from the receiver is the inverse of a word of t generators, and it may use the last link by generator s
//! exactly if some such word ends with s. One breadth-first search from the neutral element therefore gives both the
//! distances and the links that each source may use; the load of step t is the maximum, over sets S of links, of the
//! sources that can use no other link, over |S| (the optimum of the general method, Hall's condition with weights).

use super::group::{Element, Group};

/// More generators than this make too many sets of links.
pub(super) const MAX_DEGREE: u32 = 10;

/// lcm(1..=10): loads are whole numbers of this part of a shard.
pub(super) const PARTS: u64 = 2520;

/// What a candidate costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Score {
    pub t_l: u32,
    /// Σλ in parts of a shard.
    pub loads: u64,
    /// Hops beyond the depth aimed at, over all vertices.
    pub beyond: u64,
}

/// Memory of the search, kept from candidate to candidate.
#[derive(Debug)]
pub(super) struct Receiver {
    /// Distance of every vertex i·b+j in this candidate; `u32::MAX` where not yet reached.
    distance: Vec<u32>,
    /// Generators with which a shortest word of it can end.
    ends: Vec<u16>,
    queue: Vec<Element>,
    /// By generator and row: what is added to i, and the new row.
    steps: Vec<(u32, u32)>,
    /// Sources of a step by the links they may use.
    count: Vec<u32>,
}

impl Receiver {
    /// For graphs of `n` vertices and degree `d`.
    pub(super) fn new(n: u32, d: u32) -> Receiver {
        Receiver {
            distance: vec![0; n as usize],
            ends: vec![0; n as usize],
            queue: Vec::with_capacity(n as usize),
            steps: Vec::new(),
            count: vec![0; 1 << d],
        }
    }
    /// The cost of this candidate; `None` where the generators do not reach everything or some vertex is farther than
    /// `deepest`.
    pub(super) fn score(&mut self, group: &Group, generators: &[Element], aim: u32, deepest: u32) -> Option<Score> {
        let rows = group.b as usize;
        self.steps.clear();
        generators.iter().for_each(|&s| self.steps.extend(group.steps(s)));
        self.distance.fill(u32::MAX);
        self.distance[0] = 0;
        self.queue.clear();
        self.queue.push(Element::ONE);
        let (mut begin, mut score) = (0, Score { t_l: 0, loads: 0, beyond: 0 });
        while begin < self.queue.len() {
            let (end, next) = (self.queue.len(), score.t_l + 1);
            for place in begin..end {
                let x = self.queue[place];
                for s in 0..generators.len() {
                    let (add, row) = self.steps[s * rows + x.j as usize];
                    let i = x.i + add;
                    let i = if i >= group.a { i - group.a } else { i };
                    let there = (i * group.b + row) as usize;
                    if self.distance[there] == u32::MAX {
                        self.distance[there] = next;
                        self.ends[there] = 0;
                        self.queue.push(Element { i, j: row });
                    }
                    if self.distance[there] == next {
                        self.ends[there] |= 1 << s;
                    }
                }
            }
            if self.queue.len() == end {
                break;
            }
            if next > deepest {
                return None;
            }
            score.loads += self.load(group, end);
            score.beyond += (self.queue.len() - end) as u64 * u64::from(next.saturating_sub(aim));
            score.t_l = next;
            begin = end;
        }
        (self.queue.len() == group.order() as usize).then_some(score)
    }
    /// The load of the step whose sources stand in the queue from `begin`, in parts.
    fn load(&mut self, group: &Group, begin: usize) -> u64 {
        self.count.fill(0);
        for x in &self.queue[begin..] {
            self.count[usize::from(self.ends[(x.i * group.b + x.j) as usize])] += 1;
        }
        // From sources that may use exactly these links to sources that may use no others.
        let mut bit = 1;
        while bit < self.count.len() {
            for set in (0..self.count.len()).filter(|set| set & bit != 0) {
                self.count[set] += self.count[set ^ bit];
            }
            bit <<= 1;
        }
        let sets = self.count.iter().enumerate().skip(1);
        sets.map(|(set, &count)| u64::from(count) * (PARTS / u64::from(set.count_ones()))).max().unwrap_or(0)
    }
}
