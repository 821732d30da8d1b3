//! Which sockets are a job's? A thread of its own asks the kernel and `/proc`, and tells what it finds.
//!
//! It answers questions at once: which connection a page means, and which ones a process has that its page had no room
//! for. Beside that it looks for jobs without a page, at the byte counts of all connections of this network namespace and
//! of those in which jobs run ([`super::tracked`]). Nothing is touched by looking. A look takes 2 ms per 1000 connections,
//! one at the few connections that may turn out to be a job's some microseconds each; either keeps to a hundredth of a core.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddrV6;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use sluice_schedule::{Bytes, Nanos};

use super::environ::Environ;
use super::holders::{self, cgroup_of};
use super::namespaces::{Namespaces, Uncovered};
use super::sockets::Known;
use super::tracked::{Identity, Tracked, directions};
use super::tuple::{NetNs, Place, Tuple};
use crate::cgroups;
use crate::clock::monotonic;
use crate::config::JobSource;
use crate::privilege::eyes::{Eyes, SharedEyes, diag_for};
use crate::sock_diag::{self, DiagSocket};

/// Questions and answers that may wait.
const MAX_WAITING: usize = 1024;
/// A connection that was not found is asked for again after this long, ...
const AGAIN: Nanos = Nanos::from_millis(2_000);
/// ... and the further ones of a process after so long.
const REST_AGAIN: Nanos = Nanos::from_millis(5_000);
/// Questions remembered.
const MAX_ASKED: usize = 32_768;
/// Between two looks at all connections at least ...
const EVERY: Duration = Duration::from_millis(150);
/// ... between two at those that may be a job's ...
const CLOSELY: Duration = Duration::from_millis(20);
/// ... and so many times what a look costs.
const PART: u32 = 100;

/// What the operator says of where jobs are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Bytes in one direction that make a connection worth a look.
    pub threshold: Bytes,
    /// May `/proc/PID/environ` be read?
    pub environ: bool,
    /// Processes in these cgroups, and below them, belong to jobs.
    pub cgroups: Vec<PathBuf>,
    /// Connections with one of these ports, at either end, belong to jobs.
    pub ports: Vec<RangeInclusive<u16>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The connection, and a process in its network namespace: the one that has it.
    pub known: Known,
    pub environ: Environ,
    /// Does the process send much on it?
    pub sends: bool,
    /// Does it receive much?
    pub receives: bool,
}

/// A connection of a process whose page had no room for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub known: Known,
    /// Does the process send much on it?
    pub sends: bool,
    /// Does it receive much?
    pub receives: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// A job's connection and its process; a later one about the same connection counts.
    Found(Box<Origin>),
    /// A connection that was told is gone.
    Lost(Place, u32),
    /// Connections that were asked for.
    Known(Vec<Known>),
    /// All connections of a process that was asked for.
    Held(u32, Vec<Held>),
    /// Other namespaces than before may not be entered.
    Uncovered(Uncovered),
}

enum Question {
    /// These connections, as a process sees them.
    Sockets {
        pid: u32,
        tuples: Vec<Tuple>,
    },
    /// All that a process has.
    Process(u32),
    Settings(Settings),
}

#[derive(Debug)]
pub struct Discovery {
    settings: Settings,
    asked: HashMap<Place, Nanos>,
    asked_rest: HashMap<u32, Nanos>,
    thread: Option<(SyncSender<Question>, Receiver<News>)>,
}

/// Tells the deciding loop that there is news.
pub type Wake = Box<dyn Fn() + Send>;

impl Discovery {
    pub fn new(settings: Settings) -> Discovery {
        Discovery { settings, asked: HashMap::new(), asked_rest: HashMap::new(), thread: None }
    }

    /// Starts the thread, once. `wake` is called when it has news.
    pub fn start(&mut self, eyes: SharedEyes, wake: Wake) {
        if self.thread.is_some() {
            return;
        }
        let (questions, from_daemon) = sync_channel(MAX_WAITING);
        let (news, to_daemon) = sync_channel(MAX_WAITING);
        let thread = std::thread::Builder::new().name("discovery".into());
        let settings = self.settings.clone();
        if thread.spawn(move || Thread::new(settings, eyes, news, wake).run(&from_daemon)).is_ok() {
            self.thread = Some((questions, to_daemon));
        }
    }

    /// Takes over what a reload may change.
    pub fn reconfigure(&mut self, settings: Settings) {
        if settings != self.settings {
            self.settings = settings.clone();
            self.send(Question::Settings(settings));
        }
    }

