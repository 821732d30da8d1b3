//! Files that anybody may have put into a directory: opened without being led out of it or made to wait, and removed only
//! while they are still what was opened.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::sys;

/// A device's numbers.
type Device = [u32; 2];

/// Opens a file of this directory and of its file system (of `AT_FDCWD` any), without following links, without blocking on
/// FIFOs and leases, and without touching the access time where that is permitted.
///
/// # Errors
/// `EXDEV` where something is mounted; else the system's.
pub fn open(dir: RawFd, name: &CStr) -> io::Result<File> {
    let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY;
    match open_at(dir, name, flags | libc::O_NOATIME) {
        // Only the owner and CAP_FOWNER may ask for no access time.
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => open_at(dir, name, flags),
        other => other,
    }
}

/// The process that holds the publisher's lock of a page; `None` if nobody does, or nobody of this pid namespace.
pub fn publisher_of(page: &File) -> Option<u32> {
    sys::holder_of_byte0(page).ok().flatten().filter(|pid| *pid != 0)
}

fn open_at(dir: RawFd, name: &CStr, flags: i32) -> io::Result<File> {
    if dir == libc::AT_FDCWD {
        return plainly(dir, name, flags);
    }
    // SAFETY: all fields are integers, of which zero is a value.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = flags as u64;
    how.resolve = libc::RESOLVE_BENEATH | libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_XDEV;
    let size = size_of::<libc::open_how>();
    // SAFETY: the name is NUL-terminated and `how` lives until the call returns; the result is checked.
    let fd = unsafe { libc::syscall(libc::SYS_openat2, dir, name.as_ptr(), &raw const how, size) };
    match sys::check(fd as i32) {
        // SAFETY: the descriptor was just opened and has no other owner.
        Ok(fd) => Ok(unsafe { File::from_raw_fd(fd) }),
        // Before Linux 5.6, and under RestrictSUIDSGID= of systemd, which cannot look into `how`.
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => step_by_step(dir, name, flags),
        Err(error) => Err(error),
    }
}

/// As `openat2` does for a name without a slash, by looking first: what is mounted on a file of the directory, as the owner
/// of a file may with FUSE, is not opened. Whoever mounts between the look and the opening is found out right after it.
fn step_by_step(dir: RawFd, name: &CStr, flags: i32) -> io::Result<File> {
    if name.to_bytes().contains(&b'/') || name == c".." {
        return Err(io::Error::from_raw_os_error(libc::EXDEV));
    }
    let here = device(dir, c"")?;
    let of_here = |device: Device| if device == here { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EXDEV)) };
    of_here(device(dir, name)?)?;
    let file = plainly(dir, name, flags)?;
    of_here(device(file.as_raw_fd(), c"")?)?;
    Ok(file)
}

