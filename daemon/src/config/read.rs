//! From TOML text to settings: layer upon layer, every problem of every file collected, each with its place.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sluice_formats::document::{Collector, Item, Node, Notation, Table, Value, unknown_key};
use sluice_formats::file;
use sluice_formats::problem::{E_LIMIT, E_MOVED, E_PARSE, E_RANGE, Problem};

use super::keys::{Key, MOVED, is_required};
use super::settings::{Config, KEYS, LINK_KEYS, LinkEntry, SWITCH_KEYS, SwitchEntry};
use super::value::Refusal;

/// A file larger than this is not a configuration.
pub(crate) const MAX_BYTES: u64 = 1 << 20;
/// Files of one directory that are read at most.
const MAX_FILES: usize = 256;
/// Entries of `[[links]]` at most.
pub(crate) const MAX_LINKS: usize = 16;
/// Entries of `[[switches]]` at most.
pub(crate) const MAX_SWITCHES: usize = 32;

/// Where a key was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// As it was named, or as the directory listed it.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: usize,
}

/// Settings with the place each of them came from; a key without a place has its default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loaded {
    /// Every key, those that no file sets included.
    pub config: Config,
    /// Where each key was set.
    pub origins: BTreeMap<String, Origin>,
    /// The files that were read, in order.
    pub files: Vec<PathBuf>,
}

/// Reads layers into settings and collects what is wrong.
#[derive(Debug, Default)]
pub struct Reader {
    loaded: Loaded,
    problems: Vec<Problem>,
}

impl Reader {
    /// Reads one file as the next layer.
    pub fn file(&mut self, path: &Path) {
        match file::load_text(path, MAX_BYTES) {
            Ok(text) => self.text(path, &text),
            Err(problems) => self.problems.extend(problems.into_all()),
        }
    }
    /// Reads every `*.toml` of a directory in byte order; an absent directory has none.
    pub fn directory(&mut self, dir: &Path) {
        let Ok(entries) = std::fs::read_dir(dir) else { return };
        let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
        files.sort();
        for file in files.iter().take(MAX_FILES) {
            self.file(file);
        }
    }
    /// Reads a text as the next layer. What a broken line was meant to set cannot be judged, the rest is.
    pub fn text(&mut self, file: &Path, text: &str) {
        self.loaded.files.push(file.to_owned());
        let name = file.display().to_string();
        let collector = Collector::new(&name, text, Notation::Toml);
        let node = Node::parse(&collector);
        if let Some(table) = Item::root(&node, &collector).table() {
            self.table(file, &table);
        }
        self.problems.extend(collector.into_problems());
    }
    /// What the layers read until now say.
    pub fn config(&self) -> &Config {
        &self.loaded.config
    }
    /// Settings so far and problems so far, for checks that go on.
    pub fn parts(self) -> (Loaded, Vec<Problem>) {
        (self.loaded, self.problems)
    }

    fn table(&mut self, file: &Path, table: &Table<'_>) {
        for (entry, item) in table.entries() {
            let path = item.key.as_str();
            if let Some(key) = KEYS.iter().find(|key| key.path == path) {
                set(&mut self.loaded.config, key, &item);
                self.note(file, path, &item);
            } else if let Some((_, place)) = MOVED.iter().find(|(known, _)| *known == path) {
                table.refuse_key(entry, moved(path, place));
            } else if path == "links" {
                let entries = self.entries(file, &item, LINK_KEYS, MAX_LINKS);
                merge(&mut self.loaded.config.links, entries, |link: &LinkEntry| &link.name);
            } else if path == "switches" {
                let entries = self.entries(file, &item, SWITCH_KEYS, MAX_SWITCHES);
                merge(&mut self.loaded.config.switches, entries, |switch: &SwitchEntry| &switch.name);
            } else if KEYS.iter().any(|key| key.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'))) {
                match &item.node.value {
                    Value::Table(_) => item.table().iter().for_each(|inner| self.table(file, inner)),
                    other => item.refuse(
                        Problem::new(E_PARSE, "", format!("{path} is a table, not {}", other.kind()))
                            .found(other.shown())
                            .allowed("a table")
                            .help(format!("write [{path}] on a line of its own and the keys below it")),
                    ),
                }
            } else {
                table.refuse_key(entry, unknown(&table.item.key, &entry.name));
            }
        }
    }

