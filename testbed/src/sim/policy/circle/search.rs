//! The search for shifts: all combinations of few jobs, one job after the other of many.

use super::steps::Steps;
use super::{ANGLES, Burst, Circle};

/// Most combinations that are tried one by one.
const MOST_COMBINATIONS: usize = 400_000;
/// Rounds of improvement after the first placing.
const ROUNDS: usize = 4;
/// Excess that differs by less than this part of what the link carries in one turn is the same.
const SAME: f64 = 1e-9;

/// Shifts with a high score on a link of `capacity` bytes per second. Jobs are given in order of id, which settles ties;
/// the job with the most bytes per period (g·d) keeps shift 0.
///
/// Up to four jobs: the best combination of angles, of equals the one with the smallest angles in descending order of
/// g·d. More: each job in that order where it collides least with those already placed, then four rounds of moving one
/// at a time.
pub fn search(jobs: &[Burst], capacity: f64) -> Circle {
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    // Stable: ties stay in the order of ids.
    order.sort_by(|&a, &b| bytes(jobs, b).total_cmp(&bytes(jobs, a)));
    let circle = Circle::of(jobs);
    let same = SAME * capacity * circle.perimeter_s;
    let mut s = Search { jobs, capacity, order, circle, same, best: f64::INFINITY, found: Vec::new() };
    let combinations = ANGLES.checked_pow(u32::try_from(jobs.len().saturating_sub(1)).unwrap_or(u32::MAX));
    if combinations.is_some_and(|n| n <= MOST_COMBINATIONS) {
        s.try_all(1, 0.0);
        s.circle.shifts_s = std::mem::take(&mut s.found);
    } else {
        s.one_by_one();
    }
    s.circle.shifts_s.resize(jobs.len(), 0.0);
    s.circle.score = s.circle.score_of(jobs, capacity);
    s.circle
}

fn bytes(jobs: &[Burst], j: usize) -> f64 {
    jobs.get(j).map_or(0.0, |b| b.burst_s * b.rate)
}

struct Search<'a> {
    jobs: &'a [Burst],
    capacity: f64,
    /// Jobs in the order in which they are placed.
    order: Vec<usize>,
    circle: Circle,
    same: f64,
    /// Least excess of a full combination so far.
    best: f64,
    found: Vec<f64>,
}

impl Search<'_> {
    fn turn(&mut self, j: usize, angle: usize) {
        let period = self.circle.periods_s.get(j).copied().unwrap_or(0.0);
        if let Some(shift) = self.circle.shifts_s.get_mut(j) {
            *shift = period * angle as f64 / ANGLES as f64;
        }
    }

    /// Excess that job `j` adds to `others` at every angle.
    fn costs(&mut self, j: usize, others: &Steps) -> Vec<f64> {
        let added = others.added(self.jobs.get(j).map_or(0.0, |b| b.rate), self.capacity);
        let mut costs = Vec::with_capacity(ANGLES);
        for angle in 0..ANGLES {
            self.turn(j, angle);
            costs.push(self.circle.arcs(self.jobs, j).map_or(0.0, |a| others.cost(a, &added)));
        }
        costs
    }

    fn steps(&self, placed: impl Iterator<Item = usize>) -> Steps {
        Steps::of(self.circle.perimeter_s, placed.filter_map(|j| self.circle.arcs(self.jobs, j)))
    }

    /// Depth first over the angles of the jobs from place `depth` on; excess only grows with every job, so a branch that
    /// has reached the best already holds nothing better.
    fn try_all(&mut self, depth: usize, excess: f64) {
        let Some(&j) = self.order.get(depth) else {
            if excess < self.best - self.same || self.found.is_empty() {
                self.best = excess;
                self.found.clone_from(&self.circle.shifts_s);
            }
            return;
        };
        let others = self.steps(self.order.iter().take(depth).copied());
        for (angle, cost) in self.costs(j, &others).into_iter().enumerate() {
            if excess + cost < self.best - self.same {
                self.turn(j, angle);
                self.try_all(depth + 1, excess + cost);
            }
        }
    }

    /// The angle at which job `j` adds least, the smallest of equals, and what it adds there.
    fn least(&mut self, j: usize, others: &Steps) -> (usize, f64) {
        let mut best = (0, f64::INFINITY);
        for (angle, cost) in self.costs(j, others).into_iter().enumerate() {
            if cost < best.1 - self.same {
                best = (angle, cost);
            }
        }
        best
    }

    fn one_by_one(&mut self) {
        let order = self.order.clone();
        let mut angles = vec![0; order.len()];
        for (place, &j) in order.iter().enumerate().skip(1) {
            let others = self.steps(order.iter().take(place).copied());
            let (angle, _) = self.least(j, &others);
            self.turn(j, angle);
            if let Some(a) = angles.get_mut(place) {
                *a = angle;
            }
        }
        for _ in 0..ROUNDS {
            let mut moved = false;
            for (place, &j) in order.iter().enumerate().skip(1) {
                let others = self.steps(order.iter().copied().filter(|&o| o != j));
                let costs = self.costs(j, &others);
                let now = angles.get(place).copied().unwrap_or(0);
                let stay = costs.get(now).copied().unwrap_or(f64::INFINITY);
                let (mut to, mut least) = (now, stay);
                for (angle, cost) in costs.into_iter().enumerate() {
                    if cost < least - self.same {
                        (to, least) = (angle, cost);
                    }
                }
                moved |= to != now;
                self.turn(j, to);
                if let Some(a) = angles.get_mut(place) {
                    *a = to;
                }
            }
            if !moved {
                break;
            }
        }
    }
}
