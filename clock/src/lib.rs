//! The clocks of this machine, and what the kernel says of their quality. Nothing here sets a clock.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::string_slice))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::unreachable))]
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use std::io;

use nix::time::{ClockId, clock_gettime};
use sluice_schedule::Nanos;

/// Time since 1970, as this machine has it; it may step.
pub fn realtime() -> Nanos {
    read(ClockId::CLOCK_REALTIME)
}

/// International atomic time since 1970; the same as [`realtime`] where nobody told the kernel the offset.
pub fn tai() -> Nanos {
    read(ClockId::CLOCK_TAI)
}

/// Time since the machine started; the clock that the kernel programs compare expiries with.
pub fn monotonic() -> Nanos {
    read(ClockId::CLOCK_MONOTONIC)
}

/// CPU time of the calling thread so far.
pub fn thread_cpu() -> Nanos {
    read(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of this process so far.
pub fn process_cpu() -> Nanos {
    read(ClockId::CLOCK_PROCESS_CPUTIME_ID)
}

// These clocks exist on every kernel that runs this; a failure reads as the clock's origin, which no holder accepts.
fn read(clock: ClockId) -> Nanos {
    clock_gettime(clock).map_or(Nanos::ZERO, |time| {
        let (seconds, nanos) = (time.tv_sec().max(0) as u64, time.tv_nsec().max(0) as u64);
        Nanos(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
    })
}

/// What the kernel says of its clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelClock {
    /// Does a time service discipline it?
    pub synchronised: bool,
    /// Bound of its error.
    pub max_error: Nanos,
    /// What the kernel takes its error to be, without a guarantee.
    pub estimated_error: Nanos,
    /// TAI − UTC in s; 0: not set.
    pub tai_offset: i64,
}

/// Asks the kernel for the state of its clock (`adjtimex` with nothing to set).
///
/// # Errors
/// The kernel's refusal, under a filter of system calls for instance.
pub fn kernel() -> io::Result<KernelClock> {
    // SAFETY: all-zero bytes are a valid `timex` (integers only), and `modes` 0 only reads.
    let mut timex: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel reads and writes only the struct it is given.
    let state = unsafe { libc::adjtimex(&mut timex) };
    if state < 0 {
        return Err(io::Error::last_os_error());
    }
    let micros = |value: i64| Nanos(u64::try_from(value).unwrap_or(0).saturating_mul(1000));
    Ok(KernelClock {
        synchronised: state != libc::TIME_ERROR && timex.status & libc::STA_UNSYNC == 0,
        max_error: micros(timex.maxerror),
        estimated_error: micros(timex.esterror),
        tai_offset: timex.tai.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_go_forward_and_the_kernel_knows_the_offset_that_tai_has() {
        let (before, cpu) = (monotonic(), thread_cpu());
        assert!(before > Nanos::ZERO && monotonic() >= before && thread_cpu() >= cpu && process_cpu() >= cpu);
        let offset = (tai().minus(realtime()).0 + 500_000_000) / 1_000_000_000;
        if let Ok(kernel) = kernel() {
            assert_eq!(kernel.tai_offset, offset as i64);
        }
    }
}
