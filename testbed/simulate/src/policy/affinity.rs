//! From shifts per link to one shift per job: the affinity graph of jobs and the links they crowd.
//!
//! After CASSINI (NSDI 2024). Jobs and links are the nodes of a bipartite graph. Where it has no cycle, walking it from
//! the job with the smallest id gives every job one shift that agrees with all links. The original discards placements
//! whose graph has a cycle; here the link with the best score that closes one is left out.

use super::circle::Circle;

/// A crowded link with its circle.
#[derive(Clone, Debug)]
pub struct Crowd {
    /// The jobs on it, by place in the order of ids, ascending.
    pub jobs: Vec<usize>,
    /// Their circle; shifts in the order of `jobs`.
    pub circle: Circle,
}

/// The shift of one job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placed {
    /// The smallest job of its component, which has shift 0.
    pub anchor: usize,
    /// Seconds, less than the period.
    pub shift_s: f64,
    /// Seconds: its period on the first circle that reached it.
    pub period_s: f64,
}

/// One shift for each of `jobs` jobs; `None` for a job on no crowded link. Of equal scores the earlier link counts.
pub fn unify(jobs: usize, crowds: &[Crowd]) -> Vec<Option<Placed>> {
    let kept = without_cycles(jobs, crowds);
    let mut links_of: Vec<Vec<usize>> = vec![Vec::new(); jobs];
    for &l in &kept {
        crowds[l].jobs.iter().for_each(|&j| links_of[j].push(l));
    }
    let mut placed: Vec<Option<Placed>> = vec![None; jobs];
    let mut walked = vec![false; crowds.len()];
    for anchor in 0..jobs {
        let Some(&first) = links_of[anchor].first().filter(|_| placed[anchor].is_none()) else { continue };
        let period_s = crowds[first].at(anchor).map_or(0.0, |(_, period)| period);
        let mut queue = std::collections::VecDeque::from([anchor]);
        placed[anchor] = Some(Placed { anchor, shift_s: 0.0, period_s });
        while let Some(j) = queue.pop_front() {
            let Some(from) = placed[j] else { continue };
            for &l in &links_of[j] {
                if std::mem::replace(&mut walked[l], true) {
                    continue;
                }
                let Some((own, _)) = crowds[l].at(j) else { continue };
                for &k in crowds[l].jobs.iter().filter(|&&k| k != j) {
                    let Some((there, period_s)) = crowds[l].at(k).filter(|_| placed[k].is_none()) else { continue };
                    let shift_s = (from.shift_s - own + there).rem_euclid(period_s);
                    placed[k] = Some(Placed { anchor, shift_s, period_s });
                    queue.push_back(k);
                }
            }
        }
    }
    placed
}

impl Crowd {
    /// Shift and period of a job on this link's circle.
    fn at(&self, job: usize) -> Option<(f64, f64)> {
        let i = self.jobs.binary_search(&job).ok()?;
        Some((*self.circle.shifts_s.get(i)?, *self.circle.periods_s.get(i)?))
    }
}

/// Links that stay, in their order: the most contended first, each unless two of its jobs are connected already.
fn without_cycles(jobs: usize, crowds: &[Crowd]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..crowds.len()).collect();
    order.sort_by(|&a, &b| crowds[a].circle.score.total_cmp(&crowds[b].circle.score));
    let mut parent: Vec<usize> = (0..jobs).collect();
    let mut kept = Vec::new();
    for l in order {
        let mut roots: Vec<usize> = crowds[l].jobs.iter().map(|&j| root(&mut parent, j)).collect();
        roots.sort_unstable();
        if roots.windows(2).any(|w| matches!(w, [a, b] if a == b)) {
            continue;
        }
        kept.push(l);
        roots.iter().skip(1).for_each(|&r| parent[r] = roots[0]);
    }
    kept.sort_unstable();
    kept
}

fn root(parent: &mut [usize], mut j: usize) -> usize {
    while parent[j] != j {
        parent[j] = parent[parent[j]];
        j = parent[j];
    }
    j
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn crowd(jobs: &[usize], shifts: &[f64], score: f64) -> Crowd {
        let circle = Circle { perimeter_s: 1.0, periods_s: vec![1.0; jobs.len()], shifts_s: shifts.to_vec(), score };
        Crowd { jobs: jobs.to_vec(), circle }
    }

    #[test]
    fn shifts_add_up_along_a_chain() {
        let crowds = [crowd(&[0, 1], &[0.1, 0.4], 0.9), crowd(&[1, 2], &[0.0, 0.8], 1.0)];
        let placed = unify(4, &crowds);
        let shift = |j: usize| placed[j].map(|p| (p.anchor, (p.shift_s * 1e9).round() / 1e9));
        assert_eq!([shift(0), shift(1), shift(2), shift(3)], [Some((0, 0.0)), Some((0, 0.3)), Some((0, 0.1)), None]);
    }

    #[test]
    fn of_a_cycle_the_best_score_goes() {
        let crowds = [crowd(&[0, 1], &[0.0, 0.2], 0.95), crowd(&[0, 1], &[0.0, 0.6], 0.5)];
        assert_eq!(unify(2, &crowds)[1].map(|p| p.shift_s), Some(0.6));
        let equal = [crowd(&[0, 1], &[0.0, 0.2], 0.5), crowd(&[0, 1], &[0.0, 0.6], 0.5)];
        assert_eq!(unify(2, &equal)[1].map(|p| p.shift_s), Some(0.2));
    }

    proptest! {
        /// On every link that was kept, jobs stand to each other as its circle says.
        #[test]
        fn kept_links_agree(
            links in prop::collection::vec((prop::collection::btree_set(0usize..7, 2..4), 0u32..1000), 1..6),
        ) {
            let crowds: Vec<Crowd> = links
                .iter()
                .enumerate()
                .map(|(l, (jobs, score))| {
                    let jobs: Vec<usize> = jobs.iter().copied().collect();
                    let shifts: Vec<f64> = jobs.iter().map(|&j| ((j * 13 + l * 7) % 72) as f64 / 72.0).collect();
                    crowd(&jobs, &shifts, f64::from(*score) / 1000.0)
                })
                .collect();
            let placed = unify(7, &crowds);
            for l in without_cycles(7, &crowds) {
                let c = &crowds[l];
                for (i, &a) in c.jobs.iter().enumerate() {
                    for (k, &b) in c.jobs.iter().enumerate() {
                        let (pa, pb) = (placed[a].unwrap(), placed[b].unwrap());
                        let want = c.circle.shifts_s[i] - c.circle.shifts_s[k];
                        let turn = (pa.shift_s - pb.shift_s - want).rem_euclid(1.0);
                        prop_assert!(turn.min(1.0 - turn) < 1e-9);
                        prop_assert_eq!(pa.anchor, pb.anchor);
                    }
                }
            }
        }
    }
}
