//! The brain of a table holder: announcements in, feedback out.
//!
//! A holder keeps load tables of some links and relays the job statuses that hosts tell it. An announcement replaces the
//! host's earlier one, so repeats, late duplicates and lost messages heal by themselves; what is not repeated is gone
//! when its lease ends. Whoever calls must have checked that the announcement comes from the host it names: everything
//! is kept by that identity. Transport, time and pushing are left to the shell.

mod answers;
mod attached;
mod change;
mod check;
mod hosts;
mod jobs;
mod leases;
mod limits;
mod links;
mod rest;

use crate::clock::Unroll;
use crate::message::{Announcement, Feedback, Refusal, Route};
use crate::mutant::{Mutant, Planted};
use crate::table::exact::ExactTable;
use crate::table::soft::SoftTable;
use crate::table::{LoadTable, Promises, TableKind};
use crate::units::{BootId, HostId, LinkId, Rate, Slot};
use answers::Answers;
use attached::Excess;
pub use attached::{Attached, Attachment};
use change::Ticket;
use hosts::{Host, Hosts, Lease};
use jobs::Jobs;
pub use leases::HostLease;
pub use limits::{Limits, LinkConfig};
pub use links::LinkLoad;
use links::{Flattened, Links};

/// What a holder has done, for metrics; counts since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Announcements that were applied.
    pub updates: u64,
    /// Announcements that were applied before.
    pub duplicates: u64,
    /// Refused: older than the last applied, or of a boot that was replaced.
    pub old: u64,
    /// Refused: slot outside the guard.
    pub guard_rejects: u64,
    /// Refused: too many hosts, promises, flows or watched links.
    pub quota_refusals: u64,
    /// Refused: a link not kept here.
    pub unknown_links: u64,
    /// Refused: a flow of another host.
    pub foreign_flows: u64,
    /// Refused: a link that nothing the host sends can cross.
    pub foreign_links: u64,
    /// Refused: a host that is attached nowhere.
    pub unknown_hosts: u64,
    /// Hosts whose lease ended.
    pub expirations: u64,
    /// Hosts that came back with another boot id while their lease ran.
    pub restarts: u64,
    /// Applied announcements whose rates were scaled down to a link's capacity.
    pub clipped: u64,
    /// Job statuses left out: too many, of a job the host has no part in, or older than what is known.
    pub statuses_left_out: u64,
    /// Answers and pushes made.
    pub feedbacks: u64,
}

/// The tables of one holder.
#[derive(Debug)]
pub struct Switch {
    boot: BootId,
    limits: Limits,
    table: Table,
    time: Option<Time>,
    hosts: Hosts,
    links: Links,
    jobs: Jobs,
    answers: Answers,
    ticket: Ticket,
    counters: Counters,
    attached: Attached,
    planted: Planted,
}

#[derive(Debug)]
enum Table {
    Exact(ExactTable),
    Soft(SoftTable),
}

#[derive(Debug)]
struct Time {
    started: u64,
    unroll: Unroll,
}

impl Switch {
    /// Empty exact tables for these links.
    pub fn new(boot: BootId, limits: Limits, links: &[LinkConfig]) -> Switch {
        Switch::with_table(boot, limits, links, TableKind::Exact)
    }

    /// Empty tables of this kind for these links. Of a link named twice the first entry counts.
    pub fn with_table(boot: BootId, limits: Limits, links: &[LinkConfig], kind: TableKind) -> Switch {
        let links = Links::new(links);
        let table = match kind {
            TableKind::Exact => Table::Exact(ExactTable::new(links.len(), limits.horizon, limits.lease_slots)),
            TableKind::DoubleBuffer => {
                Table::Soft(SoftTable::new(links.len(), limits.horizon, links.largest_capacity()))
            }
        };
        Switch {
            boot,
            limits,
            table,
            time: None,
            hosts: Hosts::default(),
            links,
            jobs: Jobs::default(),
            answers: Answers::default(),
            ticket: Ticket::default(),
            counters: Counters::default(),
            attached: Attached::default(),
            planted: Planted::default(),
        }
    }

