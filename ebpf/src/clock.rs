//! CLOCK_MONOTONIC, the clock of every order's expiry.

use nix::time::{ClockId, clock_gettime};
use sluice_schedule::Nanos;

/// Now, on the clock the kernel programs compare expiries with.
pub fn monotonic() -> Nanos {
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(Nanos::ZERO, |t| Nanos((t.tv_sec() as u64).saturating_mul(1_000_000_000) + t.tv_nsec() as u64))
}
