//! Which socket is which flow: every connection of a process meets the socket that the kernel has for it.
//!
//! All meet anew where processes, their connections or the network are others. What befalls one socket has those met that
//! name it, and nobody else; time alone those whose wait is over. Both give what a meeting of all would.

mod meeting;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Range, RangeInclusive};

use foldhash::HashMap;
use sluice_schedule::{Event, JobSpec, Nanos, Now, Pattern};

use super::roles::Connection;
use super::shares::Shares;
use super::sockets::{Socket, Sockets};
use super::tuple::{NetNs, Place, Tuple};
use super::{Monitor, ProcessKey};
use crate::exchange::book::Passed;
use crate::fabric::{By, Way};
use meeting::{Meeting, Met, Room, Stand};

/// Flows that give their places up at one look.
pub(super) const MAX_MOVES: usize = 64;

/// Is a port at either end one of these?
pub(super) fn is_excluded(excluded: &[RangeInclusive<u16>], tuple: &Tuple) -> bool {
    let port = |(_, port): ([u8; 16], u16)| excluded.iter().any(|range| range.contains(&port));
    port(tuple.local) || port(tuple.remote)
}

/// A connection as its process named it when all met.
#[derive(Debug)]
struct Named {
    key: ProcessKey,
    place: Place,
    /// Does its job follow a plan?
    planned: bool,
    connection: Connection,
    /// The one before it of the same place.
    before: Option<usize>,
}

/// All connections by process, and what became of each when it last met its socket.
#[derive(Debug, Default)]
pub struct Matching {
    /// Something befell a socket: those that name it are to be met.
    pub(super) stirred: bool,
    /// What all connections rest on may be another, though nothing asks for a meeting yet: the next one is of all.
    stale: bool,
    /// The number of the last one.
    number: u64,
    /// How many connections have met their sockets, all times together.
    pub met: u64,
    named: Vec<Named>,
    /// The last one of each place.
    last: HashMap<Place, usize>,
    /// Of each process, which ones.
    ranges: Vec<(ProcessKey, Range<usize>)>,
    /// For each connection: what became of it, and whether it is to be met.
    stands: Vec<Met>,
    due: Vec<bool>,
    /// Processes that were left out because nobody has their connections.
    dormant: BTreeSet<ProcessKey>,
    /// Who had how many flows when the last one found no room: as long as that holds there is none. `None`: not known.
    full: Option<Shares>,
}

impl Matching {
    /// Forgets what connections there are, and begins anew.
    fn begin(&mut self) {
        (self.stirred, self.stale) = (false, false);
        self.named.clear();
        self.last.clear();
        self.ranges.clear();
        self.stands.clear();
        self.due.clear();
        self.dormant.clear();
    }

    /// Takes in what a process names; all of that is to be met.
    fn add(&mut self, key: ProcessKey, netns: NetNs, planned: bool, connections: Vec<Connection>) {
        let begin = self.named.len();
        for connection in connections {
            let place = Place { netns, tuple: connection.tuple };
            let before = self.last.insert(place, self.named.len());
            self.named.push(Named { key, place, planned, connection, before });
        }
        let end = self.named.len();
        self.stands.resize(end, Met::default());
        self.due.resize(end, true);
        self.ranges.push((key, begin..end));
    }

    /// Those that name this place are to be met.
    fn touch(&mut self, place: Place) {
        let mut next = self.last.get(&place).copied();
        while let Some(at) = next {
            self.due[at] = true;
            next = self.named[at].before;
        }
    }

    /// Those that found no room are to be met, from the `from`-th connection on.
    fn try_again(&mut self, from: usize) {
        for (stand, due) in self.stands.iter().zip(&mut self.due).skip(from) {
            *due |= stand.stand == Stand::NoRoom;
        }
    }

    fn finds_no_room(&self) -> bool {
        self.stands.iter().any(|met| met.stand == Stand::NoRoom)
    }

    /// Is one to be met of whose flow the brain does not know?
    fn asks_for_room(&self, sockets: &Sockets) -> bool {
        let mut due = self.named.iter().zip(&self.due).filter(|(_, due)| **due);
        due.any(|(named, _)| sockets.at(named.place).is_some_and(|socket| socket.told.is_none()))
    }
}

impl Monitor {
    /// Gives every socket to the process that names it, and tells the brain which flows there are. Connections that nobody
    /// knows yet are asked for.
    pub(super) fn match_sockets(&mut self, now: Now, out: &mut Vec<Event>) {
        let now = now.mono;
        self.matchings += 1;
        self.matching.begin();
        self.sockets.take_touched();
        for (key, process) in &mut self.processes {
            if process.sight.is_dormant(now) {
                self.matching.dormant.insert(*key);
                continue;
            }
            let plan = self.jobs.get(&process.job).and_then(|job| job.following.plan());
            let (planned, connections) = (plan.is_some(), process.connections(&self.fabric, plan));
            process.sight.says(connections.iter().any(|connection| connection.sends));
            self.matching.add(*key, process.netns, planned, connections);
            // A library may learn how its ranks talk only with the first operation.
            if let Some(job) = self.jobs.get_mut(&process.job)
                && job.pattern == Pattern::Unknown
                && process.pattern != Pattern::Unknown
            {
                job.pattern = process.pattern;
                out.push(Event::JobSeen(JobSpec { job: process.job, pattern: job.pattern }));
            }
        }
        let shares = self.shares();
        self.meet(now, Some(shares), out);
        let number = self.matching.number;
        let left = |socket: &&Socket| socket.row.is_none() && socket.claimed != number;
        let left: Vec<u64> = self.sockets.iter().filter(left).map(|socket| socket.cookie).collect();
        self.leave_unclaimed(left, out);
    }

