//! Text of a file in a message: places, safe excerpts, and the word that was probably meant.

use std::fmt::Write as _;
use std::ops::Range;

use super::Excerpt;
use crate::label::is_hidden;

/// A file's text, for turning byte positions into lines and columns.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Name of the file in messages.
    pub file: &'a str,
    /// All that stands in the file.
    pub text: &'a str,
}

/// Where some bytes of a text stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of the line, from 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// The line itself and how much of it the bytes cover.
    pub excerpt: Excerpt,
}

impl Source<'_> {
    /// Where these bytes stand; bytes outside the text stand at its end.
    pub fn locate(&self, span: Range<usize>) -> Place {
        let start = self.text.floor_char_boundary(span.start);
        let end = self.text.floor_char_boundary(span.end).max(start);
        let (before, behind) = self.text.split_at(start);
        let in_line = before.rsplit('\n').next().unwrap_or_default();
        let rest_of_line = behind.split('\n').next().unwrap_or_default();
        let covered = rest_of_line.get(..end - start).unwrap_or(rest_of_line);
        Place {
            line: before.matches('\n').count() + 1,
            column: in_line.chars().count() + 1,
            excerpt: Excerpt {
                text: printable(&format!("{in_line}{rest_of_line}"), 200),
                marked: covered.chars().count().max(1),
            },
        }
    }
}

/// The text with characters that are [hidden](is_hidden) escaped, a tab as a blank, cut to `max` characters.
pub fn printable(text: &str, max: usize) -> String {
    let mut out = String::new();
    for (i, c) in text.chars().enumerate() {
        if i == max {
            out.push('…');
            break;
        }
        if c == '\t' {
            out.push(' ');
        } else if is_hidden(c) {
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

/// The nearest of `known` if it is near enough to be a slip of the finger: a third of its letters inserted, dropped,
/// changed or swapped with their neighbour, at least one. Words of more than 64 bytes are never compared.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > 64 {
        return None;
    }
    let near = |candidate: &str| (candidate.len() / 3).max(1);
    let known = known.into_iter().filter(|candidate| candidate.len() <= 128);
    let slips = known.map(|candidate| (strsim::osa_distance(word, candidate), candidate));
    slips.min().filter(|(slips, candidate)| *slips <= near(candidate)).map(|(_, candidate)| candidate)
}

/// "did you mean `…`?" with the word of `known` that a slip of the finger would make this one; `None` if there is none.
pub fn hint<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(word, known).map(|near| format!("did you mean `{near}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_outside_the_text_is_harmless() {
        let source = Source { file: "x", text: "ä\nö" };
        for start in 0..9 {
            for end in 0..9 {
                let _ = source.locate(start..end);
            }
        }
    }

    #[test]
    fn a_slip_is_recognised_and_another_word_is_not() {
        let known = ["capacity", "latency", "length_ms"];
        assert_eq!(nearest("capcaity", known), Some("capacity"));
        assert_eq!(hint("latnecy", known).as_deref(), Some("did you mean `latency`?"));
        assert_eq!(nearest("lenght_ms", known), Some("length_ms"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!(nearest(&"x".repeat(100_000), known), None);
    }
}
