//! What is going on on this host: jobs, their processes and flows, their rounds and how far they are.
//!
//! Three sources meet here: progress pages (claims), the data path's sockets and byte counts (facts), and the
//! environment of processes (names). Out come events for the brain. Nothing here decides a rate.
//!
//! | module | is |
//! | --- | --- |
//! | `events` | what the data path tells, and how soon that wants a look |
//! | [`mod@tuple`] | a connection's addresses, and the flows on it |
//! | [`sockets`] | the sockets of jobs, their rows and measurements |
//! | [`round`] | when a process's round begins and ends, and how large it is |
//! | [`roles`] | which connections carry tensors, and what bounds each flow |
//! | [`jobs`] | a job on this host, and its rounds as the brain hears of them |
//! | [`period`] | how many bytes an iteration has, from counts and pauses |
//! | [`bursts`] | what a process sends from pause to pause, whatever its page calls it |
//! | [`pages`] | processes that publish a page |
//! | [`finding`] | processes that publish none |
//! | [`discovery`] | which sockets are a job's, on its own thread |
//! | [`mod@tracked`] | all connections by their byte counts |
//! | [`rhythm`] | does a connection move its bytes in rounds? |
//! | [`holders`] | which process has a socket open |
//! | [`shares`] | who has how much of a table that all users share |
//! | `crowd` | jobs and flows that find no place, and those that give theirs up |
//! | [`namespaces`] | the network namespaces of containers |
//! | [`inferred`] | what a process without a page would have written into one |
//! | [`processes`] | a process with its page, its connections and its rounds |
//! | [`matching`] | which socket is which flow |
//! | [`environ`] | what a process's environment says |
//! | [`plans`] | plans that jobs follow, loaded and checked on their own thread |
//! | [`traffic`] | unmanaged traffic on the own links |

pub mod bursts;
mod crowd;
pub mod discovery;
pub mod environ;
mod events;
pub mod finding;
pub mod holders;
pub mod inferred;
pub mod jobs;
pub mod lanes;
pub mod matching;
pub mod namespaces;
pub mod pages;
pub mod period;
pub mod plans;
pub mod processes;
pub mod rhythm;
pub mod roles;
pub mod round;
pub mod shares;
pub mod sockets;
pub mod tracked;
pub mod traffic;
pub mod tuple;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::SystemTime;

use sluice_ebpf::{Datapath, Taking};
use sluice_progress::{Budget, PageKey, Scan};
use sluice_schedule::{
    Bytes, Event, FlowId, FlowProgress, HolderId, JobId, JobSpec, LinkId, Nanos, Now, Pattern, Slot,
};

use crate::cgroups;
use crate::config::{Config, JobSource};
use crate::fabric::{By, Fabric};
use crate::privilege::eyes::{self, SharedEyes};
use discovery::{Discovery, Settings};
pub use events::Haste;
pub use jobs::Job;
use plans::{Following, Plans};
use processes::{Process, job_of};
use shares::Tenant;
use sockets::Sockets;

/// Jobs on one host at most; further ones run plain.
pub(crate) const MAX_JOBS: usize = 256;

/// How a process is told from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProcessKey {
    Page(PageKey),
    /// By its pid; it has no page.
    Pid(u32),
}

/// A round of a job that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedRound {
    pub job: JobId,
    /// Its number, counted from the job's first.
    pub round: u64,
    pub took: Nanos,
}

