//! Whose are the sockets that send much? A thread of its own asks the kernel and `/proc`, and tells what it finds.
//!
//! New sockets are captured for the life of one order only, and a training job opens its connections long before the first
//! gradient: so the sockets that matter run plain when they begin to matter. The thread looks at the byte counts of all
//! connections of this network namespace and of those in which jobs run. One that moved as many bytes as the
//! configuration asks for, in either direction, is told with the process that holds it, and told again when the
//! directions change or it is gone. Looking takes 2 ms per 1000 connections; the thread keeps to a hundredth of a core.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use sluice_schedule::{Bytes, Nanos};

use super::environ::Environ;
use super::namespaces::{Namespaces, Uncovered};
use super::tuple::Tuple;
use crate::clock::monotonic;
use crate::sock_diag::DiagSocket;

/// Questions and answers that may wait.
const MAX_WAITING: usize = 1024;
/// A socket whose process was not found is looked for again after this long.
const AGAIN: Nanos = Nanos::from_millis(10_000);
/// Connections remembered.
const MAX_TRACKED: usize = 32_768;
/// Between two looks at least ...
const EVERY: Duration = Duration::from_millis(150);
/// ... and so many times what a look costs.
const PART: u32 = 100;
/// Counts of bytes lose half their weight in this time, so that what a job did at its start is forgotten.
const HALF_LIFE: Nanos = Nanos::from_millis(4_000);
/// A direction that carries less than this part of the other one carries acknowledgements of the library, no tensors.
const ONE_WAY: u64 = 16;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    pub tuple: Tuple,
    pub pid: u32,
    pub environ: Environ,
    /// Does the process send much on it?
    pub sends: bool,
    /// Does it receive much?
    pub receives: bool,
    /// It lives in another network namespace than this daemon.
    pub foreign: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// A socket and its process; a later one about the same socket counts.
    Found(Box<Origin>),
    /// A socket that was told is gone.
    Lost(Tuple, u32),
    /// Other namespaces than before may not be entered.
    Uncovered(Uncovered),
}

#[derive(Debug)]
pub struct Discovery {
    /// May `/proc/PID/environ` be read?
    pub enabled: bool,
    asked: HashMap<Tuple, Nanos>,
    thread: Option<(SyncSender<Tuple>, Receiver<News>)>,
}

impl Discovery {
    pub fn new(enabled: bool) -> Discovery {
        Discovery { enabled, asked: HashMap::new(), thread: None }
    }

    /// Starts the thread, once.
    pub fn start(&mut self, threshold: Bytes) {
        if !self.enabled || self.thread.is_some() {
            return;
        }
        let (questions, from_daemon) = sync_channel(MAX_WAITING);
        let (news, to_daemon) = sync_channel(MAX_WAITING);
        let thread = std::thread::Builder::new().name("discovery".into());
        if thread.spawn(move || look_for_ever(threshold, &from_daemon, &news)).is_ok() {
            self.thread = Some((questions, to_daemon));
        }
    }

    /// Asks whose a socket is however little it sent; the answer, if any, comes later.
    pub fn ask(&mut self, now: Nanos, tuple: Tuple) {
        if self.asked.get(&tuple).is_some_and(|at| now.minus(*at) < AGAIN) {
            return;
        }
        if self.asked.len() >= MAX_TRACKED {
            self.asked.clear();
        }
        self.asked.insert(tuple, now);
        if let Some((questions, _)) = self.thread.as_ref().filter(|_| self.enabled) {
            let _ = questions.try_send(tuple); // Asked again later if too many wait.
        }
    }

    /// Appends the news that have come.
    pub fn news(&mut self, out: &mut Vec<News>) {
        if let Some((_, news)) = self.thread.as_ref().filter(|_| self.enabled) {
            out.extend(news.try_iter());
        }
    }
}

