//! Asking of every job whether Sluice helps it: windows without, the release of jobs that are slower, their return.
//!
//! When a window is and what its rounds say is decided by [`sluice_schedule::benefit`]; here sockets are given back and
//! captured again. In a window nothing on this host is paced. A released job is what a job is that an operator gave back:
//! it has no orders, and its sockets go back as often as they are captured.
//!
//! What is compared are iterations, as a progress page tells their beginnings. Rounds as the monitor sees them would not do:
//! the kernel wakes it when a managed flow begins to send, and in a window it sees that at the next slot only, so that all
//! rounds would look shorter without. A job whose pages tell of no iterations is never compared, and stays managed.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use sluice_ebpf::{Row, Tier};
use sluice_progress::PageView;
use sluice_schedule::benefit::{Benefit, Change, Windows};
use sluice_schedule::{Event, JobId, Nanos, Now};
use sluice_wire::snapshot::{self as wire, BenefitState};
use sluice_wire::timeline::{EventKind, EventRecord};

use super::Core;
use crate::conditions::ConditionCode;
use crate::config::Config;

#[derive(Clone, Debug)]
struct Asked {
    benefit: Benefit,
    /// The last iteration that was seen to begin: its number, and when that was.
    began: Option<(u64, Nanos)>,
}

/// Counters tell of the slot before, and what lasts is the least of two.
const AFTERWARDS: u32 = 3;

/// What is known of the jobs of this host, and whether this slot is one without Sluice.
#[derive(Debug)]
pub struct Helped {
    windows: Windows,
    /// Thousandths that a job may be slower.
    margin: u32,
    jobs: BTreeMap<JobId, Asked>,
    /// Nothing is paced now.
    without: bool,
    /// Slots for which links still carry what was not paced, as far as counters tell.
    afterwards: u32,
    /// It is asked here at all.
    asked: bool,
}

impl Helped {
    /// As the configuration has it; no job is known.
    pub fn new(config: &Config) -> Helped {
        let number = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        let (slots, part) = (number(config.enforce.benefit_slots), number(config.enforce.benefit_part));
        Helped {
            windows: Windows::new(config.slot_length(), slots, part),
            margin: (config.enforce.benefit_margin * 1000.0).round() as u32,
            jobs: BTreeMap::new(),
            without: false,
            afterwards: 0,
            asked: false,
        }
    }

    /// Takes over what a reload changed; then nothing that was seen counts any more.
    pub fn reconfigure(&mut self, config: &Config) {
        let new = Helped::new(config);
        if (new.windows, new.margin) != (self.windows, self.margin) {
            (self.windows, self.margin) = (new.windows, new.margin);
            self.jobs.clear();
        }
    }

    /// Is this slot in a window in which nothing is paced?
    #[cfg(test)]
    pub const fn without(&self) -> bool {
        self.without
    }

    /// Is the job left alone now, for the window or because it was slower?
    pub fn leaves(&self, job: JobId) -> bool {
        self.without || self.released(job)
    }

    fn released(&self, job: JobId) -> bool {
        self.jobs.get(&job).is_some_and(|known| known.benefit.released())
    }
}

impl Core {
    /// A slot began: is it one without Sluice, and what do the windows so far say of each job?
    pub(super) fn ask_whether_it_helps(&mut self, now: Now) {
        let asked = self.config.enforce.benefit && self.may_let_go();
        if !asked {
            self.helped.jobs.clear();
        } else {
            // A host whose slots are not the others' would be without Sluice at another time than they.
            let alone = !self.clock.trust.is_trusted();
            let known = &self.monitor.jobs;
            self.helped.jobs.retain(|job, _| known.contains_key(job));
            for job in known.keys() {
                let new = || Asked { benefit: Benefit::new(self.helped.windows, self.helped.margin), began: None };
                self.helped.jobs.entry(*job).or_insert_with(new);
            }
            let changes: Vec<(JobId, Change)> = self
                .helped
                .jobs
                .iter_mut()
                .filter_map(|(job, known)| {
                    if alone || self.spared.contains(job) {
                        known.benefit.interrupt();
                    }
                    Some((*job, known.benefit.edge(now.slot)?))
                })
                .collect();
            for (job, change) in changes {
                self.take_change(now, job, change);
            }
            self.look_at_iterations(now);
        }
        self.helped.asked = asked;
        let without = asked && self.clock.trust.is_trusted() && self.helped.windows.without(now.slot);
        if without != std::mem::replace(&mut self.helped.without, without) {
            // Those that were given back are captured again with their next orders.
            if without {
                self.release_all(None);
            }
            let state = if without { BenefitState::Without } else { BenefitState::Managed };
            self.note_benefit(now, None, state);
            tracing::debug!(event = "window", without, "a window without pacing begins or ends");
        }
        self.helped.afterwards = if without { AFTERWARDS } else { self.helped.afterwards.saturating_sub(1) };
        // What was captured meanwhile, or again.
        for row in self.rows_left_alone() {
            self.datapath.release(row);
        }
        self.judge_benefit(now);
    }

