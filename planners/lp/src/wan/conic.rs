//! A conic program behind a small interface: the one place that speaks to the interior-point solver.
//!
//! A [`Draft`] minimises a sum of costs over columns of any sign, under rows of three kinds: sums of at most a bound,
//! sums with a value, and triples of sums that lie in a cone. Rows are handed over in a fixed order on one thread, so
//! the same draft gives the same bytes.

use crate::wan::refusal::Refusal;
use clarabel::algebra::CscMatrix;
use clarabel::solver::{DefaultInfo, DefaultSettings, DefaultSolver, IPSolver, SolverStatus, SupportedConeT};
use sluice_planners::{Run, Stopped};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Steps of the solver at most.
const MAX_ITERATIONS: u32 = 200;
/// How often the work looks whether somebody called it off.
const LOOK: Duration = Duration::from_millis(20);

/// A column, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column(usize);

/// A column with what it is multiplied by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Term {
    pub column: Column,
    pub factor: f64,
}

impl std::ops::Mul<Column> for f64 {
    type Output = Term;

    fn mul(self, column: Column) -> Term {
        Term { column, factor: self }
    }
}

/// A sum of columns and a constant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sum {
    pub terms: Vec<Term>,
    pub constant: f64,
}

impl Sum {
    /// Of these terms alone.
    pub fn of(terms: impl Into<Vec<Term>>) -> Sum {
        Sum { terms: terms.into(), constant: 0.0 }
    }
    /// No column.
    pub fn constant(constant: f64) -> Sum {
        Sum { terms: Vec::new(), constant }
    }
}

/// A program that is being put together.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    costs: Vec<f64>,
    /// Sums that are 0.
    equal: Vec<Sum>,
    /// Sums that are 0 or more.
    positive: Vec<Sum>,
    /// Triples (t, x, y) with t ≥ √(x² + y²).
    second_order: Vec<[Sum; 3]>,
    /// Triples in the closure of (x, y, z) with y > 0 and y·exp(x/y) ≤ z.
    exponential: Vec<[Sum; 3]>,
}

/// How the solver ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// Within the tolerance.
    Solved,
    /// Nearly so.
    AlmostSolved,
    /// In another way, in its own words.
    Other(String),
}

/// The end of a solution.
#[derive(Clone, Debug, PartialEq)]
pub struct Solved {
    values: Vec<f64>,
    /// How the solver ended.
    pub status: Status,
    /// The sum of costs.
    pub objective: f64,
    /// Steps of the solver.
    pub iterations: u32,
    /// The distance of value and bound, as a share of the value.
    pub gap: f64,
}

impl Solved {
    /// The value of a column.
    pub fn value(&self, column: Column) -> f64 {
        self.values[column.0]
    }
    /// What its caller refuses with.
    pub fn refused(&self) -> Refusal {
        let status = match &self.status {
            Status::Other(status) => status.clone(),
            status => format!("{status:?}"),
        };
        Refusal::Solver { status, iterations: self.iterations, gap: self.gap }
    }
}

impl Draft {
    /// A further column, of any sign, with what it costs for each unit.
    pub fn column(&mut self, cost: f64) -> Column {
        self.costs.push(cost);
        Column(self.costs.len() - 1)
    }

    /// These terms add up to at most `bound`.
    pub fn at_most(&mut self, terms: &[Term], bound: f64) {
        let terms = terms.iter().map(|term| Term { factor: -term.factor, ..*term }).collect();
        self.positive.push(Sum { terms, constant: bound });
    }

    /// These terms add up to 0.
    pub fn zero(&mut self, terms: &[Term]) {
        self.equal.push(Sum::of(terms));
    }

    /// The product of two columns is at least 1, and neither is below 0.
    ///
    /// Source: section 4, item 4: the rotated cone as an ordinary one of dimension 3.
    pub fn reciprocal(&mut self, one: Column, other: Column) {
        let sum = Sum::of([1.0 * one, 1.0 * other]);
        let difference = Sum::of([1.0 * one, -1.0 * other]);
        self.second_order.push([sum, difference, Sum::constant(2.0)]);
    }

