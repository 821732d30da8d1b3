//! What a holder is told at start: how much it keeps, and of which links.

use crate::units::{HostId, LinkId, Rate};

/// How much one holder keeps, and for how long.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// How many hosts may hold a lease.
    pub hosts: usize,
    /// Promises (flow, link) of one host at most; also bounds its flows and watched links, each.
    pub promises_per_host: usize,
    /// Slots after the last announcement until a host's promises are gone.
    pub lease_slots: u32,
    /// Slots ahead that tables reach (K).
    pub horizon: usize,
}

impl Limits {
    /// Job statuses of one announcement that are looked at; the rest is left out and counted.
    pub(super) const STATUSES: usize = 4096;
    /// Links of one announcement whose unmanaged traffic is taken in: a host is attached to few.
    pub(super) const MEASURED: usize = 64;
    /// A host's promises of a slot may be beyond what it can send by one part of so many; they are scaled down then.
    pub(super) const ACCESS_SLACK: u128 = 8;
    /// A double buffer keeps of a host in one slot this many times its promises: those of two announcements, and the ends of as
    /// many that the slot before knew.
    pub(super) const KEPT_PER_SLOT: usize = 4;
    /// How far an announced slot may be from the holder's own.
    pub(super) const SLOT_GUARD: u32 = 1;
    /// Slots a holder must have run before zero load means zero.
    pub(super) const WARM_SLOTS: u64 = 2;
}

impl Default for Limits {
    fn default() -> Self {
        Limits { hosts: 4096, promises_per_host: 8192, lease_slots: 2, horizon: 10 }
    }
}

/// A link as its holder is told at start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkConfig {
    /// The link whose table is kept.
    pub link: LinkId,
    /// Its payload rate.
    pub capacity: Rate,
    /// Unmanaged load, from configuration or a background source.
    pub cross: Rate,
    /// The host that the link leads to, whose word on unmanaged traffic there counts; `None`: nobody's does.
    pub attached: Option<HostId>,
}
