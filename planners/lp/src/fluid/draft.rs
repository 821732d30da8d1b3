//! A program's columns as they come together: what a column adds to one row in several places is added up before the solver
//! sees it.

use crate::columns::{MAX_COLUMNS, add_up};
use sluice_solver::{Bounds, Failed, Program, Row};

/// A column before the program knows it.
pub struct Drafted {
    pub cost: f64,
    upper: f64,
    is_whole: bool,
    entries: Vec<(Row, f64)>,
}

/// Columns as they come together.
#[derive(Default)]
pub struct Draft {
    /// In the order of the program.
    pub columns: Vec<Drafted>,
}

impl Draft {
    /// A column with this cost and this upper bound.
    pub fn column(&mut self, cost: f64, upper: f64) -> usize {
        self.columns.push(Drafted { cost, upper, is_whole: false, entries: Vec::new() });
        self.columns.len() - 1
    }
    /// The same for whole numbers.
    pub fn integer(&mut self, cost: f64, upper: f64) -> usize {
        self.columns.push(Drafted { cost, upper, is_whole: true, entries: Vec::new() });
        self.columns.len() - 1
    }
    /// What a column adds to a row.
    pub fn entry(&mut self, column: usize, row: Row, factor: f64) {
        self.columns[column].entries.push((row, factor));
    }
    /// Are there more than a solver gets through?
    pub fn is_full(&self) -> bool {
        self.columns.len() > MAX_COLUMNS
    }

    /// All of them into the program whose rows they speak of.
    ///
    /// # Errors
    /// The solver's.
    pub fn enter(self, program: &mut Program) -> Result<(), Failed> {
        for Drafted { cost, upper, is_whole, mut entries } in self.columns {
            add_up(&mut entries);
            entries.retain(|(_, factor)| *factor != 0.0);
            let bounds = Bounds { lower: 0.0, upper };
            if is_whole {
                program.integer(cost, bounds, entries)?;
            } else {
                program.column(cost, bounds, entries)?;
            }
        }
        Ok(())
    }
}
