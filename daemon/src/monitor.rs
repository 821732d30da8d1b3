//! What is going on on this host: jobs, their processes and flows, their rounds and how far they are.
//!
//! Three sources meet here: progress pages (claims), the data path's sockets and byte counts (facts), and the
//! environment of processes (names). Out come events for the brain. Nothing here decides a rate.
//!
//! | module | is |
//! | --- | --- |
//! | [`mod@tuple`] | a connection's addresses, and the flows on it |
//! | [`sockets`] | sockets with a row, and their measurements |
//! | [`round`] | when a process's round begins and ends, and how large it is |
//! | [`roles`] | which connections carry tensors, and what bounds each flow |
//! | [`jobs`] | a job on this host, and its rounds as the brain hears of them |
//! | [`processes`] | a process with its page, its connections and its rounds |
//! | [`environ`] | what a process's environment says |
//! | [`plans`] | plans that jobs follow, loaded and checked on their own thread |
//! | [`discovery`] | finding the process behind a socket that no page names, on its own thread |
//! | [`traffic`] | unmanaged traffic on the own links |

pub mod discovery;
pub mod environ;
pub mod jobs;
pub mod plans;
pub mod processes;
pub mod roles;
pub mod round;
pub mod sockets;
pub mod traffic;
pub mod tuple;

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::time::SystemTime;

use sluice_ebpf::{Datapath, SocketEvent};
use sluice_progress::{Budget, Found, PageKey, Scan};
use sluice_schedule::{Bytes, Event, FlowProgress, FlowSpec, JobId, JobSpec, Nanos, Now, Pattern};

use crate::config::Config;
use crate::fabric::Fabric;
use discovery::{Discovery, Origin};
pub use jobs::Job;
use plans::{Following, Plans};
use processes::Process;
use roles::Connection;
use sockets::{Noted, Sockets};

/// The directory is listed again after this long even if nothing seems to have changed.
const RESCAN: Nanos = Nanos::from_millis(1_000);
/// Dead publishers are looked for this often.
const REAP: Nanos = Nanos::from_millis(500);
/// Jobs on one host at most; further ones run plain.
const MOST_JOBS: usize = 256;

/// How a process is told from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProcessKey {
    /// By its progress page.
    Page(PageKey),
    /// By its pid; it has no page.
    Pid(u32),
}

/// See the module.
#[derive(Debug)]
pub struct Monitor {
    /// The network as this host needs it.
    pub fabric: Rc<Fabric>,
    /// Jobs by id.
    pub jobs: BTreeMap<JobId, Job>,
    /// Processes of jobs.
    pub processes: BTreeMap<ProcessKey, Process>,
    /// Sockets with a row.
    pub sockets: Sockets,
    scan: Scan,
    scanned: Option<Nanos>,
    dir_changed: Option<SystemTime>,
    scanning: bool,
    reaped: Nanos,
    discovery: Discovery,
    plans: Plans,
    threshold: Bytes,
    allowed: Vec<String>,
    rematch: bool,
    /// Something may have begun: read every page at the next poll.
    pub eager: bool,
    /// Files of the progress directory that were refused.
    pub refused_pages: u64,
    /// Connections of pages that have no row, so that they run plain.
    pub uncaptured: usize,
    /// Rounds that ended since the last look: the job, its number, how long it took.
    pub ended_rounds: Vec<(JobId, u64, Nanos)>,
    progress: Vec<FlowProgress>,
    /// Received by processes that are gone, so that the sum never falls.
    received_before: Bytes,
}

impl Monitor {
    /// Watches what the configuration names.
    pub fn new(config: &Config, fabric: Rc<Fabric>) -> Monitor {
        Monitor {
            fabric,
            jobs: BTreeMap::new(),
            processes: BTreeMap::new(),
            sockets: Sockets::default(),
            scan: Scan::new(config.progress_dir(), Budget::default()),
            scanned: None,
            dir_changed: None,
            scanning: false,
            reaped: Nanos::ZERO,
            discovery: Discovery::new(config.capture.environ),
            plans: Plans::new(config.topology.clone()),
            threshold: config.threshold(),
            allowed: config.capture.jobs.clone(),
            rematch: false,
            eager: true,
            refused_pages: 0,
            uncaptured: 0,
            ended_rounds: Vec::new(),
            progress: Vec::new(),
            received_before: Bytes::ZERO,
        }
    }