    /// The same where processes and what they name are as they were: only those meet whose socket is another, whose wait is
    /// over, or for whom there may be room now.
    pub(super) fn match_stirred(&mut self, now: Now, out: &mut Vec<Event>) {
        let mono = now.mono;
        let awake = |key: &ProcessKey| self.processes.get(key).is_some_and(|process| !process.sight.is_dormant(mono));
        if self.matching.stale || self.matching.dormant.iter().any(awake) {
            return self.match_sockets(now, out);
        }
        self.matching.stirred = false;
        let mut touched: Vec<u64> = Vec::new();
        for (cookie, place) in self.sockets.take_touched() {
            self.matching.touch(place);
            touched.push(cookie);
        }
        let Matching { stands, due, .. } = &mut self.matching;
        for (met, due) in stands.iter().zip(due) {
            *due |= matches!(met.stand, Stand::Plain(until) if until <= mono);
        }
        let found_no_room = self.matching.finds_no_room();
        let shares = (found_no_room || self.matching.asks_for_room(&self.sockets)).then(|| self.shares());
        if found_no_room && self.matching.full != shares {
            self.matching.try_again(0);
        }
        self.meet(mono, shares, out);
        touched.sort_unstable();
        touched.dedup();
        self.leave_unclaimed(touched, out);
    }

    /// Who has how many of the flows that the brain knows.
    fn shares(&self) -> Shares {
        Shares::of(self.sockets.iter().filter(|socket| socket.told.is_some()).map(|socket| socket.tenant))
    }

    /// Has all connections that are due meet their sockets, in order. `shares`: who has how many flows, if that is known.
    fn meet(&mut self, now: Nanos, shares: Option<Shares>, out: &mut Vec<Event>) {
        self.matching.number += 1;
        let mut meeting = Meeting {
            number: self.matching.number,
            now,
            fabric: &self.fabric,
            excluded: &self.excluded,
            max_flows: self.max_flows,
            sockets: &mut self.sockets,
            crowd: &mut self.crowd,
            refused_sockets: &mut self.refused_sockets,
            room: Room::new(shares),
            out,
        };
        let mut tried_again = false;
        for at in 0..self.matching.named.len() {
            if !std::mem::take(&mut self.matching.due[at]) {
                continue;
            }
            let named = &self.matching.named[at];
            let Some(process) = self.processes.get_mut(&named.key) else { continue };
            self.matching.met += 1;
            if process.sight.is_dormant(now) {
                self.matching.stands[at] = Met::default();
                self.matching.dormant.insert(named.key);
                continue;
            }
            self.matching.stands[at] = meeting.meet(process, named);
            // Who gave way is met again: now if its turn is still to come, else next time.
            while let Some(place) = meeting.room.gave_way.pop() {
                self.matching.touch(place);
            }
            if meeting.room.changed && !std::mem::replace(&mut tried_again, true) {
                self.matching.try_again(at + 1);
            }
        }
        let Room { shares, changed, .. } = meeting.room;
        self.matching.full = shares.filter(|_| !changed && self.matching.finds_no_room());
        self.ask_for_unknown(now);
        self.uncaptured = self.matching.stands.iter().filter(|met| met.uncaptured).count();
    }

    /// Asks for connections whose sockets nobody knows, of processes that may ask. Those of whom none has existed for long are
    /// left out from here on.
    fn ask_for_unknown(&mut self, now: Nanos) {
        let mut unknown: BTreeMap<(u32, NetNs), Vec<Tuple>> = BTreeMap::new();
        let Matching { named, ranges, stands, dormant, .. } = &mut self.matching;
        for (key, range) in ranges.iter() {
            let stands = &mut stands[range.clone()];
            if !stands.iter().any(|met| met.uncaptured) {
                continue;
            }
            let Some(process) = self.processes.get_mut(key) else { continue };
            if process.sight.is_dormant(now) {
                stands.fill(Met::default());
                dormant.insert(*key);
                continue;
            }
            let of_unknown = stands.iter().zip(&named[range.clone()]).filter(|(met, _)| met.stand == Stand::Unknown);
            let mut of_unknown = of_unknown.map(|(_, named)| named.place.tuple).peekable();
            if let Some(pid) = process.pid
                && of_unknown.peek().is_some()
                && process.sight.may_ask(now)
            {
                unknown.entry((pid, process.netns)).or_default().extend(of_unknown);
            }
        }
        for ((pid, netns), tuples) in unknown {
            self.discovery.ask(now, pid, netns, tuples);
        }
    }

    /// Of these sockets those that their process no longer has, and of which no row tells the end, are nobody's from here on.
    fn leave_unclaimed(&mut self, cookies: Vec<u64>, out: &mut Vec<Event>) {
        let number = self.matching.number;
        for cookie in cookies {
            let Some(socket) = self.sockets.get_mut(cookie) else { continue };
            if socket.row.is_some() || socket.claimed == number {
                continue;
            }
            out.extend(socket.told.take().map(|spec| Event::FlowClosed(spec.flow)));
            self.sockets.claim(cookie, None);
        }
    }

    /// The kernel is asked anew by which card it sends to whom: the next meeting is of all.
    pub fn forget_routes(&mut self) {
        self.fabric.forget_routes();
        self.matching.stale = true;
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
