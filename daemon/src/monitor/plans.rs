//! Plans that jobs follow: loaded and checked on a thread of their own, never by the loop.
//!
//! A job names its plan in its environment (`SLUICE_PLAN`, an absolute path). The name comes from a user, so the file
//! is opened with care: a regular one, of the job's owner or readable by everybody, of at most 16 MiB. What is wrong
//! with a file that is not the owner's is told by code and place only, since a message quotes what it found. A plan that
//! cannot be followed costs the job nothing: it runs as if it had none.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use sluice_formats::problem::{E_LIMIT, E_PERM, E_RANGE, Problem, Problems, printable};
use sluice_formats::topology::Topology;
use sluice_plan::follow::{Followed, Job};
use sluice_plan::plan::{Direction, MAX_DAEMON_BYTES};
use sluice_schedule::graph::{PlanFlows, PlanTree};
use sluice_schedule::{Event, JobId, JobSpec, Nanos, Pattern};

use super::Monitor;
use super::environ::{PlanName, label};
use super::lanes::Lanes;
use super::roles;
use crate::privilege::eyes::{self, Eyes, SharedEyes};

/// Bytes of the files of all plans that jobs follow at a time: what is made of them is kept in memory.
pub(crate) const MAX_KEPT: usize = 32 << 20;
/// Plans that may wait to be loaded.
const MAX_WAITING: usize = 256;

/// A plan that a job follows.
#[derive(Debug, PartialEq, Eq)]
pub struct JobPlan {
    /// The file's name without its directories, safe to print.
    pub name: String,
    /// What flows between its ranks.
    pub work: Work,
    /// Length of its file.
    pub bytes: usize,
}

/// What a plan has the ranks of its job send.
#[derive(Debug, PartialEq, Eq)]
pub enum Work {
    /// Parts of the data along trees: also what a schedule of sends comes to.
    Trees(PlanFlows),
    /// Flows with rates of their own or in an order.
    Lanes(Lanes),
}

impl Work {
    /// What all flows that leave a rank carry, in parts of a share: what its round is split by.
    pub fn parts_of(&self, own: u32) -> u64 {
        match self {
            Work::Trees(flows) => roles::parts_of(flows, own),
            Work::Lanes(lanes) => lanes.parts_of(own),
        }
    }
    /// Flows between ranks.
    pub fn flows(&self) -> usize {
        match self {
            Work::Trees(flows) => flows.iter().count(),
            Work::Lanes(lanes) => lanes.len(),
        }
    }
}

/// How far a job is with its plan.
#[derive(Clone, Debug, Default)]
pub enum Following {
    #[default]
    Nothing,
    Loading,
    Plan(Arc<JobPlan>),
    /// It cannot be followed: code, what is wrong, file, place and what to do, in one line.
    Refused(String),
}

impl Following {
    /// The plan, if there is one to follow.
    pub fn plan(&self) -> Option<&JobPlan> {
        match self {
            Following::Plan(plan) => Some(plan),
            _ => None,
        }
    }
    /// Why there is none, if there should be.
    pub fn refused(&self) -> Option<&str> {
        match self {
            Following::Refused(why) => Some(why),
            _ => None,
        }
    }
}

#[derive(Debug)]
struct Question {
    job: JobId,
    named: PlanName,
    /// The process that named it, and its owner.
    pid: u32,
    uid: u32,
    /// Ranks of the job; 0: not known.
    ranks: u32,
    /// The daemon's own topology.
    topology: Option<PathBuf>,
    slot: Nanos,
}

type Answer = (JobId, Result<JobPlan, Problems>);

#[derive(Debug)]
pub struct Plans {
    /// The topology for plans that carry none.
    pub topology: Option<PathBuf>,
    /// Length of a slot.
    slot: Nanos,
    /// Those that open it.
    pub eyes: SharedEyes,
    thread: Option<(SyncSender<Question>, Receiver<Answer>)>,
}

impl Plans {
    pub fn new(topology: Option<PathBuf>, slot: Nanos) -> Plans {
        Plans { topology, slot, eyes: eyes::own(), thread: None }
    }