    /// Asks which connections these are, in the namespace of a process; the answer, if any, comes later.
    pub fn ask(&mut self, now: Nanos, pid: u32, netns: NetNs, mut tuples: Vec<Tuple>) {
        if self.asked.len() >= MAX_ASKED {
            self.asked.clear();
        }
        tuples.retain(|tuple| {
            let asked = self.asked.entry(Place { netns, tuple: *tuple });
            match asked {
                std::collections::hash_map::Entry::Occupied(entry) if now.minus(*entry.get()) < AGAIN => false,
                entry => {
                    entry.insert_entry(now);
                    true
                }
            }
        });
        if !tuples.is_empty() {
            self.send(Question::Sockets { pid, tuples });
        }
    }

    /// Asks for all connections of a process.
    pub fn ask_rest(&mut self, now: Nanos, pid: u32) {
        if self.asked_rest.get(&pid).is_some_and(|at| now.minus(*at) < REST_AGAIN) {
            return;
        }
        self.asked_rest.retain(|_, at| now.minus(*at) < REST_AGAIN);
        self.asked_rest.insert(pid, now);
        self.send(Question::Process(pid));
    }

    fn send(&self, question: Question) {
        if let Some((questions, _)) = &self.thread {
            let _ = questions.try_send(question); // Asked again later if too many wait.
        }
    }

    /// Appends the news that have come.
    pub fn news(&mut self, out: &mut Vec<News>) {
        if let Some((_, news)) = &self.thread {
            out.extend(news.try_iter());
        }
    }
}

/// The daemon has ended.
struct Ended;

struct Thread {
    settings: Settings,
    eyes: SharedEyes,
    news: SyncSender<News>,
    wake: Wake,
    namespaces: Namespaces,
    uncovered: Uncovered,
    tracked: Tracked,
}

impl Thread {
    fn new(settings: Settings, eyes: SharedEyes, news: SyncSender<News>, wake: Wake) -> Thread {
        let tracked = Tracked::new(settings.threshold);
        let (namespaces, uncovered) = (Namespaces::default(), Uncovered::default());
        Thread { settings, eyes, news, wake, namespaces, uncovered, tracked }
    }

    fn run(mut self, questions: &Receiver<Question>) {
        // Among hundreds of threads that want to run a deferred one would not, and what an earlier daemon managed waits for it.
        crate::sys::level_this_thread();
        let (mut all_due, mut close_due) = (monotonic(), monotonic());
        loop {
            let closely = self.tracked.candidates().next().is_some();
            let due = if closely { all_due.min(close_due) } else { all_due };
            let asked = questions.recv_timeout(Duration::from_nanos(due.minus(monotonic()).0));
            let began = crate::clock::thread_cpu();
            let next = |least: Duration| {
                let cost = Duration::from_nanos(crate::clock::thread_cpu().minus(began).0);
                monotonic().plus(Nanos(least.max(cost * PART).as_nanos() as u64))
            };
            let result = match asked {
                Ok(question) => self.answer(question),
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) if monotonic() >= all_due => {
                    let result = self.look();
                    all_due = next(EVERY);
                    result
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.look_closely();
                    close_due = next(CLOSELY);
                    Ok(())
                }
            };
            if result.is_err() {
                return;
            }
        }
    }

    fn tell(&self, news: News) -> Result<(), Ended> {
        self.news.send(news).map_err(|_| Ended)?;
        (self.wake)();
        Ok(())
    }

    fn look(&mut self) -> Result<(), Ended> {
        let (now, tracked) = (monotonic(), &mut self.tracked);
        tracked.begin();
        let looks = self.settings.environ || !self.settings.cgroups.is_empty() || !self.settings.ports.is_empty();
        if !looks {
            return Ok(());
        }
        let (settings, eyes) = (&self.settings, &*self.eyes);
        let is_jobs = |pid| names_a_job(settings, eyes, pid);
        let refused = self.namespaces.each(now, eyes, is_jobs, |netns, pid, seen| tracked.look(now, netns, pid, seen));
        let mut out = Vec::new();
        if refused != self.uncovered {
            self.uncovered.clone_from(&refused);
            out.push(News::Uncovered(refused));
        }
        let holders = |wanted: &mut _| holders::holders(eyes, wanted);
        tracked.end(now, holders, |pid, tuple| identify(settings, eyes, pid, tuple), &mut out);
        out.into_iter().try_for_each(|news| self.tell(news))
    }

    /// Looks at the connections that may turn out to be a job's, more often than at all.
    fn look_closely(&mut self) {
        let now = monotonic();
        let mut by_process: BTreeMap<u32, Vec<(u64, Tuple)>> = BTreeMap::new();
        for (cookie, known) in self.tracked.candidates() {
            by_process.entry(known.pid).or_default().push((cookie, known.place.tuple));
        }
        for (pid, sockets) in by_process {
            let tuples: Vec<Tuple> = sockets.iter().map(|(_, tuple)| *tuple).collect();
            for seen in find_in(&*self.eyes, pid, &tuples) {
                self.tracked.look_closely(now, &seen);
            }
        }
    }

    fn answer(&mut self, question: Question) -> Result<(), Ended> {
        match question {
            Question::Settings(settings) => {
                self.tracked.threshold = settings.threshold;
                self.settings = settings;
                Ok(())
            }
            Question::Sockets { pid, tuples } => {
                let Some(netns) = self.eyes.netns(pid) else { return Ok(()) };
                let known: Vec<Known> =
                    find_in(&*self.eyes, pid, &tuples).iter().map(|seen| known(seen, netns, pid)).collect();
                if known.is_empty() { Ok(()) } else { self.tell(News::Known(known)) }
            }
            Question::Process(pid) => {
                let Some(netns) = self.eyes.netns(pid) else { return Ok(()) };
                let own = self.eyes.sockets(pid);
                let netlink = diag_for(&*self.eyes, pid, Some(netns));
                let seen = netlink.and_then(|netlink| Ok(sock_diag::dump(&netlink)?)).unwrap_or_default();
                let held = seen.iter().filter(|seen| own.contains(&u64::from(seen.inode))).map(|seen| {
                    let moved = (seen.stats.acked.plus(seen.stats.queued).0, seen.received.0);
                    let (sends, receives) = directions(moved);
                    Held { known: known(seen, netns, pid), sends, receives }
                });
                self.tell(News::Held(pid, held.collect()))
            }
        }
    }
}

