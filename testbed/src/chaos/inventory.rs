//! What a row may leave nothing of: descriptors, threads, network namespaces, children, pins, names of congestion controls,
//! cgroups. Only what belongs to this process counts: others may run beside it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use sluice_ebpf::Options;
use sluice_ebpf::traces;

use crate::fabric::cgroup;
use crate::run::daemons::own_instance;

/// For what ends a moment after it was told to: threads, the kernel's own work after a last descriptor was closed.
const SETTLE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(50);
const CONTROLS: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// What there is at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    descriptors: usize,
    threads: usize,
    namespaces: BTreeSet<u64>,
    children: BTreeSet<String>,
    pins: BTreeSet<String>,
    controls: BTreeSet<String>,
    cgroups: BTreeSet<String>,
}

impl Inventory {
    /// Counts.
    pub fn take() -> Inventory {
        let pid = std::process::id();
        let tasks: Vec<_> = entries("/proc/self/task");
        let inode = |task: &String| fs::metadata(format!("/proc/self/task/{task}/ns/net")).ok().map(|meta| meta.ino());
        let children = tasks.iter().map(|task| format!("/proc/self/task/{task}/children"));
        let children = children.filter_map(|file| fs::read_to_string(file).ok());
        let pins = traces::pinned(&Options::default().pin_root).into_iter();
        let controls = fs::read_to_string(CONTROLS).unwrap_or_default();
        let prefix = format!("{}{pid}-", cgroup::PREFIX);
        let base = cgroup::mount_point().unwrap_or_default();
        Inventory {
            // One of them is the directory that is being read.
            descriptors: entries("/proc/self/fd").len(),
            threads: tasks.len(),
            namespaces: tasks.iter().filter_map(inode).collect(),
            children: children
                .flat_map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
                .map(named)
                .collect(),
            pins: pins
                .filter(|place| own_instance(&place.instance))
                .flat_map(|place| {
                    place.names.iter().map(|name| place.dir.join(name).display().to_string()).collect::<Vec<_>>()
                })
                .collect(),
            controls: controls
                .split_whitespace()
                .filter(|name| {
                    name.strip_prefix(traces::PREFIX).is_some_and(|rest| own_instance(rest.trim_end_matches('_')))
                })
                .map(str::to_owned)
                .collect(),
            cgroups: entries(base).into_iter().filter(|name| name.starts_with(&prefix)).collect(),
        }
    }

    /// What there is more than there was, once what ends by itself has ended; one sentence each.
    pub fn left_over(&self) -> Vec<String> {
        let end = Instant::now() + SETTLE;
        loop {
            let left = self.more(&Inventory::take());
            if left.is_empty() || Instant::now() > end {
                return left;
            }
            std::thread::sleep(LOOK);
        }
    }

    fn more(&self, now: &Inventory) -> Vec<String> {
        let mut left = Vec::new();
        for (what, before, after) in [
            ("descriptors", self.descriptors, now.descriptors),
            ("threads", self.threads, now.threads),
            ("network namespaces", self.namespaces.len(), now.namespaces.len()),
        ] {
            if after > before {
                left.push(format!("{what}: {before} before, {after} after"));
            }
        }
        for (what, before, after) in [
            ("process", &self.children, &now.children),
            ("pin", &self.pins, &now.pins),
            ("congestion control", &self.controls, &now.controls),
            ("cgroup", &self.cgroups, &now.cgroups),
        ] {
            left.extend(after.difference(before).map(|name| format!("{what} {name}")));
        }
        left
    }
}

fn named(pid: String) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    format!("{pid} ({})", name.trim())
}

fn entries(dir: impl AsRef<Path>) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Open descriptors of a process; `None`: it is gone.
pub fn descriptors(pid: u32) -> Option<usize> {
    Some(fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count())
}

/// Threads of a process; `None`: it is gone.
pub fn threads(pid: u32) -> Option<usize> {
    Some(fs::read_dir(format!("/proc/{pid}/task")).ok()?.count())
}

/// Descriptors of a process that hold network namespaces; `None`: it is gone.
pub fn namespaces_held(pid: u32) -> Option<usize> {
    let of_namespace = |entry: &fs::DirEntry| {
        fs::read_link(entry.path()).is_ok_and(|target| target.to_string_lossy().starts_with("net:["))
    };
    Some(fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten().filter(of_namespace).count())
}

/// Resident memory of a process, MiB; `None`: it is gone.
pub fn rss_mib(pid: u32) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<f64>().ok()? / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_named_and_what_ends_is_not() {
        let before = Inventory::take();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("a process");
        let held = fs::File::open("/proc/self/status").expect("a file");
        let left = before.more(&Inventory::take()).join("; ");
        assert!(left.contains(&format!("process {}", child.id())) && left.contains("descriptors"), "{left}");
        drop(held);
        let _ = child.kill();
        let _ = child.wait();
        // Other tests of this process may open files meanwhile; its children are only ours.
        let left = before.left_over().join("; ");
        assert!(!left.contains("process"), "{left}");
    }

    #[test]
    fn a_process_that_is_gone_has_nothing() {
        assert!(rss_mib(std::process::id()).is_some_and(|mib| mib > 0.1));
        assert!(descriptors(std::process::id()).is_some_and(|count| count > 2));
        assert!(threads(std::process::id()).is_some_and(|count| count > 0));
        assert_eq!(namespaces_held(u32::MAX), None);
        assert_eq!((rss_mib(u32::MAX), descriptors(u32::MAX), threads(u32::MAX)), (None, None, None));
    }
}
