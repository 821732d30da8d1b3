//! Where the jobs of a run publish their progress pages, and directories that take none.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::RunError;

/// In which directories jobs publish their pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Pages {
    /// In the directory of their host's daemon.
    #[default]
    EveryHost,
    /// On the first host only.
    FirstHost,
    /// Nowhere: daemons find a job by its bytes and its environment.
    Nowhere,
    /// All of them here, where no daemon looks; the directory may be missing or full.
    In(PathBuf),
}

impl Pages {
    /// The directory of each host; hosts beyond the end have none. `daemons`: those of the daemons.
    pub fn dirs(&self, daemons: Vec<PathBuf>) -> Vec<PathBuf> {
        match self {
            Pages::EveryHost => daemons,
            Pages::FirstHost => daemons.into_iter().take(1).collect(),
            Pages::Nowhere => Vec::new(),
            Pages::In(dir) => vec![dir.clone(); daemons.len()],
        }
    }
}

/// What a directory has no room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// Another file.
    Names,
    /// Another byte.
    Bytes,
}

/// A directory on a file system of its own that is full. Dropping it unmounts that.
#[derive(Debug)]
pub struct FullDir(PathBuf);

impl FullDir {
    /// Makes `dir` one; it may exist, and must be empty.
    ///
    /// # Errors
    /// Without the right to mount.
    pub fn make(dir: &Path, full: Full) -> Result<FullDir, RunError> {
        std::fs::create_dir_all(dir).map_err(RunError::io(format!("creating {}", dir.display())))?;
        // The directory itself is a name; a page is the least that there can be room for.
        let options = match full {
            Full::Names => "mode=1777,size=64k,nr_inodes=1",
            Full::Bytes => "mode=1777,size=4k",
        };
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "sluice-full"]).arg(dir).stdin(Stdio::null()).stderr(Stdio::null());
        let status = mount.status().map_err(RunError::io("starting mount"))?;
        if !status.success() {
            return Err(RunError::Plan(format!(
                "a small file system cannot be mounted at {}: {status}",
                dir.display()
            )));
        }
        let made = FullDir(dir.to_owned());
        if full == Full::Bytes {
            std::fs::write(dir.join("filler"), [1; 4096]).map_err(RunError::io("filling a directory"))?;
        }
        Ok(made)
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for FullDir {
    fn drop(&mut self) {
        // Lazily: what still has a file open there must not keep the run from ending.
        let mut umount = Command::new("umount");
        drop(umount.arg("-l").arg(&self.0).stdin(Stdio::null()).stderr(Stdio::null()).status());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_go_where_they_are_told() {
        let daemons = vec![PathBuf::from("/a"), PathBuf::from("/b")];
        assert_eq!(Pages::EveryHost.dirs(daemons.clone()), daemons);
        assert_eq!(Pages::FirstHost.dirs(daemons.clone()), daemons[..1]);
        assert_eq!(Pages::In("/c".into()).dirs(daemons), vec![PathBuf::from("/c"); 2]);
    }

    #[test]
    fn a_full_directory_takes_no_page() {
        let root = tempfile::tempdir().expect("a temporary directory");
        for (name, full) in [("names", Full::Names), ("bytes", Full::Bytes)] {
            let dir = root.path().join(name);
            let made = match FullDir::make(&dir, full) {
                Ok(made) => made,
                Err(why) => return sluice_skip::skip!(Privilege, "{why}"),
            };
            let ident = sluice_progress::Ident::new(sluice_progress::Source::Application);
            assert!(sluice_progress::Page::create(made.path(), ident).is_none(), "{full:?}");
            let left = std::fs::read_dir(&dir).expect("readable").filter_map(Result::ok);
            let names: Vec<_> = left.map(|entry| entry.file_name()).filter(|name| name != "filler").collect();
            assert!(names.is_empty(), "nothing half made stays: {names:?}");
        }
    }
}
