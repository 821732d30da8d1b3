//! What is wrong with a file: code, place, what was found, what is allowed and what to do; all mistakes at once.
//!
//! Every reader of every file says it in this form: one text for people (`Display`), one object for programs
//! (`Serialize`, [`Problems::to_json`]). Values of secret keys are never put into one.

mod text;

pub(crate) use text::nearest;
pub use text::{Source, hint, printable};

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

/// A stable code, as in `E_RANGE` or `DUPLICATE_NODE`: planners add the names of their own literature.
pub type Code = &'static str;

/// Not readable as the format: not TOML, not JSON, or a value of the wrong type.
pub const E_PARSE: Code = "E_PARSE";
/// The version is missing or not one this program knows.
pub const E_VERSION: Code = "E_VERSION";
/// An unknown key, a key twice, or two keys that exclude each other.
pub const E_KEY: Code = "E_KEY";
/// A required key is absent, or a file that is named.
pub const E_MISSING: Code = "E_MISSING";
/// A value outside its range, or a quantity nobody can read.
pub const E_RANGE: Code = "E_RANGE";
/// The file or something in it is too large or nested too deeply.
pub const E_LIMIT: Code = "E_LIMIT";
/// The same thing twice.
pub const E_DUP: Code = "E_DUP";
/// A name that nothing has.
pub const E_REF: Code = "E_REF";
/// A network that does not hang together.
pub const E_NET: Code = "E_NET";
/// Keys that do not fit the architecture of a job.
pub const E_ARCH: Code = "E_ARCH";
/// Dependencies that run in a circle.
pub const E_CYCLE: Code = "E_CYCLE";
/// A job that can never be placed.
pub const E_FIT: Code = "E_FIT";
/// Something is wrong with a trace file.
pub const E_TRACE: Code = "E_TRACE";
/// The testbed cannot run this scenario.
pub const E_TESTBED: Code = "E_TESTBED";
/// A key that is elsewhere, or another one, in this version.
pub const E_MOVED: Code = "E_MOVED";
/// Two keys disagree.
pub const E_CONFLICT: Code = "E_CONFLICT";
/// A file may not be read, or may be read by too many.
pub const E_PERM: Code = "E_PERM";
/// Valid, but impossible on this host or with this build.
pub const E_ENV: Code = "E_ENV";
/// Two nodes have one id.
pub const DUPLICATE_NODE: Code = "DUPLICATE_NODE";
/// An id that no node has.
pub const UNKNOWN_NODE: Code = "UNKNOWN_NODE";
/// A link from a node to itself, where none is allowed.
pub const SELF_LOOP: Code = "SELF_LOOP";
/// A capacity that is zero or negative.
pub const NON_POSITIVE_BANDWIDTH: Code = "NON_POSITIVE_BANDWIDTH";
/// A negative weight, or weights that are all zero.
pub const BAD_WEIGHTS: Code = "BAD_WEIGHTS";
/// A group or an index that names a link nobody has.
pub const UNKNOWN_EDGE: Code = "UnknownEdge";
/// A group without links.
pub const EMPTY_GROUP: Code = "EmptyGroup";
/// A link twice in one group.
pub const REPEATED_EDGE: Code = "RepeatedEdge";
/// The cost of a link is negative.
pub const BAD_COST: Code = "BadCost";
/// Readable and valid, but more than this planner, exporter or follower can honour.
pub const UNSUPPORTED_FIELD: Code = "UNSUPPORTED_FIELD";
/// The program's own result did not pass the checker: a defect, never the input's fault.
pub const INTERNAL_INVARIANT: Code = "INTERNAL_INVARIANT";

/// The codes of files, in the order in which mistakes are reported; codes that are not here come last.
pub const CODES: [Code; 15] = [
    E_PARSE,
    E_VERSION,
    E_KEY,
    E_MISSING,
    E_RANGE,
    E_LIMIT,
    DUPLICATE_NODE,
    UNKNOWN_NODE,
    SELF_LOOP,
    NON_POSITIVE_BANDWIDTH,
    BAD_WEIGHTS,
    UNKNOWN_EDGE,
    EMPTY_GROUP,
    REPEATED_EDGE,
    BAD_COST,
];

/// Mistakes after which the rest of a file is not worth reading.
pub const MAX_PROBLEMS: usize = 50;

