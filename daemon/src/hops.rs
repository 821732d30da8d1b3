//! By which of several equal paths flows go, found without help from switches: segments of a flow's own connection whose
//! hop limit ends on the way, and the word of the router where it does. Off unless the configuration asks for it.
//!
//! | module | is |
//! | --- | --- |
//! | [`prober`] | which flow is asked next at which distance, and what an answer says; pure |
//! | [`segment`] | the bytes of both |
//! | `raw` | the sockets |

pub mod prober;
mod raw;
pub mod segment;

use std::io;
use std::net::{IpAddr, Ipv4Addr};

use sluice_schedule::{HolderId, Nanos};

use prober::{Probe, Prober};
use raw::Raw;

/// Answers read at once.
const READ: usize = 64;
/// More than a quoted segment takes with all options.
const ANSWER: usize = 256;

/// The way out and back.
pub trait Outside {
    /// Sends an IPv4 packet.
    ///
    /// # Errors
    /// The system's.
    fn send(&self, from: Ipv4Addr, to: Ipv4Addr, packet: &[u8]) -> io::Result<()>;
    /// The next packet that came back, cut to the buffer; `None`: there is none.
    fn receive(&self, buffer: &mut [u8]) -> Option<usize>;
}

/// Probes while they are wanted.
pub struct Hops {
    pub prober: Prober,
    outside: Option<Box<dyn Outside>>,
    /// Why there are none, or the last one could not be sent.
    trouble: Option<String>,
    open: fn() -> io::Result<Box<dyn Outside>>,
}

impl std::fmt::Debug for Hops {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hops").field("prober", &self.prober).field("trouble", &self.trouble).finish_non_exhaustive()
    }
}

impl Hops {
    pub fn new(repeat: Nanos) -> Hops {
        let open = || Ok(Box::new(Raw::open()?) as Box<dyn Outside>);
        Hops { prober: Prober::new(repeat), outside: None, trouble: None, open }
    }

    #[cfg(test)]
    pub fn opened_by(&mut self, open: fn() -> io::Result<Box<dyn Outside>>) {
        self.open = open;
    }

    /// They are wanted: opens what they need, if it is not open. False: that may not be.
    pub fn begin(&mut self) -> bool {
        if self.outside.is_none() && self.trouble.is_none() {
            match (self.open)() {
                Ok(outside) => self.outside = Some(outside),
                Err(error) => self.trouble = Some(format!("no raw socket may be opened: {error}")),
            }
        }
        self.outside.is_some()
    }

    /// They are not wanted. True: they were until now.
    pub fn end(&mut self, repeat: Nanos) -> bool {
        let was = self.outside.take().is_some();
        if was || self.trouble.is_some() {
            *self = Hops { open: self.open, ..Hops::new(repeat) };
        }
        was
    }

    /// What could not be opened is tried again.
    pub fn retry(&mut self) {
        if self.outside.is_none() {
            self.trouble = None;
        }
    }

    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Reads what routers said.
    pub fn hear(&mut self, now: Nanos, switch_at: impl Fn(IpAddr) -> Option<HolderId>) {
        let Some(outside) = &self.outside else { return };
        let mut buffer = [0; ANSWER];
        for _ in 0..READ {
            let Some(length) = outside.receive(&mut buffer) else { return };
            let exceeded = buffer.get(..length).and_then(segment::read);
            if let Some(exceeded) = exceeded
                && let Some(switch) = switch_at(exceeded.from)
            {
                self.prober.heard(now, switch, &exceeded);
            }
        }
    }

    /// Sends one. One that cannot be sent is not answered.
    pub fn send(&mut self, probe: &Probe) {
        let (Some(outside), Some(packet)) = (&self.outside, segment::bytes(probe)) else { return };
        let (IpAddr::V4(from), IpAddr::V4(to)) = (probe.connection.source.ip(), probe.connection.destination.ip())
        else {
            return;
        };
        let sent = outside.send(from, to, &packet);
        self.trouble = sent.err().map(|error| format!("the last probe to {to} could not be sent: {error}"));
    }
}
