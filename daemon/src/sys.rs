//! The few system calls that no safe wrapper here covers.
#![allow(unsafe_code)]

use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Asks for more CPU for the calling thread; refusal is no error, the unit sets the same.
pub fn prefer_this_thread() {
    // SAFETY: plain integers; 0 names the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -10) };
}

/// Leaves the CPU to others: for a thread whose work can wait. It inherits the loop's priority otherwise.
pub fn defer_this_thread() {
    // SAFETY: plain integers; 0 names the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 10) };
}

/// Waits for this descriptor on the runtime of the caller.
///
/// # Errors
/// The runtime's, for a descriptor that cannot be waited for.
pub fn wait_for(fd: OwnedFd) -> std::io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor is owned, so it stays open and the same until it is dropped together with its registration.
    unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }.map_err(Into::into)
}
