//! The brain of a table holder: announcements in, feedback out.

use crate::message::{Announcement, Feedback};
use crate::units::{BootId, Bytes, HostId, LinkId, Nanos, Rate, Slot};

/// How much one holder keeps, and for how long.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Hosts at most.
    pub hosts: usize,
    /// Promises (flow, link) of one host at most.
    pub promises_per_host: usize,
    /// Slots after the last announcement until a host's promises are gone.
    pub lease_slots: u32,
    /// Slots ahead that tables reach (K).
    pub horizon: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { hosts: 4096, promises_per_host: 8192, lease_slots: 2, horizon: 10 }
    }
}

/// A link as its holder is told at start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkConfig {
    /// The link.
    pub link: LinkId,
    /// Its payload rate.
    pub capacity: Rate,
    /// Unmanaged load, from configuration or a background source.
    pub cross: Rate,
}

/// The tables of one holder.
#[derive(Debug)]
pub struct Switch {}

impl Switch {
    /// Empty tables for these links.
    pub fn new(_boot: BootId, _limits: Limits, _links: &[LinkConfig]) -> Switch {
        Switch {}
    }
    /// Applies one host's announcement at the holder's own slot and answers it.
    pub fn announce(&mut self, _slot: Slot, _announcement: &Announcement) -> Feedback {
        Feedback::default()
    }
    /// What `host` should see now; `None` if it never announced.
    pub fn feedback(&mut self, _slot: Slot, _host: HostId) -> Option<Feedback> {
        None
    }
    /// Hosts whose watched links or jobs changed since their last feedback; drained by the caller, who pushes.
    pub fn take_stale(&mut self) -> Vec<HostId> {
        Vec::new()
    }
}
#[allow(unused)]
fn _unused(_: Bytes, _: Nanos) {}
