//! The timeline: what was ordered and delivered, slot by slot, in a ring in memory.
//!
//! 48 bytes per flow and slot and per link and slot, and events (rounds, modes, conditions). [`Timeline::chrome`]
//! writes Chrome's trace JSON (opens in Perfetto), [`Timeline::csv`] and [`Timeline::jsonl`] the plain records,
//! [`Timeline::otlp`] rounds as OpenTelemetry spans;
//! [`merge()`] puts the traces of several hosts on one axis by slot number, which needs no clock alignment.

mod chrome;
mod lanes;
mod merge;
mod otlp;
mod plain;
mod ring;

use std::collections::BTreeMap;

use sluice_schedule::policy::Why;
use sluice_schedule::units::fnv1a64;
use sluice_schedule::{Bytes, FlowId, JobId, LinkId, Nanos, Rate, Slot};

pub use lanes::{Lane, Lanes};
pub use merge::{MergeError, merge};
pub use otlp::Anchor;
use ring::{Names, Ring};

use crate::snapshot::{BenefitState, ConditionCode, Label, Mode, words};

words! {
    /// What made a decision.
    Trigger {
        /// A slot began.
        #[default]
        Slot = "slot",
        /// A round began.
        Start = "start",
        /// A flow or round ended.
        End = "end",
        /// A flow has more or less to send than was known.
        Demand = "demand",
        /// A holder told what others promised.
        Feedback = "feedback",
    }
}

/// One flow in one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowRecord {
    /// Id of the flow.
    pub flow: FlowId,
    /// The job it belongs to.
    pub job: JobId,
    /// The order that held.
    pub ordered: Rate,
    /// Bytes acknowledged in the slot.
    pub delivered: Bytes,
    /// Bytes of the round still to send at the slot's end.
    pub remaining: Bytes,
    /// The slot of the decision.
    pub slot: Slot,
    /// Why the rate is not higher.
    pub why: Why,
    /// What made the decision.
    pub trigger: Trigger,
}

/// One link in one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkRecord {
    /// Id of the link.
    pub link: LinkId,
    /// Promised there by all hosts.
    pub scheduled: Rate,
    /// Sent by managed flows of this host.
    pub managed: Rate,
    /// Rate of unmanaged traffic.
    pub other: Rate,
    /// Payload rate of the link.
    pub capacity: Rate,
    /// The slot that was measured.
    pub slot: Slot,
}

/// Something that happened at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventRecord {
    /// The slot in which it happened.
    pub slot: Slot,
    /// How much of it was over.
    pub into_slot: Nanos,
    /// What happened to whom.
    pub kind: EventKind,
}

/// The kind of an event, with whom it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A job's round began.
    RoundBegan(JobId, u64),
    /// A job's round of this number ended.
    RoundEnded(JobId, u64),
    /// The daemon changed to this mode.
    Mode(Mode),
    /// What is done with a job's flows, or with those of all jobs, changed to this.
    Benefit(Option<JobId>, BenefitState),
    /// A condition began to hold.
    ConditionBegan(ConditionCode, Subject),
    /// A condition holds no longer.
    ConditionEnded(ConditionCode, Subject),
}

/// The switch, link, job or file that a condition is about, or the host itself, by a hash of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subject(u64);

impl Subject {
    /// What is called so; empty: the host.
    pub const fn of(name: &str) -> Subject {
        Subject(fnv1a64(name.as_bytes()))
    }
}

/// How much a timeline keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How far back records are kept.
    pub time: Nanos,
    /// Memory of all records.
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { time: Nanos(120_000_000_000), bytes: 8 << 20 }
    }
}

/// Which part of a timeline is exported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The last part only.
    pub last: Option<Nanos>,
    /// The flows and rounds of jobs with this name only, whoever's they are.
    pub job: Option<String>,
}

/// The records of the last minutes, oldest first, within limits. Copies share their records.
#[derive(Clone, Debug)]
pub struct Timeline {
    host: Label,
    slot_length: Nanos,
    limits: Limits,
    flows: Ring<FlowRecord>,
    links: Ring<LinkRecord>,
    events: Ring<EventRecord>,
    newest: Option<Slot>,
    job_names: Names<JobId>,
    link_names: Names<LinkId>,
    /// Conditions that hold, each since the slot in which it began.
    holding: BTreeMap<(ConditionCode, Subject), Slot>,
    subject_names: Names<Subject>,
}