/// A mistake in a file, on the command line or of the host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Problem {
    /// What kind of mistake it is, for programs.
    pub code: Code,
    /// The file; empty for what never was in one, such as a flag or the host itself.
    pub file: String,
    /// Line, from 1; 0 where no line is to blame.
    #[serde(skip_serializing_if = "is_zero")]
    pub line: usize,
    /// Column in characters, from 1; 0 where no column is to blame.
    #[serde(skip_serializing_if = "is_zero")]
    pub column: usize,
    /// JSON pointer, dotted key, or name of the parameter.
    pub key: String,
    /// The value seen, at most 80 characters; empty: nothing was there.
    pub found: String,
    /// What may stand there.
    pub allowed: String,
    /// What is wrong, in one clause.
    pub message: String,
    /// What to do about it; empty where that is plain.
    pub help: String,
    /// What a program may want to know besides, by name.
    pub details: BTreeMap<&'static str, serde_json::Value>,
    /// The line to blame, where the file has lines.
    #[serde(skip)]
    pub excerpt: Option<Excerpt>,
}

/// A line of a file, and the part of it that a mistake is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// The line's text, free of control characters, at most 200 characters.
    pub text: String,
    /// How many characters are marked from the mistake's column on, at least one.
    pub marked: usize,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Problem {
    /// A mistake at a key, with no more said about it yet.
    pub fn new(code: Code, key: impl Into<String>, message: impl Into<String>) -> Problem {
        Problem {
            code,
            file: String::new(),
            line: 0,
            column: 0,
            key: key.into(),
            found: String::new(),
            allowed: String::new(),
            message: message.into(),
            help: String::new(),
            details: BTreeMap::new(),
            excerpt: None,
        }
    }
    /// With the value seen, cut to 80 characters and free of control characters.
    pub fn found(mut self, found: impl AsRef<str>) -> Problem {
        self.found = printable(found.as_ref(), 80);
        self
    }
    /// With what may stand there.
    pub fn allowed(mut self, allowed: impl Into<String>) -> Problem {
        self.allowed = allowed.into();
        self
    }
    /// With what to do.
    pub fn help(mut self, help: impl Into<String>) -> Problem {
        self.help = help.into();
        self
    }
    /// With a detail for programs.
    pub fn detail(mut self, name: &'static str, value: impl Into<serde_json::Value>) -> Problem {
        self.details.insert(name, value.into());
        self
    }
    /// In this file, no line to blame.
    pub fn in_file(mut self, file: impl Into<String>) -> Problem {
        self.file = file.into();
        self
    }
    /// At these bytes of this file.
    pub fn at(mut self, source: &Source<'_>, span: std::ops::Range<usize>) -> Problem {
        let place = source.locate(span);
        source.file.clone_into(&mut self.file);
        (self.line, self.column) = (place.line, place.column);
        self.excerpt = Some(place.excerpt);
        self
    }
}

/// Everything that is wrong, at least one mistake.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Problems(Vec<Problem>);

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    errors: &'a [Problem],
}

