//! Keeps what is wrong with a file while it is read.

use std::cell::RefCell;
use std::ops::Range;

use super::{NOWHERE, Notation};
use crate::problem::{MAX_PROBLEMS, Problem, Source};

/// The problems of one file, and of the files that it names.
#[derive(Debug)]
pub struct Collector<'t> {
    source: Source<'t>,
    notation: Notation,
    found: RefCell<Vec<Problem>>,
}

impl<'t> Collector<'t> {
    /// Nothing found yet in this text; `file` is its name in messages.
    pub fn new(file: &'t str, text: &'t str, notation: Notation) -> Collector<'t> {
        Collector { source: Source { file, text }, notation, found: RefCell::new(Vec::new()) }
    }
    /// The notation of the file.
    pub fn notation(&self) -> Notation {
        self.notation
    }
    /// The file's name and text.
    pub fn source(&self) -> Source<'t> {
        self.source
    }
    /// Keeps a problem at these bytes of the file.
    pub fn add(&self, problem: Problem, span: Range<usize>) {
        self.push(match self.notation {
            Notation::Toml if span != NOWHERE => problem.at(&self.source, span),
            _ => problem.in_file(self.source.file),
        });
    }
    /// Keeps a problem that knows its file, once; beyond [`MAX_PROBLEMS`] the rest would not be read.
    pub fn push(&self, problem: Problem) {
        let mut found = self.found.borrow_mut();
        if found.len() < MAX_PROBLEMS && !found.contains(&problem) {
            found.push(problem);
        }
    }
    /// How many there are so far.
    pub fn count(&self) -> usize {
        self.found.borrow().len()
    }
    /// Those of the file itself by line, then those of other files.
    pub fn into_problems(self) -> Vec<Problem> {
        let mut found = self.found.into_inner();
        found.sort_by_key(|problem| (problem.file != self.source.file, problem.line));
        found
    }
}