    /// Asks for a job's plan, which a process of a user names, `by` pid and uid; the answer comes later.
    pub fn ask(&mut self, job: JobId, named: &PlanName, by: [u32; 2], ranks: u32) -> Following {
        if self.thread.is_none() {
            let (questions, from_daemon) = sync_channel::<Question>(MAX_WAITING);
            let (answers, to_daemon) = sync_channel(MAX_WAITING);
            let eyes = self.eyes.clone();
            let body = move || {
                crate::sys::defer_this_thread();
                while let Ok(question) = from_daemon.recv() {
                    if answers.send((question.job, load(&question, &*eyes))).is_err() {
                        return;
                    }
                }
            };
            if std::thread::Builder::new().name("plans".into()).spawn(body).is_ok() {
                self.thread = Some((questions, to_daemon));
            }
        }
        let (named, topology) = (named.clone(), self.topology.clone());
        let [pid, uid] = by;
        let question = Question { job, named: named.clone(), pid, uid, ranks, topology, slot: self.slot };
        match &self.thread {
            Some((questions, _)) if questions.try_send(question).is_ok() => Following::Loading,
            _ => Following::Refused(format!("{}: too many plans wait to be loaded", shown(&named.file))),
        }
    }

    /// Appends the answers that have come.
    pub fn answers(&mut self, out: &mut Vec<(JobId, Following)>) {
        if let Some((_, answers)) = &self.thread {
            let following = |answer: Result<JobPlan, Problems>| match answer {
                Ok(plan) => Following::Plan(Arc::new(plan)),
                Err(problems) => Following::Refused(one_line(&problems)),
            };
            out.extend(answers.try_iter().map(|(job, answer)| (job, following(answer))));
        }
    }
}

impl Monitor {
    /// Plans that have been loaded: their jobs' flows are the plans' from here on.
    pub(super) fn find_plans(&mut self, out: &mut Vec<Event>) {
        let mut loaded = Vec::new();
        self.plans.answers(&mut loaded);
        self.follow(loaded, out);
    }

    pub(super) fn follow(&mut self, loaded: Vec<(JobId, Following)>, out: &mut Vec<Event>) {
        for (id, mut following) in loaded {
            let others = self.jobs.iter().filter(|(job, _)| **job != id);
            let kept: usize = others.filter_map(|(_, job)| job.following.plan()).map(|plan| plan.bytes).sum();
            if let Following::Plan(plan) = &following
                && kept + plan.bytes > MAX_KEPT
            {
                let most = MAX_KEPT >> 20;
                following = Following::Refused(format!("{}: with those of other jobs more than {most} MiB", plan.name));
            }
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            if let Following::Plan(plan) = &following {
                let flows = plan.work.flows();
                tracing::info!(
                    event = "plan-followed",
                    job = job.name,
                    plan = plan.name,
                    flows,
                    "a job follows a plan"
                );
                job.pattern = Pattern::Plan;
                out.push(Event::JobSeen(JobSpec { job: id, pattern: job.pattern }));
                self.rematch = true;
            }
            job.following = following;
        }
    }
}

