//! Time rolled around a circle: at which shifts do jobs with periodic bursts collide least on one link?
//!
//! After Rajasekaran, Ghobadi, Kumar and Akella, "Congestion Control in Machine Learning Clusters" (HotNets 2022), and
//! Rajasekaran, Ghobadi and Akella, "CASSINI: Network-Aware Job Scheduling in Machine Learning Clusters" (NSDI 2024),
//! as `simulation.md` section 7.5.1 writes it down.

mod search;
mod steps;
#[cfg(test)]
mod tests;

pub use search::search;

/// Angles that are tried: every 5° of a job's own circle.
pub const ANGLES: usize = 72;
/// The perimeter is at most so many times the longest period.
const MAX_TURNS: u64 = 64;
/// The finest step of a period, seconds.
const STEP_S: f64 = 1e-3;

/// A job as one link sees it: silent for the rest of its period, then a burst.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Burst {
    /// Seconds of one isolated iteration.
    pub period_s: f64,
    /// Seconds of its communication, at the end of the iteration.
    pub burst_s: f64,
    /// Bytes per second that it sends meanwhile.
    pub rate: f64,
}

/// Jobs on their common circle.
#[derive(Clone, Debug, PartialEq)]
pub struct Circle {
    /// Common multiple of the periods, seconds.
    pub perimeter_s: f64,
    /// Period of each job on the circle, seconds: a whole fraction of the perimeter.
    pub periods_s: Vec<f64>,
    /// Delay of each job's iterations, seconds, less than its period.
    pub shifts_s: Vec<f64>,
    /// 1: no collision; 1 − mean excess demand over capacity.
    pub score: f64,
}

impl Circle {
    /// The circle of these jobs, all shifts 0, not yet scored. Periods are rounded to multiples of the larger of 1 ms and
    /// a 72nd of the shortest one; where their common multiple is more than 64 times the longest, it becomes that, and
    /// the periods become fractions of it.
    fn of(jobs: &[Burst]) -> Circle {
        let shortest = jobs.iter().map(|j| j.period_s).fold(f64::INFINITY, f64::min);
        let step = (shortest / ANGLES as f64).max(STEP_S);
        let counts: Vec<u64> = jobs.iter().map(|j| ((j.period_s / step).round() as u64).max(1)).collect();
        let most = counts.iter().copied().max().unwrap_or(1).saturating_mul(MAX_TURNS);
        let common = counts.iter().try_fold(1u64, |lcm, &n| Some(lcm / gcd(lcm, n) * n).filter(|&m| m <= most));
        let perimeter_s = step * common.unwrap_or(most) as f64;
        let turns = |&n: &u64| match common {
            Some(m) => (m / n) as f64,
            None => (most as f64 / n as f64).round(),
        };
        let periods_s = counts.iter().map(|n| perimeter_s / turns(n)).collect();
        Circle { perimeter_s, periods_s, shifts_s: vec![0.0; jobs.len()], score: 1.0 }
    }

    /// The score of these jobs at this circle's shifts, on a link of `capacity` bytes per second.
    pub fn score_of(&self, jobs: &[Burst], capacity: f64) -> f64 {
        let steps = steps::Steps::of(self.perimeter_s, (0..jobs.len()).filter_map(|j| self.arcs(jobs, j)));
        1.0 - steps.excess(capacity) / self.perimeter_s / capacity
    }

    /// A job's bursts on the circle at its shift.
    fn arcs(&self, jobs: &[Burst], j: usize) -> Option<steps::Arcs> {
        let (job, period) = (jobs.get(j)?, *self.periods_s.get(j)?);
        let length = job.burst_s.clamp(0.0, period);
        let first = self.shifts_s.get(j)? + period - length;
        let turns = (self.perimeter_s / period).round().max(1.0) as usize;
        Some(steps::Arcs { first, period, turns, length, rate: job.rate })
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
