//! From TOML text to settings: layer upon layer, every problem of every file collected, each with its place.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{Code, Problem, Problems, Source, nearest, printable};
use super::keys::{KEYS, Key, LINK_KEYS, NOT_BUILT, SWITCH_KEYS};
use super::settings::{Config, LinkEntry, SwitchEntry};
use super::value::Refusal;

/// A file larger than this is not a configuration.
const MAX_BYTES: u64 = 1 << 20;
/// Problems of one file after which the rest is not worth reading.
const MAX_PROBLEMS: usize = 100;

/// Where a key was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: usize,
}

/// Settings with the place each of them came from; a key without a place has its default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loaded {
    /// The settings.
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
        match read_text(path) {
            Ok(text) => self.text(path, &text),
            Err(problem) => self.problems.push(*problem),
        }
    }
    /// Reads every `*.toml` of a directory in byte order; an absent directory has none.
    pub fn directory(&mut self, dir: &Path) {
        let Ok(entries) = std::fs::read_dir(dir) else { return };
        let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
        files.sort();
        for file in files.iter().take(256) {
            self.file(file);
        }
    }
    /// Reads a text as the next layer.
    pub fn text(&mut self, file: &Path, text: &str) {
        self.loaded.files.push(file.to_owned());
        let source = Source { file, text };
        let (table, errors) = DeTable::parse_recoverable(text);
        let broken = !errors.is_empty();
        for error in errors.into_iter().take(MAX_PROBLEMS) {
            let code = if error.message().contains("duplicate key") { Code::E_DUP } else { Code::E_PARSE };
            let problem = Problem::new(code, "", error.message().trim().to_owned());
            let problem = problem.help("the file must be TOML 1.0; see `sluiced --defaults` for a complete example");
            self.problems.push(problem.at(&source, error.span().unwrap_or(0..0)));
        }
        // What a broken line was meant to set cannot be judged, the rest can.
        let before = self.problems.len();
        self.table(&source, "", table.get_ref());
        if broken {
            self.problems[before..].iter_mut().for_each(|problem| problem.help.clear());
        }
    }
    /// The settings, or everything that is wrong.
    ///
    /// # Errors
    /// [`Problems`] with every problem of every layer.
    pub fn finish(self) -> Result<Loaded, Problems> {
        if self.problems.is_empty() { Ok(self.loaded) } else { Err(Problems(self.problems)) }
    }
    /// Settings so far.
    pub fn config(&self) -> &Config {
        &self.loaded.config
    }
    /// Settings so far and problems so far, for checks that go on.
    pub fn parts(self) -> (Loaded, Vec<Problem>) {
        (self.loaded, self.problems)
    }

    fn table(&mut self, source: &Source<'_>, prefix: &str, table: &DeTable<'_>) {
        for (name, value) in table.iter() {
            if self.problems.len() >= MAX_PROBLEMS {
                return;
            }
            let path = if prefix.is_empty() {
                name.get_ref().to_string()
            } else {
                format!("{prefix}.{name}", name = name.get_ref())
            };
            if let Some(key) = KEYS.iter().find(|key| key.path == path) {
                set(&mut self.loaded.config, key, source, &path, value, &mut self.problems);
                self.note(source, &path, value.span());
            } else if let Some((_, why)) = NOT_BUILT.iter().find(|(known, _)| *known == path) {
                self.problems.push(Problem::new(Code::E_ENV, &path, *why).at(source, name.span()));
            } else if path == "links" {
                let entries = self.entries(source, "links", value, LINK_KEYS, 16);
                merge(&mut self.loaded.config.links, entries, |link: &LinkEntry| &link.name);
            } else if path == "switches" {
                let entries = self.entries(source, "switches", value, SWITCH_KEYS, 32);
                merge(&mut self.loaded.config.switches, entries, |switch: &SwitchEntry| &switch.name);
            } else if KEYS.iter().any(|key| key.path.strip_prefix(&path).is_some_and(|rest| rest.starts_with('.'))) {
                match value.get_ref() {
                    DeValue::Table(inner) => self.table(source, &path, inner),
                    other => self.problems.push(
                        Problem::new(Code::E_RANGE, &path, format!("{path} is a table, not {}", other.type_str()))
                            .found(snippet(source, value.span()))
                            .allowed("a table")
                            .help(format!("write [{path}] on a line of its own and the keys below it"))
                            .at(source, value.span()),
                    ),
                }
            } else {
                self.unknown(source, prefix, name.get_ref(), name.span());
            }
        }
    }

    fn entries<T: Default + Clone>(
        &mut self,
        source: &Source<'_>,
        list: &str,
        value: &Spanned<DeValue<'_>>,
        keys: &[Key<T>],
        most: usize,
    ) -> Vec<T> {
        let wrong = |message: String| {
            Problem::new(Code::E_RANGE, list, message)
                .allowed(format!("at most {most} entries [[{list}]]"))
                .help(format!("write [[{list}]] before each entry"))
                .at(source, value.span())
        };
        let Some(array) = value.get_ref().as_array() else {
            self.problems.push(wrong(format!("{list} is a list of tables")));
            return Vec::new();
        };
        if array.len() > most {
            self.problems.push(wrong(format!("{} entries in {list}", array.len())));
            return Vec::new();
        }
        let mut entries = Vec::new();
        for item in array.iter() {
            let Some(table) = item.get_ref().as_table() else {
                self.problems.push(wrong(format!("an entry of {list} is not a table")));
                continue;
            };
            let mut entry = T::default();
            for (name, value) in table.iter() {
                let path = format!("{list}.{}", name.get_ref());
                if let Some(key) = keys.iter().find(|key| key.path == name.get_ref().as_ref()) {
                    set(&mut entry, key, source, &path, value, &mut self.problems);
                } else if let Some((_, why)) = NOT_BUILT.iter().find(|(known, _)| *known == path) {
                    self.problems.push(Problem::new(Code::E_ENV, &path, *why).at(source, name.span()));
                } else {
                    let names = keys.iter().map(|key| key.path);
                    self.problems.push(
                        unknown_key(&format!("[[{list}]]"), &path, name.get_ref(), names).at(source, name.span()),
                    );
                }
            }
            for required in keys.iter().filter(|key| matches!(key.path, "name" | "address")) {
                if !table.iter().any(|(name, _)| name.get_ref().as_ref() == required.path) {
                    let path = format!("{list}.{}", required.path);
                    let problem =
                        Problem::new(Code::E_MISSING, &path, format!("an entry of {list} has no {}", required.path));
                    self.problems.push(problem.allowed(required.rule.allowed()).at(source, item.span()));
                }
            }
            self.note(source, list, item.span());
            entries.push(entry);
        }
        entries
    }

    fn unknown(&mut self, source: &Source<'_>, prefix: &str, name: &str, span: Range<usize>) {
        let inside = |key: &'static str| {
            let rest = if prefix.is_empty() { Some(key) } else { key.strip_prefix(prefix)?.strip_prefix('.') };
            rest.map(|rest| rest.split('.').next().unwrap_or(rest))
        };
        let known = KEYS.iter().filter_map(|key| inside(key.path));
        let known = known.chain(["links", "switches"].into_iter().filter(|_| prefix.is_empty()));
        let place = if prefix.is_empty() { "the file".to_owned() } else { format!("[{prefix}]") };
        let path = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
        let mut problem = unknown_key(&place, &path, name, known);
        if problem.help.is_empty() {
            // A key may be right and only stand in the wrong table.
            if let Some(key) = KEYS.iter().find(|key| key.path.rsplit('.').next() == Some(name)) {
                problem = problem.help(format!("the key is {}", key.path));
            }
        }
        self.problems.push(problem.at(source, span));
    }

    fn note(&mut self, source: &Source<'_>, path: &str, span: Range<usize>) {
        let line = source.locate(span).0;
        self.loaded.origins.insert(path.to_owned(), Origin { file: source.file.to_owned(), line });
    }
}

