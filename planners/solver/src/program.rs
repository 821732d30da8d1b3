//! A linear or integer program, how it is built, solved, extended and solved again.

use crate::stop::{self, Stop};
use highs::{ColProblem, HighsModelStatus, HighsSolutionStatus, Model, SolvedModel};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Which way the objective is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sense {
    /// The least sum of costs.
    Minimise,
    /// The largest sum of gains.
    Maximise,
}

/// Where a value or a sum lies; infinite ends are open.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The least value allowed; −∞: any.
    pub lower: f64,
    /// The largest value allowed; ∞: any.
    pub upper: f64,
}

impl Bounds {
    /// Zero or more, as amounts are.
    pub const POSITIVE: Bounds = Bounds { lower: 0.0, upper: f64::INFINITY };

    /// This or less, also below zero.
    pub const fn at_most(upper: f64) -> Bounds {
        Bounds { lower: f64::NEG_INFINITY, upper }
    }
    /// This or more, without an upper end.
    pub const fn at_least(lower: f64) -> Bounds {
        Bounds { lower, upper: f64::INFINITY }
    }
    /// This value alone: of a row an equation.
    pub const fn exactly(value: f64) -> Bounds {
        Bounds { lower: value, upper: value }
    }
}

/// A row of a program, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Row(pub usize);

/// A column of a program, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Column(pub usize);

/// How a linear program is solved. Integer programs are always solved by branch and bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Dual simplex: ends in a vertex with a basis, from which it goes on where columns are added.
    #[default]
    Simplex,
    /// Interior point, without the way from there to a vertex: no basis, any optimal values and prices.
    InteriorPoint,
}

/// The terms of one solution.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// How a linear program is solved.
    pub method: Method,
    /// Where the solver's random numbers begin; the same seed gives the same answer.
    pub seed: u32,
    /// How far a row may be from its bounds, and a reduced cost from its sign; the solver's own 1e-7 where it is `None`.
    pub tolerance: Option<f64>,
    /// An integer program ends at this distance of its value and its bound, as a share of the value.
    pub gap: f64,
    /// When to end with what there is.
    pub deadline: Option<Instant>,
    /// Set to true by another thread, it ends the work without an answer.
    pub cancel: &'a AtomicBool,
}

static NEVER: AtomicBool = AtomicBool::new(false);

impl Default for Options<'static> {
    /// Simplex, seed 0, integers to the optimum, without end of time.
    fn default() -> Self {
        Options { method: Method::Simplex, seed: 0, tolerance: None, gap: 0.0, deadline: None, cancel: &NEVER }
    }
}

/// Values of all columns, and what they prove.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// Do the values keep all bounds, within the solver's tolerances?
    pub feasible: bool,
    /// Their sum of costs or gains.
    pub objective: f64,
    /// No values are better than this, as far as the solver knows: of an optimum its own objective.
    pub bound: f64,
    /// By column, in the order in which they were added.
    pub values: Vec<f64>,
    /// By row: what the objective gains where the row's sum may be one more. Of a linear program only.
    pub prices: Vec<f64>,
    /// By column: its cost or gain less the prices of its entries. Of a linear program only.
    pub reduced: Vec<f64>,
}

/// What there is to say of a program.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The best values there are, within the solver's tolerances.
    Optimal(Solution),
    /// No values keep all bounds.
    Infeasible,
    /// There is no end to how good values can be.
    Unbounded,
    /// Time ran out; the values until then, where there are any.
    TimeLimit(Option<Solution>),
    /// The solver came to an end that is neither, and says so; the values may still be worth something.
    Imprecise {
        /// How the solver ended, in its own words.
        status: String,
        /// The values at which it ended, which may break a row.
        solution: Solution,
    },
    /// It was called off.
    Cancelled,
}

/// The solver could not take the program, or broke down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// What went wrong, in the solver's own words.
    pub status: String,
}

impl std::error::Error for Failed {}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HiGHS ended with {}", self.status)
    }
}

fn failed(status: impl std::fmt::Debug) -> Failed {
    Failed { status: format!("{status:?}") }
}

