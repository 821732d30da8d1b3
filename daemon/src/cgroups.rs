//! The cgroups whose sockets are managed, or why there can be none: programs attach to cgroup v2 only.

use std::path::{Path, PathBuf};

use crate::config::value::Named;

/// Where cgroup v2 is mounted, alone or beside v1.
pub const ROOTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
/// Every cgroup of v2 has this file, and none of v1 has it.
const MARK: &str = "cgroup.controllers";

/// Why no socket could be captured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoCgroup {
    /// `auto`, and this host has cgroup v1 only, or none.
    #[error(
        "no cgroup v2 is mounted at {}: boot with systemd.unified_cgroup_hierarchy=1, or mount one beside v1 (mkdir -p {mount} \
         && mount -t cgroup2 none {mount}), or name one in capture.cgroups",
        .0.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" or "),
        mount = ROOTS[1]
    )]
    NotMounted(Vec<PathBuf>),
    /// A directory that was named is there and is none of v2.
    #[error("{}: not a cgroup of v2, as capture.cgroups needs", .0.display())]
    NotV2(PathBuf),
    /// The list is empty.
    #[error("capture.cgroups is empty, so that no socket could be captured: leave it out, or name cgroups of v2")]
    NoneNamed,
}

/// The directories behind the configured names; `auto` is the first of `roots` that is of v2.
///
/// # Errors
/// [`NoCgroup`], if sockets could be captured in none of them, or one cannot be what it is meant for.
pub fn directories(names: &[Named<PathBuf>], roots: &[impl AsRef<Path>]) -> Result<Vec<PathBuf>, NoCgroup> {
    let is_v2 = |path: &Path| path.join(MARK).exists();
    let root = || roots.iter().map(|root| root.as_ref().to_owned()).find(|root| is_v2(root));
    let auto = names.contains(&Named::Auto).then(root).flatten();
    let named = names.iter().filter_map(Named::name);
    // What does not exist yet is said by whoever opens it.
    if let Some(other) = named.clone().find(|path| path.is_dir() && !is_v2(path)) {
        return Err(NoCgroup::NotV2(other.clone()));
    }
    let all: Vec<PathBuf> = auto.into_iter().chain(named.cloned()).collect();
    match all.is_empty() {
        false => Ok(all),
        true if names.is_empty() => Err(NoCgroup::NoneNamed),
        true => Err(NoCgroup::NotMounted(roots.iter().map(|root| root.as_ref().to_owned()).collect())),
    }
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
        let auto = [Named::Auto];
        cgroup(&roots[1], true);
        assert_eq!(directories(&auto, &roots), Ok(vec![roots[1].clone()]), "hybrid");
        cgroup(&roots[0], true);
        assert_eq!(directories(&auto, &roots), Ok(vec![roots[0].clone()]), "v2 alone");
    }

    #[test]
    fn a_host_with_v1_only_is_told_what_to_do() {
        let dir = tempfile::tempdir().expect("a directory");
        let roots = [dir.path().join("cgroup"), dir.path().join("cgroup/unified")];
        cgroup(&roots[0], false);
        let why = directories(&[Named::Auto], &roots).expect_err("there is none");
        assert_eq!(why, NoCgroup::NotMounted(roots.to_vec()));
        let text = why.to_string();
        for part in
            [&roots[0].display().to_string(), "unified_cgroup_hierarchy=1", "mount -t cgroup2", "capture.cgroups"]
        {
            assert!(text.contains(part), "{part} in {text}");
        }
        // One that is named is as good.
        let job = cgroup(&dir.path().join("elsewhere/job"), true);
        assert_eq!(directories(&[Named::Auto, Named::Name(job.clone())], &roots), Ok(vec![job]));
        let old = cgroup(&dir.path().join("cgroup/memory"), false);
        assert_eq!(directories(&[Named::Name(old.clone())], &roots), Err(NoCgroup::NotV2(old)));
        assert_eq!(directories(&[], &roots), Err(NoCgroup::NoneNamed));
    }
}
