//! The writer: compact and canonical for digests, or one element per line for people.

use super::{Json, Names, NodeId};

/// Nesting down to which [`Writer::lines`] begins a new line for each element.
const LINES_DOWN_TO: usize = 2;

/// Writes one document. Keys must come in sorted order; that is what makes the text canonical.
pub struct Writer<'a> {
    out: String,
    names: Option<&'a Names>,
    lines: bool,
    depth: usize,
    empty: bool,
    last_keys: Vec<String>,
}

impl<'a> Writer<'a> {
    /// Keys sorted, no blanks: the text a digest is made of.
    pub fn compact(value: &impl Json, names: Option<&'a Names>) -> String {
        let mut writer =
            Writer { out: String::new(), names, lines: false, depth: 0, empty: true, last_keys: Vec::new() };
        value.write(&mut writer);
        writer.out
    }
    /// The same with line ends, for files that people read.
    pub fn lines(value: &impl Json, names: Option<&'a Names>) -> String {
        let mut writer =
            Writer { out: String::new(), names, lines: true, depth: 0, empty: true, last_keys: Vec::new() };
        value.write(&mut writer);
        writer.out.push('\n');
        writer.out
    }

    /// Opens a list or an object.
    pub fn begin(&mut self, bracket: char) {
        self.out.push(bracket);
        self.depth += 1;
        self.empty = true;
        self.last_keys.push(String::new());
    }
    /// Closes the list or object begun last.
    pub fn end(&mut self, bracket: char) {
        self.depth -= 1;
        self.last_keys.pop();
        if !self.empty {
            self.line();
        }
        self.empty = false;
        self.out.push(bracket);
    }
    /// Begins an element of a list.
    pub fn item(&mut self) {
        if !self.empty {
            self.out.push(',');
        }
        self.empty = false;
        self.indent();
    }
    /// Begins an entry of an object.
    pub fn key(&mut self, key: &str) {
        if let Some(last) = self.last_keys.last_mut() {
            debug_assert!(last.is_empty() || last.as_str() < key, "{last} before {key}");
            key.clone_into(last);
        }
        self.item();
        self.text(key);
        self.out.push(':');
        if self.lines {
            self.out.push(' ');
        }
    }
    /// A text in quotes, escaped where it must be.
    pub fn text(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{c}' => self.out.push_str("\\f"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                c if c < ' ' => self.out.push_str(&format!("\\u{:04x}", u32::from(c))),
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }
    /// The id of a node.
    pub fn node(&mut self, node: NodeId) {
        match self.names {
            Some(names) => self.text(names.text(node)),
            None => self.text(""),
        }
    }
    /// A whole number in decimal digits.
    pub fn number(&mut self, number: u64) {
        self.out.push_str(itoa::Buffer::new().format(number));
    }
    /// A number, `true`, `false` or `null`.
    pub fn raw(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn indent(&mut self) {
        if self.lines && self.depth <= LINES_DOWN_TO {
            self.out.push('\n');
            self.out.extend(std::iter::repeat_n("  ", self.depth));
        } else if self.lines && self.out.ends_with(',') {
            self.out.push(' ');
        }
    }
    fn line(&mut self) {
        if self.lines && self.depth < LINES_DOWN_TO {
            self.out.push('\n');
            self.out.extend(std::iter::repeat_n("  ", self.depth));
        }
    }
}
