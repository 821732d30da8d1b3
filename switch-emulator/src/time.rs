//! The clocks of this machine, and what the kernel says of their quality.

use std::io::Read;

use nix::time::{ClockId, clock_gettime};
use sluice_schedule::{BootId, Nanos};
use sluice_wire::hello::ClockSource;

/// The clock that slots are counted on.
pub fn wall(source: ClockSource) -> Nanos {
    match source {
        ClockSource::Realtime => read(ClockId::CLOCK_REALTIME),
        ClockSource::Tai => read(ClockId::CLOCK_TAI),
    }
}

/// CLOCK_MONOTONIC.
pub fn mono() -> Nanos {
    read(ClockId::CLOCK_MONOTONIC)
}

/// CPU time of this thread.
pub fn thread_cpu() -> Nanos {
    read(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of this process.
pub fn process_cpu() -> Nanos {
    read(ClockId::CLOCK_PROCESS_CPUTIME_ID)
}

/// How many whole seconds CLOCK_TAI is ahead of CLOCK_REALTIME; 0 where nobody set it.
pub fn tai_offset() -> u64 {
    let (realtime, tai) = (read(ClockId::CLOCK_REALTIME), read(ClockId::CLOCK_TAI));
    (tai.minus(realtime).0 + 500_000_000) / 1_000_000_000
}

/// A new identity of this process.
pub fn draw_boot_id() -> std::io::Result<BootId> {
    let mut bytes = [0; 8];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(BootId(u64::from_ne_bytes(bytes).max(1)))
}

// These clocks exist on every kernel that runs this; a failure reads as the clock's origin, which refuses every hello.
fn read(clock: ClockId) -> Nanos {
    clock_gettime(clock).map_or(Nanos::ZERO, |time| {
        Nanos((time.tv_sec().max(0) as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec().max(0) as u64))
    })
}

/// What the kernel says of its clock: unsynchronised, and the largest error it admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelClock {
    /// A time daemon steers it.
    pub synchronised: bool,
    /// Largest error.
    pub max_error: Nanos,
}

/// Asks the kernel.
#[allow(unsafe_code, reason = "adjtimex has no safe wrapper")]
pub fn kernel_clock() -> KernelClock {
    // SAFETY: `timex` is plain data for which all zeroes is a valid value (modes 0: read only), and the kernel writes
    // only inside it.
    let (state, timex) = unsafe {
        let mut timex: libc::timex = std::mem::zeroed();
        (libc::adjtimex(&mut timex), timex)
    };
    let synchronised = state >= 0 && state != libc::TIME_ERROR && timex.status & libc::STA_UNSYNC == 0;
    KernelClock { synchronised, max_error: Nanos((timex.maxerror.max(0) as u64).saturating_mul(1000)) }
}
