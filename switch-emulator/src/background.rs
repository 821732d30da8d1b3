//! Unmanaged load per link, from a file that something else keeps up to date (from interface counters, gNMI, sFlow).
//!
//! The file is JSON: `[{"switch": "leaf0", "port": 3, "gbps": 1.25}, …]`, wire rates. It is read again whenever it
//! changed; one that cannot be read leaves the last loads in force.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Deserialize;
use sluice_schedule::Rate;

use crate::quiet::Quiet;

/// Bytes of a file at most.
const BYTES: u64 = 4 << 20;

/// Switch, port and wire rate, of every link named.
pub type Loads = Vec<(String, u32, Rate)>;

/// A file and when it last changed.
#[derive(Debug)]
pub struct Background {
    path: PathBuf,
    read: Option<(SystemTime, u64)>,
    quiet: Quiet,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Load {
    switch: String,
    port: u32,
    gbps: f64,
}

impl Background {
    /// A file not read yet.
    pub fn new(path: &Path) -> Background {
        Background { path: path.to_owned(), read: None, quiet: Quiet::default() }
    }

    /// Switch, port and wire rate of every entry, if the file changed since the last call and can be read.
    pub fn changed(&mut self) -> Option<Loads> {
        match self.read_changed() {
            Ok(loads) => loads,
            Err(why) => {
                let path = self.path.display();
                self.quiet.say("background-unreadable", || {
                    tracing::warn!(event = "background-unreadable", %path, why, "the last unmanaged loads stay in force");
                });
                None
            }
        }
    }

    fn read_changed(&mut self) -> Result<Option<Loads>, String> {
        let meta = std::fs::metadata(&self.path).map_err(|e| e.to_string())?;
        let version = (meta.modified().map_err(|e| e.to_string())?, meta.len());
        if self.read == Some(version) {
            return Ok(None);
        }
        if meta.len() > BYTES {
            return Err(format!("{} bytes; allowed 0 to {BYTES}", meta.len()));
        }
        let text = std::fs::read(&self.path).map_err(|e| e.to_string())?;
        let loads: Vec<Load> = serde_json::from_slice(&text).map_err(|e| e.to_string())?;
        if let Some(bad) = loads.iter().find(|load| !(0.0..=100_000.0).contains(&load.gbps)) {
            return Err(format!("gbps of {} port {} is {}; allowed 0 to 100000", bad.switch, bad.port, bad.gbps));
        }
        self.read = Some(version);
        Ok(Some(loads.into_iter().map(|load| (load.switch, load.port, Rate((load.gbps * 1e9) as u64))).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_when_it_changed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("load.json");
        let mut background = Background::new(&path);
        assert_eq!(background.changed(), None);
        std::fs::write(&path, r#"[{"switch": "s0", "port": 1, "gbps": 0.5}]"#).unwrap();
        assert_eq!(background.changed(), Some(vec![("s0".into(), 1, Rate::mbps(500))]));
        assert_eq!(background.changed(), None);
        std::fs::write(&path, r#"[{"switch": "s0", "port": 1, "gbps": -0.5}]"#).unwrap();
        assert_eq!(background.changed(), None);
        std::fs::write(&path, "[]").unwrap();
        assert_eq!(background.changed(), Some(vec![]));
    }
}
