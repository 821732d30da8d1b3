//! The interior-point method for scaled programs: Mehrotra's predictor and corrector, over z = ln x.
//!
//! Slacks are variables of their own, so that small ones keep their digits.

use super::{Scaled, used};

/// Steps at most.
const MAX_STEPS: usize = 200;
/// The error that is aimed at.
const AIM: f64 = 1e-11;
/// How much of the way to the border a step may go.
const BORDER: f64 = 0.9995;
/// Products of prices and slacks below this part of the other errors are not made smaller.
const HURRY: f64 = 0.1;
/// The part of itself that the products are brought down to in a step at best, cubed.
const SLOWEST: f64 = 0.25;
/// Steps without a better point after which there will be none.
const PATIENCE: usize = 10;

/// min Σ cost/x subject to every row at most 1: x, the price of each row, and the steps taken.
pub(super) fn solve(cost: &[f64], rows: &[Scaled]) -> (Vec<f64>, Vec<f64>, usize) {
    let mut inner = Inner::new(cost, rows.to_vec());
    let steps = inner.run();
    (inner.z.iter().map(|z| z.exp()).collect(), inner.price, steps)
}

/// A point on the way.
struct Inner<'a> {
    cost: &'a [f64],
    rows: Vec<Scaled>,
    z: Vec<f64>,
    /// By row.
    price: Vec<f64>,
    slack: Vec<f64>,
}

/// A direction, and by row.
struct Direction {
    z: Vec<f64>,
    price: Vec<f64>,
    slack: Vec<f64>,
}

