//! Which process has a socket open, by `/proc/PID/fd`, and which cgroup a process is in.

use std::collections::{BTreeSet, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::privilege::eyes::Eyes;

/// Sockets by inode, with their owner.
pub type Wanted = HashMap<u64, u32>;

/// Which processes have these sockets open, by inode; each must belong to the socket's owner. One walk answers all, and
/// what was found is no longer wanted.
pub fn holders(eyes: &dyn Eyes, wanted: &mut Wanted) -> HashMap<u64, u32> {
    let mut found = HashMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        if wanted.is_empty() {
            break;
        }
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Ok(owner) = entry.metadata().map(|meta| meta.uid()) else { continue };
        if !wanted.values().any(|uid| *uid == owner) {
            continue;
        }
        for inode in eyes.sockets(pid) {
            if wanted.get(&inode) == Some(&owner) {
                wanted.remove(&inode);
                found.insert(inode, pid);
            }
        }
    }
    found
}

/// The inodes of the sockets that a process has open.
pub fn sockets_of(pid: u32) -> BTreeSet<u64> {
    let links = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let targets = links.filter_map(|fd| std::fs::read_link(fd.path()).ok());
    targets.filter_map(|target| target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()).collect()
}

/// Where a process is in the cgroup v2 tree, from the tree's root; `None` if it is gone.
pub fn cgroup_of(pid: u32) -> Option<PathBuf> {
    of_text(&std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?)
}

/// The line of cgroup v2 in a file like `/proc/PID/cgroup`.
pub(crate) fn of_text(text: &str) -> Option<PathBuf> {
    text.lines().find_map(|line| line.strip_prefix("0::")).map(PathBuf::from)
}

/// The directory among these that a process's cgroup is, or is below. `roots`: where cgroup v2 may be mounted.
pub fn within<'a>(cgroup: &Path, dirs: &'a [PathBuf], roots: &[&str]) -> Option<&'a PathBuf> {
    let inside = |dir: &&PathBuf| {
        // The longest root first: `/sys/fs/cgroup/unified` lies below `/sys/fs/cgroup`.
        let mut below: Vec<&Path> = roots.iter().filter_map(|root| dir.strip_prefix(root).ok()).collect();
        below.sort_by_key(|path| path.as_os_str().len());
        below.first().is_some_and(|path| cgroup.starts_with(Path::new("/").join(path)))
    };
    dirs.iter().find(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_version_two_counts() {
        let text = "11:cpu,cpuacct:/x\n0::/training.slice/job-7\n";
        assert_eq!(of_text(text), Some("/training.slice/job-7".into()));
        assert_eq!(of_text("1:name=systemd:/\n"), None);
    }

    #[test]
    fn a_process_below_a_named_cgroup_is_within_it() {
        let dirs = ["/sys/fs/cgroup/unified/training.slice".into(), "/sys/fs/cgroup/other".into()];
        let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
        assert_eq!(within(Path::new("/training.slice/job-7"), &dirs, &roots), Some(&dirs[0]));
        assert_eq!(within(Path::new("/other"), &dirs, &roots), Some(&dirs[1]));
        assert_eq!(within(Path::new("/training.slices"), &dirs, &roots), None);
        assert_eq!(within(Path::new("/"), &dirs, &roots), None);
    }
}
