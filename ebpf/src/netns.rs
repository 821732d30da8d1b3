//! The network namespaces of this machine, for what has to be done in every one of them.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use nix::sched::{CloneFlags, setns};

/// Calls this once in every network namespace but the caller's own that has a process or a name and may be entered. The
/// calls are made on a thread of their own, so that the caller stays where it is whatever happens. Returns how many may
/// not be entered.
pub(crate) fn each_other(mut call: impl FnMut() + Send) -> usize {
    let inode = |path: &PathBuf| std::fs::metadata(path).ok().map(|meta| meta.ino());
    let mut seen: BTreeSet<u64> = inode(&PathBuf::from("/proc/thread-self/ns/net")).into_iter().collect();
    let mut refused = 0;
    let mut others: Vec<File> = Vec::new();
    for path in paths().filter(|path| inode(path).is_some_and(|inode| seen.insert(inode))) {
        match File::open(path) {
            Ok(namespace) => others.push(namespace),
            // Its last process ended meanwhile.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)) => {}
            Err(_) => refused += 1,
        }
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for namespace in &others {
                match setns(namespace, CloneFlags::CLONE_NEWNET) {
                    Ok(()) => call(),
                    Err(_) => refused += 1,
                }
            }
        });
    });
    refused
}

/// Where a namespace may be found.
fn paths() -> impl Iterator<Item = PathBuf> {
    let entries = |dir: &str| std::fs::read_dir(dir).into_iter().flatten().flatten();
    let is_pid = |name: &std::ffi::OsStr| name.to_str().is_some_and(|name| name.bytes().all(|b| b.is_ascii_digit()));
    let of_processes = entries("/proc").filter(move |entry| is_pid(&entry.file_name()));
    of_processes.map(|entry| entry.path().join("ns/net")).chain(entries("/run/netns").map(|entry| entry.path()))
}