impl Inner<'_> {
    fn new(cost: &[f64], rows: Vec<Scaled>) -> Inner<'_> {
        // The best point with all rows shared by square roots of costs, drawn in from the border.
        let mut x: Vec<f64> = cost.iter().map(|cost| cost.sqrt()).collect();
        let fullest = rows.iter().map(|row| used(row, &x)).fold(0.0, f64::max);
        x.iter_mut().for_each(|x| *x *= 0.9 / fullest);
        let z: Vec<f64> = x.iter().map(|x| x.ln()).collect();
        let slack: Vec<f64> = rows.iter().map(|row| 1.0 - used(row, &x)).collect();
        // Prices that are the higher the less a row leaves, and in all what the costs ask for.
        let value: f64 = cost.iter().zip(&x).map(|(cost, x)| cost / x).sum();
        let asked: f64 = rows.iter().zip(&slack).map(|(row, slack)| used(row, &x) / slack).sum();
        let price = slack.iter().map(|slack| value / asked / slack).collect();
        Inner { cost, rows, z, price, slack }
    }

    /// Σ price·a·x for each variable.
    fn priced(&self, x: &[f64]) -> Vec<f64> {
        let mut priced = vec![0.0; x.len()];
        for (row, &price) in self.rows.iter().zip(&self.price) {
            for &(k, a) in row {
                priced[k] += price * a * x[k];
            }
        }
        priced
    }

    /// Steps until the aim is reached or nothing improves; how many.
    fn run(&mut self) -> usize {
        let mut best = (f64::INFINITY, self.z.clone(), self.price.clone());
        let mut since = 0;
        for step in 0..MAX_STEPS {
            let x: Vec<f64> = self.z.iter().map(|z| z.exp()).collect();
            let part: Vec<f64> = self.cost.iter().zip(&x).map(|(cost, x)| cost / x).collect();
            let priced = self.priced(&x);
            let gap: Vec<f64> = self.rows.iter().zip(&self.slack).map(|(row, s)| s - 1.0 + used(row, &x)).collect();
            let apart = part.iter().zip(&priced).map(|(part, priced)| (priced / part - 1.0).abs()).fold(0.0, f64::max);
            let products: f64 = self.price.iter().zip(&self.slack).map(|(price, slack)| price * slack).sum();
            let missing = gap.iter().map(|gap| gap.abs()).fold(0.0, f64::max);
            let open = products / part.iter().sum::<f64>();
            let worst = apart.max(open).max(missing);
            // Products that are small before prices and rows agree make every step short.
            let hurried = open < HURRY * apart.max(missing);
            since += 1;
            if worst < best.0 {
                best = (worst, self.z.clone(), self.price.clone());
                since = 0;
            }
            if worst <= AIM || since > PATIENCE || !self.step(&x, &part, &priced, &gap, products, hurried) {
                (self.z, self.price) = (best.1, best.2);
                return step;
            }
        }
        (self.z, self.price) = (best.1, best.2);
        MAX_STEPS
    }

    /// One step; false if there is none.
    fn step(&mut self, x: &[f64], part: &[f64], priced: &[f64], gap: &[f64], products: f64, hurried: bool) -> bool {
        let size = x.len();
        let mut matrix = vec![0.0; size * size];
        for k in 0..size {
            matrix[k * size + k] = part[k] + priced[k];
        }
        for ((row, &price), &slack) in self.rows.iter().zip(&self.price).zip(&self.slack) {
            for (place, &(k, a)) in row.iter().enumerate() {
                let at_k = price / slack * a * x[k];
                for &(j, b) in row.iter().take(place + 1) {
                    matrix[k * size + j] += at_k * b * x[j];
                }
            }
        }
        if !factor(&mut matrix, size) {
            return false;
        }
        let toward = |wanted: &[f64]| self.toward(&matrix, x, part, priced, gap, wanted);
        let average = products / self.rows.len() as f64;
        let affine = toward(&vec![0.0; self.rows.len()]);
        let length = self.length(&affine, 1.0);
        let pairs = (self.price.iter().zip(&affine.price)).zip(self.slack.iter().zip(&affine.slack));
        let after: f64 = pairs.map(|((p, dp), (s, ds))| (p + length * dp) * (s + length * ds)).sum();
        let centre = if hurried { average } else { (after / products).clamp(SLOWEST, 1.0).powi(3) * average };
        let bends = affine.price.iter().zip(&affine.slack).map(|(price, slack)| centre - price * slack);
        let direction = toward(&bends.collect::<Vec<_>>());
        let steepest = direction.z.iter().map(|change| change.abs()).fold(0.0, f64::max);
        // No variable changes by more than a factor of e² in a step, where the rows are not nearly linear any more.
        let length = self.length(&direction, BORDER).min(2.0 / steepest);
        if length.is_nan() || length < 1e-12 {
            return false;
        }
        let go = |of: &mut [f64], along: &[f64]| of.iter_mut().zip(along).for_each(|(at, by)| *at += length * by);
        go(&mut self.z, &direction.z);
        go(&mut self.price, &direction.price);
        go(&mut self.slack, &direction.slack);
        true
    }

    /// The direction in which the products of prices and slacks become `wanted`, to first order.
    fn toward(&self, lower: &[f64], x: &[f64], part: &[f64], priced: &[f64], gap: &[f64], wanted: &[f64]) -> Direction {
        let pull: Vec<f64> = (self.price.iter().zip(&self.slack))
            .zip(gap.iter().zip(wanted))
            .map(|((price, slack), (gap, wanted))| (wanted - price * slack + price * gap) / slack)
            .collect();
        let mut z: Vec<f64> = part.iter().zip(priced).map(|(part, priced)| part - priced).collect();
        for (row, pull) in self.rows.iter().zip(&pull) {
            row.iter().for_each(|&(k, a)| z[k] -= a * x[k] * pull);
        }
        solve_factored(lower, x.len(), &mut z);
        let along = |row: &Scaled| row.iter().map(|&(k, a)| a * x[k] * z[k]).sum::<f64>();
        let moved: Vec<f64> = self.rows.iter().map(along).collect();
        let slack = moved.iter().zip(gap).map(|(moved, gap)| -gap - moved).collect();
        let ratios = self.price.iter().zip(&self.slack).map(|(price, slack)| price / slack);
        let price = pull.iter().zip(ratios.zip(&moved)).map(|(pull, (ratio, moved))| pull + ratio * moved).collect();
        Direction { z, price, slack }
    }

    /// How far a direction leads while prices and slacks stay positive: this part of the way to the border, at most 1.
    fn length(&self, direction: &Direction, border: f64) -> f64 {
        let prices = self.price.iter().zip(&direction.price);
        let slacks = self.slack.iter().zip(&direction.slack);
        let falling = prices.chain(slacks).filter(|&(_, &by)| by < 0.0);
        (border * falling.map(|(at, by)| -at / by).fold(f64::INFINITY, f64::min)).min(1.0)
    }
}

/// The Cholesky factor of a symmetric matrix of which the lower half is given, in its place. False if it is not positive
/// definite.
fn factor(matrix: &mut [f64], size: usize) -> bool {
    for row in 0..size {
        let (above, below) = matrix.split_at_mut(row * size);
        for column in 0..row {
            let other = &above[column * size..column * size + column];
            let sum: f64 = below.iter().zip(other).map(|(a, b)| a * b).sum();
            below[column] = (below[column] - sum) / above[column * size + column];
        }
        let pivot = below[row] - below.iter().take(row).map(|a| a * a).sum::<f64>();
        if !(pivot > 0.0 && pivot.is_finite()) {
            return false;
        }
        below[row] = pivot.sqrt();
    }
    true
}

/// Solves a system in place of its right side.
fn solve_factored(lower: &[f64], size: usize, right: &mut [f64]) {
    for row in 0..size {
        let sum: f64 = lower[row * size..row * size + row].iter().zip(right.iter()).map(|(a, b)| a * b).sum();
        right[row] = (right[row] - sum) / lower[row * size + row];
    }
    for row in (0..size).rev() {
        right[row] /= lower[row * size + row];
        let known = right[row];
        let above = lower[row * size..row * size + row].iter().zip(right.iter_mut());
        above.for_each(|(a, b)| *b -= a * known);
    }
}
