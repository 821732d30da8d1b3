//! What can be wrong in a scenario, collected so that one reading lists everything.

use std::cell::RefCell;
use std::fmt;

/// The kinds of errors of `simulation.md` section 12; the names are stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// Not TOML or JSON, or a value of the wrong type.
    Parse,
    /// Version missing or not 1.
    Version,
    /// Unknown key, or two keys that exclude each other.
    Key,
    /// A required key is absent.
    Missing,
    /// A number outside its range.
    Range,
    /// Duplicate id.
    Dup,
    /// A name that refers to nothing.
    Ref,
    /// A network that does not hang together.
    Net,
    /// Keys that do not fit the job's architecture.
    Arch,
    /// The dependencies of a `flows` job run in a circle.
    Cycle,
    /// A job that can never be placed.
    Fit,
    /// Something is wrong with a trace file.
    Trace,
    /// Too many hosts, jobs or flows.
    Limit,
    /// The testbed cannot run this scenario.
    Testbed,
}

impl Code {
    /// The stable name, `E_…`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Code::Parse => "E_PARSE",
            Code::Version => "E_VERSION",
            Code::Key => "E_KEY",
            Code::Missing => "E_MISSING",
            Code::Range => "E_RANGE",
            Code::Dup => "E_DUP",
            Code::Ref => "E_REF",
            Code::Net => "E_NET",
            Code::Arch => "E_ARCH",
            Code::Cycle => "E_CYCLE",
            Code::Fit => "E_FIT",
            Code::Trace => "E_TRACE",
            Code::Limit => "E_LIMIT",
            Code::Testbed => "E_TESTBED",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One thing that is wrong: where, what was seen, what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The stable code.
    pub code: Code,
    /// The file it stands in (the scenario, or a trace or network file it names).
    pub file: String,
    /// The line, where the notation has lines (TOML, CSV); counted from 1.
    pub line: Option<u32>,
    /// The JSON pointer of the value, `""` for the whole file.
    pub pointer: String,
    /// What is wrong, the value seen included.
    pub what: String,
    /// What is allowed, or what to do; empty where `what` says it.
    pub allowed: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}: ", self.code)?;
        if !self.pointer.is_empty() {
            write!(f, "{}: ", self.pointer)?;
        }
        write!(f, "{}", self.what)?;
        if !self.allowed.is_empty() {
            write!(f, " (allowed: {})", self.allowed)?;
        }
        Ok(())
    }
}

/// Everything that is wrong with a scenario; never empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", list(.0))]
pub struct ScenarioError(pub Vec<Problem>);

impl ScenarioError {
    /// True when one of the problems has this code.
    pub fn has(&self, code: Code) -> bool {
        self.0.iter().any(|p| p.code == code)
    }
}

fn list(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}

/// No file is that wrong; beyond this many the rest would not be read.
const MAX_PROBLEMS: usize = 200;

/// Collects problems while a file is read.
#[derive(Debug)]
pub(crate) struct Log {
    file: String,
    lines: Option<Vec<usize>>,
    found: RefCell<Vec<Problem>>,
}

impl Log {
    /// A log for `file`; `text` gives line numbers (TOML), `None` leaves them out (JSON).
    pub(crate) fn new(file: &str, text: Option<&str>) -> Log {
        let lines = text.map(|t| t.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i).collect());
        Log { file: file.to_owned(), lines, found: RefCell::new(Vec::new()) }
    }

    fn line(&self, offset: usize) -> Option<u32> {
        let lines = self.lines.as_ref()?;
        u32::try_from(lines.partition_point(|&nl| nl < offset) + 1).ok()
    }

    /// Records a problem of the scenario file itself.
    pub(crate) fn add(&self, code: Code, offset: usize, pointer: &str, what: impl Into<String>, allowed: &str) {
        self.push(Problem {
            code,
            file: self.file.clone(),
            line: self.line(offset),
            pointer: pointer.to_owned(),
            what: clip(what.into()),
            allowed: allowed.to_owned(),
        });
    }

    /// Records a problem of any file.
    pub(crate) fn push(&self, problem: Problem) {
        let mut found = self.found.borrow_mut();
        if found.len() < MAX_PROBLEMS && !found.contains(&problem) {
            found.push(problem);
        }
    }

    /// How many problems there are so far.
    pub(crate) fn count(&self) -> usize {
        self.found.borrow().len()
    }

    /// The problems in order of line.
    pub(crate) fn into_problems(self) -> Vec<Problem> {
        let mut found = self.found.into_inner();
        found.sort_by_key(|p| (p.file != self.file, p.line));
        found
    }
}

/// A value of megabytes does not belong into a message.
fn clip(mut text: String) -> String {
    if text.len() > 400 {
        let mut end = 400;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push('…');
    }
    text
}

/// The known word nearest to `seen`, if one is near enough to be meant.
pub(crate) fn nearest<'a>(seen: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if seen.len() > 64 {
        return None;
    }
    let limit = (seen.chars().count() / 3).max(1) + 1;
    known.into_iter().map(|k| (distance(seen, k), k)).filter(|(d, _)| *d <= limit).min().map(|(_, k)| k)
}

fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = i;
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
        let mut left = i + 1;
        for (cell, cb) in row.iter_mut().skip(1).zip(&b) {
            let best = (diagonal + usize::from(ca != *cb)).min(*cell + 1).min(left + 1);
            diagonal = *cell;
            *cell = best;
            left = best;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_word_is_offered() {
        assert_eq!(nearest("itterations", ["id", "iterations", "weight"]), Some("iterations"));
        assert_eq!(nearest("zzzzzz", ["id", "iterations"]), None);
        assert_eq!(distance("kitten", "sitting"), 3);
    }

    #[test]
    fn lines_count_from_one() {
        let log = Log::new("f", Some("a\nbb\nc"));
        assert_eq!((log.line(0), log.line(2), log.line(5)), (Some(1), Some(2), Some(3)));
    }
}
