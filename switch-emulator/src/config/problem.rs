//! What is wrong with a configuration, in the one form of all Sluice files: code, place, value seen, what is allowed.

use std::fmt;
use std::ops::Range;
use std::path::Path;

/// Stable codes of problems in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Not TOML, or a value of the wrong type.
    Parse,
    /// A format version this program does not know.
    Version,
    /// Unknown key.
    Key,
    /// A key that must be there is not.
    Missing,
    /// Value outside its range.
    Range,
    /// The same thing twice.
    Dup,
    /// A name that means nothing.
    Ref,
    /// Two keys disagree.
    Conflict,
    /// A file that cannot be read.
    Perm,
    /// Valid, but impossible on this machine or with this build.
    Env,
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Its code.
    pub code: Code,
    /// One clause: what is wrong.
    pub message: String,
    /// Path of the file.
    pub file: String,
    /// Line and column, from 1; 0 where there is no place.
    pub at: (usize, usize),
    /// The line itself and how many characters of it are marked.
    pub excerpt: Option<(String, usize)>,
    /// Value seen, and what is allowed.
    pub found: String,
    /// What to do.
    pub help: String,
}

/// All problems of one file, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl std::error::Error for Problems {}

impl Code {
    /// As written in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Code::Parse => "E_PARSE",
            Code::Version => "E_VERSION",
            Code::Key => "E_KEY",
            Code::Missing => "E_MISSING",
            Code::Range => "E_RANGE",
            Code::Dup => "E_DUP",
            Code::Ref => "E_REF",
            Code::Conflict => "E_CONFLICT",
            Code::Perm => "E_PERM",
            Code::Env => "E_ENV",
        }
    }
}

impl Problem {
    /// A problem of a whole file.
    pub fn of_file(code: Code, file: &Path, message: String, help: &str) -> Problem {
        let file = file.display().to_string();
        Problem { code, message, file, at: (0, 0), excerpt: None, found: String::new(), help: help.into() }
    }

    /// A problem at these bytes of `text`.
    pub fn at(code: Code, file: &Path, text: &str, span: Range<usize>, message: String, found: String) -> Problem {
        let mut problem = Problem::of_file(code, file, message, "");
        let start = (0..=span.start.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let before = &text[..start];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = text[line_start..].lines().next().unwrap_or("");
        let column = text[line_start..start].chars().count();
        let end = (start..=span.end.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(start);
        let marked = text[start..end].lines().next().unwrap_or("").chars().count().max(1);
        problem.at = (before.matches('\n').count() + 1, column + 1);
        problem.excerpt = Some((line.chars().take(160).collect(), marked.min(80)));
        problem.found = found;
        problem
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "error[{}]: {}", self.code.name(), self.message)?;
        let (line, column) = self.at;
        match &self.excerpt {
            None => writeln!(f, "  --> {}", self.file)?,
            Some((text, marked)) => {
                let pad = " ".repeat(line.to_string().len());
                writeln!(f, "  --> {}:{line}:{column}", self.file)?;
                writeln!(f, " {pad} |\n {line} | {text}")?;
                writeln!(f, " {pad} | {}{} {}", " ".repeat(column - 1), "^".repeat(*marked), self.found)?;
            }
        }
        if self.help.is_empty() { Ok(()) } else { writeln!(f, "   = help: {}", self.help) }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|problem| write!(f, "{problem}"))?;
        let (n, plural) = (self.0.len(), if self.0.len() == 1 { "" } else { "s" });
        write!(f, "{n} error{plural}. Nothing was started.")
    }
}
