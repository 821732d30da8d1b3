//! Reads the keys of one table: type, range, default; remembers which keys exist, so that unknown ones are found.

use std::cell::RefCell;
use std::ops::RangeInclusive;

use sluice_schedule::{Nanos, Rate};

use super::exact::{NotExact, Ratio};
use super::problem::{Code, Log, nearest};
use super::tree::{Node, Value};

/// 10⁹: nanoseconds in a second, bit/s in a Gbit/s.
pub(crate) const GIGA: u64 = 1_000_000_000;
/// No time of a scenario is longer: ten years.
const MAX_SECONDS: u64 = 315_360_000;

/// A table being read.
pub(crate) struct Table<'a> {
    pub(crate) log: &'a Log,
    pub(crate) pointer: String,
    pub(crate) offset: usize,
    entries: &'a [(String, Node)],
    known: RefCell<Vec<&'static str>>,
}

/// A value with its place, for keys that take more than one type.
#[derive(Clone)]
pub(crate) struct Item<'a> {
    pub(crate) log: &'a Log,
    pub(crate) node: &'a Node,
    pub(crate) pointer: String,
}

impl<'a> Item<'a> {
    /// Records a problem at this value.
    pub(crate) fn fail(&self, code: Code, what: impl Into<String>, allowed: &str) {
        self.log.add(code, self.node.offset, &self.pointer, what, allowed);
    }

    fn wrong_type(&self, allowed: &str) {
        self.fail(Code::Parse, format!("{} is {}", self.node.value.shown(), self.node.value.kind()), allowed);
    }

    /// As a table.
    pub(crate) fn table(&self) -> Option<Table<'a>> {
        match &self.node.value {
            Value::Table(entries) => Some(Table {
                log: self.log,
                pointer: self.pointer.clone(),
                offset: self.node.offset,
                entries,
                known: RefCell::new(Vec::new()),
            }),
            _ => {
                self.wrong_type("a table");
                None
            }
        }
    }

    /// As a list.
    pub(crate) fn list(&self) -> Option<Vec<Item<'a>>> {
        match &self.node.value {
            Value::List(nodes) => Some(
                nodes
                    .iter()
                    .enumerate()
                    .map(|(i, node)| Item { log: self.log, node, pointer: format!("{}/{i}", self.pointer) })
                    .collect(),
            ),
            _ => {
                self.wrong_type("a list");
                None
            }
        }
    }

    /// As a text.
    pub(crate) fn text(&self) -> Option<&'a str> {
        match &self.node.value {
            Value::Text(t) => Some(t),
            _ => {
                self.wrong_type("a text");
                None
            }
        }
    }

    /// As an exact number between `low` and `high`.
    pub(crate) fn ratio(&self, low: Ratio, high: Ratio, allowed: &str) -> Option<Ratio> {
        let text = match &self.node.value {
            Value::Number(t) | Value::Text(t) => t,
            _ => {
                self.wrong_type(allowed);
                return None;
            }
        };
        match Ratio::parse(text) {
            Ok(r) if r >= low && r <= high => return Some(r),
            Err(NotExact::Form) => self.fail(Code::Parse, format!("{text:?} is not a number or a fraction"), allowed),
            Ok(_) | Err(NotExact::Negative | NotExact::Range) => {
                self.fail(Code::Range, format!("{text} is out of range"), allowed);
            }
        }
        None
    }

    /// As a whole number in `range`.
    pub(crate) fn int(&self, range: &RangeInclusive<u64>) -> Option<u64> {
        let allowed = format!("a whole number from {} to {}", range.start(), range.end());
        if matches!(self.node.value, Value::Text(_)) {
            self.wrong_type(&allowed);
            return None;
        }
        let r = self.ratio(Ratio::whole(*range.start()), Ratio::whole(*range.end()), &allowed)?;
        let n = r.as_whole();
        if n.is_none() {
            self.fail(Code::Parse, format!("{} is not a whole number", self.node.value.shown()), &allowed);
        }
        n
    }

    /// As a rate in Gbit/s, above zero.
    pub(crate) fn gbps(&self) -> Option<Rate> {
        let allowed = "a rate in Gbit/s, above 0, at most 100000";
        let r = self.ratio(Ratio::ZERO, Ratio::whole(100_000), allowed)?;
        match r.to_u64(GIGA) {
            Some(bits) if bits > 0 => Some(Rate(bits)),
            _ => {
                self.fail(Code::Range, format!("{} is no capacity", self.node.value.shown()), allowed);
                None
            }
        }
    }
}