    /// Iterations that began since the last look, by the page of the job's first process that tells of any.
    fn look_at_iterations(&mut self, now: Now) {
        for (job, known) in &mut self.helped.jobs {
            let processes = self.monitor.jobs.get(job).into_iter().flat_map(|job| &job.processes);
            let mut views = processes.filter_map(|key| self.monitor.processes.get(key)?.view.as_ref());
            let tells = |view: &&PageView| view.host_monotonic && !view.iteration_stale && view.iteration.count > 0;
            let began = views.find(tells).map(|view| (view.iteration.count, Nanos(view.iteration.start_ns)));
            let before = std::mem::replace(&mut known.began, began);
            if let (Some((before, from)), Some((count, at))) = (before, began)
                && count > before
                && at > from
            {
                known.benefit.ended(now, now.mono.minus(at), at.minus(from), count - before);
            }
        }
    }

    /// In a window jobs' own traffic looks like strangers'. The brain keeps the estimate that it had, or it would make room
    /// for them for ten seconds after every window.
    pub(super) fn leave_measured_out(&mut self) {
        if self.helped.afterwards > 0 {
            self.events.retain(|event| !matches!(event, Event::Measured { .. }));
        }
    }

    /// Can sockets be given back and captured again, as windows need?
    fn may_let_go(&self) -> bool {
        // A pacing ceiling reacts once per round trip only: what is measured would not be what a window is.
        self.enforces() && matches!(self.datapath.tier(), Tier::StructOps | Tier::StructOpsNoLink)
    }

    fn take_change(&mut self, now: Now, job: JobId, change: Change) {
        let name = self.monitor.job_name(job).unwrap_or_default().to_owned();
        match change {
            Change::Released { slower, rest } => {
                let flows = self.release_all(Some(job));
                self.counters.released_benefit += flows as u64;
                tracing::warn!(
                    event = "job-released",
                    job = name,
                    slower_permille = slower,
                    retry_s = rest.0 / 1_000_000_000,
                    flows,
                    cost = "its flows run under ordinary congestion control until it is tried again",
                    next = "sluice jobs ID; to keep it managed all the same: enforce.benefit = false",
                    "a job is slower with Sluice than without and is left alone for a while"
                );
                self.note_benefit(now, Some(job), BenefitState::Released);
            }
            Change::Managed => {
                tracing::info!(event = "job-tried-again", job = name, "a job that was released is managed again");
                self.note_benefit(now, Some(job), BenefitState::Managed);
            }
        }
    }

    /// Rows of jobs that are left alone.
    fn rows_left_alone(&self) -> Vec<Row> {
        if !self.enforces() {
            return Vec::new();
        }
        let alone = |job| self.helped.leaves(job) || self.spared.contains(&job);
        let mine =
            self.monitor.sockets.iter().filter(|socket| socket.told.as_ref().is_some_and(|spec| alone(spec.job)));
        mine.filter_map(|socket| socket.row).collect()
    }

    fn note_benefit(&self, now: Now, job: Option<JobId>, state: BenefitState) {
        let kind = EventKind::Benefit(job, state);
        let record = EventRecord { slot: now.slot, into_slot: now.into_slot, kind };
        self.timeline.lock().unwrap_or_else(PoisonError::into_inner).event(record);
    }

    fn judge_benefit(&mut self, now: Now) {
        let code = ConditionCode::NotHelping;
        let mut released: BTreeMap<String, String> = BTreeMap::new();
        for (job, Asked { benefit, .. }) in self.helped.jobs.iter().filter(|(_, known)| known.benefit.released()) {
            let name = self.monitor.job_name(*job).unwrap_or_default();
            let percent = benefit.standing(now.slot).slower.unwrap_or(0) as f64 / 10.0;
            let text = format!("iterations of job {name} took {percent:.0} % longer with Sluice than without");
            released.insert(name.to_owned(), text);
        }
        let held = self.conditions.iter().filter(|condition| condition.code == code);
        let over: Vec<String> = held.map(|c| c.subject.clone()).filter(|name| !released.contains_key(name)).collect();
        over.iter().for_each(|name| self.conditions.clear(code, name));
        for (name, text) in released {
            self.conditions.set(now.wall.0, code, &name, text);
        }
    }

    /// How it stands with a job.
    pub fn benefit(&self, job: JobId) -> wire::Benefit {
        let known = self.helped.jobs.get(&job).filter(|_| self.helped.asked).map(|known| &known.benefit);
        let standing = known.map(|benefit| benefit.standing(self.now.slot)).unwrap_or_default();
        let state = match known {
            _ if self.spared.contains(&job) => BenefitState::Spared,
            None => BenefitState::Off,
            Some(benefit) if benefit.released() => BenefitState::Released,
            Some(_) if self.helped.without => BenefitState::Without,
            Some(_) => BenefitState::Managed,
        };
        wire::Benefit {
            state,
            slower_ratio: standing.slower.map(|thousandths| thousandths as f64 / 1e3),
            windows: standing.pairs,
            retry_ns: standing.retry.map(|time| time.0),
        }
    }
}
