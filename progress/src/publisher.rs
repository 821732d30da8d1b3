//! A writer that may not have its page yet: the directory is looked for at the first event, and again at most once
//! in ten seconds, only when an event happens. No timer, no thread, no message.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::guest;
use crate::ident::Ident;
use crate::sys;
use crate::writer::Writer;

/// Between two looks for the directory.
const RETRY_NS: u64 = 10_000_000_000;

/// Publishes once it can.
#[derive(Debug)]
pub struct Publisher {
    dirs: Vec<PathBuf>,
    ident: Ident,
    writer: OnceLock<Writer>,
    busy: AtomicBool,
    next_look_ns: AtomicU64,
    pid: i32,
}

/// Where pages are published: `SLUICE_SHM_DIR` alone if it is set, else the daemon's directory, else that in `/dev/shm`.
/// Empty with `SLUICE_DISABLE=1`, and in a program with more rights than its caller, whose environment decides nothing.
pub fn default_dirs() -> Vec<PathBuf> {
    if guest::privileged() || std::env::var_os("SLUICE_DISABLE").is_some_and(|value| value == "1") {
        return Vec::new();
    }
    match std::env::var_os("SLUICE_SHM_DIR") {
        Some(dir) if !dir.is_empty() => vec![dir.into()],
        _ => vec!["/run/sluice/progress".into(), "/dev/shm/sluice".into()],
    }
}

impl Publisher {
    /// A publisher that will use the first of `dirs` that takes a page. Tries at once.
    pub fn new(dirs: Vec<PathBuf>, ident: Ident) -> Publisher {
        sys::watch_forks();
        let publisher = Publisher {
            dirs,
            ident,
            writer: OnceLock::new(),
            busy: AtomicBool::new(false),
            next_look_ns: AtomicU64::new(0),
            pid: sys::current_pid(),
        };
        publisher.writer();
        publisher
    }

    /// The writer, if there is one by now. Never blocks; in a forked child always `None`.
    #[inline]
    pub fn writer(&self) -> Option<&Writer> {
        if sys::current_pid() != self.pid {
            return None;
        }
        self.writer.get().or_else(|| self.try_again())
    }

    /// Creates the page if that is due.
    #[cold]
    fn try_again(&self) -> Option<&Writer> {
        let now = sys::tick_ns();
        if now < self.next_look_ns.load(Ordering::Relaxed) || self.busy.swap(true, Ordering::Acquire) {
            return None;
        }
        self.next_look_ns.store(now.saturating_add(RETRY_NS), Ordering::Relaxed);
        if self.writer.get().is_none()
            && let Some(writer) = self.dirs.iter().find_map(|dir| Writer::create(dir, &self.ident).ok())
        {
            let _ = self.writer.set(writer);
        }
        self.busy.store(false, Ordering::Release);
        self.writer.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ident::Source;

    #[test]
    fn an_absent_directory_is_silence_and_is_not_looked_for_at_every_event() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let dir = root.path().join("progress");
        let publisher = Publisher::new(vec![dir.clone()], Ident::new(Source::Application));
        assert!(publisher.writer().is_none());
        std::fs::create_dir(&dir).expect("create the directory");
        assert!(publisher.writer().is_none(), "the next look is ten seconds away");
        publisher.next_look_ns.store(0, Ordering::Relaxed);
        assert!(publisher.writer().is_some());
    }
}