#[derive(Debug)]
pub struct Monitor {
    /// The network as this host needs it.
    pub fabric: Rc<Fabric>,
    pub jobs: BTreeMap<JobId, Job>,
    pub processes: BTreeMap<ProcessKey, Process>,
    pub sockets: Sockets,
    scan: Scan,
    scanned: Option<Nanos>,
    dir_changed: Option<SystemTime>,
    scanning: bool,
    /// The slot in which the directory was last looked at.
    scanned_in: Option<Slot>,
    reaped: Nanos,
    discovery: Discovery,
    plans: Plans,
    /// See for the deciding loop, and for those who look beside it.
    eyes: SharedEyes,
    others_eyes: SharedEyes,
    allowed: Vec<JobSource>,
    /// May `/proc/PID/environ` be read?
    environ: bool,
    /// Are two users' jobs of one name two jobs?
    users_apart: bool,
    /// Ports whose connections are never touched.
    excluded: Vec<RangeInclusive<u16>>,
    /// Only processes in these cgroups, and below them, belong to jobs; empty: all may.
    cgroups: Vec<PathBuf>,
    /// Flows managed at most.
    max_flows: usize,
    /// All connections are to meet all sockets.
    rematch: bool,
    /// How they met.
    matching: matching::Matching,
    /// Flows whose path is to be drawn again.
    rerouted: BTreeSet<FlowId>,
    /// How often all connections have met all sockets.
    pub matchings: u64,
    /// Something may have begun: read every page at the next poll.
    pub eager: bool,
    /// Files of the progress directory that were refused.
    pub refused_pages: u64,
    /// Connections that a page names and another user has.
    pub refused_sockets: u64,
    /// Times that a page was ignored for a while because the kernel counted otherwise.
    pub ignored_pages: u64,
    /// Connections of pages that have no row, so that they run plain.
    pub uncaptured: usize,
    /// Who found no place, and who gave one up.
    pub crowd: crowd::Crowd,
    /// Namespaces of jobs that may not be entered.
    pub uncovered: namespaces::Uncovered,
    /// Rounds that ended since the last look: the job, its number, how long it took.
    pub ended_rounds: Vec<EndedRound>,
    progress: Vec<FlowProgress>,
    /// Received by processes that are gone, so that the sum never falls.
    received_before: Bytes,
}

impl Monitor {
    pub fn new(config: &Config, fabric: Rc<Fabric>) -> Monitor {
        Monitor {
            fabric,
            jobs: BTreeMap::new(),
            processes: BTreeMap::new(),
            sockets: Sockets::of_host(namespaces::of(std::process::id()).unwrap_or_default()),
            scan: Scan::new(config.progress_dir(), Budget::default()),
            scanned: None,
            dir_changed: None,
            scanning: false,
            scanned_in: None,
            reaped: Nanos::ZERO,
            discovery: Discovery::new(settings(config)),
            plans: Plans::new(config.topology.clone(), Nanos::from_millis(config.slot.length_ms)),
            eyes: eyes::own(),
            others_eyes: eyes::own(),
            allowed: config.capture.jobs.clone(),
            environ: config.capture.environ,
            users_apart: config.capture.users_apart,
            excluded: config.excluded_ports(),
            cgroups: config.job_cgroups(),
            max_flows: usize::try_from(config.enforce.max_flows).unwrap_or(usize::MAX),
            rematch: false,
            matching: matching::Matching::default(),
            rerouted: BTreeSet::new(),
            matchings: 0,
            eager: true,
            refused_pages: 0,
            refused_sockets: 0,
            ignored_pages: 0,
            uncaptured: 0,
            crowd: crowd::Crowd::default(),
            uncovered: namespaces::Uncovered::default(),
            ended_rounds: Vec::new(),
            progress: Vec::new(),
            received_before: Bytes::ZERO,
        }
    }

    /// From now on looks by these eyes, and who looks beside it by the others. To be said before anything is looked at.
    pub fn look_by(&mut self, eyes: SharedEyes, others: SharedEyes) {
        if let Some(opener) = eyes.pages() {
            self.scan.opened_by(opener);
        }
        self.plans.eyes = others.clone();
        (self.eyes, self.others_eyes) = (eyes, others);
    }

    /// The eyes of those who look beside the deciding loop.
    pub fn others_eyes(&self) -> SharedEyes {
        self.others_eyes.clone()
    }

    /// Takes over what a reload may change. Flows that may not be managed any more are told as closed.
    pub fn reconfigure(&mut self, config: &Config, fabric: Rc<Fabric>, out: &mut Vec<Event>) {
        fabric.learned.take_over(&self.fabric.learned);
        if !fabric.is_in_band() {
            // No echo would correct it any more.
            fabric.learned.forget(By::Signature);
        }
        self.fabric = fabric;
        self.allowed.clone_from(&config.capture.jobs);
        self.environ = config.capture.environ;
        self.excluded = config.excluded_ports();
        self.cgroups = config.job_cgroups();
        self.discovery.reconfigure(settings(config));
        self.plans.topology.clone_from(&config.topology);
        self.leave_excluded(out);
        self.rematch = true;
    }

