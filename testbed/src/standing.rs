//! A network that stands until it is taken down: one process keeps it, a file says which, and others run commands in it.
//!
//! Nothing of it has a name in the file system but that file: the namespaces are the keeper's and end with it, also by
//! `kill -9`. Who enters one checks that the process is the one that made it, so that no other's is ever touched.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::fabric::{Fabric, FabricError, FabricSpec};

/// Where standing networks are noted.
pub const DIR: &str = "/run/sluice-testbed";
/// Bytes of a note at most.
const MAX_BYTES: u64 = 4 << 20;
/// For a keeper to end after it was told to.
const END: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(20);

/// Why a standing network could not be made, found or entered.
#[derive(Debug, Error)]
pub enum StandingError {
    /// The network could not be built.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// A file or a system call.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// There is a network of that name already.
    #[error("{name} is up already (process {pid}); take it down first: sluice testbed down {name}")]
    Up {
        /// Its name.
        name: String,
        /// Its keeper.
        pid: i32,
    },
    /// There is none of that name.
    #[error("no network {name} is up{}", known(.others))]
    Down {
        /// The name asked for.
        name: String,
        /// Those that are up.
        others: Vec<String>,
    },
    /// The network has no such node.
    #[error("{network} has no host or switch {node}; it has: {}", .others.join(", "))]
    Node {
        /// Name of the network.
        network: String,
        /// The node asked for.
        node: String,
        /// Those that there are.
        others: Vec<String>,
    },
    /// The keeper did not end.
    #[error("process {pid}, which keeps {name}, has not ended within {} s", END.as_secs())]
    Stuck {
        /// Name of the network.
        name: String,
        /// Its keeper.
        pid: i32,
    },
    /// A name that could be another file's.
    #[error("{0:?} is no name; allowed: 1 to 63 characters of [A-Za-z0-9._-], not beginning with a dot")]
    Name(String),
}

fn known(others: &[String]) -> String {
    if others.is_empty() { String::new() } else { format!("; these are: {}", others.join(", ")) }
}

/// A host or switch of a standing network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandingNode {
    /// Its name.
    pub name: String,
    /// Its address among the others.
    pub address: String,
    /// Its address in the management network.
    pub management: String,
    /// The thread of the keeper that holds its namespace.
    pub tid: i32,
    /// The cgroup for its processes; `None` for a switch.
    pub cgroup: Option<PathBuf>,
}

/// What is noted of a standing network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// Version of this form, 1.
    pub schema: u32,
    /// Its name.
    pub name: String,
    /// The process that keeps it.
    pub pid: i32,
    /// When that process began, as the kernel counts: another one of the same number began later.
    pub began: u64,
    /// The hosts.
    pub hosts: Vec<StandingNode>,
    /// The switches.
    pub switches: Vec<StandingNode>,
}

impl Standing {
    /// Is its keeper the process that made it?
    pub fn is_up(&self) -> bool {
        began(self.pid) == Some(self.began)
    }

    /// The node with this name.
    ///
    /// # Errors
    /// There is none.
    pub fn node(&self, name: &str) -> Result<&StandingNode, StandingError> {
        let all = || self.hosts.iter().chain(&self.switches);
        all().find(|node| node.name == name).ok_or_else(|| StandingError::Node {
            network: self.name.clone(),
            node: name.to_owned(),
            others: all().map(|node| node.name.clone()).collect(),
        })
    }

    /// Replaces this process by a command in the namespace, and the cgroup, of a node. Returns only where that failed.
    pub fn exec(&self, node: &StandingNode, command: &mut Command) -> StandingError {
        let tried = || -> Result<(), std::io::Error> {
            let namespace = File::open(format!("/proc/{}/task/{}/ns/net", self.pid, node.tid))?;
            // The descriptor holds the namespace; whose it is must be asked after it was opened.
            if !self.is_up() {
                return Err(std::io::Error::other("its keeper has just ended"));
            }
            if let Some(cgroup) = &node.cgroup {
                OpenOptions::new().write(true).open(cgroup.join("cgroup.procs"))?.write_all(b"0")?;
            }
            Ok(setns(&namespace, CloneFlags::CLONE_NEWNET)?)
        };
        let source = match tried() {
            Ok(()) => command.exec(),
            Err(error) => error,
        };
        StandingError::Io { what: format!("running a command in {} of {}", node.name, self.name), source }
    }
}

/// When a process began, in the kernel's ticks; `None`: there is none.
fn began(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold anything; what follows its last bracket does not.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    // A zombie keeps nothing.
    (fields.next()? != "Z").then_some(())?;
    fields.nth(18)?.parse().ok()
}

fn io<'a>(what: impl Into<String> + 'a) -> impl FnOnce(std::io::Error) -> StandingError + 'a {
    move |source| StandingError::Io { what: what.into(), source }
}

fn note(dir: &Path, name: &str) -> Result<PathBuf, StandingError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let good = (1..=63).contains(&name.len()) && name.bytes().all(fits) && !name.starts_with('.');
    if good { Ok(dir.join(format!("{name}.json"))) } else { Err(StandingError::Name(name.to_owned())) }
}

