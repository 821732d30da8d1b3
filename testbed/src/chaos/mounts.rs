//! A mount namespace for what rows mount: it goes with this process, however that ends.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};

use super::ground::Unrun;
use crate::run::RunError;

/// Whether this process has left the machine's mounts; once.
static OWN: OnceLock<Result<(), nix::Error>> = OnceLock::new();

/// Leaves the machine's mounts: what this thread, threads that it starts from now on, and their children mount or take away
/// concerns nobody else. Called before anything else is started.
///
/// # Errors
/// Without CAP_SYS_ADMIN.
pub fn leave() -> Result<(), Unrun> {
    let leave = || {
        unshare(CloneFlags::CLONE_NEWNS)?;
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
    };
    OWN.get_or_init(leave).map_err(|errno| Unrun::Lacks(format!("a mount namespace of its own cannot be had: {errno}")))
}

fn failed(what: &str, path: &Path) -> impl FnOnce(nix::Error) -> Unrun {
    let what = format!("{what} {}", path.display());
    move |errno| RunError::io(what)(errno.into()).into()
}

/// A file system that was mounted or bound somewhere; dropping it takes it away.
#[derive(Debug)]
pub struct Mounted(PathBuf);

impl Mounted {
    /// A small file system in memory at `dir`, which is made.
    ///
    /// # Errors
    /// The mounts are the machine's, or the system refuses.
    pub fn memory(dir: &Path, bytes: u64) -> Result<Mounted, Unrun> {
        own()?;
        std::fs::create_dir_all(dir).map_err(RunError::io(format!("creating {}", dir.display())))?;
        let options = format!("mode=0755,size={bytes}");
        let none = MsFlags::empty();
        mount(Some("sluice-chaos"), dir, Some("tmpfs"), none, Some(options.as_str()))
            .map_err(failed("mounting", dir))?;
        Ok(Mounted(dir.to_owned()))
    }

    /// `dir` over itself, so that it can be made read-only.
    ///
    /// # Errors
    /// As [`Mounted::memory`].
    pub fn read_only(dir: &Path) -> Result<Mounted, Unrun> {
        own()?;
        let none = None::<&str>;
        mount(Some(dir), dir, none, MsFlags::MS_BIND, none).map_err(failed("binding", dir))?;
        let mounted = Mounted(dir.to_owned());
        let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
        mount(none, dir, none, flags, none).map_err(failed("making read-only", dir))?;
        Ok(mounted)
    }
}

fn own() -> Result<(), Unrun> {
    match OWN.get() {
        Some(Ok(())) => Ok(()),
        _ => Err(Unrun::Lacks("this process shares the machine's mounts, which are not to be touched".into())),
    }
}

/// A file system that was taken away from its place; dropping it brings it back.
#[derive(Debug)]
pub struct Hidden {
    place: PathBuf,
    kept: PathBuf,
}

impl Hidden {
    /// Takes the file system at `place` away, also where it is in use; it stays reachable at `kept`, which is made.
    ///
    /// # Errors
    /// As [`Mounted::memory`].
    pub fn take(place: &Path, kept: &Path) -> Result<Hidden, Unrun> {
        own()?;
        std::fs::create_dir_all(kept).map_err(RunError::io(format!("creating {}", kept.display())))?;
        let none = None::<&str>;
        mount(Some(place), kept, none, MsFlags::MS_BIND, none).map_err(failed("binding", place))?;
        let hidden = Hidden { place: place.to_owned(), kept: kept.to_owned() };
        umount2(place, MntFlags::MNT_DETACH).map_err(failed("unmounting", place))?;
        Ok(hidden)
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // Somebody may have mounted another one there; or nobody, and then this is refused.
        let _ = umount2(&self.place, MntFlags::MNT_DETACH);
        let none = None::<&str>;
        // Only this process's mounts are wrong if it cannot be brought back.
        let _ = mount(Some(&self.kept), &self.place, none, MsFlags::MS_BIND, none);
        let _ = umount2(&self.kept, MntFlags::MNT_DETACH);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // It goes with this process at the latest.
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}
