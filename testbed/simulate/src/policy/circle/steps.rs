//! Demand around a circle as a step function, and what one more job would add to the excess at any shift.

/// A job's bursts on a circle, evenly spaced.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arcs {
    /// Start of the first, seconds; may lie beyond the perimeter.
    pub first: f64,
    /// From one start to the next.
    pub period: f64,
    /// How many turns there are.
    pub turns: usize,
    /// Seconds of each, at most the period.
    pub length: f64,
    /// Bytes per second during one.
    pub rate: f64,
}

impl Arcs {
    /// Pieces [from, to) inside [0, perimeter).
    fn pieces(self, perimeter: f64) -> impl Iterator<Item = (f64, f64)> {
        (0..self.turns).flat_map(move |turn| {
            let from = (self.first + turn as f64 * self.period).rem_euclid(perimeter);
            let over = (from + self.length - perimeter).max(0.0);
            [(from, from + self.length - over), (0.0, over)]
        })
    }
}

#[derive(Clone, Debug)]
pub(super) struct Steps {
    perimeter: f64,
    /// Where each step begins; the first at 0.
    at: Vec<f64>,
    /// Bytes per second of each step.
    demand: Vec<f64>,
}

impl Steps {
    pub fn of(perimeter: f64, jobs: impl Iterator<Item = Arcs>) -> Steps {
        let mut edges: Vec<(f64, f64)> = Vec::new();
        for job in jobs {
            for (from, to) in job.pieces(perimeter).filter(|(from, to)| to > from) {
                edges.extend([(from, job.rate), (to, -job.rate)]);
            }
        }
        edges.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mut at, mut demand) = (vec![0.0], vec![0.0]);
        let mut now = 0.0;
        for (edge, change) in edges {
            now += change;
            match (at.last(), demand.last_mut()) {
                (Some(&last), Some(d)) if last == edge => *d = now,
                _ if edge < perimeter => {
                    at.push(edge);
                    demand.push(now);
                }
                _ => {}
            }
        }
        Steps { perimeter, at, demand }
    }

    /// Bytes beyond the capacity, once around.
    pub fn excess(&self, capacity: f64) -> f64 {
        self.integral(|d| (d - capacity).max(0.0)).last().copied().unwrap_or(0.0)
    }

    /// Bytes beyond the capacity that `rate` more would add from 0 to each step's begin, and once around at the end.
    pub fn added(&self, rate: f64, capacity: f64) -> Vec<f64> {
        self.integral(|d| (d + rate - capacity).max(0.0) - (d - capacity).max(0.0))
    }

    fn integral(&self, of: impl Fn(f64) -> f64) -> Vec<f64> {
        let mut sums = Vec::with_capacity(self.at.len() + 1);
        let mut sum = 0.0;
        sums.push(0.0);
        let ends = self.at.iter().skip(1).chain([&self.perimeter]);
        for ((from, to), &demand) in self.at.iter().zip(ends).zip(&self.demand) {
            sum += (to - from) * of(demand);
            sums.push(sum);
        }
        sums
    }

    /// Bytes beyond the capacity that these bursts add; `added` is [`Steps::added`] for their rate.
    pub fn cost(&self, arcs: Arcs, added: &[f64]) -> f64 {
        arcs.pieces(self.perimeter).map(|(from, to)| self.upto(to, added) - self.upto(from, added)).sum()
    }

    /// `added` from 0 to `t`.
    fn upto(&self, t: f64, added: &[f64]) -> f64 {
        let step = self.at.partition_point(|&a| a <= t).saturating_sub(1);
        let (Some(&from), Some(&sum), Some(&next)) = (self.at.get(step), added.get(step), added.get(step + 1)) else {
            return 0.0;
        };
        let to = self.at.get(step + 1).copied().unwrap_or(self.perimeter);
        if to > from { sum + (next - sum) * (t - from) / (to - from) } else { sum }
    }
}
