//! What this daemon changed outside itself, so that it is undone at the end, after a crash, and by `sluiced cleanup`.
//!
//! One small file in the run directory, written as `crate::stored` does. A torn or foreign one is ignored. Writing it waits
//! for the disk: the deciding loop leaves that to the keeper (`agent::sysctls`), but for its start, when nothing is decided
//! yet and whoever started it waits for 30 s at most.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sluice_ebpf::sysctl::{self, Applied, Change};

/// Bytes of a journal at most.
const MAX_BYTES: u64 = 64 << 10;

#[derive(Debug, Default, Serialize, Deserialize)]
struct File {
    schema: u32,
    sysctls: Vec<Entry>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    key: String,
    old: String,
    new: String,
}

/// The journal of one run directory.
#[derive(Clone, Debug)]
pub struct Journal {
    path: PathBuf,
}

impl Journal {
    /// The journal in this run directory.
    pub fn new(run_dir: &Path) -> Journal {
        Journal { path: run_dir.join("changes.json") }
    }

    /// Changes that an earlier process made and did not undo.
    pub fn read(&self) -> Vec<Change> {
        let small = std::fs::symlink_metadata(&self.path).is_ok_and(|m| m.is_file() && m.len() <= MAX_BYTES);
        let text = if small { std::fs::read_to_string(&self.path).unwrap_or_default() } else { String::new() };
        let file: File = serde_json::from_str(&text).unwrap_or_default();
        // Only names that the daemon itself ever changes: the file is no way to write elsewhere.
        let known = |entry: &Entry| ["tcp_tso_rtt_log", "tcp_wmem"].contains(&entry.key.as_str());
        let entries = file.sysctls.into_iter().filter(|entry| file.schema == 1 && known(entry));
        entries.map(|entry| Change { key: entry.key, old: entry.old, new: entry.new }).collect()
    }

    /// Changes the sysctls that exact pacing needs and notes them, those noted before included.
    pub fn apply(&self) {
        self.apply_by(sysctl::apply);
    }

    /// The same, where this changes them.
    pub(crate) fn apply_by(&self, apply: impl FnOnce() -> Applied) {
        let mut changes = self.read();
        let Applied { changes: new, errors } = apply();
        for error in errors {
            tracing::warn!(
                event = "sysctl-refused",
                cost = "rates below 100 Mbit/s are off",
                next = "sluice doctor; or write enforce.sysctls = false and set them yourself",
                "{error}"
            );
        }
        for change in new {
            tracing::info!(
                event = "sysctl-set",
                key = change.key,
                from = change.old,
                to = change.new,
                "a sysctl was set"
            );
            changes.retain(|known| known.key != change.key);
            changes.push(change);
        }
        self.write(&changes);
    }

    /// Undoes everything noted. Returns a sentence for each change that was left.
    pub fn restore(&self) -> Vec<String> {
        self.restore_by(sysctl::restore)
    }

    /// The same, where this undoes it.
    pub(crate) fn restore_by(&self, restore: impl FnOnce(&[Change]) -> Vec<String>) -> Vec<String> {
        let left = restore(&self.read());
        self.write(&[]);
        left
    }

    fn write(&self, changes: &[Change]) {
        if changes.is_empty() {
            let _ = std::fs::remove_file(&self.path); // Absent is as good.
            return;
        }
        let entry = |c: &Change| Entry { key: c.key.clone(), old: c.old.clone(), new: c.new.clone() };
        let file = File { schema: 1, sysctls: changes.iter().map(entry).collect() };
        crate::rundir::replace(&self.path, &file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promises: P-8, P-38
    #[test]
    fn what_was_noted_is_read_back_and_anything_else_is_ignored() {
        let dir = tempfile::tempdir().expect("a directory");
        let journal = Journal::new(dir.path());
        let change = Change { key: "tcp_tso_rtt_log".into(), old: "9".into(), new: "0".into() };
        journal.write(std::slice::from_ref(&change));
        assert_eq!(journal.read(), [change]);
        for text in
            ["", "{", r#"{"schema":2,"sysctls":[]}"#, r#"{"schema":1,"sysctls":[{"key":"../x","old":"1","new":"2"}]}"#]
        {
            std::fs::write(dir.path().join("changes.json"), text).expect("written");
            assert_eq!(journal.read(), [], "{text}");
        }
        journal.write(&[]);
        assert!(!dir.path().join("changes.json").exists());
    }
}
