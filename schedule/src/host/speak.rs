//! When to announce what to whom: at once when something changed that others plan by, and once per slot for the lease.

use std::collections::{BTreeMap, BTreeSet};

use super::rendezvous::Rendezvous;
use super::{Flow, Host};
use crate::event::{Action, Now};
use crate::message::{Announcement, Feedback, FlowPromise, JobStatus};
use crate::units::{BootId, FlowId, HolderId, JobId, LinkId, Nanos, Rate, Slot};

/// A rate is announced again when it moved by this part of the bottleneck.
const RATE_HYSTERESIS: f64 = 0.01;
/// A holder whose boot id changed this often within [`BOOT_WINDOW`] is ignored for as long.
const MAX_BOOTS: u32 = 4;
const BOOT_WINDOW: Nanos = Nanos::from_millis(60_000);

/// (flow, rate promised, rate taken, own egress, end): what others plan by.
type FlowMark = (FlowId, Rate, Rate, Option<usize>, Nanos);
/// (job, promoted, key, least offer).
type JobMark = (JobId, bool, Nanos, Rate);

/// Everything whose change is worth an announcement.
#[derive(Clone, Debug, Default)]
struct Marks {
    flows: Vec<FlowMark>,
    jobs: Vec<JobMark>,
}

/// What a holder is to this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// It keeps links that are in use here.
    Links,
    /// Jobs of this host meet there.
    Jobs,
    /// Neither, any more.
    None,
}

/// What was last said to one holder.
#[derive(Debug, Default)]
struct Said {
    seq: u64,
    /// The slot of the last repetition.
    repeated: Option<Slot>,
    at: Nanos,
    /// Something worth saying waits for the gap to pass.
    pending: bool,
    /// It keeps what it was told: there is something to repeat or to withdraw.
    told: bool,
    marks: Marks,
    boot: Option<BootId>,
    boots: u32,
    boots_since: Nanos,
    heard: Nanos,
}

/// What was said to whom.
#[derive(Debug, Default)]
pub(super) struct Speaker {
    holders: BTreeMap<HolderId, Said>,
    /// Holders whose connection broke.
    lost: BTreeSet<HolderId>,
    /// Where each job's hosts meet.
    rendezvous: Rendezvous,
    /// As of the last plan.
    marks: Marks,
    status_seq: u64,
    now: Nanos,
}

impl Speaker {
    pub fn lost(&mut self, holder: HolderId) {
        if self.lost.insert(holder) {
            self.rendezvous.forget();
        }
    }

    pub fn back(&mut self, holder: HolderId) {
        if self.lost.remove(&holder) {
            self.rendezvous.forget();
        }
        // A new connection: say everything at the next chance.
        self.holders.entry(holder).or_default().repeated = None;
    }

    /// Whether to believe this feedback: a holder that keeps changing its boot id is broken or hostile.
    pub fn accept(&mut self, holder: HolderId, feedback: &Feedback) -> bool {
        let now = self.now;
        let said = self.holders.entry(holder).or_default();
        if now.minus(said.boots_since) > BOOT_WINDOW {
            (said.boots, said.boots_since) = (0, now);
        }
        if said.boot.is_some_and(|boot| boot != feedback.boot) {
            said.boots += 1;
            said.repeated = None;
        }
        said.boot = Some(feedback.boot);
        said.heard = now;
        said.boots < MAX_BOOTS
    }
}

impl Host {
    pub(super) fn speak(&mut self, now: Now, actions: &mut Vec<Action>) {
        self.speaker.now = now.mono;
        let Speaker { rendezvous, lost, .. } = &mut self.speaker;
        rendezvous.arrange(self.jobs.keys(), &self.config.switches, lost);
        let marks = if self.news { self.marks() } else { std::mem::take(&mut self.speaker.marks) };
        for (holder, part) in self.listeners() {
            // It keeps nothing of this host's, and knows: it hears nothing until it does.
            let Some(said) = self.speaker.holders.get(&holder) else { continue };
            if part == Part::None && !said.told {
                continue;
            }
            let changed = said.seq == 0 || self.news && self.changed(said, &marks, part);
            let lost = self.speaker.lost.contains(&holder);
            let said = self.speaker.holders.entry(holder).or_default();
            let since = now.mono.minus(said.at);
            let gap_over = since >= self.config.announce_gap;
            if !gap_over && since <= now.into_slot && said.repeated.is_some() {
                said.repeated = Some(now.slot); // What was said a moment ago, in this slot, renews the lease as well.
            }
            let due = said.repeated != Some(now.slot) && now.into_slot >= self.config.phase
                || said.repeated.is_some_and(|slot| now.slot.since(slot) > 1);
            said.pending |= changed;
            if lost || !(due || said.pending && gap_over && self.config.events) {
                continue;
            }
            if due {
                said.repeated = Some(now.slot);
            }
            said.pending = false;
            said.at = now.mono;
            said.seq += 1;
            said.marks.clone_from(&marks);
            said.told = part != Part::None;
            let announcement = Announcement {
                host: self.config.host,
                boot: self.config.boot,
                seq: said.seq,
                slot: now.slot,
                flows: self.promises(holder),
                jobs: self.statuses(holder, part),
                watch: self.watched(holder),
                measured: self.measured_for(holder),
            };
            actions.push(Action::Announce { holder, announcement });
        }
        self.speaker.marks = marks;
    }

