//! One core kept busy as anybody's process would: a loop of the shell, not pinned, of ordinary priority.

use std::process::{Command, Stdio};

use crate::run::{KillOnDrop, RunError};
use crate::sys;

/// The loop under way; it ends when this is dropped, and with the thread that started it.
#[derive(Debug)]
pub struct Busy(KillOnDrop);

impl Busy {
    /// Starts the loop.
    ///
    /// # Errors
    /// When there is no shell.
    pub fn start() -> Result<Busy, RunError> {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        sys::die_with_parent(&mut command, None);
        Ok(Busy(KillOnDrop(command.spawn().map_err(RunError::io("starting a shell"))?)))
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.0.0.id()
    }
}

#[cfg(test)]
mod tests {
    use std::mem::ManuallyDrop;
    use std::time::Duration;

    use super::*;

    /// State and processor time in ticks; `None` when it is gone.
    fn stat(pid: u32) -> Option<(String, u64)> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        Some((fields.first()?.to_string(), fields.get(11)?.parse().ok()?))
    }

    fn until(what: impl Fn() -> bool) -> bool {
        (0..2000).any(|_| {
            std::thread::sleep(Duration::from_millis(5));
            what()
        })
    }

    #[test]
    fn it_takes_processor_time_until_it_is_dropped() {
        let busy = Busy::start().expect("a shell");
        let pid = busy.pid();
        assert!(until(|| stat(pid).is_some_and(|(_, ticks)| ticks > 2)), "{:?}", stat(pid));
        drop(busy);
        assert_eq!(stat(pid), None);
    }

    #[test]
    fn it_ends_with_whoever_started_it_and_could_not_end_it() {
        // A thread that ends without dropping it stands for a command that is killed.
        let started = std::thread::spawn(|| ManuallyDrop::new(Busy::start().expect("a shell")).pid());
        let pid = started.join().expect("a thread");
        assert!(until(|| stat(pid).is_none_or(|(state, _)| state == "Z")), "{:?}", stat(pid));
    }
}
