//! A copy of this test program that has more rights than whoever starts it, for tests of what libraries do in such a program.
#![allow(dead_code, reason = "every program uses its own part")]

use std::ffi::{CStr, CString, c_ulong};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Who starts programs here.
pub const CALLER: u32 = 65534;
/// Whose they are.
pub const OWNER: u32 = 65533;

/// A directory that everybody can look into, on a file system where programs may have more rights than their callers, whatever
/// the temporary directory's allows. Only the thread that made it sees it, and what that thread starts.
#[derive(Debug)]
pub struct Place {
    root: tempfile::TempDir,
}

/// Runs `act` in a thread with a [`Place`] of its own. All that was mounted goes with the thread and what it has started, however
/// they end.
///
/// # Errors
/// The system's, where this process may not mount.
pub fn apart<R: Send>(act: impl FnOnce(&Place) -> R + Send) -> io::Result<R> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| -> io::Result<R> {
            let place = Place::new()?;
            Ok(act(&place))
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

impl Place {
    fn new() -> io::Result<Place> {
        let root = tempfile::tempdir()?;
        // SAFETY: what it takes from this thread no other thread has.
        if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
            return Err(io::Error::last_os_error());
        }
        mount(None, Path::new("/"), libc::MS_REC | libc::MS_PRIVATE, None)?;
        mount(Some(c"tmpfs"), root.path(), 0, Some(c"mode=755"))?;
        Ok(Place { root })
    }

    pub fn path(&self) -> &Path {
        self.root.path()
    }

    /// A directory in which everybody may make files.
    pub fn open(&self, name: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::create_dir(&path).expect("made");
        allow(&path, 0o777);
        path
    }

    /// A copy of this test program, which is [`OWNER`]'s; with `more` whoever starts it has that user's rights.
    pub fn program(&self, more: bool) -> PathBuf {
        let path = self.path().join(if more { "more" } else { "same" });
        let this = std::env::current_exe().expect("this program");
        // By another program: a copy that this process has open for writing while another test starts something cannot be run.
        let copied = Command::new("cp").arg(this).arg(&path).status().expect("cp, which is everywhere");
        assert!(copied.success(), "{copied}");
        // In this order: another owner takes the right away again.
        chown(&path, Some(OWNER), Some(OWNER)).expect("root gives it away");
        allow(&path, if more { 0o4755 } else { 0o755 });
        path
    }

    /// A copy of a library that everybody can load.
    pub fn library(&self, library: &Path) -> PathBuf {
        let path = self.path().join(library.file_name().expect("a name"));
        fs::copy(library, &path).expect("copied");
        allow(&path, 0o755);
        path
    }

    /// Has this library loaded before every program that is started here from now on, also before one with more rights than its
    /// caller: as an administrator may, and no caller. Nothing else is in `/etc` any more.
    pub fn preload(&self, library: &Path) {
        let cache = fs::read("/etc/ld.so.cache");
        mount(Some(c"tmpfs"), Path::new("/etc"), 0, Some(c"mode=755")).expect("mounted");
        if let Ok(cache) = cache {
            fs::write("/etc/ld.so.cache", cache).expect("written");
            allow(Path::new("/etc/ld.so.cache"), 0o644);
        }
        fs::write("/etc/ld.so.preload", library.as_os_str().as_bytes()).expect("written");
        allow(Path::new("/etc/ld.so.preload"), 0o644);
    }
}

impl Drop for Place {
    /// The directory is removed after it.
    fn drop(&mut self) {
        if let Ok(root) = CString::new(self.path().as_os_str().as_bytes()) {
            // SAFETY: the name is NUL-terminated.
            unsafe { libc::umount2(root.as_ptr(), libc::MNT_DETACH) };
        }
    }
}

fn mount(kind: Option<&CStr>, at: &Path, flags: c_ulong, options: Option<&CStr>) -> io::Result<()> {
    let at = CString::new(at.as_os_str().as_bytes())?;
    let kind = kind.map_or(std::ptr::null(), CStr::as_ptr);
    let options = options.map_or(std::ptr::null(), CStr::as_ptr);
    // SAFETY: each is NUL-terminated or not there.
    let result = unsafe { libc::mount(c"sluice-rights".as_ptr(), at.as_ptr(), kind, flags, options.cast()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Gives a file these permissions.
pub fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("permissions");
}

/// Has this process more rights than its caller? The kernel says so to each program when it begins.
pub fn has_more_rights(pid: u32) -> bool {
    let told = fs::read(format!("/proc/{pid}/auxv")).expect("root may read it");
    let words: Vec<u64> =
        told.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes"))).collect();
    let secure = words.chunks_exact(2).find(|pair| pair[0] == libc::AT_SECURE).expect("every kernel says so");
    secure[1] != 0
}
