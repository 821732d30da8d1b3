//! SIGINT and SIGTERM as a flag that long work looks at.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};

use signal_hook::consts::{SIGINT, SIGTERM};

/// The exit status of a command that was interrupted.
pub const INTERRUPTED: u8 = 130;

/// Becomes true at the first SIGINT or SIGTERM, which from now on do not end the process.
pub fn flag() -> &'static AtomicBool {
    static FLAG: LazyLock<Arc<AtomicBool>> = LazyLock::new(|| {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // Only signals that nobody may handle are refused; without a handler the signal ends the process.
            drop(signal_hook::flag::register(signal, Arc::clone(&flag)));
        }
        flag
    });
    &FLAG
}