fn look_for_ever(threshold: Bytes, questions: &Receiver<Tuple>, news: &SyncSender<News>) {
    crate::sys::defer_this_thread();
    let (mut namespaces, mut uncovered) = (Namespaces::default(), Uncovered::default());
    let mut tracked = Tracked { threshold, ..Tracked::default() };
    let mut pause = EVERY;
    loop {
        match questions.recv_timeout(pause) {
            Ok(tuple) => tracked.ask(std::iter::once(tuple).chain(questions.try_iter())),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let began = crate::clock::thread_cpu();
        let now = monotonic();
        tracked.begin();
        let refused = namespaces.each(now, |foreign, seen| tracked.look(now, foreign, seen));
        let mut out = Vec::new();
        if refused != uncovered {
            uncovered.clone_from(&refused);
            out.push(News::Uncovered(refused));
        }
        tracked.end(now, holders_of, &mut out);
        for item in out {
            if news.send(item).is_err() {
                return;
            }
        }
        let cost = Duration::from_nanos(crate::clock::thread_cpu().minus(began).0);
        pause = EVERY.max(cost * PART);
    }
}

#[derive(Clone, Debug)]
struct Connection {
    tuple: Tuple,
    inode: u64,
    uid: u32,
    foreign: bool,
    /// Counts at the last look.
    last: (u64, u64),
    /// Bytes sent and received of late.
    weight: (u64, u64),
    halved: Nanos,
    /// Moved as much as is asked for, ever; or somebody asked.
    counts: bool,
    pid: Option<u32>,
    tried: Option<Nanos>,
    told: Option<(bool, bool)>,
    seen: bool,
}

/// Sockets by inode, with their owner: what is looked for in `/proc`, and what was found.
type Wanted = HashMap<u64, (Tuple, u32)>;

/// All connections over time: what to tell, without the asking.
#[derive(Debug, Default)]
struct Tracked {
    threshold: Bytes,
    connections: HashMap<u64, Connection>,
    asked: Vec<Tuple>,
}

impl Tracked {
    fn ask(&mut self, tuples: impl Iterator<Item = Tuple>) {
        self.asked = tuples.take(MAX_WAITING).collect();
    }

    fn begin(&mut self) {
        self.connections.values_mut().for_each(|connection| connection.seen = false);
    }

    /// One connection as it is now.
    fn look(&mut self, now: Nanos, foreign: bool, seen: &DiagSocket) {
        let full = self.connections.len() >= MAX_TRACKED;
        let tuple = Tuple::of_v6(seen.local, seen.remote);
        let counts = (seen.stats.acked.plus(seen.stats.queued).0, seen.received.0);
        let connection = match self.connections.entry(seen.cookie) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(_) if full => return,
            std::collections::hash_map::Entry::Vacant(entry) => entry.insert(Connection {
                tuple,
                inode: u64::from(seen.inode),
                uid: seen.uid,
                foreign,
                last: (0, 0),
                weight: (0, 0),
                halved: now,
                counts: false,
                pid: None,
                tried: None,
                told: None,
                seen: true,
            }),
        };
        connection.seen = true;
        connection.weight.0 = connection.weight.0.saturating_add(counts.0.saturating_sub(connection.last.0));
        connection.weight.1 = connection.weight.1.saturating_add(counts.1.saturating_sub(connection.last.1));
        connection.last = counts;
        connection.counts |= counts.0.max(counts.1) >= self.threshold.0 || self.asked.contains(&tuple);
        if now.minus(connection.halved) >= HALF_LIFE {
            // A connection at rest keeps its directions.
            let (sent, received) = connection.weight;
            if sent.max(received) > self.threshold.0 {
                connection.weight = (sent / 2, received / 2);
            }
            connection.halved = now;
        }
    }

    /// What is to be told. `holders`: the processes that hold these sockets.
    fn end(&mut self, now: Nanos, holders: impl FnOnce(&mut Wanted) -> Vec<(Tuple, u32)>, out: &mut Vec<News>) {
        self.asked.clear();
        self.connections.retain(|_, connection| {
            if !connection.seen
                && let (Some(_), Some(pid)) = (connection.told, connection.pid)
            {
                out.push(News::Lost(connection.tuple, pid));
            }
            connection.seen
        });
        let mut wanted = Wanted::new();
        for connection in self.connections.values_mut().filter(|connection| connection.counts) {
            let due = connection.tried.is_none_or(|at| now.minus(at) >= AGAIN);
            if connection.pid.is_none() && due {
                connection.tried = Some(now);
                wanted.insert(connection.inode, (connection.tuple, connection.uid));
            }
        }
        let found = if wanted.is_empty() { Vec::new() } else { holders(&mut wanted) };
        let found: HashMap<Tuple, u32> = found.into_iter().collect();
        for connection in self.connections.values_mut().filter(|connection| connection.counts) {
            connection.pid = connection.pid.or(found.get(&connection.tuple).copied());
            let Some(pid) = connection.pid else { continue };
            let directions = directions(connection.weight);
            if connection.told == Some(directions) {
                continue;
            }
            let Some(environ) = Environ::of(pid) else { continue };
            connection.told = Some(directions);
            let ((sends, receives), foreign) = (directions, connection.foreign);
            out.push(News::Found(Box::new(Origin { tuple: connection.tuple, pid, environ, sends, receives, foreign })));
        }
    }
}

/// Which directions carry tensors, by the bytes of late: sent, received.
fn directions((sent, received): (u64, u64)) -> (bool, bool) {
    (sent >= received / ONE_WAY, received >= sent / ONE_WAY && received > 0)
}

/// Which processes have these sockets open; each must belong to the socket's owner. One walk answers all.
fn holders_of(wanted: &mut Wanted) -> Vec<(Tuple, u32)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        if wanted.is_empty() {
            break;
        }
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Ok(owner) = entry.metadata().map(|meta| meta.uid()) else { continue };
        if !wanted.values().any(|(_, uid)| *uid == owner) {
            continue;
        }
        for fd in std::fs::read_dir(entry.path().join("fd")).into_iter().flatten().flatten() {
            let Ok(target) = std::fs::read_link(fd.path()) else { continue };
            let inode = target.to_str().and_then(|text| text.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok());
            if let Some(inode) = inode
                && wanted.get(&inode).is_some_and(|(_, uid)| *uid == owner)
                && let Some((tuple, _)) = wanted.remove(&inode)
            {
                found.push((tuple, pid));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests;
