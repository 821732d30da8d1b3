//! The directory of a scoreboard: one file a run. A file has its name only once all of it is on the disk.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use sluice_report::scoreboard::{Bound, Record};

use super::turns::Key;
use crate::run::RunError;

/// The directory.
#[derive(Debug)]
pub(super) struct Store {
    dir: PathBuf,
}

impl Store {
    /// Makes the directory where it is missing.
    pub(super) fn open(dir: &Path) -> Result<Store, RunError> {
        std::fs::create_dir_all(dir).map_err(RunError::io(format!("creating {}", dir.display())))?;
        Ok(Store { dir: dir.to_owned() })
    }

    pub(super) fn path(&self, key: &Key) -> PathBuf {
        self.dir.join(format!("{}.json", key.file_stem()))
    }

    pub(super) fn bound_path(&self, case: &str) -> PathBuf {
        self.dir.join(format!("{case}.order.json"))
    }

    /// The run of this key, if it is there as a whole and is what its name says.
    pub(super) fn record(&self, key: &Key) -> Option<Record> {
        let record: Record = read(&self.path(key))?;
        let is = Key { case: record.case.clone(), load: record.load, policy: record.policy.clone(), turn: record.turn };
        (is == *key).then_some(record)
    }

    /// What orders come to in the simulator, if it is known.
    pub(super) fn bound(&self, case: &str) -> Option<Bound> {
        read(&self.bound_path(case))
    }

    /// All runs that are there, whoever wanted them.
    pub(super) fn records(&self) -> Result<Vec<Record>, RunError> {
        let reading = || RunError::io(format!("reading {}", self.dir.display()));
        let mut records = Vec::new();
        for entry in std::fs::read_dir(&self.dir).map_err(reading())? {
            let path = entry.map_err(reading())?.path();
            let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            let Some(record) = read::<Record>(&path) else { continue };
            let key =
                Key { case: record.case.clone(), load: record.load, policy: record.policy.clone(), turn: record.turn };
            if key.file_stem() == stem {
                records.push(record);
            }
        }
        Ok(records)
    }

    /// Puts a value into a file that has its name only when it is whole.
    pub(super) fn save(&self, path: &Path, value: &impl Serialize) -> Result<(), RunError> {
        let text = serde_json::to_vec(value).map_err(|e| RunError::io("writing JSON")(e.into()))?;
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        self.put(&name, &text).map(drop)
    }

    /// The same of bytes; where the file is.
    pub(super) fn put(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, RunError> {
        let (path, part) = (self.dir.join(name), self.dir.join(format!(".{name}.{}.part", std::process::id())));
        let written = File::create(&part).and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()));
        let renamed = written.and_then(|()| std::fs::rename(&part, &path));
        renamed.map_err(RunError::io(format!("writing {}", path.display())))?;
        Ok(path)
    }
}

/// `None` for a file that is not there, or not whole.
fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    if path.extension().is_none_or(|ext| ext != "json") {
        return None;
    }
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use sluice_report::scoreboard::Load;

    use super::*;

    fn key(policy: &str, turn: usize) -> Key {
        Key { case: "c".into(), load: Load::Busy, policy: policy.into(), turn }
    }

    fn record(key: &Key) -> Record {
        Record {
            case: key.case.clone(),
            load: key.load,
            policy: key.policy.clone(),
            turn: key.turn,
            seconds: 2.5,
            ..Record::default()
        }
    }

    #[test]
    fn what_is_there_is_found_and_what_is_half_there_is_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Store::open(&dir.path().join("new")).expect("a directory");
        let (whole, half, other) = (key("fair:cubic", 1), key("sluice", 1), key("sluice", 2));
        for key in [&whole, &half] {
            assert_eq!(store.record(key), None);
            store.save(&store.path(key), &record(key)).expect("written");
            assert_eq!(store.record(key), Some(record(key)));
        }
        assert_eq!(store.path(&whole), dir.path().join("new/c.busy.fair-cubic.1.json"));
        // As a disk that was full, or a machine that lost power, leaves it.
        let text = std::fs::read(store.path(&half)).expect("a file");
        std::fs::write(store.path(&half), &text[..text.len() / 2]).expect("written");
        assert_eq!(store.record(&half), None);
        // As an end in the middle of writing leaves it.
        std::fs::write(dir.path().join("new/.c.busy.sluice.2.json.7.part"), &text).expect("written");
        // As somebody who copies files leaves it.
        std::fs::write(store.path(&other), &text).expect("written");
        assert_eq!(store.record(&other), None);
        assert_eq!(store.records().expect("a directory"), [record(&whole)]);
    }

    #[test]
    fn nothing_else_lies_in_the_directory_afterwards() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Store::open(dir.path()).expect("a directory");
        store.save(&store.path(&key("sluice", 1)), &record(&key("sluice", 1))).expect("written");
        store.put("scoreboard.md", b"text").expect("written");
        let bound = Bound { case: "c".into(), ..Bound::default() };
        store.save(&store.bound_path("c"), &bound).expect("written");
        assert_eq!(store.bound("c"), Some(bound));
        let mut names: Vec<String> = std::fs::read_dir(dir.path())
            .expect("a directory")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort_unstable();
        assert_eq!(names, ["c.busy.sluice.1.json", "c.order.json", "scoreboard.md"]);
        assert_eq!(store.records().expect("a directory").len(), 1);
    }
}