/// A program: rows, columns with their entries, and after the first solution what the solver keeps of it.
#[derive(Debug)]
pub struct Program {
    sense: Sense,
    state: State,
    rows: Vec<highs::Row>,
    columns: usize,
    integers: bool,
}

#[derive(Debug)]
enum State {
    Building(Box<ColProblem>),
    /// Solved at least once, with its basis.
    Live(Model),
    /// It broke down in the solver.
    Lost,
}

impl Program {
    /// Without rows and columns.
    pub fn new(sense: Sense) -> Program {
        let state = State::Building(Box::default());
        Program { sense, state, rows: Vec::new(), columns: 0, integers: false }
    }

    /// A further row, still without entries.
    ///
    /// # Errors
    /// For bounds that are no numbers.
    pub fn row(&mut self, bounds: Bounds) -> Result<Row, Failed> {
        let range = range(bounds)?;
        self.rows.push(match &mut self.state {
            State::Building(problem) => problem.add_row(range),
            State::Live(model) => model.try_add_row(range, []).map_err(failed)?,
            State::Lost => return Err(failed("a lost program")),
        });
        Ok(Row(self.rows.len() - 1))
    }

    /// A further column, with what it costs or gains for each unit and its entries in rows. Each row stands there once.
    ///
    /// # Errors
    /// For numbers that are none and rows that do not exist.
    pub fn column(
        &mut self,
        worth: f64,
        bounds: Bounds,
        entries: impl IntoIterator<Item = (Row, f64)>,
    ) -> Result<Column, Failed> {
        self.add(worth, bounds, entries, false)
    }

    /// The same for whole numbers.
    ///
    /// # Errors
    /// As [`Program::column`].
    pub fn integer(
        &mut self,
        worth: f64,
        bounds: Bounds,
        entries: impl IntoIterator<Item = (Row, f64)>,
    ) -> Result<Column, Failed> {
        self.integers = true;
        self.add(worth, bounds, entries, true)
    }

    fn add(
        &mut self,
        worth: f64,
        bounds: Bounds,
        entries: impl IntoIterator<Item = (Row, f64)>,
        whole: bool,
    ) -> Result<Column, Failed> {
        let range = range(bounds)?;
        if !worth.is_finite() {
            return Err(failed(format!("a column worth {worth}")));
        }
        let entry = |(Row(row), factor): (Row, f64)| match self.rows.get(row) {
            Some(&row) if factor.is_finite() => Ok((row, factor)),
            Some(_) => Err(failed(format!("an entry of {factor}"))),
            None => Err(failed(format!("no row {row}"))),
        };
        let entries = entries.into_iter().map(entry).collect::<Result<Vec<_>, _>>()?;
        match &mut self.state {
            State::Building(problem) => problem.add_column_with_integrality(worth, range, entries, whole),
            State::Live(model) => {
                model.try_add_column_with_integrality(worth, range, entries, whole).map_err(failed)?;
            }
            State::Lost => return Err(failed("a lost program")),
        }
        self.columns += 1;
        Ok(Column(self.columns - 1))
    }

    /// Solves; the next solution begins where this one ends. `start` are values of all columns to begin with, as an
    /// integer program takes them.
    ///
    /// # Errors
    /// Where HiGHS breaks down, after which the program is lost.
    pub fn solve(&mut self, options: &Options<'_>, start: Option<&[f64]>) -> Result<Answer, Failed> {
        if options.cancel.load(Ordering::Relaxed) {
            return Ok(Answer::Cancelled);
        }
        let mut model = match std::mem::replace(&mut self.state, State::Lost) {
            State::Building(problem) => problem.try_optimise(sense(self.sense)).map_err(failed)?,
            State::Live(model) => model,
            State::Lost => return Err(failed("a lost program")),
        };
        self.set(&mut model, options)?;
        if let Some(start) = start {
            model.try_set_solution(Some(start), None, None, None).map_err(failed)?;
        }
        let stop = Stop { cancel: options.cancel, deadline: options.deadline };
        let mut solved = stop::solve(model, &stop).map_err(failed)?;
        if solved.status() == HighsModelStatus::UnboundedOrInfeasible {
            // Presolve cannot tell the two apart; without it the solver can.
            let mut model = Model::from(solved);
            model.try_set_option("presolve", "off").map_err(failed)?;
            solved = stop::solve(model, &stop).map_err(failed)?;
        }
        let answer = self.answer(&solved, options);
        self.state = State::Live(Model::from(solved));
        answer
    }

