//! Exact linear programs: largest objective under rows of the form sum ≤ bound, with rows added as they are found.
//!
//! The textbook dictionary method on exact fractions, dense, for some hundred variables. It starts at zero, which all
//! bounds must allow, or where nothing must gain; a row added later makes the dual method go on from where the last answer was.

use crate::run::{Run, Stopped};
use sluice_formats::quantity::Rational;

#[cfg(test)]
mod tests;

/// Steps without progress after which the choice is by smallest index, which cannot go round in circles.
const PATIENCE: usize = 60;

/// Why a program has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoOptimum {
    /// No values keep all rows, or there is no end to how good they can be.
    Unbounded,
    /// Somebody called it off, or the deadline passed.
    Stopped(Stopped),
}

impl From<Stopped> for NoOptimum {
    fn from(stopped: Stopped) -> NoOptimum {
        NoOptimum::Stopped(stopped)
    }
}

/// A program and where its solution stands.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    variables: usize,
    /// Per basic row: coefficients of the non-basic columns, then the value.
    rows: Vec<Vec<Rational>>,
    /// What one more unit of each column brings, then the negative value of the objective.
    gain: Vec<Rational>,
    /// The variable of each row and column: below `variables` a real one, else the slack of a row.
    basic: Vec<usize>,
    columns: Vec<usize>,
}

impl Program {
    /// Maximises the sum of `gain` times the variables, all of them at least zero.
    pub fn new(gain: Vec<Rational>) -> Self {
        let variables = gain.len();
        let gain = gain.into_iter().chain([Rational::ZERO]).collect();
        Self { variables, rows: Vec::new(), gain, basic: Vec::new(), columns: (0..variables).collect() }
    }

    /// Adds the row `sum of coefficient · variable ≤ bound`.
    pub fn add(&mut self, coefficients: &[(usize, Rational)], bound: Rational) {
        let width = self.columns.len();
        let mut row = vec![Rational::ZERO; width + 1];
        row[width] = bound;
        for (variable, coefficient) in coefficients {
            if let Some(column) = self.columns.iter().position(|other| other == variable) {
                row[column] += coefficient;
            } else if let Some(at) = self.basic.iter().position(|other| other == variable) {
                subtract(&mut row, &self.rows[at], coefficient);
            }
        }
        self.basic.push(self.variables + self.rows.len());
        self.rows.push(row);
    }

    /// The value of every variable.
    pub fn values(&self) -> Vec<Rational> {
        let mut values = vec![Rational::ZERO; self.variables];
        for (&variable, row) in self.basic.iter().zip(&self.rows) {
            if variable < self.variables {
                values[variable].clone_from(&row[self.columns.len()]);
            }
        }
        values
    }

    pub fn objective(&self) -> Rational {
        -&self.gain[self.columns.len()]
    }

    /// At the optimum: what one unit more of a row's bound would bring. Rows count in the order in which they were added.
    pub fn price(&self, row: usize) -> Rational {
        let slack = self.variables + row;
        let column = self.columns.iter().position(|&variable| variable == slack);
        column.map_or(Rational::ZERO, |column| -&self.gain[column])
    }

    /// Goes on to the optimum. All rows must allow zero in every variable, or nothing must gain at zero; and some rows must
    /// bound the objective.
    pub fn solve(&mut self, run: &Run) -> Result<(), NoOptimum> {
        let mut stalled = 0;
        loop {
            run.check()?;
            let before = self.objective();
            let step = self.primal(stalled > PATIENCE).or_else(|| self.dual(stalled > PATIENCE));
            let Some((row, column)) = step else { break };
            self.pivot(row, column);
            stalled = if self.objective() == before { stalled + 1 } else { 0 };
        }
        let width = self.columns.len();
        let done = self.rows.iter().all(|row| !row[width].is_negative())
            && self.gain[..width].iter().all(|gain| !gain.is_positive());
        if done { Ok(()) } else { Err(NoOptimum::Unbounded) }
    }

    /// A step that gains, as long as all rows hold.
    fn primal(&self, by_index: bool) -> Option<(usize, usize)> {
        let width = self.columns.len();
        if self.rows.iter().any(|row| row[width].is_negative()) {
            return None;
        }
        let gaining = (0..width).filter(|&column| self.gain[column].is_positive());
        let column = if by_index {
            gaining.min_by_key(|&column| self.columns[column])
        } else {
            gaining.max_by(|&a, &b| self.gain[a].cmp(&self.gain[b]).then(self.columns[b].cmp(&self.columns[a])))
        }?;
        let limiting = (0..self.rows.len()).filter(|&row| self.rows[row][column].is_positive());
        let room = |row: usize| &self.rows[row][width] / &self.rows[row][column];
        let row = limiting.map(|row| (room(row), self.basic[row], row)).min()?;
        Some((row.2, column))
    }

    /// A step towards rows that do not hold yet, as long as nothing gains.
    fn dual(&self, by_index: bool) -> Option<(usize, usize)> {
        let width = self.columns.len();
        let broken = (0..self.rows.len()).filter(|&row| self.rows[row][width].is_negative());
        let row = if by_index {
            broken.min_by_key(|&row| self.basic[row])
        } else {
            broken
                .min_by(|&a, &b| self.rows[a][width].cmp(&self.rows[b][width]).then(self.basic[a].cmp(&self.basic[b])))
        }?;
        let helping = (0..width).filter(|&column| self.rows[row][column].is_negative());
        let loss = |column: usize| &self.gain[column] / &self.rows[row][column];
        let column = helping.map(|column| (loss(column), self.columns[column], column)).min()?;
        Some((row, column.2))
    }

    /// Exchanges the variable of a row with that of a column.
    fn pivot(&mut self, row: usize, column: usize) {
        let mut own = std::mem::take(&mut self.rows[row]);
        let divisor = std::mem::replace(&mut own[column], Rational::ONE);
        own.iter_mut().filter(|entry| !entry.is_zero()).for_each(|entry| *entry = &*entry / &divisor);
        for other in self.rows.iter_mut().filter(|other| !other.is_empty()).chain([&mut self.gain]) {
            let factor = std::mem::replace(&mut other[column], Rational::ZERO);
            subtract(other, &own, &factor);
        }
        self.rows[row] = own;
        std::mem::swap(&mut self.basic[row], &mut self.columns[column]);
    }
}

fn subtract(row: &mut [Rational], other: &[Rational], factor: &Rational) {
    if !factor.is_zero() {
        for (entry, other) in row.iter_mut().zip(other).filter(|(_, other)| !other.is_zero()) {
            *entry = &*entry - &(other * factor);
        }
    }
}
