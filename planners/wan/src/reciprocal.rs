//! The reciprocal resource program: how to divide capacities among collectives whose times are reciprocal to their shares.
//!
//! min (1/K) Σₖ cₖ/xₖ subject to Σₖ aₑₖ xₖ ≤ dₑ for every row e, x > 0. It is solved over z = ln x, where cost and rows
//! are convex, by a primal-dual interior-point method on variables and rows scaled to 1, and then to the last digits by a
//! few exact steps. The solution is unique, and is accepted by the conditions that characterise it ([`Solution::residual`]).

mod interior;
mod polish;
#[cfg(test)]
mod tests;

use crate::refusal::Refusal;

/// One row: what each unit of each variable takes of it, and how much there is. Variables that take nothing are left out.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Variable and coefficient, more than 0.
    pub takes: Vec<(usize, f64)>,
    /// How much there is, more than 0.
    pub limit: f64,
}

/// The solution of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// The variables; they satisfy every row exactly, up to one rounding.
    pub x: Vec<f64>,
    /// The price of each row, scaled by K, at least 0.
    pub prices: Vec<f64>,
    /// (1/K) Σ c/x.
    pub objective: f64,
    /// How far the solution is from optimal: the largest of the relative distances of x from √(c / Σ price·a) and of the
    /// parts of the objective that rows with a price leave unused.
    pub residual: f64,
    /// Steps taken.
    pub iterations: usize,
}

/// Variables at most: steps are dense.
pub const MAX_VARIABLES: usize = 2_000;
/// Exact steps at most, and variables above which there are none: they take longer than all before.
const POLISHING: (usize, usize) = (50, 300);
/// The residual that is accepted; and where there were no exact steps.
const ACCEPTED: (f64, f64) = (1e-9, 1e-6);
/// The residual that says no more than rounding does, and the part of itself by which then no variable moves in a step.
const EXACT: (f64, f64) = (1e-11, 1e-13);

/// Solves the program with these costs, one for each variable and all more than 0.
///
/// # Errors
/// `TooLarge`; `Solver` when a variable is in no row or something is no quantity, and when the result does not pass its
/// conditions.
pub fn solve(costs: &[f64], rows: &[Row]) -> Result<Solution, Refusal> {
    if costs.len() > MAX_VARIABLES {
        return Err(Refusal::TooLarge { what: "collectives", found: costs.len(), allowed: MAX_VARIABLES });
    }
    let refused = |status: &str| Refusal::Solver { status: status.to_owned(), iterations: 0, gap: f64::NAN };
    let positive = |x: f64| x.is_finite() && x > 0.0;
    let usable =
        |row: &Row| positive(row.limit) && row.takes.iter().all(|&(variable, a)| variable < costs.len() && positive(a));
    if costs.is_empty() || !costs.iter().all(|&cost| positive(cost)) || !rows.iter().all(usable) {
        return Err(refused("a cost, coefficient or limit that is not finite and more than 0"));
    }
    // Each variable in units of the most it could be alone, each row in units of its limit, all costs in units of their sum.
    let mut unit = vec![f64::INFINITY; costs.len()];
    for row in rows {
        for &(variable, a) in &row.takes {
            unit[variable] = unit[variable].min(row.limit / a);
        }
    }
    if unit.iter().any(|unit| !positive(*unit)) {
        return Err(refused("a variable without a row"));
    }
    let cost: Vec<f64> = costs.iter().zip(&unit).map(|(cost, unit)| cost / unit).collect();
    let whole: f64 = cost.iter().sum();
    let cost: Vec<f64> = cost.iter().map(|cost| cost / whole).collect();
    let scaled = |row: &Row| row.takes.iter().map(|&(k, a)| (k, a * unit[k] / row.limit)).collect();
    let kept = undominated(rows.iter().map(scaled).collect());
    let scaled: Vec<Scaled> = kept.iter().map(|(_, row)| row.clone()).collect();
    let (mut y, mut price, mut iterations) = interior::solve(&cost, &scaled);
    // The program as it was asked for, from the scaled one.
    let whole_solution = |y: &[f64], price: &[f64], iterations: usize| {
        let mut x: Vec<f64> = y.iter().zip(&unit).map(|(y, unit)| y * unit).collect();
        let over = rows.iter().map(|row| used(&row.takes, &x) / row.limit).fold(1.0, f64::max);
        x.iter_mut().for_each(|x| *x /= over);
        let mut prices = vec![0.0; rows.len()];
        for (&(index, _), &price) in kept.iter().zip(price) {
            prices[index] = price * whole / rows[index].limit;
        }
        let objective = costs.iter().zip(&x).map(|(cost, x)| cost / x).sum::<f64>() / costs.len() as f64;
        let residual = residual(costs, rows, &x, &prices);
        Solution { x, prices, objective, residual, iterations }
    };
    let mut best = whole_solution(&y, &price, iterations);
    let polished = costs.len() <= POLISHING.1;
    if polished {
        for _ in 0..POLISHING.0 {
            let before = y.clone();
            if !polish::step(&cost, &scaled, &mut y, &mut price) {
                break;
            }
            iterations += 1;
            let found = whole_solution(&y, &price, iterations);
            let moved = y.iter().zip(&before).map(|(y, before)| (y / before - 1.0).abs()).fold(0.0, f64::max);
            // A residual may be small at some distance from the solution, where a price and a slack both are: what counts
            // near it is that the steps end.
            if found.residual < best.residual.max(EXACT.0) {
                best = found;
            }
            if moved <= EXACT.1 {
                break;
            }
        }
    }
    if best.residual <= if polished { ACCEPTED.0 } else { ACCEPTED.1 } {
        Ok(best)
    } else {
        let status = "an inexact solution".to_owned();
        Err(Refusal::Solver { status, iterations, gap: best.residual })
    }
}

