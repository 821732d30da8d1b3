//! A limit on the memory or the tasks of a daemon, by the controller of cgroup v2 or, where that is with version 1, by that.

use std::fs;
use std::path::{Path, PathBuf};

use crate::fabric::cgroup::{self, V1_ROOT};

/// What may be limited, with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Bytes of memory.
    Memory(u64),
    /// Processes and threads.
    Tasks(u64),
}

impl Limit {
    fn controller(self) -> &'static str {
        match self {
            Limit::Memory(_) => "memory",
            Limit::Tasks(_) => "pids",
        }
    }

    fn value(self) -> String {
        match self {
            Limit::Memory(value) | Limit::Tasks(value) => value.to_string(),
        }
    }
}

/// A limit that holds; one of version 1 goes when this is dropped, which must be after whatever is in it.
#[derive(Debug)]
pub struct Confined {
    /// The cgroup of version 1 that was made for it.
    own: Option<PathBuf>,
}

impl Confined {
    /// Limits whatever is in this cgroup of version 2; `None`: nobody here has that controller.
    pub fn new(cgroup: &Path, limit: Limit) -> Option<Confined> {
        let controller = limit.controller();
        if let Some(tree) = cgroup.parent() {
            // A controller that the machine keeps to itself is refused; then the file is missing.
            let _ = fs::write(tree.join("cgroup.subtree_control"), format!("+{controller}"));
        }
        if fs::write(cgroup.join(format!("{controller}.max")), limit.value()).is_ok() {
            return Some(Confined { own: None });
        }
        let own =
            Path::new(V1_ROOT).join(controller).join(format!("{}{}-{controller}", cgroup::PREFIX, std::process::id()));
        fs::create_dir(&own).ok()?;
        let confined = Confined { own: Some(own.clone()) };
        let file = match limit {
            Limit::Memory(_) => "memory.limit_in_bytes",
            Limit::Tasks(_) => "pids.max",
        };
        fs::write(own.join(file), limit.value()).ok()?;
        // What these have already is counted where they were; what they take from now on counts here.
        let pids = fs::read_to_string(cgroup.join("cgroup.procs")).ok()?;
        for pid in pids.split_whitespace() {
            fs::write(own.join("cgroup.procs"), pid).ok()?;
        }
        Some(confined)
    }

    /// The line of a shell that puts it under the limit, before it becomes the daemon; empty where its cgroup does that.
    pub fn entry(&self) -> String {
        self.own
            .as_ref()
            .map_or_else(String::new, |own| format!("echo $$ > {} || exit 1", own.join("cgroup.procs").display()))
    }
}

impl Drop for Confined {
    fn drop(&mut self) {
        if let Some(own) = &self.own {
            cgroup::remove(own);
        }
    }
}
