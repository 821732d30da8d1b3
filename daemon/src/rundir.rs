//! The run directory: made or checked, and locked so that there is one daemon per directory.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use nix::sys::statfs::{FsType, statfs};

/// File systems on which a read may wait for another machine or for a program, by their magic numbers.
const ELSEWHERE: [(FsType, &str); 7] = [
    (FsType(0x6573_5546), "FUSE"),
    (FsType(0x6969), "NFS"),
    (FsType(0xff53_4d42), "CIFS"),
    (FsType(0xfe53_4d42), "SMB"),
    (FsType(0x517b), "SMB"),
    (FsType(0x00c3_6400), "Ceph"),
    (FsType(0x5346_414f), "AFS"),
];

/// Why the run directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RunDirError {
    /// It belongs to somebody else, or others may write to it.
    #[error(
        "{path}: owner {owner}, mode {mode:o}: it must belong to uid {own} and not be writable by others; {help}",
        help = "remove it or change node.run_dir"
    )]
    Foreign { path: PathBuf, owner: u32, mode: u32, own: u32 },
    /// Others could remove or replace the pages in it.
    #[error(
        "{path}: owner {owner}, mode {mode:o}: everybody publishes pages here, so it must belong to root or to uid {own}, and \
         be sticky where others may write; chmod 1777 it, or change capture.progress_dir"
    )]
    Pages { path: PathBuf, owner: u32, mode: u32, own: u32 },
    /// It is reached through a link that somebody else may change.
    #[error("{path}: a link of uid {owner}, who could make it lead elsewhere; it must belong to root or to uid {own}")]
    Link { path: PathBuf, owner: u32, own: u32 },
    /// Reading a page could make every decision wait.
    #[error(
        "{path}: on a {kind} file system, where a read may wait for others; mount a tmpfs there (run-sluice-progress.mount), or \
         change capture.progress_dir"
    )]
    Elsewhere { path: PathBuf, kind: &'static str },
    /// It cannot be made or opened.
    #[error("{path}: {source}; make it writable for this user or change node.run_dir")]
    File { path: PathBuf, source: std::io::Error },
    #[error("{path}: another sluiced runs here (pid {pid}); stop it or change node.run_dir")]
    Taken { path: PathBuf, pid: String },
}

/// The lock; it ends with the process.
#[derive(Debug)]
pub struct Locked(#[allow(dead_code, reason = "held, never read")] Flock<File>);

/// Makes the run directory and its directory of progress pages if they are missing, and checks their owner.
///
/// # Errors
/// [`RunDirError`].
pub fn prepare(run_dir: &Path, progress_dir: &Path) -> Result<(), RunDirError> {
    make(run_dir, 0o755)?;
    check(run_dir)?;
    // Everybody publishes pages here; nobody may remove another one's.
    make(progress_dir, 0o1777)?;
    check_pages(progress_dir)
}

/// Takes the lock of the run directory and writes the pid into it.
///
/// # Errors
/// [`RunDirError::Taken`] with the pid of the daemon that has it.
pub fn lock(path: &Path) -> Result<Locked, RunDirError> {
    let failed = |source| RunDirError::File { path: path.to_owned(), source };
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o644)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
        .map_err(failed)?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(mut lock) => {
            let written =
                lock.set_len(0).and_then(|()| lock.rewind()).and_then(|()| write!(lock, "{}", std::process::id()));
            written.map_err(failed)?;
            Ok(Locked(lock))
        }
        Err((file, nix::errno::Errno::EWOULDBLOCK)) => {
            let mut pid = String::new();
            let _ = file.take(16).read_to_string(&mut pid); // Without it the message is only shorter.
            let pid = if pid.trim().is_empty() {
                "unknown".into()
            } else {
                sluice_formats::problem::printable(pid.trim(), 16)
            };
            Err(RunDirError::Taken { path: path.to_owned(), pid })
        }
        Err((_, errno)) => Err(failed(errno.into())),
    }
}

/// Puts a small file of state in the place of the one before ([`crate::stored`]). Without it the daemon runs all the same;
/// the log says why it could not be written.
pub fn replace(path: &Path, state: &impl serde::Serialize) {
    let text = serde_json::to_vec(state).map_err(std::io::Error::from);
    if let Err(error) = text.and_then(|text| crate::stored::replace(path, &text)) {
        tracing::warn!(
            event = "state-file-unwritten",
            cost = "after a restart the daemon does not know what it knew",
            next = "make the directory one that the daemon may write, and room on its file system",
            "{}: {error}",
            path.display()
        );
    }
}

