//! The solver against trying everything, and against itself: columns added later, seeds, limits.

use proptest::prelude::*;
use sluice_solver::{Answer, Bounds, Column, Method, Options, Program, Row, Sense, Solution};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const CLOSE: f64 = 1e-6;

/// A small program in whole numbers: rows `Σ a·x ≤ b`, columns between 0 and their limit.
#[derive(Clone, Debug)]
struct Small {
    worth: Vec<i32>,
    limit: Vec<i32>,
    rows: Vec<(Vec<i32>, i32)>,
}

fn small(columns: usize, rows: usize) -> impl Strategy<Value = Small> {
    let row = (prop::collection::vec(-4..=6_i32, columns), 0..=12_i32);
    let worth = prop::collection::vec(-3..=9_i32, columns);
    let limit = prop::collection::vec(0..=4_i32, columns);
    (worth, limit, prop::collection::vec(row, rows)).prop_map(|(worth, limit, rows)| Small { worth, limit, rows })
}

impl Small {
    /// The program with its first columns; whole numbers, or any.
    fn program(&self, columns: usize, whole: bool) -> Program {
        let mut program = Program::new(Sense::Maximise);
        for (_, most) in &self.rows {
            program.row(Bounds::at_most(f64::from(*most))).unwrap();
        }
        (0..columns).for_each(|column| self.add(&mut program, column, whole));
        program
    }
    fn add(&self, program: &mut Program, column: usize, whole: bool) {
        let entry = |(row, (factors, _)): (usize, &(Vec<i32>, i32))| (Row(row), f64::from(factors[column]));
        let entries: Vec<_> = self.rows.iter().enumerate().map(entry).filter(|(_, factor)| *factor != 0.0).collect();
        let bounds = Bounds { lower: 0.0, upper: f64::from(self.limit[column]) };
        let worth = f64::from(self.worth[column]);
        let added =
            if whole { program.integer(worth, bounds, entries) } else { program.column(worth, bounds, entries) };
        assert_eq!(added, Ok(Column(column)));
    }
    /// The best whole numbers, by trying all.
    fn best_whole(&self) -> i32 {
        let mut values = vec![0; self.worth.len()];
        let mut best = i32::MIN;
        loop {
            let sum = |factors: &[i32]| factors.iter().zip(&values).map(|(factor, value)| factor * value).sum::<i32>();
            if self.rows.iter().all(|(factors, most)| sum(factors) <= *most) {
                best = best.max(sum(&self.worth));
            }
            let Some(next) = (0..values.len()).find(|&column| values[column] < self.limit[column]) else { return best };
            values[next] += 1;
            values[..next].fill(0);
        }
    }
    /// The best of any numbers, by trying all corners of a program of two columns: crossings of two of its lines.
    fn best_of_two(&self) -> f64 {
        let mut lines: Vec<[f64; 3]> =
            self.rows.iter().map(|(a, b)| [f64::from(a[0]), f64::from(a[1]), f64::from(*b)]).collect();
        lines.extend([[-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]]);
        lines.extend([[1.0, 0.0, f64::from(self.limit[0])], [0.0, 1.0, f64::from(self.limit[1])]]);
        let mut best = f64::NEG_INFINITY;
        for (place, [a, b, c]) in lines.iter().enumerate() {
            for [d, e, f] in &lines[..place] {
                let det = a * e - b * d;
                if det != 0.0 {
                    let (x, y) = ((c * e - b * f) / det, (a * f - c * d) / det);
                    if lines.iter().all(|[a, b, c]| a * x + b * y <= c + 1e-9) {
                        best = best.max(f64::from(self.worth[0]) * x + f64::from(self.worth[1]) * y);
                    }
                }
            }
        }
        best
    }
}

