//! The whole way to the best order: first solutions, a bound, searches of the tree under growing grants, parts in
//! between.

use super::jobs::Jobs;
use super::lists;
use super::order::Order;
use super::parts::Parts;
use super::tree::{Best, End, Tree};
use sluice_planners::{Run, Stopped};
use std::time::{Duration, Instant};

/// Jobs at most whose order is searched for; of more the best first solution is taken.
pub const MAX_JOBS: usize = 1024;
/// Branches granted to the first search of the tree, and by what the grant grows.
const GRANT: u64 = 400;
const GROWTH: f64 = 1.5;
/// Branches granted to the search of one part, and to all parts of a round for each one granted to the tree.
const PART: u64 = 200;
const PARTS: u64 = 4;
/// Solutions that are bettered side by side at first. They end in different valleys; after each round the better half
/// stays.
const POOL: usize = 8;
/// How often the distance of bound and value is halved before branching.
const HALVINGS: usize = 24;
/// When a search is over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Value and bound meet at this distance, as a share of the value.
    pub gap: f64,
    /// So long at most; the run's own deadline comes first where it is earlier. Results that it ended differ from
    /// machine to machine.
    pub time: Option<Duration>,
    /// So many branches at most: an end that is the same everywhere.
    pub nodes: Option<u64>,
}

impl Default for Limits {
    /// A relative gap of 1e-9, and 30 seconds.
    fn default() -> Limits {
        Limits { gap: 1e-9, time: Some(Duration::from_secs(30)), nodes: None }
    }
}

/// The best order that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// By job, in s: the earliest where jobs that share a link keep their order.
    pub starts: Vec<f64>,
    /// The sum over owners of the last end, in s.
    pub total: f64,
    /// No order has a sum below this.
    pub bound: f64,
    /// Is none better, by more than the gap?
    pub proved: bool,
    /// Branches that were looked at.
    pub nodes: u64,
}

/// Searches, beginning with these starts among others. `floor` is a sum that is known to be a bound.
///
/// # Errors
/// When the run is called off.
pub fn search(jobs: &Jobs, firsts: &[Vec<f64>], floor: f64, limits: Limits, run: &Run<'_>) -> Result<Found, Stopped> {
    let end = limits.time.and_then(|time| Instant::now().checked_add(time));
    let deadline = end.into_iter().chain(run.deadline).min();
    let is_late = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
    let mut pool = Pool::new(jobs, firsts);
    let mut best = pool.best();
    let mut bound = floor.max(lists::bounds(jobs).iter().sum());
    let met = |best: &Best, bound: f64| bound >= best.limit(limits.gap);
    let mut nodes = 0;
    if jobs.count() <= MAX_JOBS && !met(&best, bound) {
        let mut order = Order::new(jobs);
        let mut tree = Tree::new(&mut order);
        bound = bound.max(root(&mut order, &mut tree, bound, best.total, || is_late() || run.is_cancelled()));
        let is_over =
            |tree: &Tree| is_late() || run.is_cancelled() || limits.nodes.is_some_and(|most| tree.nodes >= most);
        let mut grant = GRANT;
        while !met(&best, bound) && !is_over(&tree) {
            if tree.search(&mut order, &mut best, limits.gap, grant, is_over) == End::Exhausted {
                bound = bound.max(best.limit(limits.gap));
                break;
            }
            pool.insert(&best);
            pool.better(&mut order, &mut tree, limits.gap, PARTS * grant, is_over);
            best = pool.best();
            grant = (grant as f64 * GROWTH) as u64;
        }
        nodes = tree.nodes;
    }
    if run.is_cancelled() {
        return Err(Stopped::Cancelled);
    }
    let proved = met(&best, bound);
    let Best { starts, total } = best;
    Ok(Found { starts, total, bound: bound.min(total), proved, nodes })
}

/// A solution that is being bettered part by part.
struct Climb {
    at: Best,
    parts: Parts,
}

/// Solutions of different totals, the best first.
struct Pool {
    climbs: Vec<Climb>,
    /// How many there ever were: where the random numbers of the next begin.
    count: u64,
    jobs: usize,
}

impl Pool {
    /// The best of these starts and, where there are not too many jobs, of list schedules.
    fn new(jobs: &Jobs, firsts: &[Vec<f64>]) -> Pool {
        let mut pool = Pool { climbs: Vec::new(), count: 0, jobs: jobs.count() };
        let mut all: Vec<Best> = firsts.iter().map(|first| Best::of(jobs, first)).collect();
        if jobs.count() <= MAX_JOBS || all.is_empty() {
            all.extend(lists::schedules(jobs));
        }
        all.iter().for_each(|at| pool.insert(at));
        pool.climbs.truncate(POOL);
        pool
    }

    fn best(&self) -> Best {
        // One at least was put in when it was made.
        self.climbs.first().map_or_else(Best::none, |climb| climb.at.clone())
    }

    /// Takes a further solution in, unless one is as good.
    fn insert(&mut self, at: &Best) {
        let place = self.climbs.partition_point(|climb| climb.at.total < at.total);
        if self.climbs.get(place).is_none_or(|climb| climb.at.total > at.total) {
            self.climbs.insert(place, Climb { at: at.clone(), parts: Parts::new(self.jobs, self.count) });
            self.count += 1;
        }
    }

    /// Betters each solution, with its share of so many branches, and keeps the better half.
    fn better(
        &mut self,
        order: &mut Order<'_>,
        tree: &mut Tree,
        gap: f64,
        nodes: u64,
        is_over: impl Fn(&Tree) -> bool + Copy,
    ) {
        let share = nodes / self.climbs.len().max(1) as u64;
        for Climb { at, parts } in &mut self.climbs {
            let last = tree.nodes + share;
            while tree.nodes < last && !is_over(tree) {
                let mark = order.mark();
                parts.keep(order, &at.starts);
                let end = tree.search(order, at, gap, PART, is_over);
                parts.learn(end == End::Exhausted);
                order.undo(mark);
            }
        }
        self.climbs.sort_by(|one, other| one.at.total.total_cmp(&other.at.total));
        self.climbs.dedup_by(|next, first| next.at.total == first.at.total);
        self.climbs.truncate(self.climbs.len().div_ceil(2));
    }
}

/// A bound on the sum from what follows before any branch: the largest limit below which nothing can be.
fn root(order: &mut Order<'_>, tree: &mut Tree, from: f64, to: f64, stop: impl Fn() -> bool) -> f64 {
    let (mut bound, mut open) = (from, to);
    for _ in 0..HALVINGS {
        let limit = 0.5 * (bound + open);
        if stop() || limit <= bound || limit >= open {
            break;
        }
        let mark = order.mark();
        if tree.settle(order, limit) {
            open = limit;
        } else {
            bound = limit;
        }
        order.undo(mark);
    }
    bound
}
