//! Processes that publish no page, and further sockets of those that do: found by their bytes.

use std::collections::BTreeSet;
use std::net::IpAddr;

use sluice_schedule::{Event, Now};

use super::discovery::{Held, News, Origin, Wake};
use super::inferred::Claim;
use super::processes::Process;
use super::tuple::{Place, Tuple};
use super::{Monitor, ProcessKey};

impl Monitor {
    /// Begins to look for jobs without a page.
    pub fn discover(&mut self, wake: Wake) {
        self.discovery.start(self.others_eyes.clone(), wake);
    }

    /// Takes the news of [`super::discovery`] in, and asks about sockets of pages that are full.
    pub(super) fn find_processes(&mut self, now: Now, out: &mut Vec<Event>) {
        let mut news = Vec::new();
        self.discovery.news(&mut news);
        for item in news {
            match item {
                News::Found(origin) => self.found(now, &origin, out),
                News::Lost(place, pid) => {
                    if let Some(key) = self.key_of(pid) {
                        self.lost(key, &place.tuple, out);
                    }
                }
                News::Known(all) => {
                    // All of one process.
                    let pid = all.first().map(|known| known.pid);
                    let theirs = self.processes.values_mut().filter(|process| process.pid == pid);
                    theirs.for_each(|process| process.sight.stir());
                    for known in all {
                        self.sockets.know(now.mono, self.fabric.host, known);
                    }
                    self.rematch = true;
                }
                News::Held(pid, held) => self.held(now, pid, &held),
                News::Uncovered(uncovered) => self.uncovered = uncovered,
            }
        }
        let full = |process: &&Process| process.view.as_ref().is_some_and(|view| view.more_peers);
        for pid in self.processes.values().filter(full).filter_map(|process| process.pid) {
            self.discovery.ask_rest(now.mono, pid);
        }
    }

    /// Connections of a process whose page has no room for all. Those to hosts that the page names are its job's too.
    fn held(&mut self, now: Now, pid: u32, held: &[Held]) {
        let Some(process) = self.key_of(pid).and_then(|key| self.processes.get_mut(&key)) else { return };
        let Some(view) = &process.view else { return };
        let hosts: BTreeSet<IpAddr> = view.peers.iter().map(|peer| peer.remote.ip().to_canonical()).collect();
        let before = process.claims.clone();
        for Held { known, sends, receives } in held {
            let tuple = known.place.tuple;
            if hosts.contains(&tuple.remote_ip()) && process.uid.is_none_or(|uid| uid == known.uid) {
                process.claims.take(Claim { tuple, sends: *sends, receives: *receives });
                self.sockets.know(now.mono, self.fabric.host, *known);
            }
        }
        self.rematch |= process.claims != before;
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
        let Origin { known, environ, sends, receives } = origin;
        let (tuple, pid) = (known.place.tuple, known.pid);
        if !self.fabric.covers(tuple.local_ip(), tuple.remote_ip()) {
            return;
        }
        let key = self.key_of(pid).unwrap_or(ProcessKey::Pid(pid));
        if !self.processes.contains_key(&key) {
            let Some(process) = Process::of_pid(known, environ, &self.allowed) else { return };
            self.appeared(key, process, out);
        }
        if let Some(process) = self.processes.get_mut(&key) {
            process.claims.take(Claim { tuple, sends: *sends, receives: *receives });
            self.sockets.know(now.mono, self.fabric.host, *known);
            self.rematch = true;
        }
    }

    /// A connection is gone; a process without a page is known by its connections only.
    pub(super) fn lost(&mut self, key: ProcessKey, tuple: &Tuple, out: &mut Vec<Event>) {
        let Some(process) = self.processes.get_mut(&key) else { return };
        // How its job talks may be seen otherwise without it.
        self.rematch |= process.claims.drop(tuple);
        self.matching.stirred = true;
        let place = Place { netns: process.netns, tuple: *tuple };
        if let Some(cookie) = self.sockets.at(place).map(|socket| socket.cookie) {
            out.extend(self.sockets.forget(cookie).map(Event::FlowClosed));
        }
        let Some(process) = self.processes.get(&key) else { return };
        if process.view.is_none() && process.claims.is_empty() && self.sockets.of(key).next().is_none() {
            self.gone(key, out);
        }
    }
}

#[cfg(test)]
mod tests;