    /// It is known by which link of a switch a flow goes, or not any more: its path is another. Only the paths of such
    /// flows are drawn again, all together at the next poll.
    pub fn routed(&mut self, flow: FlowId, holder: HolderId, link: Option<LinkId>, by: By) {
        self.fabric.learned.learn(flow, holder, link, by);
        self.rerouted.insert(flow);
    }

    /// What is known of many flows' paths is another.
    pub fn redraw_all(&mut self) {
        self.rematch = true;
    }

    /// Another data path takes over: no row is valid any more.
    pub fn forget_sockets(&mut self, out: &mut Vec<Event>) {
        for socket in self.sockets.iter_mut() {
            out.extend(socket.told.take().map(|spec| Event::FlowClosed(spec.flow)));
        }
        self.sockets = Sockets::of_host(self.sockets.own());
        self.processes.values_mut().for_each(|process| process.sight.stir());
        self.rematch = true;
    }

    /// A new brain knows nothing: every job, flow and round is told again.
    pub fn tell_again(&mut self, out: &mut Vec<Event>) {
        out.extend(self.jobs.iter().map(|(job, known)| Event::JobSeen(JobSpec { job: *job, pattern: known.pattern })));
        for socket in self.sockets.iter_mut() {
            socket.told = None;
            socket.report_again();
        }
        for job in self.jobs.values_mut() {
            job.in_round.clear();
        }
        self.rematch = true;
    }

    /// Is there something that only a whole look finds out?
    pub fn waits(&self) -> bool {
        self.eager || self.rematch || self.matching.stirred || !self.rerouted.is_empty()
    }

    /// Reads what the kernel measured of all flows, and looks at nothing else.
    pub fn measure(&mut self, now: Now, datapath: &dyn Datapath, out: &mut Vec<Event>) {
        self.read_measurements(now, datapath, out);
        self.report_progress(now, out);
    }

    /// Looks at everything once and says what changed. `edge`: a slot began.
    pub fn poll(&mut self, now: Now, edge: bool, datapath: &dyn Datapath, out: &mut Vec<Event>) {
        self.read_measurements(now, datapath, out);
        self.crowd.at(now.mono);
        if edge || self.eager {
            self.find_pages(now, out);
        }
        self.read_pages(now, edge, out);
        self.eager = false;
        self.find_processes(now, out);
        if edge {
            self.look_for_dormant(now);
        }
        self.find_plans(out);
        // Those without a row are asked for again as time goes by.
        if std::mem::take(&mut self.rematch) {
            self.match_sockets(now, out);
        } else if self.matching.stirred || edge && (self.uncaptured > 0 || self.sockets.has_touched()) {
            self.match_stirred(now, out);
        }
        self.redraw(out);
        self.rounds(now, out);
        if self.processes.values().any(Process::lead_moved) {
            self.match_sockets(now, out);
        }
        if edge {
            self.sockets.forget_unclaimed();
        }
        self.report_progress(now, out);
    }

    fn report_progress(&mut self, now: Now, out: &mut Vec<Event>) {
        self.progress.clear();
        for socket in self.sockets.iter_mut() {
            self.progress.extend(socket.progress(now.mono));
        }
        if !self.progress.is_empty() {
            out.push(Event::Progress(self.progress.clone()));
        }
    }

    /// What became of the wish to manage sockets.
    pub fn taken(&mut self, now: Nanos, taken: &[Taking], out: &mut Vec<Event>) {
        let before = out.len();
        for taking in taken {
            out.extend(self.sockets.taken(now, *taking).map(Event::FlowClosed));
        }
        // They have left room for others.
        self.uncaptured += out.len() - before;
    }

    /// Is a process in this cgroup one that the operator says may belong to a job?
    fn within_cgroups(&self, cgroup: &Path) -> bool {
        holders::within(cgroup, &self.cgroups, &cgroups::ROOTS).is_some()
    }

