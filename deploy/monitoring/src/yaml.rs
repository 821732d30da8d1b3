//! The little of YAML that rules need: keys with indents, quoted texts, and blocks of text as they are.

use std::fmt::Write as _;

/// A document that grows line by line.
#[derive(Debug, Default)]
pub struct Lines {
    text: String,
}

impl Lines {
    /// A comment, or a key that opens a list or a table, or an entry.
    pub fn line(&mut self, indent: usize, line: &str) {
        let _ = writeln!(self.text, "{:indent$}{line}", ""); // A text takes everything.
    }

    /// A key with a text. A text of several lines, or with quotes in it, stands below as it is.
    pub fn text(&mut self, indent: usize, key: &str, value: &str) {
        if !value.contains(['"', '\\', '\n']) {
            return self.line(indent, &format!("{key}: \"{value}\""));
        }
        self.line(indent, &format!("{key}: |-"));
        value.lines().for_each(|line| self.line(indent + 2, line.trim_end()));
    }

    /// The whole document.
    pub fn done(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_with_quotes_are_blocks() {
        let mut lines = Lines::default();
        lines.line(0, "a:");
        lines.text(2, "b", "plain: text");
        lines.text(2, "c", "x{y=\"z\"}\n> 1");
        assert_eq!(lines.done(), "a:\n  b: \"plain: text\"\n  c: |-\n    x{y=\"z\"}\n    > 1\n");
    }
}
