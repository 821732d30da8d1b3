//! What only a privileged process may see of others: their network namespaces, environments and open sockets, the pages that
//! they publish and the plans that they name. This process sees it itself, or asks the helper.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use crate::monitor::environ::Environ;
use crate::monitor::tuple::NetNs;
use crate::monitor::{holders, namespaces};
use crate::sock_diag;

/// Opens a file of the directory of progress pages.
pub type PageOpener = Box<dyn Fn(&CStr) -> io::Result<File> + Send>;

/// Sees what takes privileges.
pub trait Eyes: fmt::Debug + Send + Sync {
    /// The network namespace of a process; `None` if it is gone or may not be looked at.
    fn netns(&self, pid: u32) -> Option<NetNs>;
    /// A socket to ask for the connections of a process's network namespace by.
    ///
    /// # Errors
    /// If the process is gone or its namespace may not be entered.
    fn diag(&self, pid: u32) -> io::Result<OwnedFd>;
    /// What its environment says about its job; `None` if it may not be read or is gone.
    fn environ(&self, pid: u32) -> Option<Environ>;
    /// The inodes of the sockets that it has open.
    fn sockets(&self, pid: u32) -> BTreeSet<u64>;
    /// The file of the plan that it names, here `path`.
    ///
    /// # Errors
    /// The system's.
    fn plan(&self, pid: u32, path: &Path) -> io::Result<File>;
    /// How a file of the directory of progress pages is opened; `None`: as any file is.
    fn pages(&self) -> Option<PageOpener> {
        None
    }
}

/// Shared by those who look.
pub type SharedEyes = Arc<dyn Eyes>;

/// Those of this process.
pub fn own() -> SharedEyes {
    Arc::new(Own)
}

/// A socket to ask by, in the namespace of a process, or in the own one where that is the same: which takes no privilege.
///
/// # Errors
/// The system's.
pub fn diag_for(eyes: &dyn Eyes, pid: u32, netns: Option<NetNs>) -> io::Result<OwnedFd> {
    if netns == namespaces::of(std::process::id()) { Ok(sock_diag::open()?) } else { eyes.diag(pid) }
}

#[derive(Debug)]
struct Own;

impl Eyes for Own {
    fn netns(&self, pid: u32) -> Option<NetNs> {
        namespaces::of(pid)
    }
    fn diag(&self, pid: u32) -> io::Result<OwnedFd> {
        Ok(namespaces::within(pid, sock_diag::open)??)
    }
    fn environ(&self, pid: u32) -> Option<Environ> {
        Environ::of(pid)
    }
    fn sockets(&self, pid: u32) -> BTreeSet<u64> {
        holders::sockets_of(pid)
    }
    fn plan(&self, _pid: u32, path: &Path) -> io::Result<File> {
        open_plan(path)
    }
}

/// Opens a plan by a path that a user gave: no link at its end is followed, and nobody is waited for.
///
/// # Errors
/// The system's.
pub fn open_plan(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY;
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}
