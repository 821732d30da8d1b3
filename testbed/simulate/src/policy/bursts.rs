//! Running jobs as the links see them, and circles that need not be searched twice: what `ccml` and `cassini` share.

use std::collections::HashMap;

use super::circle::{self, Burst, Circle};
use super::grid::{Grids, Shift};
use crate::scheduler::{Change, Order, Orders};
use crate::world::{JobIx, JobPhase, World};

/// Most jobs on one circle; of more, those with the most bytes per period. A circle of all jobs that cross a core link
/// would cost seconds and shift nobody to any use.
const MAX_CIRCLE_JOBS: usize = 16;
/// How many circles are remembered.
const MAX_REMEMBERED: usize = 20_000;

/// A job that sends `bytes` per round over a link; `None` when it never sends anything.
pub fn burst(world: &World<'_>, job: JobIx, bytes: f64) -> Option<Burst> {
    let state = world.jobs.get(job.0)?;
    let burst_s = state.isolated_round_s;
    (burst_s > 0.0 && bytes > 0.0).then(|| Burst {
        period_s: state.isolated_period_s(),
        burst_s,
        rate: bytes / burst_s,
    })
}

/// Where a job's rounds lie on a circle.
pub fn shift(burst: &Burst, circle: &Circle, at: usize) -> Option<Shift> {
    let (shift_s, period_s) = (*circle.shifts_s.get(at)?, *circle.periods_s.get(at)?);
    Some(Shift { shift_s, period_s, lead_s: (period_s - burst.burst_s).max(0.0) })
}

/// The jobs of a link that go on its circle: at most sixteen, in the order given.
pub fn largest<T: Copy>(mut jobs: Vec<(T, Burst)>) -> Vec<(T, Burst)> {
    if jobs.len() > MAX_CIRCLE_JOBS {
        let bytes = |b: &Burst| b.burst_s * b.rate;
        let mut order: Vec<usize> = (0..jobs.len()).collect();
        order.sort_by(|&a, &b| {
            let of = |i: usize| jobs.get(i).map_or(0.0, |j| bytes(&j.1));
            of(b).total_cmp(&of(a))
        });
        let kept: std::collections::BTreeSet<usize> = order.into_iter().take(MAX_CIRCLE_JOBS).collect();
        let mut at = 0..;
        jobs.retain(|_| at.next().is_some_and(|i| kept.contains(&i)));
    }
    jobs
}

/// Circles by what is on them, in the order in which jobs are placed. Many links carry the same jobs, many jobs are alike,
/// and which of two different jobs has the smaller id makes no difference to the search.
#[derive(Clone, Debug, Default)]
pub struct Circles {
    known: HashMap<Vec<u64>, Circle>,
}

impl Circles {
    /// The same as [`circle::search`]; earlier answers are remembered.
    pub fn search(&mut self, jobs: &[Burst], capacity: f64) -> Circle {
        let mut order: Vec<(usize, Burst)> = jobs.iter().copied().enumerate().collect();
        order.sort_by(|(_, a), (_, b)| (b.burst_s * b.rate).total_cmp(&(a.burst_s * a.rate)));
        let bits = order.iter().flat_map(|(_, b)| [b.period_s, b.burst_s, b.rate]).chain([capacity]).map(f64::to_bits);
        let key: Vec<u64> = bits.collect();
        if self.known.len() >= MAX_REMEMBERED && !self.known.contains_key(&key) {
            self.known.clear();
        }
        let placed: &Circle = self.known.entry(key).or_insert_with(|| {
            let jobs: Vec<Burst> = order.iter().map(|(_, job)| *job).collect();
            circle::search(&jobs, capacity)
        });
        let mut circle = placed.clone();
        for (place, &(job, _)) in order.iter().enumerate() {
            circle.shifts_s[job] = placed.shifts_s[place];
            circle.periods_s[job] = placed.periods_s[place];
        }
        circle
    }
}

/// Holds the rounds that have just begun until their moments on the grid.
pub fn hold_rounds(world: &World<'_>, changes: &[Change], grids: &mut Grids, orders: &mut Orders) {
    for change in changes {
        let Change::RoundBegan(job) = *change else { continue };
        let Some(state) = world.jobs.get(job.0).filter(|j| j.phase == JobPhase::Communicating) else { continue };
        let hold = grids.round(job, world.now, state.compute_s);
        orders.set_job(world, job, Order { hold, ..Order::default() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the order of ids, a circle that is remembered is the one that would be found.
    #[test]
    fn a_remembered_circle_is_the_one_that_would_be_found() {
        let job = |period_s: f64, burst_s: f64| Burst { period_s, burst_s, rate: 1e9 };
        let jobs = [job(1.0, 0.3), job(0.5, 0.2), job(2.0, 0.7), job(1.0, 0.3)];
        let mut circles = Circles::default();
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 0, 3, 2], [2, 3, 0, 1]] {
            let jobs = order.map(|at: usize| jobs[at]);
            assert_eq!(circles.search(&jobs, 1.25e9), circle::search(&jobs, 1.25e9));
        }
        assert_eq!(circles.known.len(), 1);
    }
}
