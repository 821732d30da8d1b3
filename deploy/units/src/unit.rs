//! Unit files: read strictly, with their drop-ins. What a directive does is nobody's business here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use caps::Capability;

use crate::directives::{self, Kind};
use crate::value::{self, Limit};

/// Why a unit file is not taken.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum UnitError {
    /// It cannot be read.
    #[error("{path}: {why}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        why: String,
    },
    /// A line that is no section, comment or directive.
    #[error("{path}:{line}: {text:?} is neither [Section] nor Key=value", path = path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What it says.
        text: String,
    },
    /// A directive that nobody here carries out.
    #[error(
        "{path}:{line}: [{section}] {key}= is not known: say in deploy/units/src/directives.rs what it takes, and carry it out",
        path = path.display()
    )]
    Unknown {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The section.
        section: String,
        /// The directive.
        key: String,
    },
    /// A directive that does not take this.
    #[error("{path}:{line}: {key}={seen}: it takes {allowed}", path = path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The directive.
        key: String,
        /// What it was given.
        seen: String,
        /// What it takes.
        allowed: String,
    },
}

/// A unit: its directives by section and name, with the values of all files in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unit(BTreeMap<(String, String), Vec<String>>);

impl Unit {
    /// Reads a unit and then its drop-ins, in this order.
    ///
    /// # Errors
    /// [`UnitError`]: the first line that is not understood.
    pub fn read(file: &Path, drop_ins: &[PathBuf]) -> Result<Unit, UnitError> {
        let mut unit = Unit::default();
        for path in std::iter::once(file).chain(drop_ins.iter().map(PathBuf::as_path)) {
            let text = std::fs::read_to_string(path)
                .map_err(|e| UnitError::File { path: path.to_owned(), why: e.to_string() })?;
            unit.add(path, &text)?;
        }
        Ok(unit)
    }

    /// Adds a file's text; `path` is for messages.
    ///
    /// # Errors
    /// As [`Unit::read`].
    pub fn add(&mut self, path: &Path, text: &str) -> Result<(), UnitError> {
        let mut section = "";
        for (at, line) in text.lines().enumerate().map(|(at, line)| (at + 1, line.trim())) {
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                section = name;
                continue;
            }
            let bad = || UnitError::Line { path: path.to_owned(), line: at, text: line.to_owned() };
            let (key, seen) = line.split_once('=').ok_or_else(bad)?;
            // A line that goes on in the next one would be read as two.
            if section.is_empty() || key.trim() != key || seen.ends_with('\\') {
                return Err(bad());
            }
            let seen = seen.trim();
            let unknown = || UnitError::Unknown {
                path: path.to_owned(),
                line: at,
                section: section.to_owned(),
                key: key.to_owned(),
            };
            let (kind, _) = directives::find(section, key).ok_or_else(unknown)?;
            check(kind, seen).map_err(|allowed| UnitError::Value {
                path: path.to_owned(),
                line: at,
                key: key.to_owned(),
                seen: seen.to_owned(),
                allowed,
            })?;
            let values = self.0.entry((section.to_owned(), key.to_owned())).or_default();
            match kind {
                Kind::Words | Kind::Lines if seen.is_empty() => values.clear(),
                // An empty set of capabilities is one: none at all.
                Kind::Capabilities if seen.is_empty() => *values = vec![String::new()],
                Kind::Words | Kind::Lines | Kind::Capabilities => values.push(seen.to_owned()),
                _ => *values = vec![seen.to_owned()],
            }
        }
        Ok(())
    }

    /// Every value of a directive, in order.
    pub fn all(&self, section: &str, key: &str) -> &[String] {
        self.0.get(&(section.to_owned(), key.to_owned())).map_or(&[], Vec::as_slice)
    }

    /// A directive of `[Service]` that has one value.
    pub fn one(&self, key: &str) -> Option<&str> {
        self.all("Service", key).last().map(String::as_str)
    }

    /// Is a directive of `[Service]` switched on?
    pub fn yes(&self, key: &str) -> bool {
        self.one(key) == Some("yes")
    }

    /// The words of all values of a directive of `[Service]`.
    pub fn words(&self, key: &str) -> impl Iterator<Item = &str> {
        self.all("Service", key).iter().flat_map(|value| value.split_whitespace())
    }

    /// The capabilities that a directive of `[Service]` names; `None`: it is not there.
    pub fn capabilities(&self, key: &str) -> Option<Vec<Capability>> {
        let values = self.all("Service", key);
        if values.is_empty() { None } else { value::capabilities(&values.join(" ")) }
    }

    /// A limit of `[Service]`.
    pub fn limit(&self, key: &str) -> Option<Limit> {
        self.one(key).and_then(Limit::read)
    }

    /// A time of `[Service]`.
    pub fn time(&self, key: &str) -> Option<std::time::Duration> {
        self.one(key).and_then(value::time)
    }

    /// Every directive that is there, with its section.
    pub fn directives(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.keys().map(|(section, key)| (section.as_str(), key.as_str()))
    }
}

