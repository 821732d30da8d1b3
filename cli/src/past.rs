//! The past, slot by slot: a trace that `sluice timeline` wrote, or a recording of a daemon, as snapshots of any of its slots.
//! What the file does not say is not known there either.

mod chrome;
pub mod explained;
mod recorded;

use std::collections::BTreeMap;
use std::path::Path;

use sluice_formats::{file, recording};
use sluice_wire::snapshot::{
    Clock, Condition, ConditionCode, Daemon, Flow, FlowState, Job, Label, Link, Mode, Severity, Snapshot,
};

use crate::failure::Failure;

/// Bytes of a trace that are read.
const MAX_BYTES: u64 = 512 << 20;
/// Slots ahead that a snapshot shows, as far as the file goes.
const AHEAD: u64 = 10;

/// A row of slots in which a flow had one order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// Slots after the first one of the file.
    pub from: u64,
    pub slots: u64,
    pub ordered_bps: Option<u64>,
    /// On average over the run.
    pub delivered_bps: u64,
    /// At its end.
    pub remaining_bytes: Option<u64>,
    pub why: String,
    /// What made the decision.
    pub trigger: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct PastFlow {
    pub id: String,
    pub to: String,
    /// Index of its job.
    pub job: usize,
    /// In the order of time, none beside another.
    pub runs: Vec<Run>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Round {
    pub number: u64,
    /// Nanoseconds after the file's first slot began.
    pub began_ns: u64,
    pub ended_ns: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct PastJob {
    pub name: String,
    pub rounds: Vec<Round>,
}

/// Something that was wrong for a while.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Held {
    pub code: ConditionCode,
    /// What it was about; empty: the host.
    pub subject: String,
    /// Slots after the first one of the file.
    pub from: u64,
    /// `None`: it still held at the file's end.
    pub to: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    pub scheduled_bps: u64,
    pub managed_bps: u64,
    pub other_bps: u64,
    pub capacity_bps: u64,
}

/// What a file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Past {
    pub host: String,
    pub version: String,
    pub slot_length_ns: u64,
    /// Number of the first slot.
    pub first_slot: u32,
    /// How many slots there are.
    pub slots: u64,
    pub flows: Vec<PastFlow>,
    pub jobs: Vec<PastJob>,
    /// By name, by slots after the first.
    pub links: BTreeMap<String, BTreeMap<u64, Load>>,
    /// When the mode became which, in slots after the first.
    pub modes: Vec<(u64, Mode)>,
    pub conditions: Vec<Held>,
}

impl Past {
    /// Reads a trace or a recording.
    ///
    /// # Errors
    /// It is neither, or not to be read.
    pub fn load(path: &Path) -> Result<Past, Failure> {
        let shown = path.display();
        let text = file::load_text(path, MAX_BYTES)?;
        let is_trace = text.trim_start().starts_with('{') && text.contains("\"traceEvents\"");
        let past = if is_trace {
            chrome::read(text.as_bytes()).map_err(|why| Failure::input(format!("{shown}: {why}")))?
        } else if text.contains("\"kind\"") {
            recorded::read(&recording::parse(&text, &shown.to_string())?)
        } else {
            return Err(Failure::input(format!(
                "{shown}: neither a trace nor a recording\n  allowed: what sluice timeline writes (--format chrome), or a file of record.file"
            )));
        };
        if past.slots == 0 {
            return Err(Failure::input(format!("{shown}: there is no slot in it")));
        }
        Ok(past)
    }

