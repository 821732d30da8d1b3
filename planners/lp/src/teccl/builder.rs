//! A program whose rows and columns come together: all rows stand before the first column, and every column knows what it
//! stands for.

use crate::columns::{MAX_COLUMNS, add_up};
use sluice_solver::{Bounds, Column, Failed, Program, Row, Sense};

/// A column before the program knows it.
struct Draft<T> {
    worth: f64,
    bounds: Bounds,
    is_whole: bool,
    entries: Vec<(Row, f64)>,
    stands: T,
}

/// A column of the program that is being built, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drafted(usize);

/// A program that can be solved.
#[derive(Debug)]
pub struct Built<T> {
    pub program: Program,
    /// By column what it stands for.
    pub stands: Vec<T>,
}

/// Rows and columns as they come together; the objective is to be as large as can be.
pub struct Builder<T> {
    program: Program,
    columns: Vec<Draft<T>>,
}

impl<T> Builder<T> {
    /// Without rows and columns.
    pub fn new() -> Builder<T> {
        Builder { program: Program::new(Sense::Maximise), columns: Vec::new() }
    }
    /// Are there more columns than a solver gets through?
    pub fn is_full(&self) -> bool {
        self.columns.len() > MAX_COLUMNS
    }
    pub fn row(&mut self, bounds: Bounds) -> Result<Row, Failed> {
        self.program.row(bounds)
    }
    /// A further row with these columns, each with its factor.
    pub fn sum(&mut self, bounds: Bounds, columns: impl IntoIterator<Item = (Drafted, f64)>) -> Result<(), Failed> {
        let row = self.row(bounds)?;
        columns.into_iter().for_each(|(column, factor)| self.entry(column, row, factor));
        Ok(())
    }
    /// A further column, with what it gains for each unit.
    pub fn column(&mut self, worth: f64, bounds: Bounds, stands: T) -> Drafted {
        self.columns.push(Draft { worth, bounds, is_whole: false, entries: Vec::new(), stands });
        Drafted(self.columns.len() - 1)
    }
    /// The same, 0 or 1.
    pub fn binary(&mut self, stands: T) -> Drafted {
        let column = self.column(0.0, Bounds { lower: 0.0, upper: 1.0 }, stands);
        self.columns[column.0].is_whole = true;
        column
    }
    /// What a unit of a column adds to a row.
    pub fn entry(&mut self, column: Drafted, row: Row, factor: f64) {
        self.columns[column.0].entries.push((row, factor));
    }

    /// The program with all rows and columns.
    pub fn finish(mut self) -> Result<Built<T>, Failed> {
        let mut all = Vec::with_capacity(self.columns.len());
        for Draft { worth, bounds, is_whole, mut entries, stands } in self.columns {
            // A lane may be in a row twice over, as where a room is filled by a send and the next.
            add_up(&mut entries);
            let _: Column = if is_whole {
                self.program.integer(worth, bounds, entries)?
            } else {
                self.program.column(worth, bounds, entries)?
            };
            all.push(stands);
        }
        Ok(Built { program: self.program, stands: all })
    }
}