fn known(seen: &DiagSocket, netns: NetNs, pid: u32) -> Known {
    let place = Place { netns, tuple: Tuple::of_v6(seen.local, seen.remote) };
    Known { cookie: seen.cookie, place, uid: seen.uid, pid }
}

/// Those of these connections that a process's namespace has.
fn find_in(eyes: &dyn Eyes, pid: u32, tuples: &[Tuple]) -> Vec<DiagSocket> {
    let end = |(ip, port): ([u8; 16], u16)| SocketAddrV6::new(ip.into(), port, 0, 0);
    let Some(netns) = eyes.netns(pid) else { return Vec::new() };
    let Ok(netlink) = diag_for(eyes, pid, Some(netns)) else { return Vec::new() };
    tuples.iter().filter_map(|tuple| sock_diag::find(&netlink, end(tuple.local), end(tuple.remote))).collect()
}

/// Is a process one for which the connections of its namespace are looked at?
pub(crate) fn names_a_job(settings: &Settings, eyes: &dyn Eyes, pid: u32) -> bool {
    declared(settings, pid).is_some()
        || settings.environ && eyes.environ(pid).is_some_and(|environ| !environ.job_id.is_empty())
}

/// The cgroup of a process, if the operator says that it is one of jobs.
fn declared(settings: &Settings, pid: u32) -> Option<PathBuf> {
    let cgroup = if settings.cgroups.is_empty() { None } else { cgroup_of(pid) };
    cgroup.filter(|cgroup| holders::within(cgroup, &settings.cgroups, &cgroups::ROOTS).is_some())
}

/// Whose the connections of a process are, by what the operator says and by its environment. `None`: it is gone, or may not
/// be looked at.
fn identify(settings: &Settings, eyes: &dyn Eyes, pid: u32, tuple: &Tuple) -> Option<Identity> {
    let mut environ = if settings.environ { eyes.environ(pid)? } else { Environ::default() };
    let listed = |port: u16| settings.ports.iter().any(|range| range.contains(&port));
    let port = [tuple.remote.1, tuple.local.1].into_iter().find(|port| listed(*port));
    let declared = declared(settings, pid);
    if !settings.cgroups.is_empty() && declared.is_none() && port.is_none() {
        // The operator has said where jobs are, and it is not there.
        return Some(Identity::default());
    }
    let named = || {
        let last = declared.as_ref()?.file_name()?.to_str()?;
        Some(format!("cgroup-{}", super::environ::label(last.as_bytes())))
    };
    if environ.job_id.is_empty()
        && let Some(name) = named().or_else(|| port.map(|port| format!("port-{port}")))
    {
        (environ.job_id, environ.source) = (name, JobSource::Env);
    }
    Some(Identity { environ, declared: declared.is_some() || port.is_some() })
}

#[cfg(test)]
mod tests;
