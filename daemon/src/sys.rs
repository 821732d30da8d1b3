//! The few system calls that no safe wrapper here covers.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, OwnedFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Bytes of an allocation that has memory of its own.
#[cfg(target_env = "gnu")]
const LARGE: libc::c_int = 128 << 10;

/// Leaves the CPU to others: for a thread whose work can wait. It inherits the loop's priority otherwise.
pub fn defer_this_thread() {
    nice(10);
}

/// Takes of the CPU what any program gets, whatever the loop has: for a thread whose work others wait for.
pub fn level_this_thread() {
    nice(0);
}

/// A thread that may not have this niceness keeps its own.
fn nice(nice: i32) {
    // SAFETY: plain integers; 0 names the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
}

/// From the start on: what is large goes back to the system as soon as it is free. The C library learns otherwise from the first large
/// buffer that is freed to keep all of that size, a document of thousands of flows in each thread.
pub fn keep_little_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: plain integers; no other thread allocates yet.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 2 * LARGE);
    };
}

/// Gives back to the system what was allocated and is free again, after something that took much for a moment. The C library keeps
/// it otherwise, wherever something that stays lies above it.
pub fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it changes no memory that is in use, and any thread may call it at any time.
    unsafe {
        libc::malloc_trim(0)
    };
}

/// Keeps all messages of ICMP from a raw socket but that a packet's hop limit has ended.
///
/// # Errors
/// The system's.
pub fn only_time_exceeded(fd: &OwnedFd) -> std::io::Result<()> {
    // ICMP_FILTER, and a mask of the types that are not wanted, of which time exceeded is number 11.
    let (filter, refused) = (1, !(1_u32 << 11));
    let length = size_of::<u32>() as libc::socklen_t;
    // SAFETY: the option is read from `refused`, which is as long as is said and outlives the call.
    let result =
        unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_RAW, filter, std::ptr::from_ref(&refused).cast(), length) };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Waits for this descriptor on the runtime of the caller.
///
/// # Errors
/// The runtime's, for a descriptor that cannot be waited for.
pub fn wait_for(fd: OwnedFd) -> std::io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor is owned, so it stays open and the same until it is dropped together with its registration.
    unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }.map_err(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_deferred_and_level_again() {
        // SAFETY: plain integers; 0 names the calling thread, which every test has for itself.
        let mine = || unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        defer_this_thread();
        assert_eq!(mine(), 10);
        level_this_thread();
        if mine() != 0 {
            sluice_skip::skip!(Privilege, "needs root to take a niceness back");
        }
    }
}