    /// The exponential of a sum is at most a column.
    pub fn exponential(&mut self, exponent: Sum, bound: Column) {
        self.exponential.push([exponent, Sum::constant(1.0), Sum::of([1.0 * bound])]);
    }

    /// Solves it to a tolerance of value and bound, and of rows and their bounds. Any end but these is given back.
    ///
    /// # Errors
    /// `Solver` for a program that the solver does not take, `Stopped` when the run is called off or late.
    pub fn solve(&self, tolerance: f64, run: &Run<'_>) -> Result<Solved, Refusal> {
        run.check()?;
        let left = run.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let settings = DefaultSettings {
            verbose: false,
            max_iter: MAX_ITERATIONS,
            time_limit: left.map_or(f64::INFINITY, |left| left.as_secs_f64()),
            tol_gap_abs: tolerance,
            tol_gap_rel: tolerance,
            tol_feas: tolerance,
            max_threads: 1,
            ..DefaultSettings::default()
        };
        let (matrix, constants, cones) = self.standard();
        let quadratic = CscMatrix::zeros((self.costs.len(), self.costs.len()));
        let solver = DefaultSolver::new(&quadratic, &self.costs, &matrix, &constants, &cones, settings);
        let mut solver = solver.map_err(|error| Refusal::solver(error.to_string()))?;
        watched(run, |called_off| {
            let called_off = Arc::clone(called_off);
            solver.set_termination_callback(move |_: &DefaultInfo<f64>| called_off.load(Ordering::Relaxed));
            solver.solve();
        });
        let solution = &solver.solution;
        let (value, bound) = (solution.obj_val, solution.obj_val_dual);
        let gap = (value - bound).abs() / value.abs().max(f64::MIN_POSITIVE);
        let status = match solution.status {
            SolverStatus::Solved => Status::Solved,
            SolverStatus::AlmostSolved => Status::AlmostSolved,
            SolverStatus::CallbackTerminated => return Err(Stopped::Cancelled.into()),
            SolverStatus::MaxTime => return Err(Stopped::TimeLimit.into()),
            other => Status::Other(other.to_string()),
        };
        let (values, iterations) = (solution.x.clone(), solution.iterations);
        Ok(Solved { values, status, objective: value, iterations, gap })
    }

    /// In the solver's own form: Ax + s = b with s in the cones, A by columns. A sum c + aᵀx in a cone is the row −a
    /// with the right side c.
    fn standard(&self) -> (CscMatrix<f64>, Vec<f64>, Vec<SupportedConeT<f64>>) {
        let mut cones =
            vec![SupportedConeT::ZeroConeT(self.equal.len()), SupportedConeT::NonnegativeConeT(self.positive.len())];
        cones.extend(self.second_order.iter().map(|_| SupportedConeT::SecondOrderConeT(3)));
        cones.extend(self.exponential.iter().map(|_| SupportedConeT::ExponentialConeT()));
        let triples = self.second_order.iter().chain(&self.exponential).flatten();
        let sums: Vec<&Sum> = self.equal.iter().chain(&self.positive).chain(triples).collect();
        let constants: Vec<f64> = sums.iter().map(|sum| sum.constant).collect();
        // Entries are counted by column, then put in their places row by row, so that they stand in order.
        let mut starts = vec![0; self.costs.len() + 1];
        for term in sums.iter().flat_map(|sum| &sum.terms) {
            starts[term.column.0 + 1] += 1;
        }
        for column in 0..self.costs.len() {
            starts[column + 1] += starts[column];
        }
        let entries = starts[self.costs.len()];
        let (mut rows, mut factors, mut next) = (vec![0; entries], vec![0.0; entries], starts.clone());
        for (row, sum) in sums.iter().enumerate() {
            for term in &sum.terms {
                let place = &mut next[term.column.0];
                (rows[*place], factors[*place]) = (row, -term.factor);
                *place += 1;
            }
        }
        (CscMatrix::new(sums.len(), self.costs.len(), starts, rows, factors), constants, cones)
    }
}

