//! The search for shifts: all combinations of few jobs, one job after the other of many.

use super::steps::Steps;
use super::{ANGLES, Burst, Circle};

/// Most combinations times bursts on the circle for which every combination is tried. Four jobs of one period are well
/// below; where periods have no small common multiple there are hundreds of bursts, and shifts matter little.
const MAX_WORK: usize = 4_000_000;
/// Rounds of improvement after the first placing.
const ROUNDS: usize = 4;
/// Excess that differs by less than this part of what the link carries in one turn is the same.
const SAME: f64 = 1e-9;

/// Shifts with a high score on a link of `capacity` bytes per second. Jobs are given in order of id, which settles ties;
/// the job with the most bytes per period (g·d) keeps shift 0.
///
/// Each job in that order is placed where it collides least with those already placed, then four rounds move one at a
/// time. Where they are few, the best of all combinations is found instead; of equals the one with the smallest angles in
/// that order. The original does so for four jobs or fewer; here it also depends on how many bursts the circle holds.
pub fn search(jobs: &[Burst], capacity: f64) -> Circle {
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    // Stable: ties stay in the order of ids.
    order.sort_by(|&a, &b| bytes(jobs, b).total_cmp(&bytes(jobs, a)));
    let circle = Circle::of(jobs);
    let same = SAME * capacity * circle.perimeter_s;
    let mut s = Search { jobs, capacity, order, circle, same, best: f64::INFINITY, found: None };
    s.one_by_one();
    if s.few() {
        let placed = s.circle.shifts_s.clone();
        s.best = s.steps(0..jobs.len()).excess(capacity) + 2.0 * same;
        s.circle.shifts_s.fill(0.0);
        s.try_all(1, 0.0);
        s.circle.shifts_s = s.found.take().unwrap_or(placed);
    }
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
    /// Least excess of a full combination so far, and its shifts.
    best: f64,
    found: Option<Vec<f64>>,
}

impl Search<'_> {
    /// True when all combinations can be tried.
    fn few(&self) -> bool {
        let others = u32::try_from(self.jobs.len().saturating_sub(1)).unwrap_or(u32::MAX);
        let bursts: f64 = self.circle.periods_s.iter().map(|p| self.circle.perimeter_s / p).sum();
        ANGLES.checked_pow(others).is_some_and(|n| n as f64 * bursts <= MAX_WORK as f64)
    }

    fn turn(&mut self, j: usize, angle: usize) {
        self.circle.shifts_s[j] = self.circle.periods_s[j] * angle as f64 / ANGLES as f64;
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

    /// Depth first over the angles of the jobs from place `depth` on. What a job adds only grows with every other one, so
    /// what each that is left adds to those placed is a bound on what it will add in the end.
    fn try_all(&mut self, depth: usize, excess: f64) {
        let Some(&j) = self.order.get(depth) else {
            self.best = excess;
            self.found = Some(self.circle.shifts_s.clone());
            return;
        };
        let others = self.steps(self.order.iter().take(depth).copied());
        let mut rest = 0.0;
        for place in depth + 1..self.order.len() {
            rest += self.costs(self.order[place], &others).into_iter().fold(f64::INFINITY, f64::min);
        }
        for (angle, cost) in self.costs(j, &others).into_iter().enumerate() {
            if excess + cost + rest < self.best - self.same {
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
            angles[place] = angle;
        }
        for _ in 0..ROUNDS {
            let mut moved = false;
            for (place, &j) in order.iter().enumerate().skip(1) {
                let others = self.steps(order.iter().copied().filter(|&o| o != j));
                let costs = self.costs(j, &others);
                let now = angles[place];
                let (mut to, mut least) = (now, costs[now]);
                for (angle, cost) in costs.into_iter().enumerate() {
                    if cost < least - self.same {
                        (to, least) = (angle, cost);
                    }
                }
                moved |= to != now;
                self.turn(j, to);
                angles[place] = to;
            }
            if !moved {
                break;
            }
        }
    }
}
