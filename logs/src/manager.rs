//! What the service manager is told: ready, alive, reloading, ending, and how it goes in one line.
//!
//! Telling never waits. Who keeps the other end may be busy, as a manager is that reads its own configuration again, or hang; the
//! socket is full then, and the loop that decides must not stand still for that, nor the thread that serves tables: orders would run
//! out. A sign of life that does not fit is left away, since the next one says the same; what is said once is said again until it
//! fits.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

pub use sd_notify::NotifyState;

/// Where a service manager says that it listens.
const VARIABLE: &str = "NOTIFY_SOCKET";
/// Words that wait for room at most.
const MAX_OWED: usize = 16;

/// The way to the service manager, if there is one.
#[derive(Debug, Default)]
pub struct ServiceManager {
    to: Option<(UnixDatagram, SocketAddr)>,
    owed: VecDeque<String>,
}

impl ServiceManager {
    /// The one that the environment names. One that cannot be reached is as good as none.
    pub fn of_environment() -> ServiceManager {
        let to = std::env::var_os(VARIABLE).and_then(|name| open(&name).ok());
        ServiceManager { to, owed: VecDeque::new() }
    }

    /// Tells it, now or as soon as there is room and something is told again.
    pub fn tell(&mut self, state: &NotifyState<'_>) {
        let perishable = matches!(state, NotifyState::Watchdog | NotifyState::Status(_));
        let word = format!("{state}\n");
        let sent = self.settle() && self.send(&word);
        if !sent && !perishable && self.owed.len() < MAX_OWED {
            self.owed.push_back(word);
        }
    }

    /// Says what is owed, as far as there is room. True: nothing is owed any more.
    pub fn settle(&mut self) -> bool {
        while let Some(word) = self.owed.front() {
            if !self.send(word) {
                return false;
            }
            self.owed.pop_front();
        }
        true
    }

    /// False: there is no room. Where nobody listens any more nothing is owed.
    fn send(&self, word: &str) -> bool {
        let Some((socket, to)) = &self.to else { return true };
        let full = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
        !socket.send_to_addr(word.as_bytes(), to).as_ref().is_err_and(full)
    }
}

fn open(name: &OsStr) -> io::Result<(UnixDatagram, SocketAddr)> {
    let to = match name.as_bytes().split_first() {
        Some((b'@', rest)) => SocketAddr::from_abstract_name(rest)?,
        _ => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    Ok((socket, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(at: &UnixDatagram) -> Vec<String> {
        let mut buffer = [0; 256];
        let mut words = Vec::new();
        while let Ok(length) = at.recv(&mut buffer) {
            words.push(String::from_utf8_lossy(&buffer[..length]).trim_end().to_owned());
        }
        words
    }

    #[test]
    fn a_manager_that_does_not_listen_keeps_nobody_waiting_and_hears_what_counts_later() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("notify");
        let listener = UnixDatagram::bind(&path).expect("bound");
        listener.set_nonblocking(true).expect("set");
        let mut manager = ServiceManager { to: open(path.as_os_str()).ok(), owed: VecDeque::new() };
        manager.tell(&NotifyState::Ready);
        assert_eq!(heard(&listener), ["READY=1"]);
        // More than any queue has room for. With a socket that waits this would not end.
        (0..10_000).for_each(|_| manager.tell(&NotifyState::Watchdog));
        manager.tell(&NotifyState::Reloading);
        manager.tell(&NotifyState::Ready);
        assert!(!manager.settle(), "there is no room");
        let first = heard(&listener);
        assert!(first.len() < 10_000 && first.iter().all(|word| word == "WATCHDOG=1"), "{} words", first.len());
        manager.tell(&NotifyState::Watchdog);
        assert_eq!(heard(&listener), ["RELOADING=1", "READY=1", "WATCHDOG=1"], "in order");
        assert!(manager.settle());
        // One that is gone is owed nothing.
        drop(listener);
        (0..100).for_each(|_| manager.tell(&NotifyState::Ready));
        assert!(manager.owed.is_empty());
    }

    #[test]
    fn an_abstract_name_is_reached_and_none_is_no_fault() {
        let name = format!("sluice-service-{}", std::process::id());
        let at = SocketAddr::from_abstract_name(&name).expect("a name");
        let listener = UnixDatagram::bind_addr(&at).expect("bound");
        listener.set_nonblocking(true).expect("set");
        let mut manager = ServiceManager { to: open(OsStr::new(&format!("@{name}"))).ok(), owed: VecDeque::new() };
        manager.tell(&NotifyState::Status("all is well"));
        assert_eq!(heard(&listener), ["STATUS=all is well"]);
        ServiceManager::default().tell(&NotifyState::Stopping);
    }
}
