//! The fleet's word in the state directory: the last good state, the network as a layer of settings, plans as files.
//!
//! ```text
//! fleet/state.json         the last good state
//! fleet/fleet.toml         topology and switches, read below this host's own files
//! fleet/topology-REV.json  the topology of a revision; fleet.toml says which one counts
//! fleet/plans/NAME.json    plans, for jobs to name in SLUICE_PLAN
//! ```
//!
//! There is always a whole file ([`crate::stored`]). A disk that is full costs what a restart would remember, and is told in
//! the log.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use sluice_fleet::Revision;
use sluice_fleet::key::{Name, Space};
use sluice_fleet::view::{MAX_KEPT, View};
use sluice_formats::file;
use sluice_formats::problem::{E_MISSING, Problems};

/// The layer of settings.
pub const LAYER: &str = "fleet.toml";
const STATE: &str = "state.json";
const PLANS: &str = "plans";

#[derive(Clone, Debug)]
pub struct Disk {
    dir: PathBuf,
}

/// The layer before, to be put back; `None`: there was none.
#[derive(Debug, PartialEq, Eq)]
pub struct Before(Option<Vec<u8>>);

impl Disk {
    pub fn new(dir: PathBuf) -> Disk {
        Disk { dir }
    }

    /// The last good state; nothing heard yet if there is no file.
    ///
    /// # Errors
    /// There is one, and it cannot be read.
    pub fn read(&self, space: Space, group: Name) -> Result<View, Problems> {
        let path = self.dir.join(STATE);
        match file::load(&path, MAX_KEPT) {
            Ok(bytes) => View::read(space, group, &bytes, &path.display().to_string()),
            Err(problems) if problems.code() == E_MISSING => Ok(View::new(space, group)),
            Err(problems) => Err(problems),
        }
    }

    /// Keeps the state, and the plans in it as files.
    pub async fn keep(&self, view: &View) {
        let Some(text) = view.write() else { return };
        let plans: Vec<(String, Vec<u8>)> =
            view.plans().map(|(name, bytes)| (name.to_string(), bytes.to_vec())).collect();
        self.work(move |dir| {
            let written = write(&dir.join(STATE), text.as_bytes()).and_then(|()| write_plans(&dir.join(PLANS), &plans));
            if let Err(error) = written {
                tracing::warn!(
                    event = "fleet-kept",
                    %error,
                    cost = "after a restart this host is as the fleet had it earlier, until etcd is heard",
                    next = "room for the daemon's state directory, and the right to write there",
                    "the fleet's word cannot be kept in {}",
                    dir.display()
                );
            }
        })
        .await;
    }

    /// Lays the fleet's network as a layer of settings; what was there before, or `None` if nothing changes.
    ///
    /// # Errors
    /// It cannot be written.
    pub async fn lay(&self, view: &View) -> Result<Option<Before>, String> {
        let topology = view.topology().map(|(revision, bytes)| (revision, bytes.to_vec()));
        let layer = layer(&self.dir, topology.as_ref().map(|(revision, _)| *revision), view);
        let laid = move |dir: &Path| -> io::Result<Option<Before>> {
            let path = dir.join(LAYER);
            let before = match std::fs::read(&path) {
                Ok(bytes) => Some(bytes),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(error),
            };
            let whole = topology.as_ref().is_none_or(|(revision, _)| dir.join(topology_name(*revision)).is_file());
            if before.as_deref().unwrap_or_default() == layer.as_bytes() && whole {
                return Ok(None);
            }
            if let Some((revision, bytes)) = &topology {
                write(&dir.join(topology_name(*revision)), bytes)?;
            }
            if layer.is_empty() {
                remove(&path)?
            } else {
                write(&path, layer.as_bytes())?
            }
            Ok(Some(Before(before)))
        };
        let why = |error: io::Error| format!("{}: {error}", self.dir.display());
        self.work(laid).await.unwrap_or_else(|| Err(io::Error::other("the daemon ends"))).map_err(why)
    }

    /// Puts the layer before back.
    pub async fn undo(&self, Before(before): Before) {
        self.work(move |dir| {
            let path = dir.join(LAYER);
            let undone = before.map_or_else(|| remove(&path), |bytes| write(&path, &bytes));
            if let Err(error) = undone {
                tracing::warn!(
                    event = "fleet-kept",
                    %error,
                    cost = "at its next start this daemon leaves the fleet's network out",
                    next = "remove the file and reload",
                    "{} cannot be put back",
                    path.display()
                );
            }
        })
        .await;
    }

    /// Removes topologies that do not count any more.
    pub async fn sweep(&self) {
        self.work(|dir| {
            let layer = std::fs::read_to_string(dir.join(LAYER)).unwrap_or_default();
            let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
            for entry in entries {
                let name = entry.file_name().to_string_lossy().into_owned();
                if name.starts_with("topology-") && !layer.contains(&name) {
                    let _ = std::fs::remove_file(entry.path()); // One that stays is removed the next time.
                }
            }
        })
        .await;
    }

    /// On a thread that may wait for the disk.
    async fn work<T: Send + 'static>(&self, work: impl FnOnce(&Path) -> T + Send + 'static) -> Option<T> {
        let dir = self.dir.clone();
        tokio::task::spawn_blocking(move || work(&dir)).await.ok()
    }
}

fn topology_name(revision: Revision) -> String {
    format!("topology-{revision}.json")
}