    /// Makes it a holder with this defect, for tests that must notice it.
    #[cfg(feature = "mutants")]
    pub fn plant(&mut self, mutant: Mutant) {
        self.planted = Planted::with(mutant);
        if let Table::Soft(table) = &mut self.table {
            table.plant(mutant);
        }
    }

    /// Applies one host's announcement at the holder's own slot and answers it. A refused one changes nothing and is
    /// answered all the same.
    pub fn announce(&mut self, slot: Slot, announcement: &Announcement) -> Feedback {
        let now = self.advance(slot);
        let refused = self.take_with(now, announcement, Excess::Refused);
        let mut feedback = match self.hosts.find(announcement.host) {
            Some(at) => self.feedback_to(now, at),
            None => self.first_answer(now, announcement),
        };
        feedback.refused = refused;
        feedback
    }

    /// Applies one host's announcement and answers it where that says anything new: the first of a slot, which renews all
    /// views, one that is refused, one by which the host asks to know more than before, and one of a host that has not
    /// heard yet of something that others changed.
    pub fn hear(&mut self, slot: Slot, announcement: &Announcement) -> Option<Feedback> {
        let now = self.advance(slot);
        let (refused, asks) = match self.check(now, announcement, Excess::Refused) {
            Ok(()) => (None, self.apply(now, announcement)),
            Err(refusal) => (refusal, false),
        };
        let Some(at) = self.hosts.find(announcement.host) else {
            return Some(Feedback { refused, ..self.first_answer(now, announcement) });
        };
        let answered = self.hosts.answer(at, announcement.slot);
        let knows =
            self.hosts.get(at).is_some_and(|host| !self.links.are_news(at, host) && !self.jobs.are_news(at, host));
        if answered && knows && !asks && refused.is_none() {
            return None;
        }
        Some(Feedback { refused, ..self.feedback_to(now, at) })
    }

    /// Applies one host's announcement without answering it, for a caller that puts it together from what came flow by flow, old
    /// promises beside new ones: what is more than the host can send is scaled down and not refused. Says why it was refused, if it
    /// was.
    pub fn take(&mut self, slot: Slot, announcement: &Announcement) -> Option<Refusal> {
        let now = self.advance(slot);
        self.take_with(now, announcement, Excess::Scaled)
    }

    fn take_with(&mut self, now: u64, announcement: &Announcement, excess: Excess) -> Option<Refusal> {
        match self.check(now, announcement, excess) {
            Ok(()) => {
                self.apply(now, announcement);
                None
            }
            Err(refusal) => refusal,
        }
    }

    /// What `host` should see now; `None` if it has no lease.
    pub fn feedback(&mut self, slot: Slot, host: HostId) -> Option<Feedback> {
        let now = self.advance(slot);
        let at = self.hosts.find(host)?;
        Some(self.feedback_to(now, at))
    }

    /// Ends the leases that are over at `slot` and marks the watchers of what went. [`Switch::announce`] and
    /// [`Switch::feedback`] do so too; call it at slot edges, so that a dead host is noticed in a quiet fabric.
    pub fn expire(&mut self, slot: Slot) {
        self.advance(slot);
    }

    /// The shell has found out by which link a flow that `host` asked for is sent on; the next feedback says so. False
    /// if the host has no lease, does not send the flow, or the link is not kept here.
    pub fn route_known(&mut self, host: HostId, route: Route) -> bool {
        let known = self.hosts.find(host).is_some() && self.links.find(route.link).is_some();
        known && route.flow.sender() == host && self.answers.add(host, route)
    }

    /// Hosts whose watched links, jobs or routes changed since their last feedback; drained by the caller, who pushes.
    pub fn take_stale(&mut self) -> Vec<HostId> {
        let mut stale = Vec::new();
        self.links.drain_changed(&self.hosts, &mut stale);
        self.jobs.drain_changed(&self.hosts, &mut stale);
        self.answers.drain_changed(&mut stale);
        stale.sort_unstable();
        stale.dedup();
        stale
    }

    /// Sets capacity and unmanaged load of a link kept here; false if it is not.
    pub fn set_link(&mut self, config: LinkConfig) -> bool {
        self.links.set(config, &mut self.ticket)
    }