    fn entries<T: Default + Clone>(&mut self, file: &Path, list: &Item<'_>, keys: &[Key<T>], most: usize) -> Vec<T> {
        let Some(items) = list.list() else { return Vec::new() };
        if items.len() > most {
            let problem = Problem::new(E_LIMIT, "", format!("{} entries in {}", items.len(), list.key));
            list.refuse(problem.allowed(format!("at most {most} entries [[{}]]", list.key)));
            return Vec::new();
        }
        let mut entries = Vec::new();
        for table in items.iter().filter_map(Item::table) {
            let mut owner = T::default();
            for (entry, item) in table.entries() {
                if let Some(key) = keys.iter().find(|key| key.path == entry.name) {
                    set(&mut owner, key, &item);
                } else if let Some((known, place)) = moved_from(&list.key, &entry.name) {
                    table.refuse_key(entry, moved(known, place));
                } else {
                    table.refuse_key(entry, unknown_key(&entry.name, &list.key, keys.iter().map(|key| key.path)));
                }
            }
            for required in keys.iter().filter(|key| is_required(key.path)) {
                if !table.has(required.path) {
                    table.missing(required.path, &required.rule.allowed());
                }
            }
            self.note(file, &list.key, &table.item);
            if let Some(Value::Text(name)) =
                table.entries().find(|(entry, _)| entry.name == "name").map(|(_, item)| &item.node.value)
            {
                self.note(file, &format!("{}.{name}", list.key), &table.item);
            }
            entries.push(owner);
        }
        entries
    }

    fn note(&mut self, file: &Path, path: &str, item: &Item<'_>) {
        let line = item.collector.source().locate(item.node.span.clone()).line;
        self.loaded.origins.insert(path.to_owned(), Origin { file: file.to_owned(), line });
    }
}

/// Where a key of a list's entries has gone, if it was there once.
fn moved_from(list: &str, name: &str) -> Option<&'static (&'static str, &'static str)> {
    MOVED.iter().find(|(known, _)| known.strip_prefix(list).and_then(|rest| rest.strip_prefix('.')) == Some(name))
}

fn moved(key: &str, place: &str) -> Problem {
    Problem::new(E_MOVED, "", format!("{key} is elsewhere in this version")).help(place)
}

/// A key that no table has; it may be right and only stand in the wrong one.
fn unknown(table: &str, name: &str) -> Problem {
    let inside = |key: &'static str| {
        let rest = if table.is_empty() { Some(key) } else { key.strip_prefix(table)?.strip_prefix('.') };
        rest.map(|rest| rest.split('.').next().unwrap_or(rest))
    };
    let mut known: Vec<&str> = KEYS.iter().filter_map(|key| inside(key.path)).collect();
    known.extend(["links", "switches"].into_iter().filter(|_| table.is_empty()));
    known.dedup();
    let problem = unknown_key(name, table, known.into_iter());
    match KEYS.iter().find(|key| key.path.rsplit('.').next() == Some(name)) {
        Some(key) if problem.help.is_empty() => problem.help(format!("the key is {}", key.path)),
        _ => problem,
    }
}

fn set<T: Default>(owner: &mut T, key: &Key<T>, item: &Item<'_>) {
    let Err(refusal) = (key.set)(owner, &item.node.value, &key.rule) else { return };
    let seen = item.node.value.shown();
    let (code, message) = match refusal {
        Refusal::Type => (E_PARSE, format!("{} is {}, not {}", item.key, key.kind, item.node.value.kind())),
        Refusal::Range => (E_RANGE, format!("{} is out of range", item.key)),
    };
    let allowed = key.rule.in_words(key.kind);
    let default = (key.get)(&T::default());
    let name = key.path.rsplit('.').next().unwrap_or(key.path);
    let unit_written = seen.trim_matches('"').starts_with(|c: char| c.is_ascii_digit()) && seen.starts_with('"');
    let help = if refusal == Refusal::Type && unit_written && !key.unit.is_empty() {
        format!("the unit is in the key's name: write a bare number of {} (gbps is 10^9 bit/s here)", key.unit)
    } else if default.is_empty() || default == "\"\"" {
        format!("leave {name} out for its default")
    } else {
        format!("write {name} = {default} (default)")
    };
    item.refuse(Problem::new(code, "", message).found(seen).allowed(allowed).help(help));
}

fn merge<T>(into: &mut Vec<T>, entries: Vec<T>, name: impl Fn(&T) -> &String) {
    for entry in entries {
        match into.iter_mut().find(|old| name(old) == name(&entry)) {
            Some(old) => *old = entry,
            None => into.push(entry),
        }
    }
}
