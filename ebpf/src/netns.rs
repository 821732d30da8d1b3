//! The network namespaces of this machine, for what has to be done in every one of them.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use nix::sched::{CloneFlags, setns};
use nix::sys::statfs::{NSFS_MAGIC, fstatfs};

/// Calls this once in every network namespace but the caller's own that has a process or a name and may be entered. The
/// calls are made on a thread of their own, so that the caller stays where it is whatever happens. Returns how many may
/// not be entered.
pub(crate) fn each_other(mut call: impl FnMut() + Send) -> usize {
    let Opened { others, mut refused } = open_others(paths());
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

/// Namespaces but the caller's own.
#[derive(Debug, Default)]
struct Opened {
    /// Each once.
    others: Vec<File>,
    /// How many there are beside that may not be opened.
    refused: usize,
}

fn open_others(paths: impl Iterator<Item = PathBuf>) -> Opened {
    let inode = |path: &PathBuf| std::fs::metadata(path).ok().map(|meta| meta.ino());
    let mut seen: BTreeSet<u64> = inode(&PathBuf::from("/proc/thread-self/ns/net")).into_iter().collect();
    let mut opened = Opened::default();
    for path in paths.filter(|path| inode(path).is_some_and(|inode| seen.insert(inode))) {
        match File::open(path) {
            // A name whose namespace is mounted elsewhere, or was, is an empty file: there is nothing to enter.
            Ok(file) if fstatfs(&file).is_ok_and(|of| of.filesystem_type() != NSFS_MAGIC) => {}
            Ok(namespace) => opened.others.push(namespace),
            // Its last process ended meanwhile.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)) => {}
            Err(_) => opened.refused += 1,
        }
    }
    opened
}

/// Where a namespace may be found.
fn paths() -> impl Iterator<Item = PathBuf> {
    let entries = |dir: &str| std::fs::read_dir(dir).into_iter().flatten().flatten();
    let is_pid = |name: &std::ffi::OsStr| name.to_str().is_some_and(|name| name.bytes().all(|b| b.is_ascii_digit()));
    let of_processes = entries("/proc").filter(move |entry| is_pid(&entry.file_name()));
    of_processes.map(|entry| entry.path().join("ns/net")).chain(entries("/run/netns").map(|entry| entry.path()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_namespace_is_none_that_may_not_be_entered() {
        let dir = tempfile::tempdir().expect("a directory");
        let (name, gone) = (dir.path().join("name"), dir.path().join("gone"));
        std::fs::write(&name, "").expect("a file");
        // Any other namespace than the own one of networks will do.
        let other = PathBuf::from("/proc/thread-self/ns/uts");
        let paths = [name, gone, other.clone(), "/proc/thread-self/ns/net".into(), other];
        let opened = open_others(paths.into_iter());
        assert_eq!((opened.others.len(), opened.refused), (1, 0));
    }
}
