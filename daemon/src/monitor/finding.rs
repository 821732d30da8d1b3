//! Processes that publish no page, and further sockets of those that do: found by their bytes.

use sluice_schedule::{Event, Now};

use super::discovery::{News, Origin};
use super::inferred::Claim;
use super::processes::Process;
use super::tuple::Tuple;
use super::{Monitor, ProcessKey};

impl Monitor {
    /// Begins to look for jobs without a page.
    pub fn discover(&mut self) {
        self.discovery.start(self.threshold);
    }

    /// Takes the news of [`super::discovery`] in, and asks about sockets of pages that are full.
    pub(super) fn find_processes(&mut self, now: Now, out: &mut Vec<Event>) {
        let mut news = Vec::new();
        self.discovery.news(&mut news);
        for item in news {
            match item {
                News::Found(origin) => self.found(now, &origin, out),
                News::Lost(tuple, pid) => {
                    if let Some(key) = self.key_of(pid) {
                        self.lost(key, &tuple, out);
                    }
                }
                News::Uncovered(uncovered) => self.uncovered = uncovered,
            }
        }
        // A page with more connections than it lists has sockets that only /proc can tell; they are asked for at once,
        // since a socket nobody claims is given back when its first order fails to come.
        let full = |uid: u32| {
            let more = |process: &Process| process.view.as_ref().is_some_and(|view| view.more_peers);
            self.processes.values().any(|process| process.uid == Some(uid) && more(process))
        };
        for socket in self.sockets.iter().filter(|socket| socket.process.is_none()) {
            if full(socket.uid) && self.fabric.covers(socket.tuple.local_ip(), socket.tuple.remote_ip()) {
                self.discovery.ask(now.mono, socket.tuple);
            }
        }
    }

    /// The process of this pid, if it is known.
    fn key_of(&self, pid: u32) -> Option<ProcessKey> {
        // A page lists 56 connections at most; further ones of its process are found this way.
        let page = self.processes.iter().find(|(_, process)| process.view.is_some() && process.pid == Some(pid));
        let plain = || Some(ProcessKey::Pid(pid)).filter(|key| self.processes.contains_key(key));
        page.map(|(key, _)| *key).or_else(plain)
    }

    /// A connection of a process moves much.
    pub(super) fn found(&mut self, now: Now, origin: &Origin, out: &mut Vec<Event>) {
        let Origin { tuple, pid, environ, sends, receives, foreign } = origin;
        if !self.fabric.covers(tuple.local_ip(), tuple.remote_ip()) {
            return;
        }
        let key = self.key_of(*pid).unwrap_or(ProcessKey::Pid(*pid));
        if !self.processes.contains_key(&key) {
            let Some(process) = Process::of_pid(now, *pid, environ, &self.allowed) else { return };
            self.appeared(key, process, out);
        }
        if let Some(process) = self.processes.get_mut(&key) {
            process.foreign = *foreign;
            process.claims.take(Claim { tuple: *tuple, sends: *sends, receives: *receives });
            self.rematch = true;
        }
    }

    /// A connection is gone; a process without a page is known by its connections only.
    pub(super) fn lost(&mut self, key: ProcessKey, tuple: &Tuple, out: &mut Vec<Event>) {
        let Some(process) = self.processes.get_mut(&key) else { return };
        process.claims.drop(tuple);
        self.rematch = true;
        if process.view.is_none() && process.claims.is_empty() && self.sockets.of(key).next().is_none() {
            self.gone(key, out);
        }
    }

    /// Processes in other network namespaces, one for each process with a flow that has no row.
    pub fn uncaptured_elsewhere(&self) -> Vec<u32> {
        let Monitor { processes, sockets, .. } = self;
        let plain = |process: &&Process| {
            process.foreign && process.claims.iter().any(|claim| claim.sends && sockets.at(&claim.tuple).is_none())
        };
        processes.values().filter(plain).filter_map(|process| process.pid).collect()
    }
}

#[cfg(test)]
mod tests;
