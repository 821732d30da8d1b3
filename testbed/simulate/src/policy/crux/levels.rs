//! From many priorities to few: which jobs may share a level at the least loss?
//!
//! Jobs that share a link should stay on different levels; each such pair weighs as much as the intensity of the job that
//! should go first. Every order that respects the pairs is split into contiguous runs by dynamic programming; several
//! orders are tried.

use sluice_scenario::random::Stream;

/// Two jobs that share a link, by place in the order of priorities: `from` should go before `to`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Edge {
    /// The job that should go first.
    pub from: usize,
    /// After; larger than `from`.
    pub to: usize,
    /// What it is worth that they stand on different levels.
    pub weight: f64,
}

/// The level of each of `n` jobs, 0 first, at most `levels` of them; an edge's ends never stand in the wrong order. The
/// first order tried is the given one, the others are drawn from `rng`; of equal totals the earlier order counts.
///
/// Costs O(orders · (n · levels · log² n + edges · log n)).
pub fn compress(n: usize, edges: &[Edge], levels: usize, orders: u32, rng: &mut Stream) -> Vec<usize> {
    let levels = levels.max(1);
    if n <= levels {
        return (0..n).collect();
    }
    let mut best: Option<(f64, Vec<usize>)> = None;
    for tried in 0..orders.max(1) {
        let order: Vec<usize> = if tried == 0 { (0..n).collect() } else { random_order(n, edges, rng) };
        let mut place = vec![0; n];
        for (at, &job) in order.iter().enumerate() {
            place[job] = at;
        }
        let at = |job: usize| place[job];
        let moved: Vec<Edge> =
            edges.iter().map(|e| Edge { from: at(e.from), to: at(e.to), weight: e.weight }).collect();
        let (total, runs) = split(n, &moved, levels);
        if best.as_ref().is_none_or(|(most, _)| total > most * (1.0 + 1e-12)) {
            best = Some((total, (0..n).map(|job| runs[at(job)]).collect()));
        }
    }
    best.map(|b| b.1).unwrap_or_default()
}

/// A topological order drawn at random: at every step one of the jobs that nobody has to precede any more.
fn random_order(n: usize, edges: &[Edge], rng: &mut Stream) -> Vec<usize> {
    let mut waits = vec![0usize; n];
    let mut next: Vec<Vec<usize>> = vec![Vec::new(); n];
    for e in edges {
        waits[e.to] += 1;
        next[e.from].push(e.to);
    }
    let mut free: Vec<usize> = (0..n).filter(|&j| waits[j] == 0).collect();
    let mut order = Vec::with_capacity(n);
    while !free.is_empty() {
        let job = free.remove(rng.index(free.len()));
        order.push(job);
        for &j in &next[job] {
            waits[j] -= 1;
            if waits[j] == 0 {
                free.push(j);
            }
        }
    }
    order
}

/// Splits `n` places into at most `levels` contiguous runs so that the edges between different runs weigh most. Returns
/// their weight and the run of each place; of equals the split with the earliest cuts.
///
/// What stays inside a run only grows with the run, and the more the longer it is already, so the best cut moves in one
/// direction and each level is a divide and conquer.
pub fn split(n: usize, edges: &[Edge], levels: usize) -> (f64, Vec<usize>) {
    let mut inside = Inside::new(n, edges);
    let total: f64 = edges.iter().map(|e| e.weight).sum();
    // loss[i]: least weight inside runs of the first i places with the runs used so far.
    let mut loss: Vec<f64> = (0..=n).map(|i| inside.weight(0, i)).collect();
    let mut cuts: Vec<Vec<usize>> = Vec::new();
    for _ in 1..levels.clamp(1, n.max(1)) {
        let mut next = vec![f64::INFINITY; n + 1];
        let mut cut = vec![0; n + 1];
        conquer(&mut inside, &loss, (0, n), (0, n), &mut next, &mut cut);
        loss = next;
        cuts.push(cut);
    }
    let mut runs = vec![0; n];
    let mut end = n;
    for (level, cut) in cuts.iter().enumerate().rev() {
        runs[cut[end]..end].fill(level + 1);
        end = cut[end];
    }
    (total - loss[n], runs)
}

/// Fills `next[i]` for i in `ends`, knowing that the best last cut lies in `cuts`.
fn conquer(
    inside: &mut Inside,
    loss: &[f64],
    ends: (usize, usize),
    cuts: (usize, usize),
    next: &mut [f64],
    cut: &mut [usize],
) {
    let middle = usize::midpoint(ends.0, ends.1);
    let mut best = (f64::INFINITY, cuts.0);
    for (at, before) in loss.iter().enumerate().take(cuts.1.min(middle) + 1).skip(cuts.0) {
        let value = before + inside.weight(at, middle);
        if value < best.0 {
            best = (value, at);
        }
    }
    (next[middle], cut[middle]) = best;
    if ends.0 < middle {
        conquer(inside, loss, (ends.0, middle - 1), (cuts.0, best.1), next, cut);
    }
    if middle < ends.1 {
        conquer(inside, loss, (middle + 1, ends.1), (best.1, cuts.1), next, cut);
    }
}

/// Weight of the edges inside a window of places, moved along step by step.
struct Inside {
    /// Neighbours of each place in order, each with the weight to it and all before it.
    near: Vec<Vec<(usize, f64)>>,
    begin: usize,
    end: usize,
    sum: f64,
}