fn load(question: &Question, eyes: &dyn Eyes) -> Result<JobPlan, Problems> {
    let path = &question.named.file;
    let name = shown(path);
    let opened = eyes.plan(question.pid, path);
    let (file, own) = open(opened, question.uid).map_err(|problems| problems.in_file(&name))?;
    let bytes = read(file).map_err(|problems| problems.in_file(&name))?;
    let topology = question.topology.as_deref().map(Topology::load).transpose();
    let known = topology.as_ref().ok().and_then(Option::as_ref);
    let PlanName { ranks, collective, .. } = &question.named;
    let followed = Followed::by(&bytes, &name, Job { ranks: ranks.as_deref(), collective: *collective }, known);
    let followed = followed.map_err(|problems| {
        let mut problem = first(problems, own).in_file(&name);
        if let Err(unreadable) = &topology {
            let code = unreadable.code();
            problem.help.push_str(&format!("; the daemon's own topology cannot be read: error[{code}]"));
        }
        Problems::from(problem)
    })?;
    let ranks = followed.participants.len() + followed.relays.len();
    if question.ranks != 0 && question.ranks as usize != ranks {
        let message = format!("the plan is for {ranks} ranks, the job has {}", question.ranks);
        let problem = Problem::new(E_RANGE, "/participants", message).help("plan with one participant per rank");
        return Err(problem.in_file(name).into());
    }
    let name = file_name(path);
    if !followed.transfers.lanes.is_empty() {
        let work = Work::Lanes(Lanes::new(followed.transfers, question.slot));
        return Ok(JobPlan { name, work, bytes: bytes.len() });
    }
    let part = |tree: &sluice_plan::follow::Tree| tree.part.clone();
    let trees: Vec<PlanTree<'_>> = followed
        .trees
        .iter()
        .map(|tree| PlanTree {
            inward: tree.direction == Direction::In,
            root: tree.root,
            part: part(tree),
            edges: &tree.edges,
        })
        .collect();
    Ok(JobPlan { name, work: Work::Trees(PlanFlows::new(&trees)), bytes: bytes.len() })
}

/// What was opened, if the owner of a job may read it; true: it is the owner's own.
fn open(opened: std::io::Result<File>, uid: u32) -> Result<(File, bool), Problems> {
    // Absent and forbidden sound alike: a name must not find out what lies where its user may not look.
    let closed = || {
        let problem = Problem::new(E_PERM, "", format!("no plan that uid {uid} may read"));
        Problems::from(problem.help("check the path in SLUICE_PLAN and the file's owner and mode"))
    };
    let file = opened.map_err(|_| closed())?;
    let meta = file.metadata().map_err(|_| closed())?;
    let own = meta.uid() == uid;
    if !meta.is_file() || !(own || meta.mode() & 0o004 != 0) {
        return Err(closed());
    }
    Ok((file, own))
}

fn read(file: File) -> Result<Vec<u8>, Problems> {
    let mut bytes = Vec::new();
    let most = MAX_DAEMON_BYTES as u64;
    let unreadable =
        |error: std::io::Error| Problems::from(Problem::new(E_PERM, "", format!("cannot be read: {error}")));
    file.take(most + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > most {
        let problem = Problem::new(E_LIMIT, "", "the plan is larger than what a daemon loads");
        return Err(problem.allowed(format!("at most {most} bytes")).help("plan with fewer trees (--fixed-k)").into());
    }
    Ok(bytes)
}

/// The first mistake and how many more there are; of a stranger's file nothing that quotes it.
fn first(problems: Problems, own: bool) -> Problem {
    let (code, more) = (problems.code(), problems.all().len().saturating_sub(1));
    let first = problems.into_all().into_iter().next().unwrap_or_else(|| Problem::new(code, "", ""));
    let mut problem = if own { first } else { Problem::new(code, first.key, "the plan cannot be followed") };
    if more > 0 {
        problem.message.push_str(&format!(" ({more} more)"));
    }
    if problem.help.is_empty() { problem.help("`sluice plan check` says more") } else { problem }
}

/// What the first of them says, in one line.
fn one_line(problems: &Problems) -> String {
    let text = problems.all().first().map(Problem::to_string).unwrap_or_default();
    text.lines().map(|line| line.trim_start_matches([' ', '-', '>', '='])).collect::<Vec<_>>().join("; ")
}

/// A path from a stranger, safe to print; the end of a long one says most.
fn shown(path: &Path) -> String {
    let text = path.to_string_lossy();
    let count = text.chars().count();
    let tail: String = text.chars().skip(count.saturating_sub(160)).collect();
    let text = printable(&tail, 160);
    if count > 160 { format!("…{text}") } else { text }
}

/// The last part of a path as a label.
fn file_name(path: &Path) -> String {
    label(path.file_name().map(std::os::unix::ffi::OsStrExt::as_bytes).unwrap_or_default())
}

#[cfg(test)]
pub(super) mod tests;
