//! The little XML that GraphML files of the Topology Zoo need: tags and attributes, nothing else.
//!
//! No document types and so no entities of one's own, no external references, bounded depth. Text between tags is
//! passed over. What is refused is refused with its line.

use std::borrow::Cow;
use std::cell::Cell;

use crate::problem::{E_LIMIT, E_PARSE, Problem, Problems};

/// Nesting of elements at most.
const MAX_DEPTH: usize = 64;
/// Attributes of one element at most.
const MAX_ATTRIBUTES: usize = 64;

/// The beginning or the end of an element.
#[derive(Clone, Debug, PartialEq)]
pub enum Tag<'a> {
    /// `<name key="value" …>`, also where it ends itself, then followed by its end.
    Start(&'a str, Vec<(&'a str, Cow<'a, str>)>),
    /// `</name>`.
    End(&'a str),
}

/// Reads tags one after the other.
pub struct Tags<'a> {
    text: &'a str,
    at: usize,
    /// How far line ends were counted, and how many there are up to there: asking for the line of every tag must not
    /// read the text again from its beginning.
    counted: Cell<(usize, usize)>,
    open: Vec<&'a str>,
    /// An element that ended itself still owes its end.
    pending_end: bool,
    seen_root: bool,
}

impl<'a> Tags<'a> {
    /// The tags of a text, which are read one by one.
    pub fn new(text: &'a str) -> Tags<'a> {
        Tags {
            text: text.trim_start_matches('\u{feff}'),
            at: 0,
            counted: Cell::new((0, 0)),
            open: Vec::new(),
            pending_end: false,
            seen_root: false,
        }
    }

    /// The next tag; `None` at the end of a whole document.
    ///
    /// # Errors
    /// What is no XML or not the little that is read.
    pub fn next_tag(&mut self) -> Result<Option<Tag<'a>>, Problems> {
        if self.pending_end {
            self.pending_end = false;
            return Ok(self.open.pop().map(Tag::End));
        }
        loop {
            let rest = self.rest();
            let Some(start) = rest.find('<') else {
                return if self.open.is_empty() && self.seen_root && rest.trim().is_empty() {
                    Ok(None)
                } else {
                    Err(self.refuse("the document ends in the middle"))
                };
            };
            if self.open.is_empty() && rest.get(..start).is_some_and(|between| !between.trim().is_empty()) {
                return Err(self.refuse("text outside the document"));
            }
            self.at += start;
            let rest = self.rest();
            if let Some(inside) = rest.strip_prefix("<!--") {
                self.pass(inside, 4, "-->")?;
            } else if let Some(inside) = rest.strip_prefix("<![CDATA[") {
                self.pass(inside, 9, "]]>")?;
            } else if let Some(inside) = rest.strip_prefix("<?") {
                self.pass(inside, 2, "?>")?;
            } else if rest.starts_with("<!") {
                return Err(self.refuse("document types are not read"));
            } else if rest.starts_with("</") {
                return self.end().map(Some);
            } else {
                return self.start().map(Some);
            }
        }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or("")
    }

    /// The line of the place where reading is, for messages about what a tag says.
    pub fn line(&self) -> usize {
        let (from, known) = self.counted.get();
        let new = self.text.as_bytes().get(from..self.at).unwrap_or_default();
        #[cfg(test)]
        SCANNED.with(|scanned| scanned.set(scanned.get() + new.len()));
        let lines = known + new.iter().filter(|byte| **byte == b'\n').count();
        self.counted.set((self.at, lines));
        lines + 1
    }

    fn refuse(&self, message: &str) -> Problems {
        let line = self.line();
        let found: String = self.rest().chars().take(40).collect();
        Problem::new(E_PARSE, format!("line {line}"), message).found(found).detail("line", line).into()
    }

    fn pass(&mut self, inside: &str, opening: usize, closing: &str) -> Result<(), Problems> {
        let Some(end) = inside.find(closing) else { return Err(self.refuse("a remark or section does not end")) };
        self.at += opening + end + closing.len();
        Ok(())
    }

