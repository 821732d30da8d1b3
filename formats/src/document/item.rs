//! One value with its place: its type and its range, or what is wrong with it.

use std::ops::RangeInclusive;

use super::{Collector, Node, Notation, Table, Value};
use crate::json::escaped;
use crate::problem::{Code, E_LIMIT, E_PARSE, E_RANGE, Problem, hint};
use crate::quantity::{NotANumber, Rational};

/// A value with its place.
#[derive(Clone, Debug)]
pub struct Item<'a> {
    /// Where problems go.
    pub collector: &'a Collector<'a>,
    /// The value and where it stands.
    pub node: &'a Node,
    /// Its key from the root of the file.
    pub key: String,
}

impl<'a> Item<'a> {
    /// The whole file, which has no key.
    pub fn root(node: &'a Node, collector: &'a Collector<'a>) -> Item<'a> {
        Item { collector, node, key: String::new() }
    }
    /// The value of a key of this table.
    pub(super) fn child(&self, key: &str, node: &'a Node) -> Item<'a> {
        let key = match self.collector.notation() {
            Notation::Json => format!("{}/{}", self.key, escaped(key)),
            Notation::Toml if self.key.is_empty() => key.to_owned(),
            Notation::Toml => format!("{}.{key}", self.key),
        };
        Item { collector: self.collector, node, key }
    }
    /// An element of this list.
    fn element(&self, index: usize, node: &'a Node) -> Item<'a> {
        let key = match self.collector.notation() {
            Notation::Json => format!("{}/{index}", self.key),
            Notation::Toml => format!("{}[{index}]", self.key),
        };
        Item { collector: self.collector, node, key }
    }

    /// Records a problem at this value, the value seen included.
    pub fn fail(&self, code: Code, message: impl Into<String>, allowed: &str) {
        self.refuse(Problem::new(code, "", message).found(self.node.value.shown()).allowed(allowed));
    }
    /// Records a problem at this value; its key and file are filled in here.
    pub fn refuse(&self, problem: Problem) {
        self.collector.add(Problem { key: self.key.clone(), ..problem }, self.node.span.clone());
    }
    /// Records that the value is outside its range.
    pub fn out_of_range(&self, allowed: &str) {
        self.fail(E_RANGE, format!("{} is out of range", self.key), allowed);
    }
    /// Records that the value has another type than it must have.
    pub fn wrong_type(&self, allowed: &str) {
        let message = if self.key.is_empty() {
            format!("the file is {}", self.node.value.kind())
        } else {
            format!("{} is {}", self.key, self.node.value.kind())
        };
        self.fail(E_PARSE, message, allowed);
    }

    /// As a table; a mistake if it is something else.
    pub fn table(&self) -> Option<Table<'a>> {
        match &self.node.value {
            Value::Table(entries) => Some(Table::new(self.clone(), entries)),
            _ => {
                self.wrong_type("a table");
                None
            }
        }
    }
    /// As a list; a mistake if it is something else.
    pub fn list(&self) -> Option<Vec<Item<'a>>> {
        match &self.node.value {
            Value::List(nodes) => Some(nodes.iter().enumerate().map(|(i, node)| self.element(i, node)).collect()),
            _ => {
                self.wrong_type("a list");
                None
            }
        }
    }
    /// As a list of at most `max` elements; a longer one is a problem.
    pub fn list_of(&self, max: usize) -> Option<Vec<Item<'a>>> {
        let list = self.list()?;
        if list.len() > max {
            let problem = Problem::new(E_LIMIT, "", format!("{} is too long", self.key));
            self.refuse(problem.found(format!("{} entries", list.len())).allowed(format!("at most {max}")));
            return None;
        }
        Some(list)
    }
    /// As a text; a mistake if it is something else.
    pub fn text(&self) -> Option<&'a str> {
        match &self.node.value {
            Value::Text(text) => Some(text),
            _ => {
                self.wrong_type("a text");
                None
            }
        }
    }
    /// As a text that `parse` understands.
    pub fn parse<T>(&self, allowed: &str, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let value = match &self.node.value {
            Value::Text(text) => parse(text),
            _ => {
                self.wrong_type(allowed);
                return None;
            }
        };
        if value.is_none() {
            self.out_of_range(allowed);
        }
        value
    }
    /// As true or false.
    pub fn flag(&self) -> Option<bool> {
        match self.node.value {
            Value::Bool(bool) => Some(bool),
            _ => {
                self.wrong_type("true or false");
                None
            }
        }
    }
    /// As one of some words.
    pub fn choice<T: Copy>(&self, words: &[(&str, T)]) -> Option<T> {
        let allowed = words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
        let Value::Text(text) = &self.node.value else {
            self.wrong_type(&allowed);
            return None;
        };
        let found = words.iter().find(|(word, _)| word == text).map(|(_, value)| *value);
        if found.is_none() {
            let problem = Problem::new(E_RANGE, "", format!("{} is not a known word", self.key));
            let help = hint(text, words.iter().map(|(word, _)| *word)).unwrap_or_default();
            self.refuse(problem.found(self.node.value.shown()).allowed(allowed).help(help));
        }
        found
    }
    /// As an exact number: a number, or a text with a decimal or a fraction `p/q`.
    pub fn number(&self, allowed: &str) -> Option<Rational> {
        let number = match &self.node.value {
            Value::Number(text) | Value::Text(text) => Rational::parse_setting(text),
            _ => {
                self.wrong_type(allowed);
                return None;
            }
        };
        match number {
            Ok(number) => return Some(number),
            Err(NotANumber) if matches!(self.node.value, Value::Number(_)) => self.out_of_range(allowed),
            Err(NotANumber) => self.fail(E_PARSE, format!("{} is not a number or a fraction", self.key), allowed),
        }
        None
    }
    /// As an exact number between `low` and `high`.
    pub fn number_in(&self, low: &Rational, high: &Rational, allowed: &str) -> Option<Rational> {
        let number = self.number(allowed)?;
        let inside = number >= *low && number <= *high;
        if !inside {
            self.out_of_range(allowed);
        }
        inside.then_some(number)
    }
    /// As a whole number in `range`.
    pub fn int(&self, range: &RangeInclusive<u64>) -> Option<u64> {
        let allowed = match (range.start(), range.end()) {
            (low, high) if low == high => low.to_string(),
            (low, high) => format!("a whole number from {low} to {high}"),
        };
        if !matches!(self.node.value, Value::Number(_)) {
            self.wrong_type(&allowed);
            return None;
        }
        let number = self.number(&allowed)?;
        let whole = number.to_u64().filter(|number| range.contains(number));
        if whole.is_none() && !number.is_integer() {
            self.fail(E_PARSE, format!("{} is not a whole number", self.key), &allowed);
        } else if whole.is_none() {
            self.out_of_range(&allowed);
        }
        whole
    }
}
