//! What a library needs that lives in a process which is not its own: it must leave no trace there but its page.

pub mod socket;

use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use crate::sys;

/// Runs `act`; a panic ends here. What it carries is not even dropped: that could panic again.
pub fn guard(act: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(act)) {
        let _ = ManuallyDrop::new(payload);
    }
}

/// A panic in here is nobody's news on a job's standard error. The hook is this library's own copy of the standard
/// library's, so it silences nothing else.
pub fn quiet_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| std::panic::set_hook(Box::new(|_| {})));
}

/// In a program with more rights than its caller, the caller's environment decides nothing.
pub fn privileged() -> bool {
    // SAFETY: getauxval has no preconditions.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Makes [`borrows_memory`] follow forks.
pub fn watch_forks() {
    sys::watch_forks();
}

/// Is this a child that runs in its parent's memory until it executes something (`vfork`)? What it closes, the parent
/// still has open. Right after [`watch_forks`]; one system call.
pub fn borrows_memory() -> bool {
    // SAFETY: getpid has no preconditions.
    unsafe { libc::getpid() != sys::current_pid() }
}

/// Puts errno back when it goes.
#[derive(Debug)]
pub struct Errno(libc::c_int);

impl Errno {
    /// Keeps what errno is now.
    #[inline]
    pub fn keep() -> Errno {
        // SAFETY: the location is this thread's.
        Errno(unsafe { *libc::__errno_location() })
    }
}

impl Drop for Errno {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = self.0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_ends_in_the_guard_and_errno_is_put_back() {
        // SAFETY: this thread's errno.
        unsafe { *libc::__errno_location() = 77 };
        guard(|| {
            let _errno = Errno::keep();
            // SAFETY: as above.
            unsafe { *libc::__errno_location() = 1 };
            std::panic::resume_unwind(Box::new("asked for"));
        });
        // SAFETY: as above.
        assert_eq!(unsafe { *libc::__errno_location() }, 77);
        watch_forks();
        assert!(!borrows_memory() && !privileged());
    }
}
