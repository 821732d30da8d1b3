//! The program against closed forms, against its own conditions, and where rows depend on each other.

use proptest::prelude::*;

use super::*;
use crate::random::Random;

fn row(takes: &[(usize, f64)], limit: f64) -> Row {
    Row { takes: takes.to_vec(), limit }
}

/// The conditions of the optimum, from their definition.
fn optimal(costs: &[f64], rows: &[Row], solution: &Solution) {
    let mut priced = vec![0.0; costs.len()];
    let whole: f64 = costs.iter().zip(&solution.x).map(|(cost, x)| cost / x).sum();
    for (row, &price) in rows.iter().zip(&solution.prices) {
        assert!(price >= 0.0);
        let used: f64 = row.takes.iter().map(|&(k, a)| a * solution.x[k]).sum();
        assert!(used <= row.limit * (1.0 + 1e-14), "{used} of {}", row.limit);
        assert!(price * (row.limit - used) <= 1e-10 * whole, "an unused row with a price");
        row.takes.iter().for_each(|&(k, a)| priced[k] += price * a);
    }
    for ((cost, x), priced) in costs.iter().zip(&solution.x).zip(priced) {
        let expected = (cost / priced).sqrt();
        assert!((x - expected).abs() <= 1e-10 * x, "{x} and {expected}");
    }
    assert!((solution.objective * costs.len() as f64 - whole).abs() <= 1e-12 * whole);
}

#[test]
fn one_row_has_a_closed_form() {
    let costs = [9.0, 4.0, 1.0];
    let rows = [row(&[(0, 1.0), (1, 1.0), (2, 1.0)], 2.0)];
    let solution = solve(&costs, &rows).expect("solved");
    // (Σ √c)² / (K·C)
    assert!((solution.objective - 6.0).abs() < 1e-13);
    optimal(&costs, &rows, &solution);
}

#[test]
fn the_same_row_twice_and_almost_the_same_change_nothing() {
    let costs = [1.0, 2.0, 5.0];
    let nearly = 1.0 + 1e-15;
    let rows = [
        row(&[(0, 1.0), (1, 2.0)], 3.0),
        row(&[(1, 2.0), (0, 1.0)], 3.0),
        row(&[(0, nearly), (1, 2.0)], 3.0),
        row(&[(1, 1.0), (2, 1.0)], 1.0),
        row(&[(1, nearly), (2, 1.0)], 1.0),
        row(&[(2, 1.0)], 100.0),
        row(&[], 7.0),
    ];
    let solution = solve(&costs, &rows).expect("solved");
    optimal(&costs, &rows, &solution);
    let few = solve(&costs, &[rows[0].clone(), rows[3].clone()]).expect("solved");
    for (one, other) in solution.x.iter().zip(&few.x) {
        assert!((one - other).abs() <= 1e-12 * one);
    }
}

#[test]
fn costs_and_limits_may_lie_far_apart() {
    let costs = [1e-9, 1.0, 1e9];
    let rows = [row(&[(0, 1.0), (1, 1e3), (2, 1e-3)], 1e6), row(&[(1, 1.0)], 1e-6), row(&[(0, 1e6), (2, 1.0)], 1e3)];
    let solution = solve(&costs, &rows).expect("solved");
    optimal(&costs, &rows, &solution);
}

#[test]
fn what_is_no_program_is_refused() {
    let good = row(&[(0, 1.0)], 1.0);
    for (costs, rows) in [
        (vec![], vec![good.clone()]),
        (vec![0.0], vec![good.clone()]),
        (vec![f64::NAN], vec![good.clone()]),
        (vec![1.0], vec![row(&[(0, 1.0)], 0.0)]),
        (vec![1.0], vec![row(&[(0, -1.0)], 1.0)]),
        (vec![1.0], vec![row(&[(1, 1.0)], 1.0)]),
        (vec![1.0, 1.0], vec![good.clone()]),
        (vec![1.0], vec![]),
    ] {
        assert_eq!(solve(&costs, &rows).expect_err("no program").code(), "Solver");
    }
    let many = vec![1.0; MAX_VARIABLES + 1];
    assert_eq!(solve(&many, &[good]).expect_err("too many").code(), "TooLarge");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_solution_satisfies_its_conditions(seed: u64, variables in 1_usize..20, count in 1_usize..40) {
        let mut random = Random::new(seed);
        let number = |random: &mut Random, spread: f64| 10_f64.powf(spread * (random.unit() - 0.5));
        let spread = 6.0 * random.unit();
        let costs: Vec<f64> = (0..variables).map(|_| number(&mut random, spread)).collect();
        let mut rows = Vec::new();
        for index in 0..count {
            let whole = random.unit() < 0.5;
            let mut takes = Vec::new();
            for variable in 0..variables {
                if index == 0 || random.unit() < 0.4 {
                    takes.push((variable, if whole { 1.0 } else { number(&mut random, spread) }));
                }
            }
            rows.push(Row { takes, limit: number(&mut random, 2.0) });
            if random.unit() < 0.2 {
                rows.extend(rows.last().cloned());
            }
        }
        let solution = solve(&costs, &rows).expect("solved");
        optimal(&costs, &rows, &solution);
    }
}
