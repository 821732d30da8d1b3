//! The few system calls that no safe wrapper here covers.
#![allow(unsafe_code)]

use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// What `adjtimex` says.
#[derive(Clone, Copy, Debug)]
pub struct Timex {
    /// Does a time service discipline the clock?
    pub synchronised: bool,
    /// Bound of the error in µs.
    pub max_error_us: i64,
    /// Estimated error in µs.
    pub estimated_error_us: i64,
    /// TAI − UTC in s.
    pub tai: i64,
}

/// Reads the state of the kernel's clock, never sets it: `modes` is 0. `None` where that is refused.
pub fn adjtimex() -> Option<Timex> {
    // SAFETY: all-zero bytes are a valid `timex` (integers only).
    let mut timex: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel reads and writes only the struct it is given.
    let state = unsafe { libc::adjtimex(&mut timex) };
    (state >= 0).then(|| Timex {
        synchronised: state != libc::TIME_ERROR && timex.status & libc::STA_UNSYNC == 0,
        max_error_us: timex.maxerror,
        estimated_error_us: timex.esterror,
        tai: i64::from(timex.tai),
    })
}

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
