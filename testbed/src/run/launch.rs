//! Starts the processes of one job in their namespaces and cgroups, and turns what they print into messages.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::Sender;

use serde::de::DeserializeOwned;
use sluice_schedule::Nanos;

use super::{JobPlan, KillOnDrop, Placement, RunError, Session, write};
use crate::fabric::Fabric;
use crate::job::report::Line;
use crate::job::{JobFile, Member};

/// What a process put out.
#[derive(Debug)]
pub enum Output<L = Line> {
    Line(L),
    /// It ended its output; with the last lines of its error output.
    Ended(String),
}

/// A message about one member of one job.
#[derive(Debug)]
pub struct FromMember {
    pub job: usize,
    pub rank: usize,
    pub output: Output,
}

/// How job sockets are treated.
#[derive(Clone, Debug, Default)]
pub struct Sockets {
    /// Congestion control that jobs ask for; none: captured by a daemon, or the system's.
    pub tcp: Option<String>,
    /// Per host, where progress pages go; empty: no pages.
    pub progress: Vec<PathBuf>,
    /// How often members report acknowledged bytes, ms; 0: never.
    pub sample_ms: u64,
    pub sample_flows: bool,
}

/// The processes of one job, killed when it is dropped.
#[derive(Debug)]
pub struct RunningJob {
    /// Where each member runs, workers first.
    pub hosts: Vec<usize>,
    members: Vec<(KillOnDrop, Option<ChildStdin>)>,
}

/// Where the members of jobs listen: one port per member and job.
const FIRST_PORT: usize = 20_000;
const PORTS: usize = 40_000;

impl RunningJob {
    /// Starts all members. They connect to each other and then wait for [`RunningJob::start`].
    ///
    /// `serial` keeps ports of jobs apart; job files go to the directory of the session.
    ///
    /// # Errors
    /// When a job file cannot be written or a process cannot be started.
    pub fn launch(
        fabric: &Fabric,
        session: &Session<'_>,
        (serial, plan): (usize, &JobPlan),
        place: &Placement,
        sockets: &Sockets,
        to: &Sender<FromMember>,
    ) -> Result<RunningJob, RunError> {
        let hosts: Vec<usize> = place.workers.iter().chain(&place.servers).copied().collect();
        if hosts.iter().any(|h| *h >= fabric.hosts.len()) || place.workers.len() != plan.workers {
            return Err(RunError::Plan(format!("job {}: its placement does not fit the fabric or the job", plan.id)));
        }
        let members: Vec<Member> = hosts
            .iter()
            .enumerate()
            .map(|(rank, &h)| Member {
                host: fabric.hosts[h].name.clone(),
                address: fabric.hosts[h].address,
                port: (FIRST_PORT + (serial * 37 + rank) % PORTS) as u16,
                rails: fabric.layout.rails_of(h),
            })
            .collect();
        let mut job = RunningJob { hosts: hosts.clone(), members: Vec::new() };
        for (rank, &h) in hosts.iter().enumerate() {
            let file = JobFile {
                job: plan.id.clone(),
                arch: plan.arch,
                rank,
                members: members.clone(),
                workers: plan.workers,
                fanout: plan.fanout,
                plan: plan.plan.clone(),
                bytes: plan.bytes.0,
                iterations: plan.iterations,
                compute_ns: plan.compute.iter().map(|c| c.0).collect(),
                period_ns: plan.period.0,
                overlap: plan.overlap,
                tcp: sockets.tcp.clone(),
                write_bytes: 65_536,
                progress_dir: sockets.progress.get(h).cloned(),
                sample_ms: sockets.sample_ms,
                sample_flows: sockets.sample_flows,
                wait_for_start: true,
            };
            let path = session.dir.join(format!("job-{}-{rank}.json", plan.id));
            let text = serde_json::to_vec(&file).map_err(|e| RunError::Plan(e.to_string()))?;
            write(&path, text)?;
            let mut command = Command::new(&session.binaries.job);
            // What a daemon goes by where the job publishes no page.
            command.env("SLUICE_JOB_ID", &plan.id);
            if let Some(named) = &plan.plan {
                command.env("SLUICE_PLAN", &named.file);
                if !named.ranks.is_empty() {
                    command.env("SLUICE_PLAN_RANKS", named.ranks.join(","));
                }
                if let Some(collective) = named.collective {
                    command.env("SLUICE_PLAN_COLLECTIVE", collective.to_string());
                }
            }
            command.arg(&path).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = fabric.hosts[h].ns.spawn(command, Some(fabric.cgroups.jobs(h).procs()?))?;
            let to = to.clone();
            listen(&mut child, move |output| to.send(FromMember { job: serial, rank, output }).is_ok())?;
            let stdin = child.stdin.take();
            job.members.push((KillOnDrop(child), stdin));
        }
        Ok(job)
    }

    /// Tells all members when the first compute phase begins, CLOCK_MONOTONIC.
    pub fn start(&mut self, at: Nanos) {
        for (_, stdin) in &mut self.members {
            if let Some(mut stdin) = stdin.take() {
                // A member that has died is reported by its end of output.
                drop(writeln!(stdin, "start {}", at.0));
            }
        }
    }

    /// Process id of a member.
    pub fn pid(&self, rank: usize) -> Option<u32> {
        self.members.get(rank).map(|(child, _)| child.0.id())
    }

    /// Waits for the members, which have said that they are done. Returns the first failed rank and its status.
    pub fn reap(mut self) -> Option<(usize, String)> {
        let mut failed = None;
        for (rank, (child, _)) in self.members.iter_mut().enumerate() {
            let status = child.0.wait();
            let bad = match &status {
                Ok(status) if status.success() => None,
                Ok(status) => Some(status.to_string()),
                Err(e) => Some(e.to_string()),
            };
            failed = failed.or(bad.map(|b| (rank, b)));
        }
        failed
    }
}

/// Longest line of a process that is read in one piece.
const MAX_LINE: u64 = 1 << 20;
/// What a process says at its end is short; a chatty one is cut.
const MAX_LAST: u64 = 1 << 16;

/// Passes on what a process prints, until `say` wants no more.
pub(crate) fn listen<L: DeserializeOwned>(
    child: &mut Child,
    mut say: impl FnMut(Output<L>) -> bool + Send + 'static,
) -> Result<(), RunError> {
    let (Some(out), Some(err)) = (child.stdout.take(), child.stderr.take()) else { return Ok(()) };
    let body = move || {
        let mut reader = BufReader::new(out);
        let mut line = Vec::new();
        while matches!(reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line), Ok(n) if n > 0) {
            if !values_in(&line).all(|value| say(Output::Line(value))) {
                return;
            }
            line.clear();
        }
        let mut last = String::new();
        drop(err.take(MAX_LAST).read_to_string(&mut last));
        say(Output::Ended(last));
    };
    let thread = std::thread::Builder::new().name("job-output".into()).stack_size(256 << 10);
    thread.spawn(body).map(drop).map_err(RunError::io("starting a thread"))
}

/// The values in one line of output: mpirun passes on what its ranks write as it comes, so that the line of one may stand
/// before the end of another's.
pub(crate) fn values_in<L: DeserializeOwned>(line: &[u8]) -> impl Iterator<Item = L> {
    serde_json::Deserializer::from_slice(line).into_iter().map_while(Result::ok)
}