impl<'a> Table<'a> {
    /// The whole file.
    pub(crate) fn root(node: &'a Node, log: &'a Log) -> Option<Table<'a>> {
        Item { log, node, pointer: String::new() }.table()
    }

    /// The value of `key`, if it is there.
    pub(crate) fn get(&self, key: &'static str) -> Option<Item<'a>> {
        self.known.borrow_mut().push(key);
        self.entries.iter().find(|(k, _)| k == key).map(|(_, node)| self.item(key, node))
    }

    /// The value of `key`, which must be there.
    pub(crate) fn require(&self, key: &'static str) -> Option<Item<'a>> {
        let item = self.get(key);
        if item.is_none() {
            self.fail(Code::Missing, format!("{key} is missing"), "");
        }
        item
    }

    /// True when `key` is there.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|(k, _)| k == key)
    }

    /// All entries, for tables whose keys are names.
    pub(crate) fn named(&self) -> Vec<(&'a str, Item<'a>)> {
        self.entries.iter().map(|(k, node)| (k.as_str(), self.item(k, node))).collect()
    }

    fn item(&self, key: &str, node: &'a Node) -> Item<'a> {
        let key = key.replace('~', "~0").replace('/', "~1");
        Item { log: self.log, node, pointer: format!("{}/{key}", self.pointer) }
    }

    /// Records a problem at this table.
    pub(crate) fn fail(&self, code: Code, what: impl Into<String>, allowed: &str) {
        self.log.add(code, self.offset, &self.pointer, what, allowed);
    }

    pub(crate) fn int(&self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        self.get(key)?.int(&range)
    }

    pub(crate) fn int32(&self, key: &'static str, range: RangeInclusive<u32>) -> Option<u32> {
        let wide = u64::from(*range.start())..=u64::from(*range.end());
        self.get(key)?.int(&wide).and_then(|n| u32::try_from(n).ok())
    }

    pub(crate) fn flag(&self, key: &'static str) -> Option<bool> {
        let item = self.get(key)?;
        match item.node.value {
            Value::Bool(b) => Some(b),
            _ => {
                item.wrong_type("true or false");
                None
            }
        }
    }

    pub(crate) fn text(&self, key: &'static str) -> Option<&'a str> {
        self.get(key)?.text()
    }

    /// One of a few words.
    pub(crate) fn choice<T: Copy>(&self, key: &'static str, words: &[(&str, T)]) -> Option<T> {
        let item = self.get(key)?;
        let allowed = words.iter().map(|(w, _)| format!("{w:?}")).collect::<Vec<_>>().join(", ");
        let text = item.text()?;
        let found = words.iter().find(|(w, _)| *w == text).map(|(_, t)| *t);
        if found.is_none() {
            item.fail(Code::Range, format!("{text:?} is not known"), &allowed);
        }
        found
    }

    /// An exact number from `low` to `high`.
    pub(crate) fn ratio(&self, key: &'static str, low: Ratio, high: Ratio) -> Option<Ratio> {
        self.get(key)?.ratio(low, high, &format!("from {low} to {high}"))
    }

    /// A float from `low` to `high`, both finite and not negative.
    pub(crate) fn float(&self, key: &'static str, low: Ratio, high: Ratio) -> Option<f64> {
        self.ratio(key, low, high).map(Ratio::as_f64)
    }

    /// A probability.
    pub(crate) fn chance(&self, key: &'static str) -> Option<f64> {
        self.float(key, Ratio::ZERO, Ratio::ONE)
    }

    /// A time in seconds.
    pub(crate) fn seconds(&self, key: &'static str) -> Option<Nanos> {
        self.get(key)?.seconds()
    }

    /// A time in microseconds.
    pub(crate) fn micros(&self, key: &'static str) -> Option<Nanos> {
        let r = self.get(key)?.ratio(Ratio::ZERO, Ratio::whole(10_000_000), "microseconds, 0 to 10000000")?;
        r.to_u64(1_000).map(Nanos)
    }

    pub(crate) fn gbps(&self, key: &'static str) -> Option<Rate> {
        self.get(key)?.gbps()
    }

    pub(crate) fn table(&self, key: &'static str) -> Option<Table<'a>> {
        self.get(key)?.table()
    }

    pub(crate) fn list(&self, key: &'static str) -> Option<Vec<Item<'a>>> {
        self.get(key)?.list()
    }

    /// Reports every key that nobody asked for.
    pub(crate) fn finish(&self) {
        let mut known = self.known.borrow().clone();
        known.sort_unstable();
        known.dedup();
        for (key, node) in self.entries {
            if known.contains(&key.as_str()) {
                continue;
            }
            let hint = match nearest(key, known.iter().copied()) {
                Some(near) => format!("did you mean {near}?"),
                None => known.join(", "),
            };
            let pointer = format!("{}/{}", self.pointer, key.replace('~', "~0").replace('/', "~1"));
            self.log.add(Code::Key, node.offset, &pointer, format!("unknown key {key:?}"), &hint);
        }
    }
}

impl Item<'_> {
    /// As a time in seconds.
    pub(crate) fn seconds(&self) -> Option<Nanos> {
        let allowed = "seconds, 0 to 315360000";
        self.ratio(Ratio::ZERO, Ratio::whole(MAX_SECONDS), allowed)?.to_u64(GIGA).map(Nanos)
    }
}
