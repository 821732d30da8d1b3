//! The pin directory: what keeps maps, registration and attachments alive while no daemon runs.
//!
//! Layout: `<bpffs>/sluice<instance>/abi<N>/` with one file per map, `cc-<name>` and `ccmap-<name>` for the
//! registration, `cg-<inode>` for the attachment to each cgroup, and `drain`, which gives all sockets of the reader's network
//! namespace back when it is read: whoever removes the pins needs to know no row of them, whatever version made them.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};
use nix::sys::statfs::{FsType, statfs};

use crate::abi::ABI;
use crate::options::{Error, Options};

const BPF_FS_MAGIC: FsType = FsType(0xcafe_4a11);
/// The pinned pass that gives every socket back.
pub(crate) const DRAIN: &str = "drain";

/// The directory of one instance and ABI.
#[derive(Clone, Debug)]
pub struct Pins {
    dir: PathBuf,
}

impl Pins {
    /// Opens the directory, making it if need be and mounting bpffs if it is missing. What another ABI has left is ended
    /// first; see [`crate::cleanup`].
    ///
    /// # Errors
    /// [`Error::Owner`] if the directory is not ours, [`Error::File`] if it cannot be made.
    pub fn open(options: &Options) -> Result<Pins, Error> {
        ensure_bpffs(&options.pin_root)?;
        let parent = options.pin_dir();
        make_dir(&parent)?;
        for dir in Pins::other_versions(options) {
            let ended = crate::cleanup::end(&Pins::at(dir));
            for left in &ended.left {
                tracing::warn!(
                    event = "cleanup-left",
                    left,
                    cost = "it stays until it is removed; no socket is held by it any longer than its order lives",
                    next = "sluiced cleanup",
                    "pins of another version were not removed"
                );
            }
        }
        // It went with the last version in it.
        make_dir(&parent)?;
        let dir = parent.join(format!("abi{ABI}"));
        make_dir(&dir)?;
        Ok(Pins { dir })
    }

    /// Those of this directory.
    pub(crate) fn at(dir: PathBuf) -> Pins {
        Pins { dir }
    }

    /// The directory if it exists, without making anything.
    pub fn existing(options: &Options) -> Option<Pins> {
        let dir = options.pin_dir().join(format!("abi{ABI}"));
        dir.is_dir().then_some(Pins { dir })
    }

    /// Directories of other ABIs of the same instance.
    pub fn other_versions(options: &Options) -> Vec<PathBuf> {
        let (parent, own) = (options.pin_dir(), format!("abi{ABI}"));
        let others = names(&parent).into_iter().filter(|name| *name != own && name.starts_with("abi"));
        others.map(|name| parent.join(name)).collect()
    }

    /// Are they laid out as these programs do?
    pub(crate) fn is_of_this_version(&self) -> bool {
        self.dir.file_name().is_some_and(|name| name == format!("abi{ABI}").as_str())
    }

    /// Where they are.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The path of a pin.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Names of all pins, sorted.
    pub fn names(&self) -> Vec<String> {
        names(&self.dir)
    }

    /// Removes one pin; it is no error if it is gone.
    ///
    /// # Errors
    /// [`Error::File`] with the path.
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        let path = self.path(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::file("remove", path, error)),
            _ => Ok(()),
        }
    }

    /// Removes every pin and the directories, as far as they are empty then.
    pub fn remove_all(&self) -> Vec<String> {
        let failed = remove_tree(&self.dir);
        if let Some(parent) = self.dir.parent() {
            // Other ABIs may live beside ours.
            let _ = fs::remove_dir(parent);
        }
        failed
    }
}

pub(crate) fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|e| e.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// Removes a directory with its files; returns what could not be removed.
fn remove_tree(dir: &Path) -> Vec<String> {
    let mut failed = Vec::new();
    for name in names(dir) {
        let path = dir.join(name);
        if let Err(error) = fs::remove_file(&path) {
            failed.push(format!("{}: {error}", path.display()));
        }
    }
    if let Err(error) = fs::remove_dir(dir)
        && error.kind() != io::ErrorKind::NotFound
    {
        failed.push(format!("{}: {error}", dir.display()));
    }
    failed
}

fn make_dir(dir: &Path) -> Result<(), Error> {
    match fs::DirBuilder::new().mode(0o700).create(dir) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(Error::file("make the directory", dir, error)),
    }
    let meta = fs::symlink_metadata(dir).map_err(|error| Error::file("look at", dir, error))?;
    let expected = nix::unistd::geteuid().as_raw();
    if !meta.is_dir() || meta.uid() != expected || meta.mode() & 0o022 != 0 {
        return Err(Error::Owner { path: dir.into(), owner: meta.uid(), mode: meta.mode(), expected });
    }
    Ok(())
}

/// Mounts the file system for pins, where it is missing and in its usual place.
///
/// # Errors
/// Why there is none.
pub fn mount_pins(options: &Options) -> Result<(), Error> {
    ensure_bpffs(&options.pin_root)
}

fn ensure_bpffs(root: &Path) -> Result<(), Error> {
    let is_bpffs = || statfs(root).is_ok_and(|s| s.filesystem_type() == BPF_FS_MAGIC);
    if is_bpffs() {
        return Ok(());
    }
    // Mounting is only for the usual place: anywhere else a wrong path would hide files.
    if root == Path::new("/sys/fs/bpf") && nix::unistd::geteuid().is_root() {
        mount(Some("bpf"), root, Some("bpf"), MsFlags::empty(), None::<&str>)
            .map_err(|errno| Error::file("mount bpffs on", root, errno.into()))?;
        if is_bpffs() {
            return Ok(());
        }
    }
    let error = io::Error::other("no bpffs is mounted there; `mount -t bpf bpf /sys/fs/bpf` as root makes one");
    Err(Error::file("use for pins", root, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_no_bpffs_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options { pin_root: dir.path().into(), ..Options::default() };
        let text = Pins::open(&options).unwrap_err().to_string();
        assert!(text.contains("no bpffs") && text.contains(&dir.path().display().to_string()), "{text}");
        assert!(Pins::existing(&options).is_none());
    }

    #[test]
    fn directories_of_others_are_refused() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let open = dir.path().join("sluice");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(make_dir(&open), Err(Error::Owner { .. })));
        fs::set_permissions(&open, fs::Permissions::from_mode(0o700)).unwrap();
        make_dir(&open).unwrap();
        fs::write(open.join("a"), "").unwrap();
        assert!(remove_tree(&open).is_empty());
        assert!(!open.exists());
    }
}