/// Is this a value of that kind? Otherwise what it takes.
fn check(kind: Kind, seen: &str) -> Result<(), String> {
    let (good, allowed) = match kind {
        Kind::Text => (!seen.is_empty(), "a text"),
        Kind::Words | Kind::Lines => (true, ""),
        Kind::Yes => (["yes", "no"].contains(&seen), "yes or no"),
        Kind::Number => (seen.parse::<i64>().is_ok(), "a whole number"),
        Kind::Time => (value::time(seen).is_some(), "a time such as 10s or 100ms"),
        Kind::Size => (value::size(seen).is_some(), "bytes such as 512M, or infinity"),
        Kind::Limit => (Limit::read(seen).is_some(), "SOFT:HARD or one value, of numbers, times or infinity"),
        Kind::Capabilities => (value::capabilities(seen).is_some(), "capabilities such as CAP_BPF"),
        Kind::OneOf(list) => {
            return if list.contains(&seen) { Ok(()) } else { Err(format!("one of {}", list.join(", "))) };
        }
    };
    if good { Ok(()) } else { Err(allowed.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Unit, UnitError> {
        let mut unit = Unit::default();
        unit.add(Path::new("x.service"), text).map(|()| unit)
    }

    #[test]
    fn lists_grow_by_lines_and_begin_anew_after_an_empty_one() {
        let unit = read("[Service]\nSystemCallFilter=@system-service\nSystemCallFilter=~@mount\nUser=a\nUser=b\n")
            .expect("a unit");
        assert_eq!(unit.all("Service", "SystemCallFilter"), ["@system-service", "~@mount"]);
        assert_eq!(unit.one("User"), Some("b"), "the last one counts");
        let unit = read("[Service]\nReadWritePaths=/a /b\nReadWritePaths=\nReadWritePaths=/c\n").expect("a unit");
        assert_eq!(unit.words("ReadWritePaths").collect::<Vec<_>>(), ["/c"]);
        let unit = read("[Service]\nAmbientCapabilities=CAP_BPF\nAmbientCapabilities=CAP_NET_RAW\n").expect("a unit");
        assert_eq!(unit.capabilities("AmbientCapabilities").map(|set| set.len()), Some(2));
        assert_eq!(unit.capabilities("CapabilityBoundingSet"), None);
        let unit = read("[Service]\nCapabilityBoundingSet=\n").expect("a unit");
        assert_eq!(unit.capabilities("CapabilityBoundingSet"), Some(Vec::new()), "none at all");
    }

    #[test]
    fn what_is_not_known_is_an_error_that_says_where() {
        for (text, part) in [
            ("[Service]\nProtectEverything=yes\n", "x.service:2: [Service] ProtectEverything="),
            ("[Unit]\nUser=sluice\n", "[Unit] User="),
            ("User=sluice\n", "neither"),
            ("[Service]\nUser\n", "neither"),
            ("[Service]\nExecStart=/bin/a \\\n", "neither"),
            ("[Service]\nNoNewPrivileges=maybe\n", "it takes yes or no"),
            ("[Service]\nProtectSystem=full\n", "one of strict"),
            ("[Service]\nLimitNOFILE=many\n", "SOFT:HARD"),
            ("[Service]\nAmbientCapabilities=CAP_BFP\n", "capabilities such as"),
        ] {
            let error = read(text).expect_err(text).to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