impl Timeline {
    /// An empty ring of the host with this node name.
    pub fn new(host: &str, slot_length: Nanos, limits: Limits) -> Timeline {
        Timeline {
            host: Label::new(host),
            slot_length: Nanos(slot_length.0.max(1)),
            limits,
            flows: Ring::new(limits.bytes / 2),
            links: Ring::new(limits.bytes / 3),
            events: Ring::new(limits.bytes / 6),
            newest: None,
            job_names: Names::default(),
            link_names: Names::default(),
            holding: BTreeMap::new(),
            subject_names: Names::default(),
        }
    }

    /// Gives a job the name it has in exports: `4711 ring rank 3/8`.
    pub fn name_job(&mut self, job: JobId, name: &str) {
        self.job_names.set(job, name);
    }

    /// Gives a link the name it has in exports: `eth0`, `leaf-1:7`.
    pub fn name_link(&mut self, link: LinkId, name: &str) {
        self.link_names.set(link, name);
    }

    /// Adds one flow's slot. Records come in the order of their slots.
    pub fn flow(&mut self, record: FlowRecord) {
        self.advance(record.slot);
        self.flows.push(record);
    }

    /// Adds one link's slot.
    pub fn link(&mut self, record: LinkRecord) {
        self.advance(record.slot);
        self.links.push(record);
    }

    /// Adds an event; the oldest one goes if there is no room.
    pub fn event(&mut self, record: EventRecord) {
        self.advance(record.slot);
        self.events.push(record);
    }

    /// Takes every condition that holds now, with what it is about: those that did not hold before have begun, and those that
    /// are missing have ended.
    pub fn conditions<'a>(
        &mut self,
        slot: Slot,
        into_slot: Nanos,
        holding: impl Iterator<Item = (ConditionCode, &'a str)>,
    ) {
        let names = &mut self.subject_names;
        let named = |(code, name): (ConditionCode, &str)| {
            let subject = Subject::of(name);
            names.set(subject, name);
            (code, subject)
        };
        let present: Vec<(ConditionCode, Subject)> = holding.map(named).collect();
        let over: Vec<(ConditionCode, Subject)> =
            self.holding.keys().filter(|known| !present.contains(known)).copied().collect();
        for (code, subject) in over {
            self.holding.remove(&(code, subject));
            self.event(EventRecord { slot, into_slot, kind: EventKind::ConditionEnded(code, subject) });
        }
        let new: Vec<(ConditionCode, Subject)> =
            present.into_iter().filter(|condition| !self.holding.contains_key(condition)).collect();
        for (code, subject) in new {
            self.holding.insert((code, subject), slot);
            self.event(EventRecord { slot, into_slot, kind: EventKind::ConditionBegan(code, subject) });
        }
    }

    /// The first slot of any record that passes the filter.
    fn first_slot(&self, filter: &Filter) -> Option<Slot> {
        let newest = self.newest?;
        let slots = self.flows.iter().filter(|r| self.keeps(filter, r.slot, Some(r.job))).map(|r| r.slot);
        let slots = slots.chain(self.links.iter().map(|r| r.slot)).chain(self.events.iter().map(|r| r.slot));
        slots.filter(|&slot| self.keeps(filter, slot, None)).min_by_key(|slot| slot.since(newest))
    }

    /// Forgets what is too old, and moves on.
    fn advance(&mut self, slot: Slot) {
        if self.newest.is_none_or(|newest| slot.since(newest) > 0) {
            self.newest = Some(slot);
            let slots = i32::try_from(self.limits.time.0 / self.slot_length.0).unwrap_or(i32::MAX);
            let old = |of: Slot| slot.since(of) > slots;
            self.flows.forget(|record| old(record.slot));
            self.links.forget(|record| old(record.slot));
            self.events.forget(|record| old(record.slot));
        }
    }

    fn keeps(&self, filter: &Filter, slot: Slot, job: Option<JobId>) -> bool {
        let in_time = filter.last.is_none_or(|last| {
            let slots = i32::try_from(last.0.div_ceil(self.slot_length.0)).unwrap_or(i32::MAX);
            self.newest.is_some_and(|newest| newest.since(slot) < slots)
        });
        in_time && filter.job.as_ref().is_none_or(|wanted| job.is_none_or(|job| self.is_named(job, wanted)))
    }

    /// Names in exports begin with the job's own.
    fn is_named(&self, job: JobId, wanted: &str) -> bool {
        let rest = self.job_names.get(&job).and_then(|name| name.strip_prefix(wanted));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    }

    fn job_name(&self, job: JobId) -> String {
        self.job_names.get(&job).map_or_else(|| job.to_string(), str::to_owned)
    }

    fn link_name(&self, link: LinkId) -> String {
        self.link_names.get(&link).map_or_else(|| link.to_string(), str::to_owned)
    }
}

#[cfg(test)]
mod tests;
