//! Which socket is which flow: every connection of a process meets the socket that the kernel has for it.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;

use sluice_schedule::{Event, FlowSpec, JobSpec, Now, Pattern};

use super::Monitor;
use super::roles::Connection;
use super::shares::{Shares, Tenant};
use super::tuple::{NetNs, Place, Tuple};
use crate::exchange::book::Passed;
use crate::fabric::{By, Way};

/// Flows that give their places up at one look.
const MAX_MOVES: usize = 64;

/// Is a port at either end one of these?
fn is_excluded(excluded: &[RangeInclusive<u16>], tuple: &Tuple) -> bool {
    let port = |(_, port): ([u8; 16], u16)| excluded.iter().any(|range| range.contains(&port));
    port(tuple.local) || port(tuple.remote)
}

impl Monitor {
    /// Gives every socket to the process that names it, and tells the brain which flows there are. Connections that nobody
    /// knows yet are asked for.
    pub(super) fn match_sockets(&mut self, now: Now, out: &mut Vec<Event>) {
        let now = now.mono;
        self.uncaptured = 0;
        self.matchings += 1;
        let mut unknown: HashMap<(u32, NetNs), Vec<Tuple>> = HashMap::new();
        let told = self.sockets.iter().filter(|socket| socket.told.is_some());
        let mut shares = Shares::of(told.map(|socket| socket.tenant));
        // Those for whom nobody gives way.
        let mut refused: HashSet<Tenant> = HashSet::new();
        let mut moves = 0;
        let mut claimed: HashSet<u64> = HashSet::new();
        for (key, process) in &mut self.processes {
            if process.sight.is_dormant(now) {
                continue;
            }
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
            process.sight.says(connections.iter().any(|connection| connection.sends));
            let mut unknown_here = Vec::new();
            for connection in connections {
                let place = Place { netns: process.netns, tuple: connection.tuple };
                if !connection.sends {
                    // Before a plan was read, the same connection may have been taken for one that sends.
                    if let Some(socket) = self.sockets.at_mut(place).filter(|_| plan.is_some())
                        && socket.process() == Some(*key)
                        && let Some(spec) = socket.told.take()
                    {
                        out.push(Event::FlowClosed(spec.flow));
                        process.resplit |= process.rounds.active;
                    }
                    continue;
                }
                if is_excluded(&self.excluded, &connection.tuple) {
                    continue;
                }
                let carries = self.sockets.at(place).is_some_and(|socket| self.sockets.carries_its_flow(socket));
                let Some(socket) = self.sockets.at_mut(place) else {
                    unknown_here.push(connection.tuple);
                    self.uncaptured += 1;
                    continue;
                };
                // A page speaks only for sockets of its owner.
                if let Some(uid) = process.uid.filter(|uid| *uid != socket.uid) {
                    self.refused_sockets += 1;
                    tracing::debug!(
                        event = "foreign-socket",
                        page = uid,
                        socket = socket.uid,
                        "a page names another user's socket"
                    );
                    continue;
                }
                if !carries {
                    // Another namespace has a connection between the same ends, and its flow goes on if it was this one's.
                    socket.told = None;
                    continue;
                }
                socket.tenant = Tenant { uid: socket.uid, ..process.tenant };
                socket.pid = process.pid.unwrap_or(socket.pid);
                let cookie = socket.cookie;
                if socket.process() != Some(*key) {
                    self.sockets.claim(cookie, Some(*key));
                }
                claimed.insert(cookie);
                let Some(socket) = self.sockets.at_mut(place) else { continue };
                let without_row = usize::from(socket.row.is_none());
                if now < socket.plain_until {
                    self.uncaptured += without_row;
                    continue;
                }
                let (tenant, told) = (socket.tenant, socket.told.is_some());
                if !told && !shares.has_room_for(tenant, self.max_flows) {
                    let other = if refused.contains(&tenant) { None } else { shares.gives_way(tenant) };
                    let Some(other) = other.filter(|_| moves < MAX_MOVES) else {
                        // Time alone makes no room: whatever does has all sockets matched anew.
                        refused.insert(tenant);
                        self.crowd.refused_flows += u64::from(!std::mem::replace(&mut socket.crowded_out, true));
                        continue;
                    };
                    moves += 1;
                    shares.remove(other);
                    self.crowd.given_flows += 1;
                    out.extend(self.sockets.give_up(other).map(Event::FlowClosed));
                    tracing::info!(event = "place-given", what = "flow", "one of who has more gave its place up");
                }
                self.uncaptured += without_row;
                let Some(socket) = self.sockets.at_mut(place) else { continue };
                let Some(Way { path, forks, .. }) = self.fabric.way(socket.flow, &socket.tuple) else { continue };
                let to = self.fabric.host_of(socket.tuple.remote_ip());
                let Connection { role, preds, watches, share, terms, .. } = connection;
                let (flow, job) = (socket.flow, process.job);
                let connection = Some(socket.tuple.connection());
                let spec = FlowSpec { flow, job, to, role, path, preds, watches, share, terms, connection, forks };
                if socket.told.as_ref() != Some(&spec) {
                    out.push(Event::FlowOpened(spec.clone()));
                    if socket.told.is_none() && process.rounds.active {
                        // It joins a round that is under way: the split is made again.
                        process.resplit = true;
                    }
                    if !told {
                        shares.add(tenant);
                        socket.crowded_out = false;
                    }
                    socket.told = Some(spec);
                }
            }
            if let Some(pid) = process.pid
                && !unknown_here.is_empty()
                && process.sight.may_ask(now)
            {
                unknown.entry((pid, process.netns)).or_default().append(&mut unknown_here);
            }
        }
        // What its process no longer has, and no row tells the end of.
        let mut left = Vec::new();
        for socket in self.sockets.iter_mut().filter(|socket| socket.row.is_none() && !claimed.contains(&socket.cookie))
        {
            left.extend(socket.process().map(|_| socket.cookie));
            out.extend(socket.told.take().map(|spec| Event::FlowClosed(spec.flow)));
        }
        left.into_iter().for_each(|cookie| self.sockets.claim(cookie, None));
        for ((pid, netns), tuples) in unknown {
            self.discovery.ask(now, pid, netns, tuples);
        }
    }