    /// Takes over what a reload may change.
    pub fn reconfigure(&mut self, config: &Config, fabric: Rc<Fabric>) {
        self.fabric = fabric;
        self.threshold = config.threshold();
        self.allowed.clone_from(&config.capture.jobs);
        self.discovery.enabled = config.capture.environ;
        self.plans.topology.clone_from(&config.topology);
        self.rematch = true;
    }

    /// Takes an event of the data path in.
    pub fn socket_event(&mut self, now: Now, event: &SocketEvent, out: &mut Vec<Event>) {
        match self.sockets.event(now.mono, self.fabric.host, event) {
            Noted::Appeared(_) => self.rematch = true,
            Noted::Woke(_) => self.eager = true,
            Noted::Vanished { told, process } => {
                out.extend(told.map(Event::FlowClosed));
                // A process without a page is known by its sockets only.
                let page = |key: &ProcessKey| self.processes.get(key).is_none_or(|process| process.view.is_some());
                if let Some(key) = process.filter(|key| !page(key))
                    && self.sockets.of(key).next().is_none()
                {
                    self.gone(key, out);
                }
                self.rematch = true;
            }
            Noted::Nothing => {}
        }
    }

    /// Another data path takes over: no row is valid any more.
    pub fn forget_sockets(&mut self, out: &mut Vec<Event>) {
        for socket in self.sockets.iter_mut() {
            out.extend(socket.told.take().map(|spec| Event::FlowClosed(spec.flow)));
        }
        self.sockets = Sockets::default();
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

    /// Looks at everything once and says what changed. `edge`: a slot began.
    pub fn poll(&mut self, now: Now, edge: bool, datapath: &dyn Datapath, out: &mut Vec<Event>) {
        let lost = self.sockets.measure(datapath);
        for row in lost {
            let gone = SocketEvent {
                kind: sluice_ebpf::SocketEventKind::Closed,
                row,
                cookie: 0,
                local: std::net::SocketAddrV6::new(std::net::Ipv6Addr::UNSPECIFIED, 0, 0, 0),
                remote: std::net::SocketAddrV6::new(std::net::Ipv6Addr::UNSPECIFIED, 0, 0, 0),
                uid: 0,
            };
            self.socket_event(now, &gone, out);
        }
        if edge || self.eager {
            self.find_pages(now, out);
        }
        self.read_pages(now, edge || self.eager, out);
        self.eager = false;
        self.find_processes(now, out);
        self.find_plans(out);
        if std::mem::take(&mut self.rematch) {
            self.match_sockets(out);
        }
        self.rounds(now, out);
        if self.processes.values().any(Process::lead_moved) {
            self.match_sockets(out);
        }
        self.progress.clear();
        for socket in self.sockets.iter_mut() {
            self.progress.extend(socket.progress(now.mono));
        }
        if !self.progress.is_empty() {
            out.push(Event::Progress(self.progress.clone()));
        }
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

    /// The name of a job.
    pub fn job_name(&self, job: JobId) -> Option<&str> {
        self.jobs.get(&job).map(|job| job.name.as_str())
    }

    fn find_pages(&mut self, now: Now, out: &mut Vec<Event>) {
        let modified = std::fs::metadata(self.scan.dir()).and_then(|meta| meta.modified()).ok();
        let old = self.scanned.is_none_or(|at| now.mono.minus(at) > RESCAN);
        if self.scanning || modified != self.dir_changed || old {
            self.dir_changed = modified;
            self.scanned = Some(now.mono);
            match self.scan.step() {
                Ok(step) => {
                    self.scanning = !step.complete;
                    for found in step.found {
                        match found {
                            Found::Appeared(key) => self.page_appeared(now, key, out),
                            Found::Refused(error) => {
                                self.refused_pages += 1;
                                tracing::debug!(event = "page-refused", "{error}");
                            }
                        }
                    }
                }
                Err(_) => self.scanning = false, // No directory yet: nobody publishes.
            }
        }
        if now.mono.minus(self.reaped) > REAP {
            self.reaped = now.mono;
            for key in self.scan.reap() {
                self.gone(ProcessKey::Page(key), out);
            }
        }
    }

    fn page_appeared(&mut self, now: Now, key: PageKey, out: &mut Vec<Event>) {
        let Some(reader) = self.scan.page(key) else { return };
        let Some(process) = Process::of_page(now, reader, &self.allowed, self.discovery.enabled) else { return };
        self.appeared(ProcessKey::Page(key), process, out);
    }

    fn appeared(&mut self, key: ProcessKey, process: Process, out: &mut Vec<Event>) {
        let id = process.job;
        if !self.jobs.contains_key(&id) && self.jobs.len() >= MOST_JOBS {
            return;
        }
        let job = self.jobs.entry(id).or_default();
        if job.processes.is_empty() {
            tracing::info!(event = "job-begin", job = process.job_name, source = process.source, "a job appeared");
            job.name.clone_from(&process.job_name);
        }
        job.processes.insert(key);
        if job.pattern == Pattern::Unknown {
            job.pattern = process.pattern;
        }
        if let (Some(named), Following::Nothing) = (&process.plan, &job.following) {
            job.following = match process.uid.filter(|_| process.rank.is_some()) {
                Some(uid) => self.plans.ask(id, named, uid, process.ranks),
                None => Following::Refused("a plan needs a progress page with ranks, and the job has none".into()),
            };
        }
        out.push(Event::JobSeen(JobSpec { job: id, pattern: job.pattern }));
        self.processes.insert(key, process);
        self.rematch = true;
        self.eager = true;
    }

    fn gone(&mut self, key: ProcessKey, out: &mut Vec<Event>) {
        let Some(process) = self.processes.remove(&key) else { return };
        self.received_before = self.received_before.plus(process.received().unwrap_or_default());
        for socket in self.sockets.of_mut(key) {
            out.extend(socket.told.take().map(|spec| Event::FlowClosed(spec.flow)));
            socket.process = None;
        }
        if let Some(job) = self.jobs.get_mut(&process.job) {
            job.processes.remove(&key);
            job.in_round.remove(&key);
            if job.processes.is_empty() {
                tracing::info!(event = "job-end", job = job.name, rounds = job.rounds, "a job is gone");
                self.jobs.remove(&process.job);
                out.push(Event::JobGone(process.job));
            }
        }
        self.rematch = true;
    }

    fn read_pages(&mut self, now: Now, all: bool, out: &mut Vec<Event>) {
        let mut broken = Vec::new();
        for (key, process) in &mut self.processes {
            let ProcessKey::Page(page) = *key else { continue };
            if !(all || process.rounds.active) {
                continue;
            }
            let Some(reader) = self.scan.page(page) else {
                broken.push(page);
                continue;
            };
            // Between slot edges the counters do; whatever else changed is read whole.
            let refreshed = match &mut process.view {
                Some(view) if !all => reader.refresh(view),
                _ => Ok(false),
            };
            let read = match refreshed {
                Ok(true) => continue,
                Ok(false) => reader.read(),
                Err(error) => Err(error),
            };
            match read {
                Ok(view) => self.rematch |= process.update(now, view),
                Err(error) => {
                    tracing::debug!(event = "page-broken", "{error}");
                    broken.push(page);
                }
            }
        }
        for page in broken {
            self.scan.close(page);
            self.gone(ProcessKey::Page(page), out);
        }
    }

    /// Sockets that send much and belong to no page: who has them?
    fn find_processes(&mut self, now: Now, out: &mut Vec<Event>) {
        let mut known = Vec::new();
        self.discovery.answers(&mut known);
        for Origin { tuple, pid, environ } in known {
            // A page lists 56 connections at most; further ones of its process are found this way.
            let page = self.processes.iter().find(|(_, process)| process.view.is_some() && process.pid == Some(pid));
            let key = page.map_or(ProcessKey::Pid(pid), |(key, _)| *key);
            if !self.processes.contains_key(&key) {
                let Some(process) = Process::of_pid(now, pid, &environ, &self.allowed) else { continue };
                self.appeared(key, process, out);
            }
            if let Some(process) = self.processes.get_mut(&key) {
                process.claim(tuple);
                self.rematch = true;
            }
        }
        // A page with more connections than it lists has sockets that only /proc can tell; they are asked for at once,
        // since a socket nobody claims is given back when its first order fails to come.
        let full = |uid: u32| {
            let more = |process: &Process| process.view.as_ref().is_some_and(|view| view.more_peers);
            self.processes.values().any(|process| process.uid == Some(uid) && more(process))
        };
        for socket in self.sockets.iter().filter(|socket| socket.process.is_none()) {
            let much = socket.stats.acked.plus(socket.stats.queued) >= self.threshold;
            if (much || full(socket.uid)) && self.fabric.covers(socket.tuple.local_ip(), socket.tuple.remote_ip()) {
                self.discovery.ask(now.mono, socket.tuple, socket.uid);
            }
        }
    }

    /// Plans that have been loaded: their jobs' flows are the plans' from here on.
    fn find_plans(&mut self, out: &mut Vec<Event>) {
        let mut loaded = Vec::new();
        self.plans.answers(&mut loaded);
        for (id, following) in loaded {
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            if let Following::Plan(plan) = &following {
                let flows = plan.flows.iter().count();
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

    /// Gives every socket to the process that names it, and tells the brain which flows there are.
    fn match_sockets(&mut self, out: &mut Vec<Event>) {
        self.uncaptured = 0;
        for (key, process) in &mut self.processes {
            // A library may learn how its ranks talk only with the first operation.
            if let Some(job) = self.jobs.get_mut(&process.job)
                && job.pattern == Pattern::Unknown
                && process.pattern != Pattern::Unknown
            {
                job.pattern = process.pattern;
                out.push(Event::JobSeen(JobSpec { job: process.job, pattern: job.pattern }));
            }
            let plan = self.jobs.get(&process.job).and_then(|job| job.following.plan());
            let connections = process.connections(&self.fabric, plan);
            for connection in connections {
                if !connection.sends {
                    continue;
                }
                let Some(socket) = self.sockets.at_mut(&connection.tuple) else {
                    tracing::debug!(event = "not-captured", tuple = ?connection.tuple, "a job's connection has no row");
                    self.uncaptured += 1;
                    continue;
                };
                // A page speaks only for sockets of its owner.
                if let Some(uid) = process.uid.filter(|uid| *uid != socket.uid) {
                    tracing::debug!(
                        event = "foreign-socket",
                        page = uid,
                        socket = socket.uid,
                        "a page names another user's socket"
                    );
                    continue;
                }
                let (local, remote) = (socket.tuple.local_ip(), socket.tuple.remote_ip());
                let Some(path) = self.fabric.path(local, remote) else { continue };
                let to = self.fabric.host_of(remote);
                let Connection { role, preds, share, .. } = connection;
                let spec = FlowSpec { flow: socket.flow, job: process.job, to, role, path, preds, share };
                socket.process = Some(*key);
                if socket.told.as_ref() != Some(&spec) {
                    out.push(Event::FlowOpened(spec.clone()));
                    if socket.told.is_none() && process.rounds.active {
                        // It joins a round that is under way: the split is made again.
                        process.resplit = true;
                    }
                    socket.told = Some(spec);
                }
            }
        }
    }

    /// A process with this page; a test cannot open a page of its own process.
    #[cfg(test)]
    pub fn add_for_test(&mut self, pid: u32, view: sluice_progress::PageView) {
        let process = Process::of_view(view, "env", Some(0));
        self.appeared(ProcessKey::Pid(pid), process, &mut Vec::new());
    }

    /// The directory of pages.
    pub fn progress_dir(&self) -> &Path {
        self.scan.dir()
    }
    /// Open pages.
    pub fn pages(&self) -> usize {
        self.scan.len()
    }
}

#[cfg(test)]
mod tests;