/// What `x` takes of a row.
fn used(row: &[(usize, f64)], x: &[f64]) -> f64 {
    row.iter().map(|&(k, a)| a * x[k]).sum()
}

/// How far a solution with these prices is from optimal; see [`Solution::residual`].
fn residual(costs: &[f64], rows: &[Row], x: &[f64], prices: &[f64]) -> f64 {
    let mut priced = vec![0.0; costs.len()];
    let mut slack = 0.0_f64;
    let whole: f64 = costs.iter().zip(x).map(|(cost, x)| cost / x).sum();
    for (row, &price) in rows.iter().zip(prices) {
        let used = used(&row.takes, x);
        for &(k, a) in &row.takes {
            priced[k] += price * a;
        }
        slack = slack.max(price * (row.limit - used).abs() / whole);
    }
    let away = |((cost, x), priced): ((&f64, &f64), &f64)| ((cost / priced).sqrt() / x - 1.0).abs();
    let worst = costs.iter().zip(x).zip(&priced).map(away).fold(slack, f64::max);
    if worst.is_nan() { f64::INFINITY } else { worst }
}

/// A row over 1: variables with what each takes.
type Scaled = Vec<(usize, f64)>;

/// The rows without those that another one implies: it takes at least as much for the same variables. With their index.
fn undominated(rows: Vec<Scaled>) -> Vec<(usize, Scaled)> {
    let mut kept: Vec<(usize, Scaled)> = Vec::new();
    let mut sorted: Vec<(usize, Scaled)> = rows.into_iter().enumerate().filter(|(_, row)| !row.is_empty()).collect();
    for (_, row) in &mut sorted {
        row.sort_unstable_by_key(|&(k, _)| k);
    }
    let size = |row: &Scaled| row.iter().map(|&(_, a)| a).sum::<f64>();
    sorted.sort_by(|(i, a), (j, b)| b.len().cmp(&a.len()).then(size(b).total_cmp(&size(a))).then(i.cmp(j)));
    for (index, row) in sorted {
        let implied = |(_, by): &(usize, Scaled)| {
            let mut by = by.iter();
            row.iter().all(|&(k, a)| by.find(|&&(other, _)| other >= k).is_some_and(|&(other, b)| other == k && b >= a))
        };
        if !kept.iter().any(implied) {
            kept.push((index, row));
        }
    }
    kept
}
