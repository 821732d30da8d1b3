//! Records the work of this host's jobs, so that a simulator can do it again (`sluice sim replay`).
//!
//! [`Notes`] turns what the brain hears into lines, without any file. [`Recorder`] hands them to a thread of its own: a disk
//! that is slow or full costs lines, which are counted, and never a turn of the deciding loop.

mod file;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sluice_formats::recording::{Line, Pattern, Role};
use sluice_schedule::{self as schedule, Bytes, Event, FlowId, FlowSpec, JobId, Nanos, Now};

use crate::monitor::EndedRound;

/// Lines that wait for the disk at most.
const WAITING: usize = 4096;
/// Flows of living jobs that are remembered at most; those beyond are in no round.
const MAX_FLOWS: usize = 65_536;
/// How long the end of a daemon waits for what is not yet written.
const END: Duration = Duration::from_millis(500);

/// The round of a job under way.
#[derive(Debug)]
struct Open {
    number: u64,
    began: Nanos,
}

/// What was told so far, and which rounds are under way.
#[derive(Debug, Default)]
pub struct Notes {
    jobs: BTreeMap<JobId, (String, Pattern)>,
    flows: BTreeMap<FlowId, (JobId, String, Role)>,
    demands: BTreeMap<FlowId, Bytes>,
    open: BTreeMap<JobId, Open>,
}

/// What is known of a job and of where its flows go, beside the events.
pub trait Known {
    /// Its name, and the number of its last round.
    fn job(&self, job: JobId) -> Option<(&str, u64)>;
    /// The name of the host that receives a flow, else its address.
    fn receiver(&self, spec: &FlowSpec) -> String;
}

impl Notes {
    /// Takes in the events of one turn, in which these rounds ended.
    pub fn turn(&mut self, now: Now, events: &[Event], ended: &[EndedRound], known: &dyn Known, out: &mut Vec<Line>) {
        for event in events {
            match event {
                Event::JobSeen(spec) => {
                    let name = known.job(spec.job).map_or_else(String::new, |(name, _)| name.to_owned());
                    let facts = (name, pattern(spec.pattern));
                    if self.jobs.get(&spec.job) != Some(&facts) {
                        self.jobs.insert(spec.job, facts.clone());
                        let (name, pattern) = facts;
                        out.push(Line::Job { job: spec.job.to_string(), name, pattern });
                    }
                }
                Event::JobGone(job) => {
                    self.jobs.remove(job);
                    self.open.remove(job);
                    self.flows.retain(|_, (of, ..)| of != job);
                    let flows = &self.flows;
                    self.demands.retain(|flow, _| flows.contains_key(flow));
                }
                Event::FlowOpened(spec) => self.flow(spec, known, out),
                Event::RoundBegan { job, flows } => {
                    // The pause before it was too short to be seen.
                    self.close(now.wall, *job, out);
                    self.forget_demands(*job);
                    self.demands.extend(flows.iter().copied());
                    let number = known.job(*job).map_or(0, |(_, rounds)| rounds);
                    self.open.insert(*job, Open { number, began: now.wall });
                }
                Event::DemandChanged { flow, demand } => drop(self.demands.insert(*flow, *demand)),
                _ => {}
            }
        }
        for round in ended {
            if self.open.get(&round.job).is_some_and(|open| open.number == round.round) {
                self.close(now.wall, round.job, out);
            }
        }
    }

    fn flow(&mut self, spec: &FlowSpec, known: &dyn Known, out: &mut Vec<Line>) {
        let facts = (spec.job, known.receiver(spec), role(spec.role));
        if self.flows.get(&spec.flow) == Some(&facts) || self.flows.len() >= MAX_FLOWS {
            return;
        }
        self.flows.insert(spec.flow, facts.clone());
        let (job, to, role) = facts;
        out.push(Line::Flow { flow: spec.flow.to_string(), job: job.to_string(), to, role });
    }

    fn close(&mut self, at: Nanos, job: JobId, out: &mut Vec<Line>) {
        let Some(open) = self.open.remove(&job) else { return };
        let mine = self.flows.iter().filter(|(_, (of, ..))| *of == job);
        let bytes = mine.filter_map(|(flow, _)| Some((flow.to_string(), self.demands.get(flow)?.0)));
        let flows: Vec<(String, u64)> = bytes.filter(|(_, bytes)| *bytes > 0).collect();
        if !flows.is_empty() && self.jobs.contains_key(&job) {
            // A clock that was set back in between must not make a round that the reader refuses.
            let (began_ns, ended_ns) = (open.began.0, at.0.max(open.began.0));
            out.push(Line::Round { job: job.to_string(), began_ns, ended_ns, flows });
        }
    }

    fn forget_demands(&mut self, job: JobId) {
        let flows = &self.flows;
        self.demands.retain(|flow, _| flows.get(flow).is_some_and(|(of, ..)| *of != job));
    }

    /// Rounds under way will not be told of to their ends.
    pub fn forget_rounds(&mut self) {
        self.open.clear();
    }
}

fn pattern(pattern: schedule::Pattern) -> Pattern {
    match pattern {
        schedule::Pattern::Unknown => Pattern::Unknown,
        schedule::Pattern::Ring => Pattern::Ring,
        schedule::Pattern::ParameterServer => Pattern::Ps,
        schedule::Pattern::Tree => Pattern::Tree,
        schedule::Pattern::Plan => Pattern::Plan,
    }
}

fn role(role: schedule::Role) -> Role {
    match role {
        schedule::Role::Plain => Role::Plain,
        schedule::Role::RingNext => Role::Ring,
        schedule::Role::Aggregate => Role::Aggregate,
        schedule::Role::Broadcast => Role::Broadcast,
        schedule::Role::Reduce => Role::Reduce,
        schedule::Role::Spread => Role::Spread,
    }
}

/// A recording under way; dropping it ends the file in order, without waiting for that.
pub struct Recorder {
    /// What was told so far.
    pub notes: Notes,
    /// The file.
    pub path: PathBuf,
    /// Its bound.
    pub max_bytes: u64,
    lines: Option<SyncSender<Line>>,
    lost: u64,
    writer: Option<JoinHandle<()>>,
}

impl Recorder {
    /// Begins, or goes on in a file that is there.
    ///
    /// # Errors
    /// When there can be no further thread.
    pub fn start(path: PathBuf, max_bytes: u64, start: Line) -> std::io::Result<Recorder> {
        let (lines, from) = sync_channel(WAITING);
        let _ = lines.try_send(start); // There is room for the first.
        let file = path.clone();
        let writer =
            std::thread::Builder::new().name("recorder".into()).spawn(move || file::write(&file, max_bytes, &from))?;
        Ok(Recorder { notes: Notes::default(), path, max_bytes, lines: Some(lines), lost: 0, writer: Some(writer) })
    }

    /// Writes a line soon, or counts it as lost.
    pub fn say(&mut self, line: Line) {
        let Some(lines) = &self.lines else { return };
        if self.lost > 0 {
            match lines.try_send(Line::Lost { lines: self.lost }) {
                Ok(()) => self.lost = 0,
                Err(_) => {
                    self.lost += 1;
                    return;
                }
            }
        }
        match lines.try_send(line) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => self.lost += 1,
            // The writer has said why it ended.
            Err(TrySendError::Disconnected(_)) => self.lines = None,
        }
    }
}

impl Recorder {
    /// Ends it, and waits a moment until the last lines are written.
    pub fn finish(mut self) {
        self.lines = None;
        let (Some(writer), began) = (self.writer.take(), Instant::now()) else { return };
        while !writer.is_finished() && began.elapsed() < END {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
mod tests;