    /// Sets the unmanaged load of a link kept here, at most its capacity; false if it is not.
    pub fn set_cross(&mut self, link: LinkId, cross: Rate) -> bool {
        let Some(known) = self.links.config(link) else { return false };
        self.set_link(LinkConfig { cross: cross.min(known.capacity), ..known })
    }

    /// The identity of this process.
    pub const fn boot(&self) -> BootId {
        self.boot
    }

    /// The form of its tables.
    pub fn kind(&self) -> TableKind {
        self.table().kind()
    }

    /// The limits given at start.
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What was done since the start.
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// Does zero load mean zero at `slot`? Not in the first two slots.
    pub fn warm(&self, slot: Slot) -> bool {
        self.time
            .as_ref()
            .is_some_and(|time| time.unroll.count(slot).max(time.unroll.latest()) >= time.started + Limits::WARM_SLOTS)
    }

    /// Job statuses known, of all origins.
    pub fn statuses(&self) -> usize {
        self.jobs.len()
    }

    /// Load of every link, in the order given at start, as of the last call with a slot.
    pub fn links(&self) -> impl Iterator<Item = LinkLoad> + '_ {
        let now = self.time.as_ref().map_or(0, |time| time.unroll.latest());
        (0..self.links.len() as u32).map(move |link| {
            let mut load = vec![Rate::ZERO; self.limits.horizon];
            self.table().load(link, now, &mut load);
            self.links.summary(link, load)
        })
    }

    /// Load of one link as of the last call with a slot; `None` if it is not kept here.
    pub fn link(&self, link: LinkId) -> Option<LinkLoad> {
        let now = self.time.as_ref().map_or(0, |time| time.unroll.latest());
        let at = self.links.find(link)?;
        let mut load = vec![Rate::ZERO; self.limits.horizon];
        self.table().load(at, now, &mut load);
        Some(self.links.summary(at, load))
    }

    /// What flows take of a link now, the fill included, as their hosts last announced; none if it is not kept here. A table that
    /// lists no flows knows only what they promise.
    pub fn taken(&self, link: LinkId) -> Option<Rate> {
        let at = self.links.find(link)?;
        if self.kind() != TableKind::Exact {
            return Some(self.link(link)?.load.first().copied().unwrap_or_default());
        }
        let takes = |host: &Host| {
            let entries = &host.promises.entries[host.promises.on_link(at)];
            let flows = entries.iter().filter_map(|entry| host.flows.get(entry.which as usize));
            flows.fold(Rate::ZERO, |sum, flow| sum.plus(flow.takes))
        };
        Some(self.hosts.iter().fold(Rate::ZERO, |sum, (_, host)| sum.plus(takes(host))))
    }

    fn table(&self) -> &dyn LoadTable {
        match &self.table {
            Table::Exact(table) => table,
            Table::Soft(table) => table,
        }
    }

    /// Moves to `slot` and ends the leases that are over; returns its running count.
    fn advance(&mut self, slot: Slot) -> u64 {
        let time = self.time.get_or_insert_with(|| {
            let unroll = Unroll::new(slot);
            Time { started: unroll.latest(), unroll }
        });
        let before = time.unroll.latest();
        let now = time.unroll.advance(slot);
        if now > before && !self.planted.is(Mutant::LeaseNeverEnds) {
            while let Some(lease) = self.hosts.next_over(now) {
                match lease {
                    Lease::Host(at) => self.forget(at, now),
                    Lease::Status(job, origin) => self.jobs.expire(job, origin, now, &mut self.ticket, &mut self.hosts),
                }
            }
        }
        now
    }

    fn forget(&mut self, at: u32, now: u64) {
        let Some(host) = self.hosts.remove(at) else { return };
        match &mut self.table {
            Table::Exact(table) => table.remove(&host.promises),
            Table::Soft(table) => table.remove(&host.promises),
        }
        self.links.withdraw(at, &host, &mut self.ticket);
        self.links.unwatch(at, &host.watch);
        self.links.remeasure(at, &host.measured, &[], &mut self.ticket);
        self.jobs.leave(at, &host, now, &mut self.ticket, &mut self.hosts);
        self.answers.take(host.id);
        self.counters.expirations += 1;
    }

    /// True: the host asks to know more than it did before.
    fn apply(&mut self, now: u64, announcement: &Announcement) -> bool {
        let at = self.hosts.find_or_add(announcement.host);
        let Some(mut old) = self.hosts.take(at) else { return false };
        let start = now.saturating_add_signed(i64::from(announcement.slot.since(Slot(now as u32))));
        let access = self.attached.access(announcement.host);
        let table: &mut dyn LoadTable = match &mut self.table {
            Table::Exact(table) => table,
            Table::Soft(table) => table,
        };
        let Flattened { mut promises, clipped } =
            self.links.flatten(start, announcement, self.limits.horizon, table, access);
        self.counters.clipped += u64::from(clipped);
        self.counters.updates += 1;
        self.counters.restarts += u64::from(old.applied && old.boot != announcement.boot);
        let nothing = Promises::default();
        let replaced = if self.planted.is(Mutant::Added) { &nothing } else { &old.promises };
        table.replace(replaced, &mut promises);
        let lease_end = (table.lease_from(start, now) + u64::from(self.limits.lease_slots)).max(now + 1);
        let listed = table.kind() == TableKind::Exact;
        let mut host = Host::next(&mut old, announcement, promises, lease_end, listed);
        host.take_at_most(access);
        host.watch = self.links.resolve(&announcement.watch);
        host.measured = self.links.resolve_measured(announcement.host, &announcement.measured);
        self.links.remeasure(at, &old.measured, &host.measured, &mut self.ticket);
        self.links.rewatch(at, &old.watch, &host.watch);
        self.links.relist(at, now, &old, &host, self.limits.horizon, &mut self.ticket);
        let asks = host.boot != old.boot || host.watch != old.watch || host.jobs != old.jobs;
        self.hosts.put(at, host, old.lease_end);
        self.counters.statuses_left_out +=
            self.jobs.apply(at, &old, announcement, now, &self.limits, &mut self.ticket, &mut self.hosts);
        asks
    }

    fn feedback_to(&mut self, now: u64, at: u32) -> Feedback {
        let mut feedback = self.blank(now);
        let Some(host) = self.hosts.get(at) else { return feedback };
        feedback.seq = host.seq;
        feedback.links = host.watch.iter().map(|&link| self.view(now, link, Some((at, host)))).collect();
        (feedback.jobs, feedback.crowds) = self.jobs.seen_by(host.id, &host.jobs);
        feedback.routes = self.answers.take(host.id);
        self.hosts.saw(at, self.ticket.last());
        feedback
    }

    /// The answer to a host without lease, whose announcement was refused.
    fn first_answer(&mut self, now: u64, announcement: &Announcement) -> Feedback {
        let mut feedback = self.blank(now);
        let watch =
            self.links.resolve(&announcement.watch[..announcement.watch.len().min(self.limits.promises_per_host)]);
        feedback.links = watch.iter().map(|&link| self.view(now, link, None)).collect();
        feedback
    }

    fn blank(&mut self, now: u64) -> Feedback {
        self.counters.feedbacks += 1;
        let slot = Slot(now as u32);
        Feedback { boot: self.boot, slot, warm: self.warm(slot), ..Feedback::default() }
    }

    fn view(&self, now: u64, link: u32, asker: Option<(u32, &Host)>) -> crate::message::LinkView {
        let mut load = vec![Rate::ZERO; self.limits.horizon];
        // A double buffer is read as by a packet of the asker's: where that is for the next slot already, its own sums have begun
        // to take the place of those that would be read for this one.
        let ahead = match (&self.table, asker) {
            (Table::Soft(_), Some((_, host))) => host.promises.start.saturating_sub(now),
            _ => 0,
        };
        let begun = usize::try_from(ahead).map_or(self.limits.horizon, |ahead| ahead.min(self.limits.horizon));
        self.table().load(link, now + ahead, &mut load[begun..]);
        if let Some((_, host)) = asker {
            for at in host.promises.on_link(link) {
                for (ahead, sum) in load.iter_mut().enumerate() {
                    *sum = sum.minus(host.promises.rate_at(at, now + ahead as u64, self.limits.horizon));
                }
            }
        }
        self.links.view(link, load, asker, now, &self.hosts, self.limits.horizon)
    }
}