/// The settings; empty: the fleet has no network.
fn layer(dir: &Path, topology: Option<Revision>, view: &View) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    if let Some(revision) = topology {
        let path = dir.join(topology_name(revision)).display().to_string();
        let _ = writeln!(text, "topology = {}", crate::config::value::quoted(&path));
    }
    for switch in view.switches() {
        let (name, address, transport) = (&switch.name, &switch.address, switch.transport.as_str());
        let _ =
            write!(text, "\n[[switches]]\nname = \"{name}\"\naddress = \"{address}\"\ntransport = \"{transport}\"\n");
    }
    if text.is_empty() {
        text
    } else {
        format!("# Written by sluiced as etcd has it: what is changed here is lost.\n{text}")
    }
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(dir)?;
    crate::stored::replace(path, bytes)
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn write_plans(dir: &Path, plans: &[(String, Vec<u8>)]) -> io::Result<()> {
    let wanted: BTreeSet<String> = plans.iter().map(|(name, _)| format!("{name}.json")).collect();
    for (name, bytes) in plans {
        let path = dir.join(format!("{name}.json"));
        if std::fs::read(&path).ok().as_deref() != Some(bytes.as_slice()) {
            write(&path, bytes)?;
        }
    }
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        if !wanted.contains(&*entry.file_name().to_string_lossy()) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use sluice_fleet::key::Key;
    use sluice_fleet::value::{self, SwitchValue};
    use sluice_fleet::view::{Heard, Raw};
    use sluice_wire::snapshot::Transport;

    use super::*;

    const TOPOLOGY: &str = r#"{"sluice_topology":1,"nodes":[{"id":"a","kind":"host"},{"id":"b","kind":"host"}],"links":[{"from":"a","to":"b","capacity":"25Gbit/s","duplex":true}]}"#;

    fn name(text: &str) -> Name {
        Name::parse(text).expect("a name")
    }

    fn space() -> Space {
        Space::new("/sluice", "train")
    }

    fn view(revision: u64, keys: &[(Key, String)]) -> View {
        let mut view = View::new(space(), name("rack1"));
        let raw = |(key, value): &(Key, String)| Raw {
            name: space().name(key),
            value: Some(value.clone().into_bytes()),
            revision: Revision(revision),
        };
        let keys = keys.iter().map(raw).collect();
        view.hear(Heard::Whole { etcd: 1, revision: Revision(revision), keys, more: false });
        assert!(view.faults().is_empty(), "{:?}", view.faults());
        view
    }

    #[tokio::test]
    async fn a_network_is_laid_undone_and_swept() {
        let dir = tempfile::tempdir().expect("a directory");
        let disk = Disk::new(dir.path().join("fleet"));
        let switch = SwitchValue { name: name("leaf-1"), address: "[fd00::1]:9604".into(), transport: Transport::Udp };
        let keys = [(Key::Topology, TOPOLOGY.to_owned()), (Key::Switches, value::write_switches(&[switch]))];
        assert_eq!(disk.lay(&view(4, &[])).await, Ok(None));
        let before = disk.lay(&view(5, &keys)).await.expect("written").expect("news");
        assert_eq!(before, Before(None));
        assert_eq!(disk.lay(&view(5, &keys)).await, Ok(None));
        let mut reader = crate::config::read::Reader::default();
        reader.file(&disk.dir.join(LAYER));
        let (loaded, problems) = reader.parts();
        assert_eq!((problems.len(), loaded.config.switches.len()), (0, 1), "{problems:?}");
        assert_eq!(loaded.config.topology, Some(disk.dir.join("topology-5.json")));
        // A later one that is refused leaves the one before, with its file.
        let later = disk.lay(&view(7, &keys)).await.expect("written").expect("news");
        disk.undo(later).await;
        disk.sweep().await;
        assert!(disk.dir.join("topology-5.json").is_file() && !disk.dir.join("topology-7.json").exists());
        disk.undo(before).await;
        assert!(!disk.dir.join(LAYER).exists());
    }

    /// Promises: P-38
    #[tokio::test]
    async fn the_state_is_kept_and_plans_are_files() {
        let dir = tempfile::tempdir().expect("a directory");
        let disk = Disk::new(dir.path().join("fleet"));
        assert_eq!(disk.read(space(), name("rack1")).expect("no file").write(), None);
        let first = view(5, &[(Key::Topology, TOPOLOGY.to_owned())]);
        disk.keep(&first).await;
        let read = disk.read(space(), name("rack1")).expect("its own file");
        assert_eq!((read.topology(), read.revision()), (first.topology(), Revision(5)));
        write_plans(&disk.dir.join(PLANS), &[("ring".into(), b"{}".to_vec())]).expect("written");
        assert!(disk.dir.join("plans/ring.json").is_file());
        disk.keep(&first).await;
        assert!(!disk.dir.join("plans/ring.json").exists());
        let second = view(6, &[]);
        let [old, new] = [&first, &second].map(|view| view.write().expect("something"));
        for content in crate::stored::crash::after_any_crash(Some(old.as_bytes()), new.as_bytes()) {
            std::fs::write(disk.dir.join(STATE), content.expect("there was one")).expect("written");
            let read = disk.read(space(), name("rack1")).expect("a whole one");
            assert!([first.revision(), second.revision()].contains(&read.revision()), "{:?}", read.revision());
        }
        std::fs::write(disk.dir.join(STATE), "{").expect("written");
        assert_eq!(disk.read(space(), name("rack1")).expect_err("broken").code(), "E_PARSE");
    }
}