impl Inside {
    fn new(n: usize, edges: &[Edge]) -> Inside {
        let mut near: Vec<Vec<(usize, f64)>> = vec![Vec::new(); n];
        for e in edges {
            near[e.from].push((e.to, e.weight));
            near[e.to].push((e.from, e.weight));
        }
        for list in &mut near {
            list.sort_unstable_by_key(|n| n.0);
            let mut sum = 0.0;
            for (_, weight) in list {
                sum += *weight;
                *weight = sum;
            }
        }
        Inside { near, begin: 0, end: 0, sum: 0.0 }
    }

    /// Weight between `place` and the window.
    fn to(&self, place: usize) -> f64 {
        let near = &self.near[place];
        let upto = |end: usize| near.partition_point(|n| n.0 < end).checked_sub(1).map_or(0.0, |last| near[last].1);
        upto(self.end) - upto(self.begin)
    }

    /// Weight of the edges with both ends in [begin, end).
    fn weight(&mut self, begin: usize, end: usize) -> f64 {
        if begin >= end {
            return 0.0;
        }
        if begin >= self.end || end <= self.begin {
            (self.begin, self.end, self.sum) = (begin, begin, 0.0);
        }
        while self.begin > begin {
            self.begin -= 1;
            self.sum += self.to(self.begin);
        }
        while self.end < end {
            self.sum += self.to(self.end);
            self.end += 1;
        }
        while self.begin < begin {
            self.begin += 1;
            self.sum -= self.to(self.begin - 1);
        }
        while self.end > end {
            self.end -= 1;
            self.sum -= self.to(self.end);
        }
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All ways to cut, each weighed edge by edge.
    fn best_by_force(n: usize, edges: &[Edge], levels: usize) -> f64 {
        (0u32..1 << (n - 1))
            .filter(|cuts| cuts.count_ones() < levels as u32)
            .map(|cuts| {
                let run = |place: usize| (cuts & ((1u32 << place) - 1)).count_ones();
                edges.iter().filter(|e| run(e.from) != run(e.to)).map(|e| e.weight).sum::<f64>()
            })
            .fold(0.0, f64::max)
    }

    fn edges(n: usize) -> impl Strategy<Value = Vec<Edge>> {
        // Whole weights: sums are exact.
        let one = (0..n, 0..n, 1u32..20).prop_filter_map("two places", |(a, b, w)| {
            (a < b).then_some(Edge { from: a, to: b, weight: f64::from(w) })
        });
        prop::collection::vec(one, 0..20)
    }

    #[test]
    fn few_jobs_keep_their_priorities() {
        assert_eq!(compress(3, &[], 8, 10, &mut Stream::new(1, "crux")), [0, 1, 2]);
    }

    #[test]
    fn the_lightest_pair_shares() {
        let e = |from, to, weight| Edge { from, to, weight };
        let chain = [e(0, 1, 5.0), e(1, 2, 1.0), e(2, 3, 5.0)];
        assert_eq!(split(4, &chain, 3), (10.0, vec![0, 1, 1, 2]));
    }

    #[test]
    fn another_order_may_be_better() {
        // 0 and 2 meet, 1 and 3 meet: in the order 0, 1, 2, 3 two levels separate both, and any order does as well.
        let e = |from, to, weight| Edge { from, to, weight };
        // A star of two levels: 0→1, 2→3, 4→5 needs the order 0 2 4 1 3 5.
        let pairs = [e(0, 1, 1.0), e(2, 3, 1.0), e(4, 5, 1.0)];
        let levels = compress(6, &pairs, 2, 200, &mut Stream::new(1, "crux"));
        assert!(pairs.iter().all(|p| levels[p.from] < levels[p.to]), "{levels:?}");
        let given = compress(6, &pairs, 2, 1, &mut Stream::new(1, "crux"));
        assert!(pairs.iter().any(|p| given[p.from] == given[p.to]));
    }

    proptest! {
        #[test]
        fn split_is_the_best_of_all(edges in edges(8), levels in 1usize..6) {
            let (total, runs) = split(8, &edges, levels);
            prop_assert_eq!(total, best_by_force(8, &edges, levels));
            let apart: f64 = edges.iter().filter(|e| runs[e.from] != runs[e.to]).map(|e| e.weight).sum();
            prop_assert_eq!(apart, total);
            prop_assert!(runs.windows(2).all(|w| w[1] == w[0] || w[1] == w[0] + 1) || runs.is_sorted());
            prop_assert!(runs.iter().all(|&r| r < levels));
        }

        /// Nobody who should go first goes later, and more orders are never worse.
        #[test]
        fn levels_respect_the_order(edges in edges(12), seed in any::<u64>()) {
            let levels = compress(12, &edges, 4, 10, &mut Stream::new(seed, "crux"));
            prop_assert!(edges.iter().all(|e| levels[e.from] <= levels[e.to]));
            let worth = |l: &[usize]| edges.iter().filter(|e| l[e.from] != l[e.to]).map(|e| e.weight).sum::<f64>();
            let one = compress(12, &edges, 4, 1, &mut Stream::new(seed, "crux"));
            prop_assert!(worth(&levels) >= worth(&one));
        }
    }
}
