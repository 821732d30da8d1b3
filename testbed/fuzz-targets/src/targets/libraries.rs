//! F18, F19 and F20: what runs in other people's processes.

pub mod nccl;
pub mod page;
#[cfg(not(test))]
pub mod pslite;

use std::sync::Once;

/// Has this process's libraries publish in a directory of their own, before the first of them asks. They take away what they
/// put there.
fn published() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Kept for the life of the process; the next one takes it away.
        let pages = crate::places::place().keep();
        // SAFETY: nothing else of this process changes the environment, and what reads it meanwhile does so in Rust, whose
        // lock this takes.
        unsafe { std::env::set_var("SLUICE_SHM_DIR", &pages) };
    });
}