    fn end(&mut self) -> Result<Tag<'a>, Problems> {
        let rest = self.rest();
        let close = rest.find('>').ok_or_else(|| self.refuse("a tag does not end"))?;
        let name = rest.get(2..close).unwrap_or("").trim_end();
        if self.open.last() != Some(&name) {
            return Err(self.refuse("an end without its beginning"));
        }
        self.at += close + 1;
        self.open.pop();
        Ok(Tag::End(name))
    }

    fn start(&mut self) -> Result<Tag<'a>, Problems> {
        if self.open.is_empty() && self.seen_root {
            return Err(self.refuse("a second document"));
        }
        if self.open.len() >= MAX_DEPTH {
            let error = Problem::new(E_LIMIT, format!("line {}", self.line()), "nested too deeply");
            return Err(error.allowed(format!("{MAX_DEPTH} levels")).into());
        }
        self.seen_root = true;
        self.at += 1;
        let name = self.name()?;
        let mut attributes: Vec<(&str, Cow<'_, str>)> = Vec::new();
        loop {
            self.blank();
            let rest = self.rest();
            if rest.starts_with("/>") {
                self.at += 2;
                self.pending_end = true;
                break;
            }
            if rest.starts_with('>') {
                self.at += 1;
                break;
            }
            let key = self.name()?;
            self.blank();
            if !self.rest().starts_with('=') {
                return Err(self.refuse("an attribute without value"));
            }
            self.at += 1;
            self.blank();
            let value = self.value()?;
            if attributes.len() == MAX_ATTRIBUTES || attributes.iter().any(|(known, _)| *known == key) {
                return Err(self.refuse("an attribute twice, or too many"));
            }
            attributes.push((key, value));
        }
        self.open.push(name);
        Ok(Tag::Start(name, attributes))
    }

    fn name(&mut self) -> Result<&'a str, Problems> {
        let rest = self.rest();
        let end = rest.find(|c: char| c.is_whitespace() || "=/><\"'&".contains(c)).unwrap_or(rest.len());
        match rest.get(..end) {
            Some(name) if !name.is_empty() => {
                self.at += end;
                Ok(name)
            }
            _ => Err(self.refuse("no name where one should be")),
        }
    }

    fn value(&mut self) -> Result<Cow<'a, str>, Problems> {
        let rest = self.rest();
        let quote = rest.chars().next().filter(|c| ['"', '\''].contains(c));
        let Some(quote) = quote else { return Err(self.refuse("a value without quotes")) };
        let Some(end) = rest.get(1..).and_then(|inside| inside.find(quote)) else {
            return Err(self.refuse("a value does not end"));
        };
        let raw = rest.get(1..=end).unwrap_or("");
        if raw.contains('<') {
            return Err(self.refuse("`<` in a value"));
        }
        let value = self.unescape(raw)?;
        self.at += end + 2;
        Ok(value)
    }

    fn unescape(&self, raw: &'a str) -> Result<Cow<'a, str>, Problems> {
        if !raw.contains('&') {
            return Ok(Cow::Borrowed(raw));
        }
        let mut out = String::with_capacity(raw.len());
        let mut parts = raw.split('&');
        out.push_str(parts.next().unwrap_or(""));
        for part in parts {
            let character = part.split_once(';').and_then(|(name, rest)| Some((character(name)?, rest)));
            let Some((character, rest)) = character else { return Err(self.refuse("an entity that is not read")) };
            out.push(character);
            out.push_str(rest);
        }
        Ok(Cow::Owned(out))
    }

    fn blank(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }
}

/// The character of an entity that every XML document has.
fn character(name: &str) -> Option<char> {
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let digits = name.strip_prefix('#').filter(|digits| digits.len() <= 8)?;
            let code = match digits.strip_prefix('x') {
                Some(digits) => u32::from_str_radix(digits, 16).ok()?,
                None => digits.parse().ok()?,
            };
            char::from_u32(code)
        }
    }
}

#[cfg(test)]
thread_local! {
    /// Bytes in which line ends were looked for.
    static SCANNED: Cell<usize> = const { Cell::new(0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_once_however_many_tags_ask() {
        let mut text = String::from("<graphml>\n<graph>\n");
        for node in 0..50_000 {
            text += &format!("<node id=\"{node}\"/>\n");
        }
        text += "</graph>\n</graphml>\n";
        let mut tags = Tags::new(&text);
        SCANNED.with(|scanned| scanned.set(0));
        let (mut count, mut last) = (0, 0);
        while let Some(tag) = tags.next_tag().expect("XML") {
            let line = tags.line();
            assert!(line >= last);
            last = line;
            if let Tag::Start("node", attributes) = &tag {
                assert_eq!(attributes[0].1.parse::<usize>().expect("a number") + 3, line);
                count += 1;
            }
        }
        assert_eq!((count, last), (50_000, 50_004));
        let scanned = SCANNED.with(Cell::get);
        assert!(scanned <= text.len(), "{scanned} bytes looked at in a text of {}", text.len());
    }
}