/// All networks that are up. Notes of those that are not are taken away.
pub fn all(dir: &Path) -> Vec<Standing> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let small = fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_file() && meta.len() <= MAX_BYTES);
        if !small || path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let read = fs::read_to_string(&path).ok().and_then(|text| serde_json::from_str::<Standing>(&text).ok());
        match read {
            Some(standing) if standing.is_up() => found.push(standing),
            Some(_) => drop(fs::remove_file(&path)),
            None => {} // Somebody else's.
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// The network of this name.
///
/// # Errors
/// None is up.
pub fn find(dir: &Path, name: &str) -> Result<Standing, StandingError> {
    note(dir, name)?;
    let all = all(dir);
    let others = all.iter().map(|standing| standing.name.clone()).collect();
    all.into_iter()
        .find(|standing| standing.name == name)
        .ok_or_else(|| StandingError::Down { name: name.to_owned(), others })
}

/// Builds a network, notes it, and keeps it until `stop`.
///
/// # Errors
/// It cannot be built or noted, or is up already.
pub fn keep(dir: &Path, name: &str, spec: FabricSpec, stop: &AtomicBool) -> Result<(), StandingError> {
    let path = note(dir, name)?;
    if let Ok(other) = find(dir, name) {
        return Err(StandingError::Up { name: name.to_owned(), pid: other.pid });
    }
    fs::DirBuilder::new().recursive(true).mode(0o755).create(dir).map_err(io(format!("making {}", dir.display())))?;
    let fabric = Fabric::build(spec)?;
    let node = |node: &crate::fabric::Node, cgroup: Option<&crate::fabric::Cgroup>| StandingNode {
        name: node.name.clone(),
        address: node.address.to_string(),
        management: node.management.to_string(),
        tid: node.ns.tid(),
        cgroup: cgroup.map(|cgroup| cgroup.path().to_owned()),
    };
    let pid = std::process::id().try_into().unwrap_or(0);
    let standing = Standing {
        schema: 1,
        name: name.to_owned(),
        pid,
        began: began(pid).unwrap_or(0),
        hosts: fabric.hosts.iter().enumerate().map(|(at, host)| node(host, Some(fabric.cgroups.jobs(at)))).collect(),
        switches: fabric.switches.iter().map(|switch| node(switch, None)).collect(),
    };
    let text = serde_json::to_string(&standing).map_err(|error| io("writing the note")(error.into()))?;
    let temporary = path.with_extension("tmp");
    let written = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary);
    written
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(&temporary, &path))
        .map_err(io(format!("writing {}", path.display())))?;
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK);
    }
    let _ = fs::remove_file(&path); // Absent is as good.
    let _ = fs::remove_dir(dir); // Refused where something is in it.
    drop(fabric);
    Ok(())
}

/// Tells the keeper to end, and waits until it has.
///
/// # Errors
/// None is up, or it does not end.
pub fn take_down(dir: &Path, name: &str) -> Result<Standing, StandingError> {
    let standing = find(dir, name)?;
    let told = kill(Pid::from_raw(standing.pid), Signal::SIGTERM);
    told.map_err(|errno| io(format!("ending process {}", standing.pid))(errno.into()))?;
    let began = Instant::now();
    while standing.is_up() {
        if began.elapsed() > END {
            return Err(StandingError::Stuck { name: name.to_owned(), pid: standing.pid });
        }
        std::thread::sleep(LOOK);
    }
    Ok(standing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note_of(name: &str, pid: i32, began: u64) -> String {
        let standing = Standing { schema: 1, name: name.into(), pid, began, hosts: vec![], switches: vec![] };
        serde_json::to_string(&standing).expect("plain data")
    }

    #[test]
    fn only_what_its_own_keeper_keeps_is_up() {
        let dir = tempfile::tempdir().expect("a directory");
        let own = std::process::id() as i32;
        let since = began(own).expect("this process");
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).expect("written");
        write("mine.json", &note_of("mine", own, since));
        write("older.json", &note_of("older", own, since - 1));
        write("gone.json", &note_of("gone", i32::MAX, 7));
        write("torn.json", "{");
        let up: Vec<String> = all(dir.path()).into_iter().map(|standing| standing.name).collect();
        assert_eq!(up, ["mine"]);
        let left = fs::read_dir(dir.path()).expect("a directory").count();
        assert_eq!(left, 2, "notes of what is not there are gone, what is no note stays");
        let error = find(dir.path(), "gone").expect_err("it is not up").to_string();
        assert!(error.contains("no network gone") && error.contains("mine"), "{error}");
        let error = find(dir.path(), "mine").expect("up").node("h9").expect_err("no such host").to_string();
        assert!(error.contains("no host or switch h9"), "{error}");
        let error =
            keep(dir.path(), "mine", FabricSpec::default(), &AtomicBool::new(true)).expect_err("up").to_string();
        assert!(error.contains("up already"), "{error}");
    }

    #[test]
    fn a_name_is_never_another_file() {
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["", "../x", "a/b", ".hidden", &"x".repeat(64)] {
            assert!(matches!(find(dir.path(), name), Err(StandingError::Name(_))), "{name}");
        }
    }
}