fn make(path: &Path, mode: u32) -> Result<(), RunDirError> {
    let failed = |source| RunDirError::File { path: path.to_owned(), source };
    let own = nix::unistd::geteuid().as_raw();
    if let Ok(meta) = std::fs::symlink_metadata(path)
        && meta.file_type().is_symlink()
        && meta.uid() != own
        && meta.uid() != 0
    {
        return Err(RunDirError::Link { path: path.to_owned(), owner: meta.uid(), own });
    }
    if path.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(mode).create(path).map_err(failed)?;
    // The umask does not apply to what others must be able to use.
    std::fs::set_permissions(path, Permissions::from_mode(mode)).map_err(failed)
}

fn check(path: &Path) -> Result<(), RunDirError> {
    let meta = std::fs::metadata(path).map_err(|source| RunDirError::File { path: path.to_owned(), source })?;
    let own = nix::unistd::geteuid().as_raw();
    let (owner, mode) = (meta.uid(), meta.mode() & 0o7777);
    // Root's own directories are as good as ours: root could do anything anyway.
    if (owner != own && owner != 0) || mode & 0o022 != 0 {
        return Err(RunDirError::Foreign { path: path.to_owned(), owner, mode, own });
    }
    Ok(())
}

fn check_pages(path: &Path) -> Result<(), RunDirError> {
    let meta = std::fs::metadata(path).map_err(|source| RunDirError::File { path: path.to_owned(), source })?;
    let own = nix::unistd::geteuid().as_raw();
    let (owner, mode) = (meta.uid(), meta.mode() & 0o7777);
    if (owner != own && owner != 0) || mode & 0o022 != 0 && mode & 0o1000 == 0 {
        return Err(RunDirError::Pages { path: path.to_owned(), owner, mode, own });
    }
    let on = statfs(path).map_err(|errno| RunDirError::File { path: path.to_owned(), source: errno.into() })?;
    match waits_for(on.filesystem_type()) {
        Some(kind) => Err(RunDirError::Elsewhere { path: path.to_owned(), kind }),
        None => Ok(()),
    }
}

/// The name of a file system on which a read may wait for others.
fn waits_for(kind: FsType) -> Option<&'static str> {
    ELSEWHERE.iter().find(|(known, _)| *known == kind).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_daemon_per_directory_and_the_second_learns_the_first_ones_pid() {
        let dir = tempfile::tempdir().expect("a directory");
        let run = dir.path().join("run");
        prepare(&run, &run.join("progress")).expect("prepared");
        assert_eq!(std::fs::metadata(run.join("progress")).expect("made").mode() & 0o7777, 0o1777);
        let path = run.join("sluiced.lock");
        let held = lock(&path).expect("free");
        let error = lock(&path).expect_err("taken").to_string();
        assert!(error.contains(&std::process::id().to_string()), "{error}");
        drop(held);
        lock(&path).expect("free again");
    }

    #[test]
    fn a_directory_of_pages_in_which_others_could_replace_pages_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let (run, pages) = (dir.path().join("run"), dir.path().join("pages"));
        std::fs::create_dir(&pages).expect("made");
        std::fs::set_permissions(&pages, Permissions::from_mode(0o777)).expect("changed");
        let error = prepare(&run, &pages).expect_err("unsafe").to_string();
        assert!(error.contains("777") && error.contains("capture.progress_dir"), "{error}");
        std::fs::set_permissions(&pages, Permissions::from_mode(0o700)).expect("changed");
        prepare(&run, &pages).expect("nobody else may write");
    }

    #[test]
    fn a_directory_that_others_may_write_to_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).expect("changed");
        let error = prepare(dir.path(), &dir.path().join("p")).expect_err("unsafe").to_string();
        assert!(error.contains("777") && error.contains("node.run_dir"), "{error}");
    }

    #[test]
    fn a_link_that_somebody_else_may_change_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        std::fs::create_dir(&real).expect("made");
        std::os::unix::fs::symlink(&real, &link).expect("linked");
        prepare(&link, &link.join("pages")).expect("an own link");
        if std::os::unix::fs::lchown(&link, Some(65_534), None).is_err() {
            return sluice_skip::skip!(Privilege, "only root gives files away");
        }
        let error = prepare(&link, &link.join("pages")).expect_err("another one's").to_string();
        assert!(error.contains("link of uid 65534"), "{error}");
        let error = prepare(&real, &link).expect_err("another one's").to_string();
        assert!(error.contains("link of uid 65534"), "{error}");
    }

    #[test]
    fn a_file_system_that_may_make_readers_wait_is_known_by_its_number() {
        let here = statfs("/proc").expect("mounted").filesystem_type();
        assert_eq!((waits_for(here), waits_for(FsType(0x6573_5546))), (None, Some("FUSE")));
    }
}
