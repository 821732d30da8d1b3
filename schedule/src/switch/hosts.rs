//! The hosts that hold a lease: identity, order of their messages, and when leases end.

use std::collections::BTreeMap;

use crate::message::{Announcement, FlowPromise};
use crate::mutant::{Mutant, Planted};
use crate::table::Promises;
use crate::units::{BootId, HostId, JobId, LinkId, Rate, Slot};

/// What is in force of one host.
#[derive(Clone, Debug, Default)]
pub(super) struct Host {
    pub id: HostId,
    /// False before the first announcement was applied.
    pub applied: bool,
    pub boot: BootId,
    pub seq: u64,
    pub lease_end: u64,
    /// The announced flows without links and rates; empty where views list no flows.
    pub flows: Vec<FlowPromise>,
    pub promises: Promises,
    /// Watched links by index, sorted.
    pub watch: Vec<u32>,
    /// Unmanaged traffic it measured, by link index, sorted, one entry per link.
    pub measured: Vec<(u32, Rate)>,
    /// Jobs it takes part in, sorted.
    pub jobs: Vec<JobId>,
    /// The last change it has been told of.
    pub seen: u64,
    /// The slot of its last announcement that was answered for being the first in it.
    answered: Option<Slot>,
    /// Boots that were replaced during this lease, latest last.
    old_boots: Vec<BootId>,
}

/// An announcement against the one in force.
pub(super) enum Order {
    Newer,
    Same,
    Older,
}

impl Host {
    /// Replaced boots remembered: a late message of one of them must not come back. The slot guard keeps out
    /// everything older than the lease, so few are needed.
    const OLD_BOOTS: usize = 4;

    pub(super) fn order(&self, announcement: &Announcement, planted: Planted) -> Order {
        if !self.applied {
            return Order::Newer;
        }
        if announcement.boot == self.boot || planted.is(Mutant::SequenceWithoutBoot) {
            return match announcement.seq.cmp(&self.seq) {
                std::cmp::Ordering::Greater => Order::Newer,
                std::cmp::Ordering::Equal => Order::Same,
                std::cmp::Ordering::Less => Order::Older,
            };
        }
        // Boot ids are drawn, not counted: what was replaced stays replaced in that slot, and a process does not announce for slots
        // before those of the one it follows. Whoever speaks for a later slot lives: a late word of a process that is dead took
        // the place of its successor's, where that had just begun anew with the lease.
        let ahead = announcement.slot.since(Slot(self.promises.start as u32));
        if ahead < 0 || ahead == 0 && self.old_boots.contains(&announcement.boot) { Order::Older } else { Order::Newer }
    }

    /// The state after `announcement`, taking from `old` what stays.
    pub(super) fn next(
        old: &mut Host,
        announcement: &Announcement,
        promises: Promises,
        lease_end: u64,
        listed: bool,
    ) -> Host {
        let mut old_boots = std::mem::take(&mut old.old_boots);
        if old.applied && old.boot != announcement.boot {
            if old_boots.len() == Self::OLD_BOOTS {
                old_boots.remove(0);
            }
            old_boots.push(old.boot);
        }
        let own = announcement.jobs.iter().filter(|status| status.origin == announcement.host);
        let mut jobs: Vec<JobId> = own.map(|status| status.job).collect();
        jobs.extend(announcement.flows.iter().map(|flow| flow.job));
        jobs.sort_unstable();
        jobs.dedup();
        let without_lists = |flow: &FlowPromise| FlowPromise {
            flow: flow.flow,
            job: flow.job,
            promoted: flow.promoted,
            key: flow.key,
            t0: flow.t0,
            takes: flow.takes,
            until: flow.until,
            rates: Vec::new(),
            demand: flow.demand,
            delivered: flow.delivered,
            links: Vec::<LinkId>::new(),
        };
        Host {
            id: announcement.host,
            applied: true,
            boot: announcement.boot,
            seq: announcement.seq,
            lease_end,
            flows: if listed { announcement.flows.iter().map(without_lists).collect() } else { Vec::new() },
            promises,
            watch: Vec::new(),
            measured: Vec::new(),
            jobs,
            seen: old.seen,
            answered: old.answered,
            old_boots,
        }
    }
}

