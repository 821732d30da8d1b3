//! One exact step towards the solution of a scaled program: the best point of the quadratic model at the point that is
//! known, by the dual active-set method of Goldfarb and Idnani.
//!
//! Around x the model of Σ c/x is Σ (c/x³)·(y − 1.5 x)², so the step is a projection onto the polyhedron of the rows.
//! From a good point a few steps give all digits, also where rows depend on each other and prices are not unique.

use super::{Scaled, used};

/// How much of a row may be used beyond its limit; and how much if it depends on rows that are used to the full.
const BEYOND: (f64, f64) = (1e-14, 1e-9);
/// A direction this much shorter than the row it is made of is none.
const DEPENDENT: f64 = 1e-11;

/// Moves `x` and the prices; false if there is no such step.
pub(super) fn step(cost: &[f64], rows: &[Scaled], x: &mut [f64], price: &mut [f64]) -> bool {
    // With u = x·√(2c/x³) the model is a distance.
    let stretch: Vec<f64> = cost.iter().zip(x.iter()).map(|(cost, x)| (2.0 * cost / (x * x * x)).sqrt()).collect();
    if !stretch.iter().all(|stretch| stretch.is_finite() && *stretch > 0.0) {
        return false;
    }
    let target: Vec<f64> = x.iter().zip(&stretch).map(|(x, stretch)| 1.5 * x * stretch).collect();
    let stretched: Vec<Scaled> =
        rows.iter().map(|row| row.iter().map(|&(k, a)| (k, a / stretch[k])).collect()).collect();
    let Some((point, multipliers)) = project(&target, &stretched) else { return false };
    let found: Vec<f64> = point.iter().zip(&stretch).map(|(u, stretch)| u / stretch).collect();
    // A step out of the model's range is cut short; prices then come from the next one.
    let least = found.iter().zip(x.iter()).map(|(found, x)| found / x).fold(f64::INFINITY, f64::min);
    let length = if least > 0.1 { 1.0 } else { 0.9 / (1.0 - least) };
    if !length.is_finite() {
        return false;
    }
    x.iter_mut().zip(found).for_each(|(x, found)| *x += length * (found - *x));
    price.copy_from_slice(&multipliers);
    true
}

/// The rows in the active set, orthonormalised: row i is Σ over j ≤ i of `upper[i][j]`·`basis[j]`.
#[derive(Default)]
struct Active {
    rows: Vec<usize>,
    multipliers: Vec<f64>,
    basis: Vec<Vec<f64>>,
    upper: Vec<Vec<f64>>,
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

impl Active {
    /// The parts of a vector along the basis, and what is left of it.
    fn split(&self, mut rest: Vec<f64>) -> (Vec<f64>, Vec<f64>) {
        let mut parts = vec![0.0; self.basis.len()];
        // Twice, for the digits that the first time loses.
        for _ in 0..2 {
            for (part, basis) in parts.iter_mut().zip(&self.basis) {
                let along = dot(&rest, basis);
                *part += along;
                rest.iter_mut().zip(basis).for_each(|(rest, basis)| *rest -= along * basis);
            }
        }
        (parts, rest)
    }
    /// The vector with these parts as a combination of the rows.
    fn combination(&self, mut parts: Vec<f64>) -> Vec<f64> {
        for row in (0..parts.len()).rev() {
            let factor = parts[row] / self.upper[row][row];
            for (part, upper) in parts.iter_mut().zip(&self.upper[row]).take(row) {
                *part -= factor * upper;
            }
            parts[row] = factor;
        }
        parts
    }
    fn add(&mut self, row: usize, multiplier: f64, mut parts: Vec<f64>, mut rest: Vec<f64>) {
        let length = dot(&rest, &rest).sqrt();
        rest.iter_mut().for_each(|rest| *rest /= length);
        parts.push(length);
        self.basis.push(rest);
        self.upper.push(parts);
        self.rows.push(row);
        self.multipliers.push(multiplier);
    }
    fn remove(&mut self, place: usize, dense: impl Fn(usize) -> Vec<f64>) {
        self.rows.remove(place);
        self.multipliers.remove(place);
        self.basis.truncate(place);
        self.upper.truncate(place);
        for behind in place..self.rows.len() {
            let (mut parts, mut rest) = self.split(dense(self.rows[behind]));
            let length = dot(&rest, &rest).sqrt();
            rest.iter_mut().for_each(|rest| *rest /= length);
            parts.push(length);
            self.basis.push(rest);
            self.upper.push(parts);
        }
    }
}

/// The point nearest to `target` at which every row is at most 1, and the multiplier of every row.
fn project(target: &[f64], rows: &[Scaled]) -> Option<(Vec<f64>, Vec<f64>)> {
    let dense = |row: usize| {
        let mut dense = vec![0.0; target.len()];
        rows[row].iter().for_each(|&(k, a)| dense[k] += a);
        dense
    };
    let mut point = target.to_vec();
    let mut active = Active::default();
    let mut implied = vec![false; rows.len()];
    // Each addition brings the point farther from the target, so none comes back for ever; the bound is for rounding.
    for _ in 0..20 * (rows.len() + target.len()) {
        let beyond = |(index, row): (usize, &Scaled)| (used(row, &point) - 1.0, index);
        let open = |&(_, index): &(f64, usize)| !active.rows.contains(&index) && !implied[index];
        let worst = rows.iter().enumerate().map(beyond).filter(open).max_by(|a, b| a.0.total_cmp(&b.0));
        let Some((mut beyond, row)) = worst.filter(|&(beyond, _)| beyond > BEYOND.0) else {
            let mut multipliers = vec![0.0; rows.len()];
            for (&row, &multiplier) in active.rows.iter().zip(&active.multipliers) {
                multipliers[row] = multiplier;
            }
            return Some((point, multipliers));
        };
        let vector = dense(row);
        let size = dot(&vector, &vector);
        let mut multiplier = 0.0;
        loop {
            let (parts, rest) = active.split(vector.clone());
            let falls = active.combination(parts.clone());
            let steep = dot(&rest, &rest);
            let full = if steep > DEPENDENT * DEPENDENT * size { beyond / steep } else { f64::INFINITY };
            let pairs = active.multipliers.iter().zip(&falls).enumerate();
            let ratios = pairs.filter(|&(_, (_, fall))| *fall > 0.0).map(|(place, (at, fall))| (at / fall, place));
            let first = ratios.min_by(|a, b| a.0.total_cmp(&b.0));
            let length = first.map_or(full, |(ratio, _)| ratio.min(full));
            if !length.is_finite() {
                // It depends on the active rows and asks for more than they allow: rounding, or no polyhedron.
                if beyond > BEYOND.1 {
                    return None;
                }
                implied[row] = true;
                break;
            }
            active.multipliers.iter_mut().zip(&falls).for_each(|(at, fall)| *at = (*at - length * fall).max(0.0));
            multiplier += length;
            if full.is_finite() {
                point.iter_mut().zip(&rest).for_each(|(point, rest)| *point -= length * rest);
                beyond -= length * steep;
            }
            match first {
                Some((ratio, place)) if ratio < full => active.remove(place, dense),
                _ => {
                    active.add(row, multiplier, parts, rest);
                    break;
                }
            }
        }
    }
    None
}
