//! Job statuses that hosts tell a holder, relayed to the other hosts of the same jobs.
//!
//! What a host says of itself replaces what it said before and lives as long as its lease. What it relays of others
//! counts only where the origin itself does not speak here, only for jobs the relaying host takes part in, and lives two
//! slots from its first hearing: a repeat of the same sequence number renews nothing, so that old news cannot circle
//! between holders for ever.
//!
//! Of a job with many hosts each is told only the statuses that decide ([`Deciding`]), and is told anew only when one of
//! those has changed: what a host hears of a job does not grow with the job.

use std::collections::BTreeMap;

use super::Limits;
use super::change::{Change, Ticket, moved};
use super::hosts::{Host, Hosts, Lease};
use crate::deciding::{Deciding, MAX_TOLD};
use crate::message::{Announcement, Crowd, JobStatus};
use crate::units::{BootId, HostId, JobId};

/// Slots for which the sequence number of a status that is gone is remembered, so that no relay brings it back.
const REMEMBERED_SLOTS: u64 = 64;

/// What is kept of one origin's status of a job.
#[derive(Debug)]
struct StatusRecord {
    boot: BootId,
    seq: u64,
    /// `None`: withdrawn or over, only its sequence number is remembered.
    status: Option<JobStatus>,
    direct: bool,
    ends: u64,
}

/// How a status came here.
#[derive(Clone, Copy)]
struct Source {
    boot: BootId,
    direct: bool,
    ends: u64,
    by: u32,
    /// How many origins are kept per job.
    max_origins: usize,
}

#[derive(Debug, Default)]
struct Job {
    origins: BTreeMap<HostId, StatusRecord>,
    /// How many origins have a status.
    speaking: usize,
    deciding: Deciding,
    members: Vec<u32>,
    change: Change,
    changed: bool,
}

impl Job {
    /// Takes another record of an origin; gives the status that it had before.
    fn set(&mut self, origin: HostId, record: StatusRecord) -> Option<JobStatus> {
        let before = self.origins.get_mut(&origin).and_then(|record| record.status.take());
        if let Some(before) = &before {
            self.deciding.remove(before);
            self.speaking -= 1;
        }
        if let Some(status) = &record.status {
            self.deciding.insert(status);
            self.speaking += 1;
        }
        self.origins.insert(origin, record);
        before
    }

    /// Is every host told of every other?
    fn tells_all(&self) -> bool {
        self.speaking <= MAX_TOLD
    }

    /// Do other hosts have to hear of this origin?
    fn hears_of(&self, origin: HostId) -> bool {
        self.tells_all() || self.deciding.decides(origin)
    }

    fn status(&self, origin: HostId) -> Option<&JobStatus> {
        self.origins.get(&origin)?.status.as_ref()
    }
}

#[derive(Debug, Default)]
pub(super) struct Jobs {
    jobs: BTreeMap<JobId, Job>,
    changed: Vec<JobId>,
}

impl Jobs {
    /// How many statuses are known, of all jobs and origins.
    pub(super) fn len(&self) -> usize {
        self.jobs.values().map(|job| job.speaking).sum()
    }

    /// Takes in the statuses of an applied announcement, whose host stands at `at` already. Returns how many were left
    /// out.
    #[allow(clippy::too_many_arguments, reason = "parts of one table, borrowed apart")]
    pub(super) fn apply(
        &mut self,
        at: u32,
        old: &Host,
        announcement: &Announcement,
        now: u64,
        limits: &Limits,
        ticket: &mut Ticket,
        hosts: &mut Hosts,
    ) -> u64 {
        let Some(host) = hosts.get(at) else { return 0 };
        let (me, mine, ends) = (host.id, host.jobs.clone(), host.lease_end);
        if old.jobs != mine {
            self.rejoin(at, &old.jobs, &mine);
        }
        let mut left_out = announcement.jobs.len().saturating_sub(Limits::STATUSES) as u64;
        for status in announcement.jobs.iter().take(Limits::STATUSES) {
            let direct = status.origin == me;
            let lease = if direct { ends } else { now + u64::from(limits.lease_slots) };
            let boot = if direct { announcement.boot } else { status.boot };
            let applied = mine.binary_search(&status.job).is_ok()
                && self.accept(
                    status,
                    Source { boot, direct, ends: lease, by: at, max_origins: limits.hosts },
                    ticket,
                    hosts,
                );
            left_out += u64::from(!applied);
        }
        for &job in &old.jobs {
            let own = |status: &JobStatus| status.origin == me && status.job == job;
            if !announcement.jobs.iter().take(Limits::STATUSES).any(own) {
                self.withdraw(job, me, now, at, ticket, hosts);
            }
        }
        left_out
    }

    pub(super) fn leave(&mut self, at: u32, host: &Host, now: u64, ticket: &mut Ticket, hosts: &mut Hosts) {
        self.rejoin(at, &host.jobs, &[]);
        for &job in &host.jobs {
            self.withdraw(job, host.id, now, at, ticket, hosts);
        }
    }

    /// A reminder for a relayed or remembered status came up.
    pub(super) fn expire(&mut self, id: JobId, origin: HostId, now: u64, ticket: &mut Ticket, hosts: &mut Hosts) {
        let Some(record) = self.jobs.get_mut(&id).and_then(|job| job.origins.get_mut(&origin)) else { return };
        if record.ends > now || (record.direct && record.status.is_some()) {
            return;
        }
        if record.status.is_some() {
            self.withdraw(id, origin, now, super::change::NOBODY, ticket, hosts);
        } else {
            if let Some(job) = self.jobs.get_mut(&id) {
                job.origins.remove(&origin);
            }
            self.drop_if_unused(id);
        }
    }

