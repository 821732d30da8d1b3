//! The few system calls that no safe wrapper here covers.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, OwnedFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// `mi_option_purge_delay` of mimalloc.h, which its crate does not name.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;
/// Memory that is free goes back to the system after so many milliseconds; the allocator's own second keeps a fourth more.
const PURGE_DELAY_MS: libc::c_long = 10;

/// From now on the allocator gives free memory back soon. For programs whose allocator is mimalloc; it does nothing in others.
pub fn keep_little_memory() {
    // SAFETY: plain integers; it may be called at any time.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, PURGE_DELAY_MS) };
}

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
    fn the_allocator_has_the_option_at_this_number() {
        // SAFETY: plain integers.
        let delay = || unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
        let before = delay();
        assert!(before == 1_000 || before == PURGE_DELAY_MS, "{before}");
        keep_little_memory();
        assert_eq!(delay(), PURGE_DELAY_MS);
        // Another version may number them anew.
        assert_eq!(libmimalloc_sys::_mi_option_last, 47);
    }

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