    /// Takes the flows from the brain that may not be managed any more, also of sockets with a row. Their sockets are
    /// nobody's from here on.
    pub(super) fn leave_excluded(&mut self, out: &mut Vec<Event>) {
        let mut left = Vec::new();
        for socket in self.sockets.iter_mut() {
            let (local, remote) = (socket.tuple.local_ip(), socket.tuple.remote_ip());
            if self.fabric.covers(local, remote) && !is_excluded(&self.excluded, &socket.tuple) {
                continue;
            }
            let Some(spec) = socket.told.take() else { continue };
            out.push(Event::FlowClosed(spec.flow));
            if let Some(process) = socket.process().and_then(|key| self.processes.get_mut(&key)) {
                process.resplit |= process.rounds.active;
            }
            left.push(socket.cookie);
        }
        left.into_iter().for_each(|cookie| self.sockets.claim(cookie, None));
    }

    /// A flow's announcement came back with what switches left in it.
    pub fn passed(&mut self, Passed { flow, signature }: Passed) {
        let Some(socket) = self.sockets.of_flow(flow) else { return };
        let way = self.fabric.passed(&socket.tuple, signature);
        if self.fabric.learned.learn_way(flow, &way, By::Signature) {
            self.rerouted.insert(flow);
        }
    }

    /// Draws the paths of flows again of which another link is known, and of no others.
    pub(super) fn redraw(&mut self, out: &mut Vec<Event>) {
        for flow in std::mem::take(&mut self.rerouted) {
            let Some(socket) = self.sockets.of_flow_mut(flow) else { continue };
            let Some(Way { path, forks, .. }) = self.fabric.way(flow, &socket.tuple) else { continue };
            let Some(spec) = &mut socket.told else { continue };
            if spec.path != path || spec.forks != forks {
                (spec.path, spec.forks) = (path, forks);
                out.push(Event::FlowOpened(spec.clone()));
            }
        }
    }
}
