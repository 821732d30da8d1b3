//! The clock that slots are counted on, a number that nobody else has, and the memory that the process has.

use std::io::Read;

use sluice_schedule::{BootId, Nanos};
use sluice_wire::hello::ClockSource;

/// The clock that slots are counted on.
pub fn wall(source: ClockSource) -> Nanos {
    match source {
        ClockSource::Realtime => sluice_clock::realtime(),
        ClockSource::Tai => sluice_clock::tai(),
    }
}

/// A new identity of this process.
pub fn draw_boot_id() -> std::io::Result<BootId> {
    let mut bytes = [0; 8];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(BootId(u64::from_ne_bytes(bytes).max(1)))
}

/// Resident memory of this process in bytes, where the kernel tells.
pub fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib.saturating_mul(1024))
}
