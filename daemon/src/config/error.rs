//! What is wrong with a file: every problem with its place, what was found and what is allowed, all of them at once.
//!
//! One form for people (`Display`) and one for programs (`serde`); values of secret keys are never put into one.

use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;

/// The stable codes of problems in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[allow(non_camel_case_types, reason = "the codes are an interface and written like this everywhere")]
pub enum Code {
    /// Not readable as the format.
    E_PARSE,
    /// A version this program does not know.
    E_VERSION,
    /// Unknown key.
    E_KEY,
    /// A required key is missing.
    E_MISSING,
    /// A value of the wrong type or outside its range.
    E_RANGE,
    /// The same thing twice.
    E_DUP,
    /// A name that nothing has.
    E_REF,
    /// The network does not hold together.
    E_NET,
    /// Two keys disagree.
    E_CONFLICT,
    /// A file may not be read, or may be read by too many.
    E_PERM,
    /// Valid, but impossible on this host.
    E_ENV,
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Problem {
    /// Its code.
    pub code: Code,
    /// The file; `None` for the command line and the host itself.
    pub file: Option<PathBuf>,
    /// Line, from 1; 0 if no line is to blame.
    pub line: usize,
    /// Column in characters, from 1; 0 if no column is to blame.
    pub column: usize,
    /// The key or JSON pointer.
    pub key: String,
    /// The value seen.
    pub found: String,
    /// What may stand there.
    pub allowed: String,
    /// What is wrong, in one clause.
    pub message: String,
    /// What to do.
    pub help: String,
    /// The line itself and how many characters of it are marked.
    #[serde(skip)]
    pub excerpt: Option<(String, usize)>,
}

/// Everything that is wrong, at least one problem.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Problems(pub Vec<Problem>);

impl Problem {
    /// A problem with no place yet.
    pub fn new(code: Code, key: impl Into<String>, message: impl Into<String>) -> Problem {
        Problem {
            code,
            file: None,
            line: 0,
            column: 0,
            key: key.into(),
            found: String::new(),
            allowed: String::new(),
            message: message.into(),
            help: String::new(),
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
    /// In this file, no line to blame.
    pub fn in_file(mut self, file: &Path) -> Problem {
        self.file = Some(file.to_owned());
        self
    }
    /// At these bytes of this file.
    pub fn at(mut self, source: &Source<'_>, span: std::ops::Range<usize>) -> Problem {
        let (line, column, text, marked) = source.locate(span);
        self.file = Some(source.file.to_owned());
        (self.line, self.column) = (line, column);
        self.excerpt = Some((text, marked));
        self
    }
}

/// A file's text, for turning byte positions into lines and columns.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The file's name.
    pub file: &'a Path,
    /// Its text.
    pub text: &'a str,
}

impl Source<'_> {
    /// Line and column (from 1), the line's text and how many characters of it the span covers, at least one.
    pub fn locate(&self, span: std::ops::Range<usize>) -> (usize, usize, String, usize) {
        let mut start = span.start.min(self.text.len());
        while !self.text.is_char_boundary(start) {
            start -= 1;
        }
        let mut end = span.end.clamp(start, self.text.len());
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        let line_start = self.text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = self.text[start..].find('\n').map_or(self.text.len(), |at| start + at);
        let line = self.text[..start].matches('\n').count() + 1;
        let column = self.text[line_start..start].chars().count() + 1;
        let marked = self.text[start..end.min(line_end).max(start)].chars().count().max(1);
        (line, column, printable(&self.text[line_start..line_end], 200), marked)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error[{:?}]: {}", self.code, self.message)?;
        if let Some(file) = &self.file {
            write!(f, "\n  --> {}", file.display())?;
            if self.line > 0 {
                write!(f, ":{}:{}", self.line, self.column)?;
            }
        }
        if let Some((text, marked)) = &self.excerpt {
            let number = self.line.to_string();
            let margin = " ".repeat(number.len());
            let marks = "^".repeat((*marked).min(80));
            let indent = " ".repeat(self.column.saturating_sub(1).min(200));
            write!(f, "\n {margin} |\n {number} | {text}\n {margin} | {indent}{marks}")?;
            match (self.found.is_empty(), self.allowed.is_empty()) {
                (false, false) => write!(f, " {}; allowed: {}", self.found, self.allowed)?,
                (true, false) => write!(f, " allowed: {}", self.allowed)?,
                (false, true) => write!(f, " {}", self.found)?,
                (true, true) => {}
            }
        } else if !self.found.is_empty() || !self.allowed.is_empty() {
            f.write_str("\n   = found ")?;
            f.write_str(if self.found.is_empty() { "nothing" } else { &self.found })?;
            if !self.allowed.is_empty() {
                write!(f, "; allowed: {}", self.allowed)?;
            }
        }
        if !self.help.is_empty() {
            write!(f, "\n   = help: {}", self.help)?;
        }
        Ok(())
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.0 {
            writeln!(f, "{problem}")?;
        }
        let mut files: Vec<_> = self.0.iter().filter_map(|problem| problem.file.as_ref()).collect();
        files.sort();
        files.dedup();
        let (n, m) = (self.0.len(), files.len());
        write!(f, "{n} error{}", if n == 1 { "" } else { "s" })?;
        if m > 0 {
            write!(f, " in {m} file{}", if m == 1 { "" } else { "s" })?;
        }
        f.write_str(". Nothing was changed.")
    }
}

impl std::error::Error for Problems {}

/// The text with control characters escaped, cut to `most` characters.
pub fn printable(text: &str, most: usize) -> String {
    let mut out = String::new();
    for (i, c) in text.chars().enumerate() {
        if i == most {
            out.push('…');
            break;
        }
        if c == '\t' {
            out.push(' ');
        } else if c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c) || ('\u{2066}'..='\u{2069}').contains(&c) {
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

/// The nearest of `known` if it is near enough to be a slip of the finger.
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = |candidate: &str| strsim::damerau_levenshtein(word, candidate);
    known.map(|k| (near(k), k)).min().filter(|(d, k)| *d <= (k.len() / 3).max(1) && word.len() <= 64).map(|(_, k)| k)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_shows_file_line_column_caret_and_help() {
        let text = "[slot]\nlength_ms = 600\n";
        let source = Source { file: Path::new("/etc/sluice/sluiced.toml"), text };
        let problem = Problem::new(Code::E_RANGE, "slot.length_ms", "slot.length_ms is out of range")
            .found("600")
            .allowed("5 to 200")
            .help("write length_ms = 60 (default)")
            .at(&source, 19..22);
        let shown = Problems(vec![problem]).to_string();
        assert_eq!(
            shown,
            "error[E_RANGE]: slot.length_ms is out of range\n  --> /etc/sluice/sluiced.toml:2:13\n   |\n 2 | length_ms = \
             600\n   |             ^^^ 600; allowed: 5 to 200\n   = help: write length_ms = 60 (default)\n1 error in 1 \
             file. Nothing was changed."
        );
    }

    #[test]
    fn a_span_outside_the_text_is_harmless() {
        let source = Source { file: Path::new("x"), text: "ä\nö" };
        for start in 0..9 {
            for end in 0..9 {
                let _ = source.locate(start..end);
            }
        }
    }

    #[test]
    fn a_slip_is_recognised_and_a_different_word_is_not() {
        let known = || ["length_ms", "horizon", "spread"].into_iter();
        assert_eq!(nearest("lenght_ms", known()), Some("length_ms"));
        assert_eq!(nearest("colour", known()), None);
    }
}