impl Host {
    /// What its flows say they take now, scaled down to what it can send at all.
    pub(super) fn take_at_most(&mut self, access: Option<Rate>) {
        let Some(access) = access else { return };
        let sum: u128 = self.flows.iter().map(|flow| u128::from(flow.takes.0)).sum();
        if sum > u128::from(access.0) {
            for flow in &mut self.flows {
                flow.takes = Rate((u128::from(flow.takes.0) * u128::from(access.0) / sum) as u64);
            }
        }
    }
}

/// What ends at some slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lease {
    Host(u32),
    Status(JobId, HostId),
}

/// All hosts with a lease, at places that stay while they live, and the calendar of lease ends.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    by_id: BTreeMap<HostId, u32>,
    places: Vec<Option<Host>>,
    free: Vec<u32>,
    /// Leases to look at when this slot is reached, one reminder per lease and slot: what was renewed since is left alone.
    calendar: BTreeMap<u64, Vec<Lease>>,
}

impl Hosts {
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn find(&self, host: HostId) -> Option<u32> {
        self.by_id.get(&host).copied()
    }

    pub(super) fn get(&self, at: u32) -> Option<&Host> {
        self.places.get(at as usize)?.as_ref()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Host)> {
        self.by_id.values().filter_map(|&at| Some((at, self.get(at)?)))
    }

    pub(super) fn find_or_add(&mut self, id: HostId) -> u32 {
        if let Some(at) = self.find(id) {
            return at;
        }
        let at = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() as u32 - 1
        });
        self.places[at as usize] = Some(Host { id, ..Host::default() });
        self.by_id.insert(id, at);
        at
    }

    /// Takes the host out to change it; [`Hosts::put`] brings it back.
    pub(super) fn take(&mut self, at: u32) -> Option<Host> {
        self.places.get_mut(at as usize)?.take()
    }

    pub(super) fn put(&mut self, at: u32, host: Host, old_lease_end: u64) {
        if host.lease_end != old_lease_end {
            self.remind(host.lease_end, Lease::Host(at));
        }
        if let Some(place) = self.places.get_mut(at as usize) {
            *place = Some(host);
        }
    }

    pub(super) fn remove(&mut self, at: u32) -> Option<Host> {
        let host = self.take(at)?;
        self.by_id.remove(&host.id);
        self.free.push(at);
        Some(host)
    }

    pub(super) fn saw(&mut self, at: u32, ticket: u64) {
        if let Some(Some(host)) = self.places.get_mut(at as usize) {
            host.seen = ticket;
        }
    }

    /// The host is answered in this slot of its own; true if it was before.
    pub(super) fn answer(&mut self, at: u32, slot: Slot) -> bool {
        let place = self.places.get_mut(at as usize).and_then(Option::as_mut);
        place.is_some_and(|host| host.answered.replace(slot) == Some(slot))
    }

    /// Looks at `lease` again when `slot` is reached.
    pub(super) fn remind(&mut self, slot: u64, lease: Lease) {
        self.calendar.entry(slot).or_default().push(lease);
    }

    /// The next reminder due at `now`; hosts only if their lease really is over.
    pub(super) fn next_over(&mut self, now: u64) -> Option<Lease> {
        loop {
            let mut first = self.calendar.first_entry()?;
            if *first.key() > now {
                return None;
            }
            let Some(lease) = first.get_mut().pop() else {
                first.remove();
                continue;
            };
            match lease {
                Lease::Host(at) if self.get(at).is_none_or(|host| host.lease_end > now) => {}
                over => return Some(over),
            }
        }
    }
}
