//! The leases of hosts, for shells and status pages.

use super::Switch;
use super::hosts::Host;
use crate::units::{BootId, HostId, Slot};

/// A host's lease, for status pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostLease {
    /// The host that holds the lease.
    pub host: HostId,
    /// Of the process that announced last.
    pub boot: BootId,
    /// Sequence number of the announcement in force.
    pub seq: u64,
    /// The slot it was for.
    pub slot: Slot,
    /// The first slot in which it is no longer in force.
    pub ends: Slot,
    /// Promises (flow, link) it holds.
    pub promises: usize,
}

impl Switch {
    /// Hosts with a lease, in order of their ids.
    pub fn hosts(&self) -> impl Iterator<Item = HostId> + '_ {
        self.hosts.iter().map(|(_, host)| host.id)
    }

    /// How many hosts have a lease.
    pub fn host_count(&self) -> usize {
        self.hosts.len()
    }

    /// The leases of all hosts, in order of their ids.
    pub fn leases(&self) -> impl Iterator<Item = HostLease> + '_ {
        self.hosts.iter().map(|(_, host)| lease_of(host))
    }

    /// The lease of one host, if it has one.
    pub fn lease(&self, host: HostId) -> Option<HostLease> {
        self.hosts.find(host).and_then(|at| self.hosts.get(at)).map(lease_of)
    }
}

fn lease_of(host: &Host) -> HostLease {
    HostLease {
        host: host.id,
        boot: host.boot,
        seq: host.seq,
        slot: Slot(host.promises.start as u32),
        ends: Slot(host.lease_end as u32),
        promises: host.promises.entries.len(),
    }
}
