//! Licence expressions as packages have them (SPDX, and `/` for OR as it once was): read, and asked whether they hold.

/// A licence, or several joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expression {
    /// One by its name, with its exception if it has one.
    One(String),
    All(Vec<Expression>),
    Any(Vec<Expression>),
}

/// Brackets in brackets at most.
const DEPTH: usize = 16;

impl Expression {
    pub(crate) fn read(text: &str) -> Result<Expression, String> {
        let spaced = text.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
        let mut words = Words { words: spaced.split_whitespace().collect(), at: 0 };
        let read = words.any(DEPTH)?;
        match words.next() {
            None => Ok(read),
            Some(word) => Err(format!("{word:?} was not expected")),
        }
    }

    /// Does it hold, if those that `allowed` knows do?
    pub(crate) fn holds(&self, allowed: &impl Fn(&str) -> bool) -> bool {
        match self {
            Expression::One(name) => allowed(name),
            Expression::All(parts) => parts.iter().all(|part| part.holds(allowed)),
            Expression::Any(parts) => parts.iter().any(|part| part.holds(allowed)),
        }
    }

    fn of(mut parts: Vec<Expression>, join: fn(Vec<Expression>) -> Expression) -> Expression {
        match parts.pop() {
            Some(only) if parts.is_empty() => only,
            last => {
                parts.extend(last);
                join(parts)
            }
        }
    }
}

struct Words<'a> {
    words: Vec<&'a str>,
    at: usize,
}

impl<'a> Words<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).copied()
    }

    fn next(&mut self) -> Option<&'a str> {
        let word = self.peek();
        self.at += 1;
        word
    }

    fn take(&mut self, word: &str) -> bool {
        let there = self.peek() == Some(word);
        self.at += usize::from(there);
        there
    }

    fn any(&mut self, depth: usize) -> Result<Expression, String> {
        let mut parts = vec![self.all(depth)?];
        while self.take("OR") {
            parts.push(self.all(depth)?);
        }
        Ok(Expression::of(parts, Expression::Any))
    }

    fn all(&mut self, depth: usize) -> Result<Expression, String> {
        let mut parts = vec![self.one(depth)?];
        while self.take("AND") {
            parts.push(self.one(depth)?);
        }
        Ok(Expression::of(parts, Expression::All))
    }

    fn one(&mut self, depth: usize) -> Result<Expression, String> {
        match self.next() {
            Some("(") => {
                let depth = depth.checked_sub(1).ok_or("too many brackets")?;
                let inside = self.any(depth)?;
                if self.take(")") { Ok(inside) } else { Err("a bracket is not closed".to_owned()) }
            }
            None | Some(")" | "OR" | "AND" | "WITH") => Err("a licence is missing".to_owned()),
            Some(name) if self.take("WITH") => {
                let exception = self.next().ok_or("an exception is missing")?;
                Ok(Expression::One(format!("{name} WITH {exception}")))
            }
            Some(name) => Ok(Expression::One(name.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_hold_as_they_are_joined() {
        let allowed = |name: &str| ["MIT", "Unicode-3.0", "Apache-2.0 WITH LLVM-exception"].contains(&name);
        for (text, holds) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("GPL-3.0/MIT", true),
            ("Apache-2.0 / MIT", true),
            ("MIT AND GPL-3.0", false),
            ("GPL-3.0 OR MIT AND Unicode-3.0", true),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
            ("(MIT AND GPL-3.0) OR GPL-2.0", false),
            ("Apache-2.0 WITH LLVM-exception OR GPL-3.0", true),
            ("Apache-2.0", false),
        ] {
            assert_eq!(Expression::read(text).expect(text).holds(&allowed), holds, "{text}");
        }
        for text in ["", "MIT OR", "(MIT", "MIT)", "MIT ISC", "WITH X", &"(".repeat(99)] {
            assert!(Expression::read(text).is_err(), "{text}");
        }
    }
}