fn optimum(program: &mut Program, options: &Options<'_>) -> Solution {
    match program.solve(options, None) {
        Ok(Answer::Optimal(solution)) => solution,
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn linear_programs_agree_with_their_corners(of in small(2, 3)) {
        let best = of.best_of_two();
        let solved = optimum(&mut of.program(2, false), &Options::default());
        prop_assert!((solved.objective - best).abs() < CLOSE, "{} {:?}", best, solved);
        // Without the way to a vertex HiGHS does not vouch for its prices: the values are what counts.
        let interior = Options { method: Method::InteriorPoint, ..Options::default() };
        match of.program(2, false).solve(&interior, None) {
            Ok(Answer::Optimal(solved) | Answer::Imprecise { solution: solved, .. }) => {
                prop_assert!(solved.feasible && (solved.objective - best).abs() < 1e-4, "{} {:?}", best, solved);
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn whole_numbers_agree_with_trying_all(of in small(4, 3)) {
        let solved = optimum(&mut of.program(4, true), &Options::default());
        prop_assert!((solved.objective - f64::from(of.best_whole())).abs() < CLOSE, "{:?}", solved);
        prop_assert!((solved.bound - solved.objective).abs() < CLOSE, "{:?}", solved);
        prop_assert!(solved.values.iter().all(|value| (value - value.round()).abs() < CLOSE));
        prop_assert!(solved.prices.is_empty() && solved.reduced.is_empty());
    }

    /// Prices say of every row and column whether it is tight, and add up to the objective.
    #[test]
    fn prices_prove_the_optimum(of in small(5, 4)) {
        let solved = optimum(&mut of.program(5, false), &Options::default());
        let mut proved = 0.0;
        for ((factors, most), price) in of.rows.iter().zip(&solved.prices) {
            let used: f64 = factors.iter().zip(&solved.values).map(|(factor, value)| f64::from(*factor) * value).sum();
            prop_assert!(*price >= -CLOSE, "room is never harmful");
            prop_assert!(price.abs() < CLOSE || (f64::from(*most) - used).abs() < CLOSE, "what has room costs nothing");
            proved += price * f64::from(*most);
        }
        for column in 0..5 {
            let paid: f64 =
                of.rows.iter().zip(&solved.prices).map(|((factors, _), price)| f64::from(factors[column]) * price).sum();
            let left = f64::from(of.worth[column]) - paid;
            prop_assert!((left - solved.reduced[column]).abs() < CLOSE);
            let (value, limit) = (solved.values[column], f64::from(of.limit[column]));
            prop_assert!(left < CLOSE || (limit - value).abs() < CLOSE, "what pays is at its limit");
            prop_assert!(left > -CLOSE || value.abs() < CLOSE, "what does not pay is not used");
            proved += left.max(0.0) * limit;
        }
        prop_assert!((proved - solved.objective).abs() < 1e-5, "{} {:?}", proved, solved);
    }

    #[test]
    fn columns_added_later_are_like_columns_from_the_start(of in small(6, 4), whole: bool) {
        let at_once = optimum(&mut of.program(6, whole), &Options::default());
        let mut program = of.program(2, whole);
        for column in 2..6 {
            optimum(&mut program, &Options::default());
            of.add(&mut program, column, whole);
        }
        let later = optimum(&mut program, &Options::default());
        prop_assert!((later.objective - at_once.objective).abs() < CLOSE, "{:?} {:?}", at_once, later);
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes(of in small(5, 3), seed in 0..1000_u32, whole: bool) {
        let options = Options { seed, ..Options::default() };
        let (one, two) = (optimum(&mut of.program(5, whole), &options), optimum(&mut of.program(5, whole), &options));
        let bits = |solution: &Solution| {
            let all = [&solution.values, &solution.prices, &solution.reduced];
            all.map(|numbers| numbers.iter().map(|number| number.to_bits()).collect::<Vec<_>>())
        };
        prop_assert_eq!(bits(&one), bits(&two));
    }
}

/// Solved again from its basis, a program that has only changed by one column takes hardly a step.
#[test]
fn a_basis_is_kept_while_columns_are_added() {
    let mut program = Program::new(Sense::Minimise);
    let rows: Vec<Row> = (0..40).map(|row| program.row(Bounds::at_least(f64::from(row % 7 + 1))).unwrap()).collect();
    for (place, &row) in rows.iter().enumerate() {
        let next = rows[(place + 1) % rows.len()];
        program.column(3.0, Bounds::POSITIVE, [(row, 1.0), (next, 0.5)]).unwrap();
    }
    let first = optimum(&mut program, &Options::default());
    // A column that is as dear as those before in every row changes nothing.
    program.column(1000.0, Bounds::POSITIVE, [(rows[0], 1.0)]).unwrap();
    let again = optimum(&mut program, &Options::default());
    assert_eq!(again.values[..40], first.values[..], "the same vertex, to the bit");
    // A cheap one is taken, and rows that come later bind columns that come later.
    let row = program.row(Bounds::at_most(2.0)).unwrap();
    let cheap = program.column(0.5, Bounds::POSITIVE, [(rows[1], 1.0), (row, 1.0)]).unwrap();
    let better = optimum(&mut program, &Options::default());
    assert!(better.objective < again.objective && better.values[cheap.0] <= 2.0 + CLOSE, "{better:?}");
}

#[test]
fn what_has_no_solution_is_an_answer() {
    let solve = |bounds: Bounds, worth: f64, whole: bool| {
        let mut program = Program::new(Sense::Maximise);
        let row = program.row(bounds).unwrap();
        for factor in [1.0, -1.0] {
            let entries = [(row, factor)];
            if whole {
                program.integer(worth, Bounds::POSITIVE, entries).unwrap();
            } else {
                program.column(worth, Bounds::POSITIVE, entries).unwrap();
            }
        }
        program.column(0.0, Bounds { lower: 0.0, upper: 1.0 }, []).unwrap();
        program.solve(&Options::default(), None).unwrap()
    };
    for whole in [false, true] {
        assert_eq!(solve(Bounds::exactly(0.0), 1.0, whole), Answer::Unbounded);
        assert!(matches!(solve(Bounds::exactly(3.0), -1.0, whole), Answer::Optimal(_)));
        assert_eq!(solve(Bounds { lower: 2.0, upper: 1.0 }, 0.0, whole), Answer::Infeasible);
    }
    let nothing = Program::new(Sense::Minimise).solve(&Options::default(), None).unwrap();
    assert!(matches!(nothing, Answer::Optimal(solution) if solution.values.is_empty()));
}

#[test]
fn numbers_that_are_none_are_refused() {
    let mut program = Program::new(Sense::Minimise);
    assert!(program.row(Bounds::exactly(f64::NAN)).is_err());
    let row = program.row(Bounds::at_least(1.0)).unwrap();
    assert!(program.column(f64::INFINITY, Bounds::POSITIVE, [(row, 1.0)]).is_err());
    assert!(program.column(1.0, Bounds::POSITIVE, [(row, f64::NAN)]).is_err());
    assert!(program.column(1.0, Bounds::POSITIVE, [(Row(7), 1.0)]).is_err());
    assert!(program.column(1.0, Bounds::POSITIVE, [(row, 1.0)]).is_ok(), "nothing of them was kept");
    assert_eq!(optimum(&mut program, &Options::default()).objective, 1.0);
}

/// A knapsack of several limits: easy to fill somehow, hard to fill best.
fn knapsack(items: usize) -> Program {
    let mut program = Program::new(Sense::Maximise);
    let rows: Vec<Row> = (0..5).map(|_| program.row(Bounds::at_most(50.0 * items as f64)).unwrap()).collect();
    let mut state = 7_u64;
    let mut number = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 % 1000.0
    };
    for _ in 0..items {
        let entries: Vec<_> = rows.iter().map(|&row| (row, 100.0 + number())).collect();
        program.integer(500.0 + number(), Bounds { lower: 0.0, upper: 1.0 }, entries).unwrap();
    }
    program
}

#[test]
fn a_start_is_not_given_up_for_less() {
    let items = 30;
    let best = optimum(&mut knapsack(items), &Options::default());
    // At the deadline there is at least what the work began with.
    let late = Options { deadline: Some(Instant::now()), ..Options::default() };
    match knapsack(items).solve(&late, Some(&best.values)) {
        Ok(Answer::TimeLimit(Some(solution))) => {
            assert!(solution.feasible && (solution.objective - best.objective).abs() < CLOSE, "{solution:?}");
            assert!(solution.bound >= best.objective - CLOSE);
        }
        Ok(Answer::Optimal(solution)) => assert!((solution.objective - best.objective).abs() < CLOSE),
        other => panic!("{other:?}"),
    }
}

#[test]
fn deadlines_and_calls_end_the_work() {
    let limited = Options { deadline: Some(Instant::now() + Duration::from_millis(300)), ..Options::default() };
    let answer = knapsack(400).solve(&limited, None).unwrap();
    assert!(matches!(answer, Answer::TimeLimit(_)), "{answer:?}");
    let cancel = AtomicBool::new(true);
    let options = Options { cancel: &cancel, ..Options::default() };
    assert_eq!(knapsack(5).solve(&options, None), Ok(Answer::Cancelled));
    cancel.store(false, Ordering::Relaxed);
    let answer = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            cancel.store(true, Ordering::Relaxed);
        });
        knapsack(400).solve(&options, None)
    });
    assert_eq!(answer, Ok(Answer::Cancelled));
}
