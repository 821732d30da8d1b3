//! The cgroups of version 2 that Sluice needs, or why there are none: operators name those of jobs, and sockets can be
//! paced without the congestion control only where a program is attached to one.

use std::path::{Path, PathBuf};

use crate::config::value::Named;

/// Where cgroup v2 is mounted, alone or beside v1.
pub const ROOTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
/// Every cgroup of v2 has this file, and none of v1 has it.
const MARK: &str = "cgroup.controllers";

/// What is missing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoCgroup {
    /// This host has cgroup v1 only, or none.
    #[error(
        "no cgroup v2 is mounted at {}: boot with systemd.unified_cgroup_hierarchy=1, or mount one beside v1 (mkdir -p {mount} \
         && mount -t cgroup2 none {mount})",
        .0.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" or "),
        mount = ROOTS[1]
    )]
    NotMounted(Vec<PathBuf>),
    /// A directory that was named is there and is none of v2: no process could be found in it.
    #[error("{}: not a cgroup of v2, as capture.cgroups needs", .0.display())]
    NotV2(PathBuf),
}

fn is_v2(path: &Path) -> bool {
    path.join(MARK).exists()
}

/// The first of these that is the root of a tree of v2.
///
/// # Errors
/// [`NoCgroup::NotMounted`].
pub fn root(roots: &[impl AsRef<Path>]) -> Result<PathBuf, NoCgroup> {
    let all = || roots.iter().map(|root| root.as_ref().to_owned());
    all().find(|root| is_v2(root)).ok_or_else(|| NoCgroup::NotMounted(all().collect()))
}

/// Can jobs be found in the cgroups that the operator names? What does not exist yet may come.
///
/// # Errors
/// [`NoCgroup::NotV2`].
pub fn check(names: &[Named<PathBuf>]) -> Result<(), NoCgroup> {
    let other = names.iter().filter_map(Named::name).find(|path| path.is_dir() && !is_v2(path));
    other.map_or(Ok(()), |path| Err(NoCgroup::NotV2(path.clone())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that looks like a cgroup of v2, or of v1.
    fn cgroup(path: &Path, v2: bool) -> PathBuf {
        std::fs::create_dir_all(path).expect("made");
        std::fs::write(path.join(if v2 { MARK } else { "tasks" }), "").expect("written");
        path.to_owned()
    }

    #[test]
    fn v2_is_found_alone_and_beside_v1() {
        let dir = tempfile::tempdir().expect("a directory");
        let roots = [dir.path().join("cgroup"), dir.path().join("cgroup/unified")];
        cgroup(&roots[1], true);
        assert_eq!(root(&roots), Ok(roots[1].clone()), "hybrid");
        cgroup(&roots[0], true);
        assert_eq!(root(&roots), Ok(roots[0].clone()), "v2 alone");
    }

    #[test]
    fn a_host_with_v1_only_is_told_what_to_do() {
        let dir = tempfile::tempdir().expect("a directory");
        let roots = [dir.path().join("cgroup"), dir.path().join("cgroup/unified")];
        cgroup(&roots[0], false);
        let why = root(&roots).expect_err("there is none");
        assert_eq!(why, NoCgroup::NotMounted(roots.to_vec()));
        let text = why.to_string();
        for part in [&roots[0].display().to_string(), "unified_cgroup_hierarchy=1", "mount -t cgroup2"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let job = cgroup(&dir.path().join("elsewhere/job"), true);
        assert_eq!(check(&[Named::Auto, Named::Name(job), Named::Name(dir.path().join("later"))]), Ok(()));
        let old = cgroup(&dir.path().join("cgroup/memory"), false);
        assert_eq!(check(&[Named::Name(old.clone())]), Err(NoCgroup::NotV2(old)));
    }
}
