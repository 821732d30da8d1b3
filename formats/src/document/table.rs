//! A table that is read key by key: it remembers which keys exist, so that unknown ones are found.

use std::cell::RefCell;
use std::ops::RangeInclusive;

use super::{Entry, Item};
use crate::problem::{Code, E_KEY, E_MISSING, Problem, hint, printable};
use crate::quantity::Rational;

/// A table being read.
#[derive(Debug)]
pub struct Table<'a> {
    /// The table as a value.
    pub item: Item<'a>,
    entries: &'a [Entry],
    known: RefCell<Vec<&'static str>>,
}

impl<'a> Table<'a> {
    pub(super) fn new(item: Item<'a>, entries: &'a [Entry]) -> Table<'a> {
        Table { item, entries, known: RefCell::new(Vec::new()) }
    }

    /// The value of `key`, if it is there.
    pub fn get(&self, key: &'static str) -> Option<Item<'a>> {
        self.known.borrow_mut().push(key);
        self.entries.iter().find(|entry| entry.name == key).map(|entry| self.item.child(key, &entry.node))
    }
    /// The value of `key`, which must be there.
    pub fn require(&self, key: &'static str) -> Option<Item<'a>> {
        let item = self.get(key);
        if item.is_none() {
            self.missing(key, "");
        }
        item
    }
    /// Records that `key` is not there.
    pub fn missing(&self, key: &str, allowed: &str) {
        let child = self.item.child(key, self.item.node);
        let message = format!("{} is missing", if child.key.is_empty() { key } else { &child.key });
        child.refuse(Problem::new(E_MISSING, "", message).allowed(allowed));
    }
    /// Is `key` there? Asking does not make it known.
    pub fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| entry.name == key)
    }
    /// All entries with their values, for tables whose keys are names.
    pub fn entries(&self) -> impl Iterator<Item = (&'a Entry, Item<'a>)> + use<'a, '_> {
        self.entries.iter().map(|entry| (entry, self.item.child(&entry.name, &entry.node)))
    }
    /// Records a problem at the name of an entry of this table.
    pub fn refuse_key(&self, entry: &Entry, problem: Problem) {
        let item = self.item.child(&entry.name, &entry.node);
        item.collector.add(Problem { key: item.key, ..problem }, entry.span.clone());
    }
    /// Records a problem at this table.
    pub fn fail(&self, code: Code, message: impl Into<String>, allowed: &str) {
        self.item.refuse(Problem::new(code, "", message).allowed(allowed));
    }

    /// A whole number in `range`.
    pub fn int(&self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        self.get(key)?.int(&range)
    }
    /// A whole number in `range`.
    pub fn int32(&self, key: &'static str, range: RangeInclusive<u32>) -> Option<u32> {
        let wide = u64::from(*range.start())..=u64::from(*range.end());
        self.get(key)?.int(&wide).and_then(|number| u32::try_from(number).ok())
    }
    /// An exact number from `low` to `high`.
    pub fn number(&self, key: &'static str, low: &Rational, high: &Rational) -> Option<Rational> {
        self.get(key)?.number_in(low, high, &format!("{low} to {high}"))
    }
    /// The float nearest to an exact number from `low` to `high`.
    pub fn float(&self, key: &'static str, low: &Rational, high: &Rational) -> Option<f64> {
        self.number(key, low, high).map(|number| number.to_f64())
    }
    /// A probability, from 0 to 1.
    pub fn chance(&self, key: &'static str) -> Option<f64> {
        self.float(key, &Rational::ZERO, &Rational::ONE)
    }
    /// The flag of `key`; `None` also where it is no flag.
    pub fn flag(&self, key: &'static str) -> Option<bool> {
        self.get(key)?.flag()
    }
    /// The text of `key`; `None` also where it is no text.
    pub fn text(&self, key: &'static str) -> Option<&'a str> {
        self.get(key)?.text()
    }
    /// A text that `parse` understands.
    pub fn parse<T>(&self, key: &'static str, allowed: &str, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        self.get(key)?.parse(allowed, parse)
    }
    /// One of a few words.
    pub fn choice<T: Copy>(&self, key: &'static str, words: &[(&str, T)]) -> Option<T> {
        self.get(key)?.choice(words)
    }
    /// The table of `key`; `None` also where it is no table.
    pub fn table(&self, key: &'static str) -> Option<Table<'a>> {
        self.get(key)?.table()
    }
    /// The list of `key`; `None` also where it is no list.
    pub fn list(&self, key: &'static str) -> Option<Vec<Item<'a>>> {
        self.get(key)?.list()
    }

    /// Reports every key that nobody asked for.
    pub fn finish(&self) {
        let mut known = self.known.borrow().clone();
        known.sort_unstable();
        known.dedup();
        for entry in self.entries.iter().filter(|entry| !known.contains(&entry.name.as_str())) {
            self.refuse_key(entry, unknown_key(&entry.name, &self.item.key, known.iter().copied()));
        }
    }
}

/// A key that no reader of this table knows; `table` is its key, empty for the file.
pub fn unknown_key<'k>(name: &str, table: &str, known: impl Iterator<Item = &'k str> + Clone) -> Problem {
    let place = if table.is_empty() { "the file".to_owned() } else { format!("[{table}]") };
    let message = format!("unknown key `{}` in {place}", printable(name, 64));
    let problem = Problem::new(E_KEY, "", message).allowed(known.clone().collect::<Vec<_>>().join(", "));
    problem.help(hint(name, known).unwrap_or_default())
}