fn set<T>(
    owner: &mut T,
    key: &Key<T>,
    source: &Source<'_>,
    path: &str,
    value: &Spanned<DeValue<'_>>,
    problems: &mut Vec<Problem>,
) where
    T: Default,
{
    let Err(refusal) = (key.set)(owner, value.get_ref(), &key.rule) else { return };
    let seen = snippet(source, value.span());
    let message = match refusal {
        Refusal::Type => format!("{path} is {}, not {}", key.kind, value.get_ref().type_str()),
        Refusal::Range => format!("{path} is out of range"),
    };
    let allowed = match key.rule.allowed() {
        any if any == "any" => key.kind.to_owned(),
        rule => rule,
    };
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
    problems.push(
        Problem::new(Code::E_RANGE, path, message).found(seen).allowed(allowed).help(help).at(source, value.span()),
    );
}

fn unknown_key<'a>(place: &str, path: &str, name: &str, known: impl Iterator<Item = &'a str>) -> Problem {
    let name_shown = printable(name, 64);
    match nearest(name, known) {
        Some(near) => {
            Problem::new(Code::E_KEY, path, format!("unknown key `{name_shown}` in {place}; did you mean `{near}`?"))
                .help(format!("write {near}"))
        }
        None => Problem::new(Code::E_KEY, path, format!("unknown key `{name_shown}` in {place}")),
    }
}

fn merge<T>(into: &mut Vec<T>, entries: Vec<T>, name: impl Fn(&T) -> &String) {
    for entry in entries {
        match into.iter_mut().find(|old| name(old) == name(&entry)) {
            Some(old) => *old = entry,
            None => into.push(entry),
        }
    }
}

fn snippet(source: &Source<'_>, span: Range<usize>) -> String {
    printable(source.text.get(span).unwrap_or(""), 60)
}

fn read_text(path: &Path) -> Result<String, Box<Problem>> {
    let refuse = |error: &std::io::Error| {
        let code = if error.kind() == std::io::ErrorKind::PermissionDenied { Code::E_PERM } else { Code::E_MISSING };
        Problem::new(code, "", format!("cannot read the file: {error}"))
            .in_file(path)
            .help("check the path and its owner")
    };
    let meta = std::fs::metadata(path).map_err(|error| Box::new(refuse(&error)))?;
    if !meta.is_file() || meta.len() > MAX_BYTES {
        let problem =
            Problem::new(Code::E_PARSE, "", "not a configuration file").found(format!("{} bytes", meta.len()));
        return Err(Box::new(problem.allowed(format!("a regular file of at most {MAX_BYTES} bytes")).in_file(path)));
    }
    let bytes = std::fs::read(path).map_err(|error| Box::new(refuse(&error)))?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Box::new(Problem::new(Code::E_PARSE, "", format!("not UTF-8 at byte {at}")).in_file(path))
    })
}