    /// Every holder that this host speaks to or spoke to, by id, with what it is to this host now.
    fn listeners(&mut self) -> Vec<(HolderId, Part)> {
        let Speaker { holders, rendezvous, .. } = &mut self.speaker;
        let used = self.links.holders().map(|(holder, _)| holder);
        for holder in used.chain(rendezvous.all()) {
            holders.entry(holder).or_default();
        }
        let part = |holder| match () {
            () if self.links.in_use(holder) => Part::Links,
            () if rendezvous.is_at(holder) => Part::Jobs,
            () => Part::None,
        };
        holders.keys().map(|&holder| (holder, part(holder))).collect()
    }

    /// What others' plans depend on.
    fn marks(&self) -> Marks {
        let active = || self.flows.values().filter(|f| f.sends());
        let mut jobs: Vec<_> =
            self.jobs.values().map(|job| (job.id, job.promoted(), job.own_key(), Rate::MAX)).collect();
        for flow in active() {
            if let Ok(at) = jobs.binary_search_by_key(&flow.spec.job, |mark| mark.0) {
                jobs[at].3 = jobs[at].3.min(flow.full_offer());
            }
        }
        let promised = |f: &Flow| f.rates.first().copied().unwrap_or(f.order);
        Marks {
            flows: active().map(|f| (f.spec.flow, promised(f), f.order, f.path.first().copied(), f.until)).collect(),
            jobs,
        }
    }

    /// Every flow with demand that crosses a link of this holder.
    fn promises(&self, holder: HolderId) -> Vec<FlowPromise> {
        let mut promises = Vec::new();
        for flow in self.flows.values().filter(|f| f.sends()) {
            let held = |&&l: &&usize| self.links.get(l).holder == Some(holder);
            let links: Vec<LinkId> = flow.path.iter().filter(held).map(|&l| self.links.get(l).link).collect();
            let Some(job) = self.jobs.get(&flow.spec.job) else { continue };
            if links.is_empty() {
                continue;
            }
            promises.push(FlowPromise {
                flow: flow.spec.flow,
                job: flow.spec.job,
                promoted: job.promoted(),
                key: job.key(),
                t0: job.stamp(),
                takes: flow.order,
                until: flow.until,
                rates: if flow.rates.is_empty() { vec![flow.order] } else { flow.rates.clone() },
                demand: flow.demand,
                delivered: flow.delivered.min(flow.demand),
                links,
            });
        }
        promises
    }

    /// Whether what was last said to a holder differs from now by more than the hysteresis.
    fn changed(&self, said: &Said, now: &Marks, part: Part) -> bool {
        let least = now.flows.iter().filter_map(|f| f.3).map(|l| self.links.get(l).capacity()).min();
        let least = least.unwrap_or(Rate::ZERO).times(RATE_HYSTERESIS).max(Rate(1));
        let moved = |was: Rate, is: Rate| was.0.abs_diff(is.0) > least.0;
        let flow = |(was, is): (&FlowMark, &FlowMark)| {
            (was.0, was.4) != (is.0, is.4) || moved(was.1, is.1) || moved(was.2, is.2)
        };
        let job = |(was, is): (&JobMark, &JobMark)| (was.0, was.1, was.2) != (is.0, is.1, is.2) || moved(was.3, is.3);
        let (was, is) = (&said.marks, now);
        let flows = || was.flows.len() != is.flows.len() || was.flows.iter().zip(&is.flows).any(flow);
        let jobs = was.jobs.len() != is.jobs.len() || was.jobs.iter().zip(&is.jobs).any(job);
        jobs || part == Part::Links && flows()
    }

    /// This host's own status of each job, and the news of others that it relays. A holder that keeps no link in use
    /// hears of the jobs that meet there.
    fn statuses(&mut self, holder: HolderId, part: Part) -> Vec<JobStatus> {
        let mut statuses = Vec::new();
        for job in self.jobs.values() {
            if part != Part::Links && self.speaker.rendezvous.of(job.id) != Some(holder) {
                continue;
            }
            self.speaker.status_seq += 1;
            let active = self.flows.values().filter(|f| f.spec.job == job.id && f.sends());
            let offer = active.map(Flow::full_offer).min().unwrap_or(Rate::MAX);
            statuses.push(JobStatus {
                origin: self.config.host,
                boot: self.config.boot,
                seq: self.speaker.status_seq,
                ..job.own_status(offer)
            });
            if self.config.relay {
                statuses.extend(job.relayed().cloned());
            }
        }
        statuses
    }

    fn watched(&self, holder: HolderId) -> Vec<LinkId> {
        self.links.used(holder).collect()
    }

    fn measured_for(&self, holder: HolderId) -> Vec<(LinkId, Rate)> {
        match self.links.measured_ingress() {
            Some((link, keeper, rate)) if keeper == holder => vec![(link, rate)],
            _ => Vec::new(),
        }
    }
}