    fn set(&self, model: &mut Model, options: &Options<'_>) -> Result<(), Failed> {
        let mut set = || -> Result<(), highs::TrySetOptionError> {
            model.make_quiet();
            model.try_set_option("threads", 1)?;
            model.try_set_option("parallel", "off")?;
            model.try_set_option("random_seed", i32::try_from(options.seed).unwrap_or(i32::MAX))?;
            model.try_set_option("presolve", "choose")?;
            if let Some(tolerance) = options.tolerance {
                model.try_set_option("primal_feasibility_tolerance", tolerance)?;
                model.try_set_option("dual_feasibility_tolerance", tolerance)?;
            }
            match options.method {
                _ if self.integers => {
                    model.try_set_option("solver", "choose")?;
                    model.try_set_option("mip_rel_gap", options.gap)?;
                }
                Method::Simplex => model.try_set_option("solver", "simplex")?,
                Method::InteriorPoint => {
                    model.try_set_option("solver", "ipm")?;
                    // A vertex of the optimum is not asked for.
                    model.try_set_option("run_crossover", "off")?;
                }
            }
            let left = |deadline: Instant| deadline.saturating_duration_since(Instant::now()).as_secs_f64().max(1e-3);
            let limit = options.deadline.map_or(f64::INFINITY, |deadline| stop::run_time(model) + left(deadline));
            model.try_set_option("time_limit", limit)
        };
        set().map_err(failed)
    }

    fn answer(&self, solved: &SolvedModel, options: &Options<'_>) -> Result<Answer, Failed> {
        let status = solved.status();
        Ok(match status {
            HighsModelStatus::Optimal | HighsModelStatus::ModelEmpty => Answer::Optimal(self.solution(solved, true)),
            HighsModelStatus::Infeasible => Answer::Infeasible,
            HighsModelStatus::Unbounded => Answer::Unbounded,
            _ if options.cancel.load(Ordering::Relaxed) => Answer::Cancelled,
            HighsModelStatus::ReachedTimeLimit | HighsModelStatus::ReachedInterrupt => {
                let some = solved.primal_solution_status() != HighsSolutionStatus::None;
                Answer::TimeLimit(some.then(|| self.solution(solved, false)))
            }
            HighsModelStatus::LoadError
            | HighsModelStatus::ModelError
            | HighsModelStatus::PresolveError
            | HighsModelStatus::SolveError
            | HighsModelStatus::PostsolveError => return Err(failed(status)),
            _ => Answer::Imprecise { status: format!("{status:?}"), solution: self.solution(solved, false) },
        })
    }

    fn solution(&self, solved: &SolvedModel, optimal: bool) -> Solution {
        let solution = solved.get_solution();
        let of_linear = |values: &[f64]| if self.integers { Vec::new() } else { values.to_vec() };
        let objective = solved.objective_value();
        let worst = match self.sense {
            Sense::Minimise => f64::NEG_INFINITY,
            Sense::Maximise => f64::INFINITY,
        };
        let bound = match (self.integers, optimal) {
            (true, _) => solved.double_info_value(c"mip_dual_bound").unwrap_or(worst),
            (false, true) => objective,
            (false, false) => worst,
        };
        Solution {
            feasible: optimal || solved.primal_solution_status() == HighsSolutionStatus::Feasible,
            objective,
            bound,
            values: solution.columns().to_vec(),
            prices: of_linear(solution.dual_rows()),
            reduced: of_linear(solution.dual_columns()),
        }
    }
}

fn sense(sense: Sense) -> highs::Sense {
    match sense {
        Sense::Minimise => highs::Sense::Minimise,
        Sense::Maximise => highs::Sense::Maximise,
    }
}

fn range(bounds: Bounds) -> Result<std::ops::RangeInclusive<f64>, Failed> {
    if bounds.lower.is_nan() || bounds.upper.is_nan() {
        return Err(failed(format!("{bounds:?}")));
    }
    Ok(bounds.lower..=bounds.upper)
}
