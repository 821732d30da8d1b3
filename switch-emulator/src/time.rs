//! The clock that slots are counted on, and a number that nobody else has.

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
