//! One connection meets its socket.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use sluice_schedule::{Event, FlowSpec, Nanos};

use super::{MAX_MOVES, Named, is_excluded};
use crate::fabric::{Fabric, Way};
use crate::monitor::crowd::Crowd;
use crate::monitor::processes::Process;
use crate::monitor::roles::Connection;
use crate::monitor::shares::{Shares, Tenant};
use crate::monitor::sockets::Sockets;
use crate::monitor::tuple::Place;

/// What a connection waits for that is not told by its socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stand {
    /// Nothing.
    #[default]
    Settled,
    /// Its socket is not known.
    Unknown,
    /// Its socket refused to be managed, and is nobody's flow until then (CLOCK_MONOTONIC).
    Plain(Nanos),
    /// There is no room for its flow.
    NoRoom,
}

/// What became of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Met {
    pub stand: Stand,
    /// It is to be managed and has no row.
    pub uncaptured: bool,
}

/// Who gets a flow, and who gives one up.
pub(super) struct Room {
    /// Who has how many, once that was asked.
    pub shares: Option<Shares>,
    /// Somebody else has a flow than when this began.
    pub changed: bool,
    /// Where flows were given up.
    pub gave_way: Vec<Place>,
    /// Those for whom nobody gives way.
    refused: BTreeSet<Tenant>,
    moves: usize,
}

impl Room {
    pub fn new(shares: Option<Shares>) -> Room {
        Room { shares, changed: false, gave_way: Vec::new(), refused: BTreeSet::new(), moves: 0 }
    }
}

/// Connections meet their sockets one after the other.
pub(super) struct Meeting<'a> {
    /// The number that claimed sockets get.
    pub number: u64,
    pub now: Nanos,
    pub fabric: &'a Fabric,
    pub excluded: &'a [RangeInclusive<u16>],
    pub max_flows: usize,
    pub sockets: &'a mut Sockets,
    pub crowd: &'a mut Crowd,
    pub refused_sockets: &'a mut u64,
    pub room: Room,
    pub out: &'a mut Vec<Event>,
}

impl Meeting<'_> {
    /// Gives the socket to the process that names it, and tells the brain of its flow.
    pub fn meet(&mut self, process: &mut Process, named: &Named) -> Met {
        let Named { key, place, planned, connection, .. } = named;
        if !connection.sends {
            // Before a plan was read, the same connection may have been taken for one that sends.
            if let Some(socket) = self.sockets.at_mut(*place).filter(|_| *planned)
                && socket.process() == Some(*key)
                && let Some(spec) = socket.told.take()
            {
                self.out.push(Event::FlowClosed(spec.flow));
                process.resplit |= process.rounds.active;
            }
            return Met::default();
        }
        if is_excluded(self.excluded, &connection.tuple) {
            return Met::default();
        }
        let carries = self.sockets.at(*place).is_some_and(|socket| self.sockets.carries_its_flow(socket));
        let Some(socket) = self.sockets.at_mut(*place) else {
            return Met { stand: Stand::Unknown, uncaptured: true };
        };
        // A page speaks only for sockets of its owner.
        if let Some(uid) = process.uid.filter(|uid| *uid != socket.uid) {
            *self.refused_sockets += 1;
            tracing::debug!(
                event = "foreign-socket",
                page = uid,
                socket = socket.uid,
                "a page names another user's socket"
            );
            return Met::default();
        }
        if !carries {
            // Another namespace has a connection between the same ends, and its flow goes on if it was this one's.
            socket.told = None;
            return Met::default();
        }
        socket.tenant = Tenant { uid: socket.uid, ..process.tenant };
        socket.pid = process.pid.unwrap_or(socket.pid);
        socket.claimed = self.number;
        let (cookie, tenant, told) = (socket.cookie, socket.tenant, socket.told.is_some());
        let (uncaptured, plain_until) = (socket.row.is_none(), socket.plain_until);
        if socket.process() != Some(*key) {
            self.sockets.claim(cookie, Some(*key));
        }
        if self.now < plain_until {
            return Met { stand: Stand::Plain(plain_until), uncaptured };
        }
        let has_room = told || self.finds_room(tenant);
        let Some(socket) = self.sockets.get_mut(cookie) else { return Met::default() };
        if !has_room {
            // Time alone makes no room: who has how many flows has to be another.
            self.crowd.refused_flows += u64::from(!std::mem::replace(&mut socket.crowded_out, true));
            return Met { stand: Stand::NoRoom, uncaptured: false };
        }
        let settled = Met { stand: Stand::Settled, uncaptured };
        let Some(Way { path, forks, .. }) = self.fabric.way(socket.flow, &socket.tuple) else { return settled };
        let to = self.fabric.host_of(socket.tuple.remote_ip());
        let Connection { role, preds, watches, share, terms, .. } = connection.clone();
        let (flow, job) = (socket.flow, process.job);
        let connection = Some(socket.tuple.connection());
        let spec = FlowSpec { flow, job, to, role, path, preds, watches, share, terms, connection, forks };
        if socket.told.as_ref() != Some(&spec) {
            self.out.push(Event::FlowOpened(spec.clone()));
            if socket.told.is_none() && process.rounds.active {
                // It joins a round that is under way: the split is made again.
                process.resplit = true;
            }
            if let Some(shares) = self.room.shares.as_mut().filter(|_| !told) {
                shares.add(tenant);
                self.room.changed = true;
                socket.crowded_out = false;
            }
            socket.told = Some(spec);
        }
        settled
    }

    /// Is there room for one more flow of this tenant? One of a tenant that has more gives way if need be.
    fn finds_room(&mut self, tenant: Tenant) -> bool {
        let Room { shares, changed, gave_way, refused, moves } = &mut self.room;
        let told = self.sockets.iter().filter(|socket| socket.told.is_some()).map(|socket| socket.tenant);
        let shares = shares.get_or_insert_with(|| Shares::of(told));
        if shares.has_room_for(tenant, self.max_flows) {
            return true;
        }
        let other = if refused.contains(&tenant) { None } else { shares.gives_way(tenant) };
        let Some(other) = other.filter(|_| *moves < MAX_MOVES) else {
            refused.insert(tenant);
            return false;
        };
        (*moves, *changed) = (*moves + 1, true);
        shares.remove(other);
        self.crowd.given_flows += 1;
        if let Some((flow, place)) = self.sockets.give_up(other) {
            self.out.push(Event::FlowClosed(flow));
            gave_way.push(place);
        }
        tracing::info!(event = "place-given", what = "flow", "one of who has more gave its place up");
        true
    }
}