/// `work` beside a thread that passes on when the run is called off: the solver's callback may borrow nothing of it.
fn watched(run: &Run<'_>, work: impl FnOnce(&Arc<AtomicBool>)) {
    let called_off = Arc::new(AtomicBool::new(false));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                called_off.store(run.is_cancelled(), Ordering::Relaxed);
                std::thread::park_timeout(LOOK);
            }
        });
        let _end = End { done: &done, watcher: watcher.thread() };
        work(&called_off);
    });
}

/// Ends the watcher, whichever way the work ends.
struct End<'a> {
    done: &'a AtomicBool,
    watcher: &'a Thread,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Release);
        self.watcher.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLERANCE: f64 = 1e-9;

    #[test]
    fn reciprocals_and_exponentials_are_what_they_say() {
        let mut draft = Draft::default();
        let (rate, inverse) = (draft.column(0.0), draft.column(1.0));
        draft.reciprocal(inverse, rate);
        draft.at_most(&[2.0 * rate], 8.0);
        let (log, power) = (draft.column(-1.0), draft.column(0.0));
        draft.exponential(Sum::of([1.0 * log]), power);
        draft.at_most(&[1.0 * power], 5.0);
        let (one, other) = (draft.column(0.0), draft.column(1.0));
        draft.zero(&[1.0 * one, -3.0 * other]);
        draft.at_most(&[-1.0 * one], -6.0);
        let solved = draft.solve(TOLERANCE, &Run::quiet(1)).expect("a program");
        assert_eq!(solved.status, Status::Solved);
        for (column, value) in [(rate, 4.0), (inverse, 0.25), (log, 5.0_f64.ln()), (one, 6.0), (other, 2.0)] {
            assert!((solved.value(column) - value).abs() < 1e-7, "{column:?}: {}", solved.value(column));
        }
        assert!((solved.objective - (0.25 - 5.0_f64.ln() + 2.0)).abs() < 1e-7);
    }

    #[test]
    fn programs_without_a_solution_are_told_and_refused() {
        let mut draft = Draft::default();
        let column = draft.column(1.0);
        draft.at_most(&[1.0 * column], 1.0);
        draft.at_most(&[-1.0 * column], -2.0);
        let solved = draft.solve(TOLERANCE, &Run::quiet(1)).expect("a program");
        assert_eq!(solved.status, Status::Other("PrimalInfeasible".to_owned()));
        let refusal = solved.refused();
        assert_eq!(refusal.code(), "Solver");
        assert!(refusal.to_string().contains("PrimalInfeasible"), "{refusal}");

        let mut draft = Draft::default();
        let column = draft.column(1.0);
        draft.at_most(&[1.0 * column], 1.0);
        let solved = draft.solve(TOLERANCE, &Run::quiet(1)).expect("a program");
        assert_eq!(solved.status, Status::Other("DualInfeasible".to_owned()));
    }

    #[test]
    fn a_program_that_is_called_off_while_it_is_solved_ends() {
        let mut draft = Draft::default();
        for at in 0..2_000 {
            let (rate, inverse) = (draft.column(0.0), draft.column(1.0 + f64::from(at)));
            draft.reciprocal(inverse, rate);
            draft.at_most(&[1.0 * rate], 1.0);
        }
        let cancel = AtomicBool::new(false);
        let run = Run { cancel: &cancel, ..Run::quiet(1) };
        watched(&run, |called_off| {
            assert!(!called_off.load(Ordering::Relaxed));
            cancel.store(true, Ordering::Relaxed);
            while !called_off.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
        });
        assert_eq!(draft.solve(TOLERANCE, &run), Err(Stopped::Cancelled.into()));
    }
}
