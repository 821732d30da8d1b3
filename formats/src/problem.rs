//! What is wrong with a file: code, place, what was found, what is allowed and what to do; all mistakes at once.
//!
//! One form for people (`Display`), one for programs ([`Problems::to_json`]).

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use serde::Serialize;

/// A stable code, as in `E_RANGE` or `DUPLICATE_NODE`: planners add the names of their own literature.
pub type Code = &'static str;

/// Not readable as the format: not JSON, or a value of the wrong type.
pub const E_PARSE: Code = "E_PARSE";
/// The version is missing or not one this program knows.
pub const E_VERSION: Code = "E_VERSION";
/// An unknown key, a key twice, or two keys that exclude each other.
pub const E_KEY: Code = "E_KEY";
/// A required key is absent.
pub const E_MISSING: Code = "E_MISSING";
/// A value outside its range, or a quantity nobody can read.
pub const E_RANGE: Code = "E_RANGE";
/// The file or something in it is too large or nested too deeply.
pub const E_LIMIT: Code = "E_LIMIT";
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
/// A negative cost.
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

/// One mistake.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Problem {
    /// Its code.
    pub code: Code,
    /// The file; empty for what never was in one.
    pub file: String,
    /// JSON pointer, line and column, or name of the parameter.
    pub key: String,
    /// The value seen.
    pub found: String,
    /// What may stand there.
    pub allowed: String,
    /// What is wrong, in one clause.
    pub message: String,
    /// What to do.
    pub help: String,
    /// What a program may want to know besides, by name.
    pub details: BTreeMap<&'static str, serde_json::Value>,
}

impl Problem {
    /// A mistake at a key, with no more said about it yet.
    pub fn new(code: Code, key: impl Into<String>, message: impl Into<String>) -> Problem {
        Problem {
            code,
            file: String::new(),
            key: key.into(),
            found: String::new(),
            allowed: String::new(),
            message: message.into(),
            help: String::new(),
            details: BTreeMap::new(),
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
}

/// Everything that is wrong, at least one mistake; in the order of the codes, then of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Problems(Vec<Problem>);

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    errors: &'a [Problem],
}

impl Problems {
    /// Puts mistakes in order and names the file; `None` if there are none.
    pub fn collect(mut errors: Vec<Problem>, file: &str) -> Option<Problems> {
        let rank = |error: &Problem| CODES.iter().position(|code| *code == error.code).unwrap_or(CODES.len());
        errors.sort_by_key(rank);
        if errors.is_empty() { None } else { Some(Problems(errors).in_file(file)) }
    }
    /// The same mistakes, in this file.
    pub fn in_file(mut self, file: &str) -> Problems {
        for error in &mut self.0 {
            file.clone_into(&mut error.file);
        }
        self
    }
    /// The mistakes.
    pub fn all(&self) -> &[Problem] {
        &self.0
    }
    /// The code of the first mistake, which decides the exit status of a command.
    pub fn code(&self) -> Code {
        self.0.first().map_or(E_PARSE, |error| error.code)
    }
    /// `{"schema": 1, "errors": […]}`.
    pub fn to_json(&self) -> String {
        // Strings and integers only: there is nothing in it that could fail to serialise.
        serde_json::to_string(&Document { schema: 1, errors: &self.0 }).unwrap_or_default()
    }
}

impl From<Problem> for Problems {
    fn from(error: Problem) -> Problems {
        Problems(vec![error])
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error[{}]: {}", self.code, self.message)?;
        match (self.file.is_empty(), self.key.is_empty()) {
            (false, false) => write!(f, "\n  --> {} at {}", self.file, self.key)?,
            (false, true) => write!(f, "\n  --> {}", self.file)?,
            (true, false) => write!(f, "\n  --> {}", self.key)?,
            (true, true) => {}
        }
        if !self.found.is_empty() || !self.allowed.is_empty() {
            write!(f, "\n   = found {}", if self.found.is_empty() { "nothing" } else { &self.found })?;
        }
        if !self.allowed.is_empty() {
            write!(f, "; allowed: {}", self.allowed)?;
        }
        if !self.help.is_empty() {
            write!(f, "\n   = help: {}", self.help)?;
        }
        Ok(())
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for error in &self.0 {
            writeln!(f, "{error}")?;
        }
        let n = self.0.len();
        write!(f, "{n} error{}", if n == 1 { "" } else { "s" })
    }
}

impl std::error::Error for Problem {}
impl std::error::Error for Problems {}

/// The text with control and direction-changing characters escaped, cut to `most` characters.
pub fn printable(text: &str, most: usize) -> String {
    let mut out = String::new();
    for (i, c) in text.chars().enumerate() {
        if i == most {
            out.push('…');
            break;
        }
        if c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c) || ('\u{2066}'..='\u{2069}').contains(&c) {
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

/// The nearest of `known` if it is near enough to be a slip of the finger.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > 64 {
        return None;
    }
    // Words of very different length need not be compared; lengths are in bytes, a letter has up to four.
    let near = |candidate: &str| (candidate.len() / 3).max(1);
    let alike = known.into_iter().filter(|candidate| candidate.len().abs_diff(word.len()) <= 4 * near(candidate));
    let slips = alike.filter(|candidate| candidate.len() <= 128).map(|candidate| (slips(word, candidate), candidate));
    slips.min().filter(|(slips, candidate)| *slips <= near(candidate)).map(|(_, candidate)| candidate)
}

/// Letters to insert, drop, change or swap with their neighbour to get from one word to the other.
fn slips(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let change = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = change.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_slip_is_recognised_and_another_word_is_not() {
        let known = ["capacity", "latency", "duplex"];
        assert_eq!(nearest("capcaity", known), Some("capacity"));
        assert_eq!(nearest("latnecy", known), Some("latency"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!(nearest(&"x".repeat(100_000), known), None);
    }
}