    /// Is some process in a round?
    pub fn busy(&self) -> bool {
        self.processes.values().any(|process| process.rounds.active)
    }

    /// What the processes with a page counted as received so far, ended ones included.
    pub fn received(&self) -> Bytes {
        let living = self.processes.values().filter_map(Process::received);
        living.fold(self.received_before, Bytes::plus)
    }

    /// Do the processes of this connection's job count what they receive?
    pub fn counts(&self, socket: &sockets::Socket) -> bool {
        let process = socket.process().and_then(|key| self.processes.get(&key));
        process.is_some_and(|process| process.received().is_some())
    }

    /// The jobs of this name; each user may have one.
    pub fn jobs_named(&self, name: &str) -> impl Iterator<Item = JobId> {
        self.jobs.iter().filter(move |(_, job)| job.name == name).map(|(id, _)| *id)
    }

    pub fn job_name(&self, job: JobId) -> Option<&str> {
        self.jobs.get(&job).map(|job| job.name.as_str())
    }

    fn appeared(&mut self, key: ProcessKey, mut process: Process, out: &mut Vec<Event>) {
        if !self.users_apart {
            process.job = job_of(None, &process.job_name);
        }
        let id = process.job;
        process.tenant = Tenant::of(process.uid, process.pid);
        if !self.jobs.contains_key(&id) && !self.has_room_for_job(process.tenant, out) {
            self.crowd.waits(key);
            return;
        }
        self.crowd.remember(&mut process);
        let job = self.jobs.entry(id).or_default();
        if job.processes.is_empty() {
            job.tenant = process.tenant;
            tracing::info!(event = "job-begin", job = process.job_name, source = process.source, "a job appeared");
            job.name.clone_from(&process.job_name);
        }
        job.processes.insert(key);
        if job.pattern == Pattern::Unknown {
            job.pattern = process.pattern;
        }
        if let (Some(named), Following::Nothing) = (&process.plan, &job.following) {
            job.following = match process.uid.filter(|_| process.rank.is_some()) {
                Some(uid) => self.plans.ask(id, named, [process.pid.unwrap_or_default(), uid], process.ranks),
                None => Following::Refused("a plan needs a progress page with ranks, and the job has none".into()),
            };
        }
        out.push(Event::JobSeen(JobSpec { job: id, pattern: job.pattern }));
        self.processes.insert(key, process);
        self.rematch = true;
        self.eager = true;
    }

    fn gone(&mut self, key: ProcessKey, out: &mut Vec<Event>) {
        self.crowd.left(key);
        let Some(process) = self.processes.remove(&key) else { return };
        self.received_before = self.received_before.plus(process.received().unwrap_or_default());
        self.sockets.each_of(key, |socket| {
            out.extend(socket.told.take().map(|spec| Event::FlowClosed(spec.flow)));
        });
        self.sockets.disown(key);
        if let Some(job) = self.jobs.get_mut(&process.job) {
            job.processes.remove(&key);
            job.in_round.remove(&key);
            if job.processes.is_empty() {
                tracing::info!(event = "job-end", job = job.name, rounds = job.rounds, "a job is gone");
                self.jobs.remove(&process.job);
                out.push(Event::JobGone(process.job));
                self.crowd.room_for_one();
            }
        }
        self.crowd.keep(process);
        self.rematch = true;
    }

    /// A process with this page; a test cannot open a page of its own process.
    #[cfg(any(test, feature = "testing"))]
    pub fn add_for_test(&mut self, pid: u32, view: sluice_progress::PageView) {
        let mut process = Process::of_view(view, JobSource::Env, Some(0));
        process.pid = Some(pid);
        self.appeared(ProcessKey::Pid(pid), process, &mut Vec::new());
    }

    pub fn pages(&self) -> usize {
        self.scan.len()
    }
}

/// What the thread that looks for sockets is told.
pub(crate) fn settings(config: &Config) -> Settings {
    Settings {
        threshold: config.threshold(),
        environ: config.capture.environ,
        cgroups: config.job_cgroups(),
        ports: config.capture.ports.clone(),
    }
}

#[cfg(test)]
mod tests;
