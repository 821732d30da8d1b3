//! The last good state as a file, so that a host that starts while etcd is away begins as it ended.
//!
//! Values are judged again when the file is read: it may be of another version, or half of it may be somebody else's.

use serde::{Deserialize, Serialize};
use sluice_formats::problem::{E_PARSE, E_VERSION, Problem, Problems};

use super::{Item, View};
use crate::Revision;
use crate::key::{Key, MAX_TOTAL, Name, Space};
use crate::value::{VERSION, Value};

/// Bytes of the file at most: every byte of a value may take six in JSON, and few do.
pub const MAX_KEPT: u64 = 4 * MAX_TOTAL as u64;

#[derive(Serialize, Deserialize)]
struct File {
    version: u64,
    /// The beginning of the keys' names: another cluster's state is nobody's here.
    space: String,
    etcd: u64,
    revision: u64,
    epoch: u64,
    items: Vec<Kept>,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    key: String,
    revision: u64,
    value: String,
}

impl View {
    /// The last good state as a text; `None` while there is none.
    pub fn write(&self) -> Option<String> {
        let kept = |(key, item): (&Key, &Item)| {
            let value = String::from_utf8(item.bytes.clone()).ok()?;
            Some(Kept { key: key.to_string(), revision: item.revision.0, value })
        };
        let file = File {
            version: VERSION,
            space: self.space.all().to_owned(),
            etcd: self.etcd?,
            revision: self.revision.0,
            epoch: self.epoch,
            items: self.items.iter().filter_map(kept).collect(),
        };
        serde_json::to_string_pretty(&file).ok()
    }

    /// The state that a text holds, for a host of this cluster and group.
    ///
    /// # Errors
    /// The text is no such state. A value in it that is no longer good is left out instead.
    pub fn read(space: Space, group: Name, bytes: &[u8], name: &str) -> Result<View, Problems> {
        let refuse = |problem: Problem| Problems::from(problem.in_file(name));
        let file: File = serde_json::from_slice(bytes)
            .map_err(|error| refuse(Problem::new(E_PARSE, "", format!("not the kept state of a fleet: {error}"))))?;
        if file.version != VERSION {
            let problem = Problem::new(E_VERSION, "/version", "another version's").found(file.version.to_string());
            return Err(refuse(problem.allowed(VERSION.to_string())));
        }
        let mut view = View::new(space, group);
        if file.space != view.space.all() {
            return Ok(view);
        }
        (view.etcd, view.revision, view.epoch) = (Some(file.etcd), Revision(file.revision), file.epoch);
        for Kept { key, revision, value } in file.items {
            let Some(key) = Key::parse(&key) else { continue };
            let foreign = matches!(&key, Key::Mode(group) if *group != view.group);
            if let Ok(read) = Value::read(&key, value.as_bytes()).map_err(drop)
                && !foreign
            {
                view.items.insert(key, Item { revision: Revision(revision), bytes: value.into_bytes(), value: read });
            }
        }
        Ok(view)
    }
}