impl Problems {
    /// Puts mistakes in the order of [`CODES`], those of one code in the order of the file, and names the file; `None`
    /// if there are none.
    pub fn collect(mut problems: Vec<Problem>, file: &str) -> Option<Problems> {
        problems.sort_by_key(|problem| CODES.iter().position(|code| *code == problem.code).unwrap_or(CODES.len()));
        Problems::of(problems).map(|problems| problems.in_file(file))
    }
    /// Keeps mistakes in the order in which they were found, each in its own file; `None` if there are none.
    pub fn of(problems: Vec<Problem>) -> Option<Problems> {
        (!problems.is_empty()).then_some(Problems(problems))
    }
    /// The same mistakes, in this file.
    pub fn in_file(mut self, file: &str) -> Problems {
        for problem in &mut self.0 {
            file.clone_into(&mut problem.file);
        }
        self
    }
    /// The mistakes, in the order in which they are told.
    pub fn all(&self) -> &[Problem] {
        &self.0
    }
    /// The mistakes, to be told together with others.
    pub fn into_all(self) -> Vec<Problem> {
        self.0
    }
    /// The code of the first mistake, which decides the exit status of a command.
    pub fn code(&self) -> Code {
        self.0.first().map_or(E_PARSE, |problem| problem.code)
    }
    /// Has one of the mistakes this code?
    pub fn has(&self, code: Code) -> bool {
        self.0.iter().any(|problem| problem.code == code)
    }
    /// `{"schema": 1, "errors": […]}`.
    pub fn to_json(&self) -> String {
        // Strings and integers only: there is nothing in it that could fail to serialise.
        serde_json::to_string(&Document { schema: 1, errors: &self.0 }).unwrap_or_default()
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Problems {
        Problems(vec![problem])
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A message may quote the file, as may what is allowed, and a key is the file's own word.
        let shown = |text: &str| printable(text, usize::MAX);
        write!(f, "error[{}]: {}", self.code, shown(&self.message))?;
        let (file, key) = (shown(&self.file), shown(&self.key));
        match (file.is_empty(), self.line) {
            (false, 0) if key.is_empty() => write!(f, "\n  --> {file}")?,
            (false, 0) => write!(f, "\n  --> {file} at {key}")?,
            (false, line) => write!(f, "\n  --> {file}:{line}:{}", self.column)?,
            (true, _) if key.is_empty() => {}
            (true, _) => write!(f, "\n  --> {key}")?,
        }
        let mut said = String::new();
        if !self.found.is_empty() || (!self.allowed.is_empty() && self.excerpt.is_none()) {
            said.push_str(if self.found.is_empty() { "nothing" } else { &self.found });
        }
        if !self.allowed.is_empty() {
            said.push_str(if said.is_empty() { "allowed: " } else { "; allowed: " });
            said.push_str(&shown(&self.allowed));
        }
        match &self.excerpt {
            Some(excerpt) => {
                let number = self.line.to_string();
                let margin = " ".repeat(number.len());
                let marks = "^".repeat(excerpt.marked.min(80));
                let indent = " ".repeat(self.column.saturating_sub(1).min(200));
                write!(f, "\n {margin} |\n {number} | {}\n {margin} | {indent}{marks}", excerpt.text)?;
                if !said.is_empty() {
                    write!(f, " {said}")?;
                }
            }
            None if !said.is_empty() => write!(f, "\n   = found {said}")?,
            None => {}
        }
        if !self.help.is_empty() {
            write!(f, "\n   = help: {}", shown(&self.help))?;
        }
        Ok(())
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.0 {
            writeln!(f, "{problem}")?;
        }
        let n = self.0.len();
        write!(f, "{n} error{}", if n == 1 { "" } else { "s" })?;
        let mut files: Vec<&str> = self.0.iter().map(|problem| problem.file.as_str()).collect();
        files.sort_unstable();
        files.dedup();
        if files.len() > 1 { write!(f, " in {} files", files.len()) } else { Ok(()) }
    }
}

impl std::error::Error for Problem {}
impl std::error::Error for Problems {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_file_reaches_a_terminal_as_it_stands() {
        let hostile = "n\u{1b}[2J\0";
        let error =
            Problem::new(E_RANGE, hostile, hostile).found(hostile).allowed(hostile).help(hostile).in_file(hostile);
        let text = error.to_string();
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
        assert_eq!(text.matches("n\\u{1b}[2J\\u{0}").count(), 6, "{text}");
    }

    #[test]
    fn a_mistake_shows_place_value_and_way_out() {
        let error = Problem::new(E_RANGE, "/links/3/capacity", "not a capacity")
            .found("25Gbps")
            .allowed("a number with unit")
            .help("write `25Gbit/s`");
        let errors = Problems::collect(vec![error], "fabric.json").expect("one");
        assert_eq!(
            errors.to_string(),
            "error[E_RANGE]: not a capacity\n  --> fabric.json at /links/3/capacity\n   = found 25Gbps; allowed: a \
             number with unit\n   = help: write `25Gbit/s`\n1 error"
        );
        assert_eq!(
            errors.to_json(),
            r#"{"schema":1,"errors":[{"code":"E_RANGE","file":"fabric.json","key":"/links/3/capacity","found":"25Gbps","allowed":"a number with unit","message":"not a capacity","help":"write `25Gbit/s`","details":{}}]}"#
        );
    }

    #[test]
    fn the_order_is_that_of_the_codes_then_of_the_file() {
        let of = |code, key: &str| Problem::new(code, key, "");
        let errors = vec![of(BAD_COST, "a"), of(E_KEY, "b"), of(E_PARSE, "c"), of(E_KEY, "d")];
        let errors = Problems::collect(errors, "").expect("some");
        let keys: Vec<&str> = errors.all().iter().map(|e| e.key.as_str()).collect();
        assert_eq!(keys, ["c", "b", "d", "a"]);
        assert_eq!(Problems::collect(Vec::new(), ""), None);
    }

    #[test]
    fn a_problem_of_a_line_shows_it() {
        let text = "[slot]\nlength_ms = 600\n";
        let source = Source { file: "/etc/sluice/sluiced.toml", text };
        let problem = Problem::new(E_RANGE, "slot.length_ms", "slot.length_ms is out of range")
            .found("600")
            .allowed("5 to 200")
            .help("write length_ms = 60 (default)")
            .at(&source, 19..22);
        let shown = Problems::from(problem).to_string();
        assert_eq!(
            shown,
            "error[E_RANGE]: slot.length_ms is out of range\n  --> /etc/sluice/sluiced.toml:2:13\n   |\n 2 | length_ms = \
             600\n   |             ^^^ 600; allowed: 5 to 200\n   = help: write length_ms = 60 (default)\n1 error"
        );
    }
}
