//! Running jobs as the links see them, and circles that need not be searched twice: what `ccml` and `cassini` share.

use std::collections::HashMap;

use super::circle::{self, Burst, Circle};
use super::grid::{Grids, Shift};
use crate::sim::scheduler::{Change, Order, Orders};
use crate::sim::world::{JobIx, JobPhase, World};

/// Most jobs on one circle; of more, those with the most bytes per period. A circle of all jobs that cross a core link
/// would cost seconds and shift nobody to any use.
const MOST_ON_A_CIRCLE: usize = 16;
/// Circles remembered.
const MOST_REMEMBERED: usize = 20_000;

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
    if jobs.len() > MOST_ON_A_CIRCLE {
        let bytes = |b: &Burst| b.burst_s * b.rate;
        let mut order: Vec<usize> = (0..jobs.len()).collect();
        order.sort_by(|&a, &b| {
            let of = |i: usize| jobs.get(i).map_or(0.0, |j| bytes(&j.1));
            of(b).total_cmp(&of(a))
        });
        let kept: std::collections::BTreeSet<usize> = order.into_iter().take(MOST_ON_A_CIRCLE).collect();
        let mut at = 0..;
        jobs.retain(|_| at.next().is_some_and(|i| kept.contains(&i)));
    }
    jobs
}

/// Circles by what is on them. Many links carry the same jobs, and many jobs are alike.
#[derive(Clone, Debug, Default)]
pub struct Circles {
    known: HashMap<Vec<u64>, Circle>,
}

impl Circles {
    /// As [`circle::search`].
    pub fn search(&mut self, jobs: &[Burst], capacity: f64) -> Circle {
        let bits = jobs.iter().flat_map(|b| [b.period_s, b.burst_s, b.rate]).chain([capacity]).map(f64::to_bits);
        let key: Vec<u64> = bits.collect();
        if let Some(circle) = self.known.get(&key) {
            return circle.clone();
        }
        if self.known.len() >= MOST_REMEMBERED {
            self.known.clear();
        }
        let circle = circle::search(jobs, capacity);
        self.known.insert(key, circle.clone());
        circle
    }
}

/// Holds the rounds that have just begun until their moments on the grid.
pub fn hold_rounds(world: &World<'_>, changes: &[Change], grids: &mut Grids, orders: &mut Orders) {
    for change in changes {
        let Change::RoundBegan(job) = *change else { continue };
        let Some(state) = world.jobs.get(job.0).filter(|j| j.phase == JobPhase::Communicating) else { continue };
        let hold = grids.round(job, world.now, state.compute_s);
        for (flow, _) in world.flows_of(job) {
            orders.set(flow, Order { hold, ..Order::default() });
        }
    }
}
