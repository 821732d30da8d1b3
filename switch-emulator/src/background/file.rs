//! Unmanaged load per link, from a file that something else keeps up to date.
//!
//! The file is JSON: `[{"switch": "leaf0", "port": 3, "gbps": 1.25}, …]`, wire rates. It is read again whenever it
//! changed; one that cannot be read leaves the last loads in force.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sluice_formats::document::{Collector, Item, Node, Notation, Table};
use sluice_formats::file;
use sluice_formats::problem::Problems;
use sluice_formats::quantity::{Rational, gbps};
use sluice_schedule::Rate;

use super::PortLoad;
use crate::quiet::Quiet;

/// Bytes of a file at most.
const BYTES: u64 = 4 << 20;

/// A file and when it last changed.
#[derive(Debug)]
pub struct Background {
    path: PathBuf,
    read: Option<(SystemTime, u64)>,
    quiet: Quiet,
}

impl Background {
    /// A file not read yet.
    pub fn new(path: &Path) -> Background {
        Background { path: path.to_owned(), read: None, quiet: Quiet::default() }
    }

    /// Every entry, if the file changed since the last call and can be read.
    pub fn changed(&mut self) -> Option<Vec<PortLoad>> {
        match self.read_changed() {
            Ok(loads) => loads,
            Err(problems) => {
                let (path, why) = (self.path.display(), problems.to_string());
                self.quiet.say("background-unreadable", || {
                    tracing::warn!(
                        event = "background-unreadable",
                        %path,
                        why,
                        cost = "loads that have changed since are not taken into account",
                        next = "mend the file; it is read again as soon as it changes",
                        "the last unmanaged loads stay in force"
                    );
                });
                None
            }
        }
    }

    fn read_changed(&mut self) -> Result<Option<Vec<PortLoad>>, Problems> {
        let version = std::fs::metadata(&self.path).and_then(|meta| Ok((meta.modified()?, meta.len()))).ok();
        if version.is_some() && self.read == version {
            return Ok(None);
        }
        let text = file::load_text(&self.path, BYTES)?;
        let loads = parse(&self.path.display().to_string(), &text)?;
        self.read = version;
        Ok(Some(loads))
    }
}

fn parse(file: &str, text: &str) -> Result<Vec<PortLoad>, Problems> {
    let collector = Collector::new(file, text, Notation::Json);
    let node = Node::parse(&collector);
    let entries = if collector.count() == 0 { Item::root(&node, &collector).list() } else { None };
    let tables = entries.unwrap_or_default().iter().filter_map(Item::table).collect::<Vec<_>>();
    let loads = tables.iter().filter_map(load).collect();
    Problems::of(collector.into_problems()).map_or(Ok(loads), Err)
}

fn load(entry: &Table<'_>) -> Option<PortLoad> {
    for key in ["switch", "port", "gbps"] {
        entry.require(key);
    }
    let (switch, port) = (entry.text("switch"), entry.int32("port", 0..=u32::MAX));
    let rate = entry.number("gbps", &Rational::ZERO, &Rational::from(100_000));
    entry.finish();
    Some(PortLoad { switch: switch?.to_owned(), port: port?, rate: Rate(gbps(rate?).ok()?) })
}

#[cfg(test)]
mod tests {
    use sluice_formats::problem::{E_KEY, E_MISSING, E_PARSE, E_RANGE};

    use super::*;

    #[test]
    fn a_file_is_read_when_it_changed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("load.json");
        let mut background = Background::new(&path);
        assert_eq!(background.changed(), None);
        std::fs::write(&path, r#"[{"switch": "s0", "port": 1, "gbps": 0.5}]"#).unwrap();
        let load = PortLoad { switch: "s0".into(), port: 1, rate: Rate::mbps(500) };
        assert_eq!(background.changed(), Some(vec![load]));
        assert_eq!(background.changed(), None);
        std::fs::write(&path, r#"[{"switch": "s0", "port": 1, "gbps": -0.5}]"#).unwrap();
        assert_eq!(background.changed(), None);
        std::fs::write(&path, "[]").unwrap();
        assert_eq!(background.changed(), Some(vec![]));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let text = r#"[{"switch": "s0", "port": 1, "gbps": 0}, {"switch": "s0", "prot": 2, "gbps": -1}, 7]"#;
        let problems = parse("load.json", text).unwrap_err();
        let told: Vec<_> = problems.all().iter().map(|p| (p.code, p.key.as_str(), p.file.as_str())).collect();
        let expected = [(E_MISSING, "/1/port"), (E_RANGE, "/1/gbps"), (E_KEY, "/1/prot"), (E_PARSE, "/2")];
        assert!(expected.iter().all(|(code, key)| told.contains(&(*code, *key, "load.json"))), "{told:?}");
        assert_eq!(parse("load.json", "{").unwrap_err().code(), E_PARSE);
        assert_eq!(parse("load.json", "{}").unwrap_err().code(), E_PARSE);
        let exact = parse("load.json", r#"[{"switch": "s0", "port": 1, "gbps": 16.4}]"#).unwrap();
        assert_eq!(exact[0].rate, Rate(16_400_000_000));
    }
}
