//! The lines this plug-in writes, all through NCCL's logger: one when it begins, and one warning per cause.

use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::abi::{Logger, log};

/// Something that is said once per process.
#[derive(Debug)]
pub struct Once(AtomicBool);

impl Once {
    /// A message that was not written yet.
    pub const fn new() -> Once {
        Once(AtomicBool::new(false))
    }

    fn first(&self) -> bool {
        !self.0.swap(true, Ordering::Relaxed)
    }
}

/// Says it, unless this cause was told before or there is no logger.
pub fn info(logger: Option<Logger>, once: &Once, text: &str) {
    say(logger, once, log::INFO, text);
}

/// As [`info`], for what the operator should mend.
pub fn warn(logger: Option<Logger>, once: &Once, text: &str) {
    say(logger, once, log::WARN, text);
}

fn say(logger: Option<Logger>, once: &Once, level: i32, text: &str) {
    let Some(logger) = logger.filter(|_| once.first()) else { return };
    let Ok(text) = CString::new(format!("SLUICE/Profiler: {text}")) else { return };
    // SAFETY: NCCL's own logger, a format with one text, and that text.
    unsafe { logger(level, log::SUBSYSTEMS, c"sluice".as_ptr(), 0, c"%s".as_ptr(), text.as_ptr()) };
}