    /// Other origins' statuses of these jobs, and of which of them only those that decide.
    pub(super) fn seen_by(&self, me: HostId, jobs: &[JobId]) -> (Vec<JobStatus>, Vec<Crowd>) {
        let (mut statuses, mut crowds) = (Vec::new(), Vec::new());
        for (&id, job) in jobs.iter().filter_map(|id| Some((id, self.jobs.get(id)?))) {
            if job.tells_all() {
                let others = job.origins.iter().filter(|(origin, _)| **origin != me);
                statuses.extend(others.filter_map(|(_, record)| record.status.clone()));
            } else {
                let hosts = job.speaking - usize::from(job.status(me).is_some());
                crowds.push(Crowd { job: id, hosts: u32::try_from(hosts).unwrap_or(u32::MAX) });
                let others = job.deciding.without(me).into_iter();
                statuses.extend(others.filter_map(|origin| job.status(origin).cloned()));
            }
        }
        (statuses, crowds)
    }

    /// Has anybody else changed something of a job of this host that it has not been told of?
    pub(super) fn are_news(&self, at: u32, host: &Host) -> bool {
        let jobs = host.jobs.iter().filter_map(|id| self.jobs.get(id));
        jobs.into_iter().any(|job| job.change.unseen(at, host.seen))
    }

    /// Adds the members of changed jobs that have not seen the change to `stale`.
    pub(super) fn drain_changed(&mut self, hosts: &Hosts, stale: &mut Vec<HostId>) {
        for id in std::mem::take(&mut self.changed) {
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            job.changed = false;
            let members = job.members.iter().filter_map(|&at| Some((at, hosts.get(at)?)));
            stale.extend(members.filter(|(at, host)| job.change.unseen(*at, host.seen)).map(|(_, host)| host.id));
        }
    }

    /// True if the status is newer than what is known.
    fn accept(&mut self, status: &JobStatus, from: Source, ticket: &mut Ticket, hosts: &mut Hosts) -> bool {
        let job = self.jobs.entry(status.job).or_default();
        let before = job.origins.get(&status.origin);
        let newer = from.direct
            || match before {
                None => job.origins.len() < from.max_origins,
                Some(StatusRecord { direct: true, status: Some(_), .. }) => false,
                Some(record) if record.boot == from.boot => status.seq > record.seq,
                Some(record) => record.status.is_none(),
            };
        if !newer {
            return false;
        }
        let heard_of = job.hears_of(status.origin);
        let before = job.origins.get(&status.origin);
        if !from.direct && before.is_none_or(|record| record.direct || record.ends != from.ends) {
            hosts.remind(from.ends, Lease::Status(status.job, status.origin));
        }
        let Source { boot, direct, ends, .. } = from;
        let record = StatusRecord { boot, seq: status.seq, status: Some(status.clone()), direct, ends };
        let differs = job.set(status.origin, record).is_none_or(|old| differs(&old, status));
        if differs && (heard_of || job.hears_of(status.origin)) {
            self.note(status.job, from.by, ticket);
        }
        true
    }

    /// Forgets a status, but not that it was there.
    fn withdraw(&mut self, id: JobId, origin: HostId, now: u64, by: u32, ticket: &mut Ticket, hosts: &mut Hosts) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let heard_of = job.hears_of(origin);
        if let Some(record) = job.origins.get(&origin).filter(|record| record.status.is_some()) {
            let ends = now + REMEMBERED_SLOTS;
            let silent = StatusRecord { status: None, ends, ..*record };
            job.set(origin, silent);
            hosts.remind(ends, Lease::Status(id, origin));
            if heard_of {
                self.note(id, by, ticket);
            }
        }
        self.drop_if_unused(id);
    }

    fn rejoin(&mut self, at: u32, old: &[JobId], new: &[JobId]) {
        for id in old.iter().filter(|id| new.binary_search(id).is_err()) {
            if let Some(job) = self.jobs.get_mut(id)
                && let Ok(place) = job.members.binary_search(&at)
            {
                job.members.remove(place);
            }
            self.drop_if_unused(*id);
        }
        for id in new.iter().filter(|id| old.binary_search(id).is_err()) {
            let members = &mut self.jobs.entry(*id).or_default().members;
            if let Err(place) = members.binary_search(&at) {
                members.insert(place, at);
            }
        }
    }

    fn drop_if_unused(&mut self, id: JobId) {
        if self.jobs.get(&id).is_some_and(|job| job.members.is_empty() && job.origins.is_empty()) {
            self.jobs.remove(&id);
        }
    }

    fn note(&mut self, id: JobId, by: u32, ticket: &mut Ticket) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.change.note(ticket.draw(), by);
        if !std::mem::replace(&mut job.changed, true) {
            self.changed.push(id);
        }
    }
}

/// Should the job's other hosts hear of it before their next own announcement?
fn differs(old: &JobStatus, new: &JobStatus) -> bool {
    old.boot != new.boot
        || old.round != new.round
        || old.t0 != new.t0
        || old.promoted != new.promoted
        || moved(old.key.0, new.key.0, 25, old.key.0)
        || moved(old.round_time.0, new.round_time.0, 25, old.round_time.0)
        || moved(old.period.0, new.period.0, 25, old.period.0)
        || moved(old.offer.0, new.offer.0, 1, old.offer.0)
}