fn plainly(dir: RawFd, name: &CStr, flags: i32) -> io::Result<File> {
    // SAFETY: the name is NUL-terminated; the result is checked.
    let fd = sys::check(unsafe { libc::openat(dir, name.as_ptr(), flags) })?;
    // SAFETY: the descriptor was just opened and has no other owner.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// The device that a file is on, or with an empty name what is open; no file system is asked anything for it.
fn device(dir: RawFd, name: &CStr) -> io::Result<Device> {
    let flags = libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH | libc::AT_NO_AUTOMOUNT | libc::AT_STATX_DONT_SYNC;
    let mut seen = MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: the name is NUL-terminated and `seen` has room for one statx.
    sys::check(unsafe { libc::statx(dir, name.as_ptr(), flags, 0, seen.as_mut_ptr()) })?;
    // SAFETY: integers only, zero before the call.
    let seen = unsafe { seen.assume_init() };
    Ok([seen.stx_dev_major, seen.stx_dev_minor])
}

/// Removes the file of this name from a directory, if it is the one that is open.
///
/// # Errors
/// `ESTALE` if it is another one by now; else the system's.
pub(crate) fn remove(dir: &Path, name: &CStr, opened: &File) -> io::Result<()> {
    let path = CString::new(dir.as_os_str().as_bytes())?;
    let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: the path is NUL-terminated; the descriptor is owned from here on.
    let dir = unsafe { OwnedFd::from_raw_fd(sys::check(libc::open(path.as_ptr(), flags))?) };
    let mut seen = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the name is NUL-terminated and `seen` has room for one stat.
    let found = unsafe { libc::fstatat(dir.as_raw_fd(), name.as_ptr(), seen.as_mut_ptr(), libc::AT_SYMLINK_NOFOLLOW) };
    sys::check(found)?;
    // SAFETY: integers only, zero before the call.
    let seen = unsafe { seen.assume_init() };
    let meta = opened.metadata()?;
    if (seen.st_dev, seen.st_ino) != (meta.dev(), meta.ino()) {
        return Err(io::Error::from_raw_os_error(libc::ESTALE));
    }
    // SAFETY: the name is NUL-terminated.
    sys::check(unsafe { libc::unlinkat(dir.as_raw_fd(), name.as_ptr(), 0) }).map(drop)
}

#[cfg(test)]
mod tests {
    use sluice_skip::skip;

    use super::*;

    fn mount(what: &Path, on: &Path, kind: &CStr, flags: libc::c_ulong) -> io::Result<()> {
        let text = |path: &Path| CString::new(path.as_os_str().as_bytes()).expect("no NUL");
        let (what, on) = (text(what), text(on));
        // SAFETY: all texts are NUL-terminated; no data is passed.
        sys::check(unsafe { libc::mount(what.as_ptr(), on.as_ptr(), kind.as_ptr(), flags, std::ptr::null()) }).map(drop)
    }

    /// A directory with a file of its own and one with another file system's mounted on it; seen by this thread alone.
    fn mounted() -> io::Result<tempfile::TempDir> {
        let dir = tempfile::tempdir()?;
        let at = |name: &str| dir.path().join(name);
        // SAFETY: no other thread shares this one's view of the file system afterwards.
        sys::check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
        mount(Path::new("none"), Path::new("/"), c"none", libc::MS_REC | libc::MS_PRIVATE)?;
        std::fs::create_dir(at("other"))?;
        mount(Path::new("none"), &at("other"), c"tmpfs", 0)?;
        for file in ["own", "taken", "other/file"] {
            std::fs::write(at(file), file)?;
        }
        mount(&at("other/file"), &at("taken"), c"none", libc::MS_BIND)?;
        Ok(dir)
    }

    #[test]
    fn what_is_mounted_on_a_file_is_not_opened_with_or_without_openat2() {
        let looked = std::thread::spawn(|| {
            let dir = mounted()?;
            let opened = File::open(dir.path())?;
            let errno = |result: io::Result<File>| result.err().and_then(|error| error.raw_os_error());
            let fd = opened.as_raw_fd();
            let of = |name: &CStr| [errno(open(fd, name)), errno(step_by_step(fd, name, libc::O_RDONLY))];
            let seen = [of(c"own"), of(c"taken"), of(c"other/file"), of(c"..")];
            // So that nothing is mounted there when the directory is removed.
            drop(opened);
            for mounted in ["taken", "other"] {
                let path = CString::new(dir.path().join(mounted).as_os_str().as_bytes())?;
                // SAFETY: the path is NUL-terminated.
                sys::check(unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) })?;
            }
            Ok::<_, io::Error>(seen)
        });
        match looked.join().expect("no panic") {
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => skip!(Privilege, "mounting: {error}"),
            seen => {
                let elsewhere = [Some(libc::EXDEV); 2];
                assert_eq!(seen.expect("mounted"), [[None; 2], elsewhere, elsewhere, elsewhere]);
            }
        }
    }

    #[test]
    fn a_file_that_took_the_place_of_another_is_not_removed_for_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let (path, other) = (dir.path().join("a.sp1"), dir.path().join("b"));
        std::fs::write(&path, "dead").expect("written");
        let opened = File::open(&path).expect("there");
        std::fs::write(&other, "alive").expect("written");
        std::fs::rename(&other, &path).expect("renamed");
        let refused = remove(dir.path(), c"a.sp1", &opened).expect_err("another file");
        assert_eq!(refused.raw_os_error(), Some(libc::ESTALE));
        remove(dir.path(), c"a.sp1", &File::open(&path).expect("there")).expect("the one that is open");
        assert!(!path.exists());
        // Nor is anything removed by a directory that a link stands for.
        let (link, inside) = (dir.path().join("link"), dir.path().join("inside"));
        std::fs::create_dir(&inside).expect("made");
        std::fs::write(inside.join("a.sp1"), "").expect("written");
        std::os::unix::fs::symlink(&inside, &link).expect("linked");
        let opened = File::open(inside.join("a.sp1")).expect("there");
        assert!(remove(&link, c"a.sp1", &opened).is_err() && inside.join("a.sp1").exists());
    }
}