    /// From the bytes of a trace.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn of_trace(bytes: &[u8]) -> Result<Past, String> {
        chrome::read(bytes)
    }

    /// The number of a slot.
    pub fn number(&self, at: u64) -> u32 {
        self.first_slot.wrapping_add(at as u32)
    }

    /// Which slot has this number; `None`: it is not in the file.
    pub fn at(&self, number: u32) -> Option<u64> {
        let at = u64::from(number.wrapping_sub(self.first_slot));
        (at < self.slots).then_some(at)
    }

    /// The state of one slot. Where the file says nothing, nothing is known.
    pub fn snapshot(&self, at: u64) -> Snapshot {
        let mut jobs: Vec<Job> = self.jobs.iter().map(|job| self.job(job, at)).collect();
        let mut flows = Vec::new();
        for flow in &self.flows {
            let Some(run) = flow.run(at) else { continue };
            if let Some(job) = jobs.get_mut(flow.job) {
                job.flows += 1;
                job.ordered_bps = add(job.ordered_bps, run.ordered_bps);
                job.delivered_bps = add(job.delivered_bps, Some(run.delivered_bps));
                job.remaining_bytes = add(job.remaining_bytes, run.remaining_bytes);
            }
            flows.push(self.flow(flow, run, at));
        }
        jobs.retain(|job| job.flows > 0 || job.round > 0);
        let conditions = self.conditions(at);
        let worst = conditions.iter().map(|condition| condition.severity).max();
        Snapshot {
            schema: sluice_wire::snapshot::SCHEMA,
            daemon: Daemon {
                host: self.host.clone(),
                version: self.version.clone(),
                mode: self.mode(at),
                state: worst.map(Severity::state).unwrap_or_default(),
                uptime_ns: at.saturating_mul(self.slot_length_ns),
                ready: true,
                ..Daemon::default()
            },
            clock: Clock {
                slot: self.number(at),
                slot_length_ns: self.slot_length_ns,
                horizon: AHEAD as u32,
                ..Clock::default()
            },
            links: self.links.iter().filter_map(|(name, loads)| self.link(name, loads, at)).collect(),
            conditions,
            jobs,
            flows,
            ..Snapshot::default()
        }
    }

    /// The last that was said; before that: active, if anything was ordered.
    fn mode(&self, at: u64) -> Mode {
        let said = self.modes.iter().rev().find(|(from, _)| *from <= at).map(|(_, mode)| *mode);
        let ordered = || self.flows.iter().flat_map(|flow| &flow.runs).any(|run| run.ordered_bps.is_some());
        said.unwrap_or_else(|| if ordered() { Mode::Active } else { Mode::Observe })
    }

    /// Those that held in a slot, each with what the file knows of it.
    fn conditions(&self, at: u64) -> Vec<Condition> {
        let held = self.conditions.iter().filter(|held| held.from <= at && held.to.is_none_or(|to| at < to));
        let told = |held: &Held| {
            let sentence = if held.subject.is_empty() { held.code.cost() } else { held.subject.as_str() };
            Condition::new(held.code, held.subject.clone(), sentence)
        };
        held.map(told).collect()
    }

    fn job(&self, job: &PastJob, at: u64) -> Job {
        let now = (at + 1).saturating_mul(self.slot_length_ns);
        let begun: Vec<&Round> = job.rounds.iter().filter(|round| round.began_ns < now).collect();
        let mut took: Vec<u64> = begun
            .iter()
            .filter_map(|round| Some(round.ended_ns.filter(|end| *end <= now)?.saturating_sub(round.began_ns)))
            .collect();
        took.sort_unstable();
        Job {
            id: id_of(&job.name),
            round: begun.last().map_or(0, |round| round.number),
            round_p50_ns: took.get(took.len() / 2).copied(),
            rounds_finished: took.len() as u64,
            source: "replay".into(),
            ..Job::default()
        }
    }

    fn flow(&self, flow: &PastFlow, run: &Run, at: u64) -> Flow {
        let error = run
            .ordered_bps
            .filter(|ordered| *ordered > 0)
            .map(|ordered| (run.delivered_bps as f64 - ordered as f64).abs() / ordered as f64);
        let ahead =
            (at..(at + AHEAD).min(self.slots)).map(|at| flow.run(at).and_then(|run| run.ordered_bps).unwrap_or(0));
        Flow {
            id: flow.id.clone(),
            job: self.jobs.get(flow.job).map(|job| id_of(&job.name)).unwrap_or_default(),
            to: flow.to.clone(),
            state: if run.ordered_bps.is_some() { FlowState::Managed } else { FlowState::Observed },
            ordered_bps: run.ordered_bps,
            delivered_bps: Some(run.delivered_bps),
            error_ratio: error,
            next_bps: if run.ordered_bps.is_some() { ahead.collect() } else { Vec::new() },
            why: run.why.clone().into(),
            ..Flow::default()
        }
    }

    fn link(&self, name: &str, loads: &BTreeMap<u64, Load>, at: u64) -> Option<Link> {
        let (_, load) = loads.range(..=at).next_back()?;
        let ahead = (at..(at + AHEAD).min(self.slots)).map(|at| loads.get(&at).map_or(0, |load| load.scheduled_bps));
        Some(Link {
            name: name.to_owned(),
            own: !name.contains(':'),
            capacity_bps: load.capacity_bps,
            managed_bps: Some(load.managed_bps),
            other_bps: Some(load.other_bps),
            next_bps: ahead.collect(),
            ..Link::default()
        })
    }
}

impl PastFlow {
    /// The run of a slot.
    pub fn run(&self, at: u64) -> Option<&Run> {
        let after = self.runs.partition_point(|run| run.from <= at);
        self.runs.get(after.checked_sub(1)?).filter(|run| at - run.from < run.slots)
    }
}

/// Names in traces begin with the job's own: `4711 ring rank 3/8`.
pub fn id_of(name: &str) -> Label {
    Label::new(name.split(' ').next().unwrap_or_default())
}

fn add(sum: Option<u64>, more: Option<u64>) -> Option<u64> {
    match (sum, more) {
        (None, more) => more,
        (Some(sum), more) => Some(sum.saturating_add(more.unwrap_or(0))),
    }
}

#[cfg(test)]
mod tests;
