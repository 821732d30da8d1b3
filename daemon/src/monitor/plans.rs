//! Plans that jobs follow: loaded and checked on a thread of their own, never by the loop.
//!
//! A job names its plan in its environment (`SLUICE_PLAN`, an absolute path). The name comes from a user, so the file
//! is opened with care: a regular one, of the job's owner or readable by everybody, of at most 64 MiB. What is wrong
//! with a file that is not the owner's is told by code and place only, since a message quotes what it found. A plan that
//! cannot be followed costs the job nothing: it runs as if it had none.

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use sluice_formats::problem::Problems;
use sluice_formats::topology::Topology;
use sluice_plan::follow::Followed;
use sluice_plan::plan::{Direction, MAX_DAEMON_BYTES};
use sluice_schedule::JobId;
use sluice_schedule::graph::{PlanFlows, PlanTree};

use super::environ::{PlanName, label};

/// Plans that may wait to be loaded.
const MAX_WAITING: usize = 256;

/// A plan that a job follows.
#[derive(Debug, PartialEq, Eq)]
pub struct JobPlan {
    /// The file's name without its directories, safe to print.
    pub name: String,
    /// What flows between its ranks.
    pub flows: PlanFlows,
}

/// How far a job is with its plan.
#[derive(Clone, Debug, Default)]
pub enum Following {
    /// It names none.
    #[default]
    Nothing,
    Loading,
    Plan(Arc<JobPlan>),
    /// It cannot be followed: file, code, place and what to do, in one sentence.
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
    /// Owner of the process that named it.
    uid: u32,
    /// Ranks of the job; 0: not known.
    ranks: u32,
    /// The daemon's own topology.
    topology: Option<PathBuf>,
}

type Answer = (JobId, Result<JobPlan, String>);

#[derive(Debug)]
pub struct Plans {
    /// The topology for plans that carry none.
    pub topology: Option<PathBuf>,
    thread: Option<(SyncSender<Question>, Receiver<Answer>)>,
}

impl Plans {
    pub fn new(topology: Option<PathBuf>) -> Plans {
        Plans { topology, thread: None }
    }

    /// Asks for a job's plan; the answer comes later.
    pub fn ask(&mut self, job: JobId, named: &PlanName, uid: u32, ranks: u32) -> Following {
        if self.thread.is_none() {
            let (questions, from_daemon) = sync_channel::<Question>(MAX_WAITING);
            let (answers, to_daemon) = sync_channel(MAX_WAITING);
            let body = move || {
                crate::sys::defer_this_thread();
                while let Ok(question) = from_daemon.recv() {
                    if answers.send((question.job, load(&question))).is_err() {
                        return;
                    }
                }
            };
            if std::thread::Builder::new().name("plans".into()).spawn(body).is_ok() {
                self.thread = Some((questions, to_daemon));
            }
        }
        let question = Question { job, named: named.clone(), uid, ranks, topology: self.topology.clone() };
        match &self.thread {
            Some((questions, _)) if questions.try_send(question).is_ok() => Following::Loading,
            _ => Following::Refused(format!("{}: too many plans wait to be loaded", shown(&named.file))),
        }
    }

    /// Appends the answers that have come.
    pub fn answers(&mut self, out: &mut Vec<(JobId, Following)>) {
        if let Some((_, answers)) = &self.thread {
            let following = |answer: Result<JobPlan, String>| match answer {
                Ok(plan) => Following::Plan(Arc::new(plan)),
                Err(why) => Following::Refused(why),
            };
            out.extend(answers.try_iter().map(|(job, answer)| (job, following(answer))));
        }
    }
}

fn load(question: &Question) -> Result<JobPlan, String> {
    let path = &question.named.file;
    let name = shown(path);
    let (file, own) = open(path, question.uid).map_err(|why| format!("{name}: {why}"))?;
    let bytes = read(file).map_err(|why| format!("{name}: {why}"))?;
    let (topology, unreadable) = match question.topology.as_deref().map(Topology::load) {
        None => (None, None),
        Some(Ok(topology)) => (Some(topology), None),
        Some(Err(problems)) => (None, Some(problems)),
    };
    let followed = Followed::read(&bytes, &name, question.named.ranks.as_deref(), topology.as_ref());
    let followed = followed.map_err(|problems| match &unreadable {
        None => sentence(&name, &problems, own),
        Some(own_topology) => {
            let why = own_topology.code();
            format!("{}; the daemon's own topology cannot be read: error[{why}]", sentence(&name, &problems, own))
        }
    })?;
    let ranks = followed.participants.len() + followed.relays.len();
    if question.ranks != 0 && question.ranks as usize != ranks {
        let found = question.ranks;
        return Err(format!(
            "{name}: error[E_RANGE] at /participants: the plan is for {ranks} ranks, the job has {found}; plan with one \
             participant per rank"
        ));
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
    Ok(JobPlan { name: file_name(path), flows: PlanFlows::new(&trees) })
}

/// Opens what the owner of a job may read; true: it is the owner's own.
fn open(path: &Path, uid: u32) -> Result<(File, bool), String> {
    // Absent and forbidden sound alike: a name must not find out what lies where its user may not look.
    let closed =
        || format!("no plan that uid {uid} may read; check the path in SLUICE_PLAN and the file's owner and mode");
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(|_| closed())?;
    let meta = file.metadata().map_err(|_| closed())?;
    let own = meta.uid() == uid;
    if !meta.is_file() || !(own || meta.mode() & 0o004 != 0) {
        return Err(closed());
    }
    Ok((file, own))
}

fn read(file: File) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let most = MAX_DAEMON_BYTES as u64;
    file.take(most + 1).read_to_end(&mut bytes).map_err(|error| format!("cannot be read: {error}"))?;
    if bytes.len() as u64 > most {
        return Err(format!(
            "error[E_LIMIT]: larger than {most} bytes, the most a daemon loads; plan with fewer trees (--fixed-k)"
        ));
    }
    Ok(bytes)
}

/// The first mistake and how many more there are.
fn sentence(name: &str, errors: &Problems, own: bool) -> String {
    let all = errors.all();
    let Some(first) = all.first() else { return format!("{name}: not a plan") };
    let mut text = format!("{name}: error[{}]", first.code);
    if !first.key.is_empty() {
        text.push_str(&format!(" at {}", first.key));
    }
    if own {
        text.push_str(&format!(": {}", first.message));
        for (word, part) in [("found", &first.found), ("allowed", &first.allowed)] {
            if !part.is_empty() {
                text.push_str(&format!("; {word}: {part}"));
            }
        }
    }
    let help = if first.help.is_empty() || !own { "`sluice plan check` says more" } else { first.help.as_str() };
    text.push_str(&format!("; {help}"));
    if all.len() > 1 {
        text.push_str(&format!(" ({} more)", all.len() - 1));
    }
    text
}

/// A path from a stranger, safe to print; the end of a long one says most.
fn shown(path: &Path) -> String {
    let text = path.to_string_lossy();
    let count = text.chars().count();
    let tail: String = text.chars().skip(count.saturating_sub(160)).collect();
    let text = sluice_formats::problem::printable(&tail, 160);
    if count > 160 { format!("…{text}") } else { text }
}

/// The last part of a path as a label.
fn file_name(path: &Path) -> String {
    label(path.file_name().map(std::os::unix::ffi::OsStrExt::as_bytes).unwrap_or_default())
}

#[cfg(test)]
pub(super) mod tests;
