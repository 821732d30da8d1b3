//! Walks a TOML tree with byte positions and collects every problem on the way, where `serde` stops at the first.

use std::ops::{Range, RangeInclusive};
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{Code, Problem, Problems};

/// A value and its place.
pub type Value<'t> = Spanned<DeValue<'t>>;

/// Collects problems of one file.
pub struct Reader<'t> {
    file: &'t Path,
    text: &'t str,
    problems: Vec<Problem>,
}

/// A table being read: what it is called and what it may hold.
#[derive(Clone, Copy)]
pub struct Section<'r, 't> {
    /// Dotted name with a dot behind, empty at the root.
    pub prefix: &'r str,
    table: Option<&'r DeTable<'t>>,
}

impl<'t> Reader<'t> {
    /// A reader of this file's text.
    pub fn new(file: &'t Path, text: &'t str) -> Reader<'t> {
        Reader { file, text, problems: Vec::new() }
    }

    /// The tree, as far as the text is TOML; all syntax errors are noted.
    pub fn tree(&mut self) -> Spanned<DeTable<'t>> {
        let (tree, errors) = DeTable::parse_recoverable(self.text);
        for error in errors {
            let found = error.message().lines().next().unwrap_or("").to_owned();
            self.refuse(Code::Parse, error.span().unwrap_or(0..0), "not valid TOML".into(), found);
        }
        tree
    }

    /// Everything noted, if anything was.
    pub fn finish<T>(self, value: T) -> Result<T, Problems> {
        if self.problems.is_empty() { Ok(value) } else { Err(Problems(self.problems)) }
    }

    /// Notes a problem.
    pub fn refuse(&mut self, code: Code, span: Range<usize>, message: String, found: String) {
        self.problems.push(Problem::at(code, self.file, self.text, span, message, found));
    }

    /// Notes what to do about the last problem.
    pub fn help(&mut self, help: &str) {
        if let Some(last) = self.problems.last_mut() {
            last.help = help.into();
        }
    }

    /// Takes over problems of another file.
    pub fn add(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    /// A table as a section; keys that are not in `known` are problems.
    pub fn open<'r>(&mut self, prefix: &'r str, table: &'r DeTable<'t>, known: &[&str]) -> Section<'r, 't> {
        for (key, _) in table.iter() {
            let name: &str = key.get_ref();
            if !known.contains(&name) {
                let place = if prefix.is_empty() {
                    "at the top".into()
                } else {
                    format!("in [{}]", prefix.trim_end_matches('.'))
                };
                let mut message = format!("unknown key `{name}` {place}");
                if let Some(near) = known.iter().filter(|k| near(k, name)).min_by_key(|k| distance(k, name)) {
                    message += &format!("; did you mean `{near}`?");
                }
                self.refuse(Code::Key, key.span(), message, format!("allowed: {}", known.join(", ")));
            }
        }
        Section { prefix, table: Some(table) }
    }

    /// A sub-table as a section; an absent one is empty.
    pub fn section<'r>(
        &mut self,
        root: Section<'r, 't>,
        name: &str,
        prefix: &'r str,
        known: &[&str],
    ) -> Section<'r, 't> {
        match root.get(name).map(|value| (value.get_ref(), value.span())) {
            None => Section { prefix, table: None },
            Some((DeValue::Table(table), _)) => self.open(prefix, table, known),
            Some((other, span)) => {
                self.wrong_type(name, other, span, "a table");
                Section { prefix, table: None }
            }
        }
    }

    fn wrong_type(&mut self, name: &str, value: &DeValue<'_>, span: Range<usize>, allowed: &str) {
        self.refuse(
            Code::Parse,
            span,
            format!("{name} has the wrong type"),
            format!("{}; allowed {allowed}", value.type_str()),
        );
    }

    /// An integer within `allowed`.
    pub fn integer(&mut self, section: Section<'_, 't>, key: &str, default: u64, allowed: RangeInclusive<u64>) -> u64 {
        let range = format!("{} to {}", allowed.start(), allowed.end());
        self.read(section, key, default, &range, |value| {
            let value = value.as_integer()?;
            Some(
                i128::from_str_radix(value.as_str(), value.radix())
                    .ok()
                    .and_then(|v| u64::try_from(v).ok())
                    .filter(|v| allowed.contains(v)),
            )
        })
    }

    /// A number within `allowed`, with or without a decimal point.
    pub fn number(&mut self, section: Section<'_, 't>, key: &str, default: f64, allowed: RangeInclusive<f64>) -> f64 {
        let range = format!("{} to {}", allowed.start(), allowed.end());
        self.read(section, key, default, &range, |value| {
            let text = match (value.as_float(), value.as_integer()) {
                (Some(float), _) => float.as_str(),
                (None, Some(integer)) if integer.radix() == 10 => integer.as_str(),
                _ => return None,
            };
            Some(text.parse().ok().filter(|v| allowed.contains(v)))
        })
    }

    /// True or false.
    pub fn boolean(&mut self, section: Section<'_, 't>, key: &str, default: bool) -> bool {
        self.read(section, key, default, "true or false", |value| value.as_bool().map(Some))
    }

    /// Text that `accept` understands.
    pub fn text<T>(
        &mut self,
        section: Section<'_, 't>,
        key: &str,
        default: T,
        allowed: &str,
        accept: impl Fn(&str) -> Option<T>,
    ) -> T {
        self.read(section, key, default, allowed, |value| value.as_str().map(&accept))
    }

    /// One word of several.
    pub fn word<T: Copy>(&mut self, section: Section<'_, 't>, key: &str, default: T, words: &[(&str, T)]) -> T {
        let allowed = words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
        self.text(section, key, default, &allowed, |text| {
            words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value)
        })
    }

    /// Reads the value of `key`: `accept` gives `None` for a wrong type and `Some(None)` for a wrong value.
    pub fn read<T>(
        &mut self,
        section: Section<'_, 't>,
        key: &str,
        default: T,
        allowed: &str,
        accept: impl Fn(&DeValue<'t>) -> Option<Option<T>>,
    ) -> T {
        let Some(value) = section.get(key) else { return default };
        let name = format!("{}{key}", section.prefix);
        match accept(value.get_ref()) {
            Some(Some(value)) => return value,
            Some(None) => {
                let found = format!("{}; allowed {allowed}", self.shown(value.span()));
                self.refuse(Code::Range, value.span(), format!("{name} is out of range"), found);
            }
            None => self.wrong_type(&name, value.get_ref(), value.span(), allowed),
        }
        default
    }

    /// The elements of an array; an absent one is empty, a longer one than `most` is a problem.
    pub fn list<'r>(&mut self, section: Section<'r, 't>, key: &str, most: usize) -> &'r [Value<'t>] {
        match section.get(key).map(|value| (value.get_ref(), value.span())) {
            None => &[],
            Some((DeValue::Array(list), _)) if list.len() <= most => list.as_ref(),
            Some((DeValue::Array(list), span)) => {
                let found = format!("{} entries; allowed 0 to {most}", list.len());
                self.refuse(Code::Range, span, format!("{}{key} is too long", section.prefix), found);
                &[]
            }
            Some((other, span)) => {
                self.wrong_type(key, other, span, "an array");
                &[]
            }
        }
    }

    /// An array of texts that `accept` understands.
    pub fn texts<T>(
        &mut self,
        section: Section<'_, 't>,
        key: &str,
        most: usize,
        allowed: &str,
        accept: impl Fn(&str) -> Option<T>,
    ) -> Vec<T> {
        let mut out = Vec::new();
        for value in self.list(section, key, most) {
            match value.get_ref().as_str().map(&accept) {
                Some(Some(item)) => out.push(item),
                _ => {
                    let found = format!("{}; allowed {allowed}", self.shown(value.span()));
                    self.refuse(
                        Code::Range,
                        value.span(),
                        format!("an entry of {}{key} is out of range", section.prefix),
                        found,
                    );
                }
            }
        }
        out
    }

    /// Notes that `key` is not there.
    pub fn missing(&mut self, span: Range<usize>, key: &str, allowed: &str) {
        self.refuse(Code::Missing, span.start..span.start, format!("{key} is missing"), format!("allowed {allowed}"));
    }

    fn shown(&self, span: Range<usize>) -> String {
        let text = self.text.get(span).unwrap_or("").lines().next().unwrap_or("");
        text.chars().take(60).map(|c| if c.is_control() { '?' } else { c }).collect()
    }
}

impl<'r, 't> Section<'r, 't> {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&'r Value<'t>> {
        self.table?.iter().find(|(name, _)| name.get_ref() == key).map(|(_, value)| value)
    }
}

fn near(known: &str, name: &str) -> bool {
    distance(known, name) <= 2.max(known.len() / 4)
}

/// Edits from one word to the other, over bytes; a swap of neighbours counts as two.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), &b.as_bytes()[..b.len().min(64)]);
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut corner = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = corner + usize::from(x != y);
            corner = row[j + 1];
            row[j + 1] = change.min(corner + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
