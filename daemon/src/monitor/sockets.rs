//! The sockets of jobs: whose they are, the row that the data path has for each, and what the kernel measured of them. A
//! socket that runs under its own congestion control has no row, and nothing is measured of it.

mod counts;

use std::collections::BTreeSet;

use foldhash::HashMap;
use slab::Slab;
use sluice_ebpf::{Datapath, FlowStats, NotTaken, Row, SocketEvent, SocketEventKind, Taking};
use sluice_schedule::{Bytes, FlowId, FlowProgress, FlowSpec, HostId, Nanos};

use super::ProcessKey;
use super::shares::Tenant;
use super::tuple::{NetNs, Place, Tuple};

/// A socket that refuses to be managed is asked again after this long, twice as long after each time, ...
const ASK_AGAIN: Nanos = Nanos::from_millis(5_000);
/// ... and at most this.
const ASK_RARELY: Nanos = Nanos::from_millis(320_000);
/// So long the kernel may take to say which row a captured socket has.
const ROW_COMES: Nanos = Nanos::from_millis(1_000);

#[derive(Clone, Debug, Default)]
pub struct Socket {
    /// The kernel's name for it.
    pub cookie: u64,
    /// Its row, while it is managed or watched.
    pub row: Option<Row>,
    pub netns: NetNs,
    pub tuple: Tuple,
    pub uid: u32,
    /// A process in its network namespace; 0: not known yet.
    pub pid: u32,
    /// It refused to be managed, and is nobody's flow until then (CLOCK_MONOTONIC).
    pub plain_until: Nanos,
    /// It was captured, and its row should be told until then.
    row_comes: Nanos,
    /// How long it will be left alone if it refuses once more.
    refusal: Nanos,
    /// The flow this host sends on it.
    pub flow: FlowId,
    /// The process that uses it, once that is known: [`Sockets::claim`].
    process: Option<ProcessKey>,
    /// The last matching in which a process named it, by its number.
    pub claimed: u64,
    /// Whose places it takes.
    pub tenant: Tenant,
    /// It found no place among the flows of all.
    pub crowded_out: bool,
    /// What the brain was told of it; `None`: nothing.
    pub told: Option<FlowSpec>,
    /// Bytes of the round for this flow.
    pub demand: Bytes,
    /// Acknowledged when the round began.
    pub base: Bytes,
    /// Where the next round's base lies at least.
    pub next_base: Bytes,
    /// Bytes the flow had in its last round.
    pub last_round: Bytes,
    /// Rounds it went through.
    pub rounds: u64,
    pub stats: FlowStats,
    /// Acknowledged at the last slot edge.
    pub slot_acked: Bytes,
    /// Acknowledged in the last slot.
    pub moved_in_slot: Bytes,
    /// Segments retransmitted in the last slot.
    pub retransmitted_in_slot: u64,
    slot_retransmitted: u64,
    measured: bool,
    /// Acknowledged when the process's bytes were last added up.
    counted: Bytes,
    /// What the kernel was last asked to tell of, as bytes acknowledged.
    marked: Bytes,
    /// CLOCK_MONOTONIC when it was first seen.
    pub since: Nanos,
    reported: Option<FlowProgress>,
}

/// What the kernel says of a connection that was looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    pub cookie: u64,
    pub place: Place,
    pub uid: u32,
    /// A process in its network namespace.
    pub pid: u32,
}

/// Where a socket sits, and the cookie that it has: seats are given again, cookies are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seat {
    at: usize,
    cookie: u64,
}

/// All of them, next to each other in memory: every slot goes over thousands of them several times. What is found by a hash
/// is only looked up: whatever goes over sockets goes by their seats, which depend on nothing but what came and went.
#[derive(Debug, Default)]
pub struct Sockets {
    all: Slab<Socket>,
    seats: HashMap<u64, Seat>,
    rows: HashMap<u32, Seat>,
    places: HashMap<Place, Seat>,
    flows: HashMap<FlowId, Seat>,
    /// The seats of each process, in order: every look asks each process for its own, and there may be hundreds of both.
    of_process: HashMap<ProcessKey, BTreeSet<usize>>,
    /// Sockets that came, went, lost their row or got one since the last matching, by cookie and place.
    touched: Vec<(u64, Place)>,
    /// The network namespace of the host.
    own: NetNs,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Noted {
    /// A socket has a row now.
    Appeared(Row),
    /// What it was to send in this round has arrived.
    Finished,
    /// It sends after a pause.
    Woke(Option<ProcessKey>),
    /// The row is gone, the connection is not.
    Released,
    /// The loss guard gave it back: it is nobody's flow for a while. If the brain knew it, it has to hear that.
    Guarded(Option<FlowId>),
    /// The connection is gone.
    Vanished {
        told: Option<FlowId>,
        process: Option<ProcessKey>,
        tuple: Tuple,
    },
    Nothing,
}

impl Sockets {
    /// None, on a host whose network namespace is this.
    pub fn of_host(own: NetNs) -> Sockets {
        Sockets { own, ..Sockets::default() }
    }
    pub fn own(&self) -> NetNs {
        self.own
    }

    /// Takes an event of the data path in.
    pub fn event(&mut self, now: Nanos, own: HostId, event: &SocketEvent) -> Noted {
        if event.kind == SocketEventKind::Opened {
            return self.open(now, own, event);
        }
        // A row that was seen to have another owner before its event was read is known by the socket's cookie only.
        let closed = event.kind == SocketEventKind::Closed;
        let by_cookie = || self.seats.get(&event.cookie).filter(|_| closed);
        let Some(&seat) = self.rows.get(&event.row.index).or_else(by_cookie) else { return Noted::Nothing };
        let ours = |socket: &&mut Socket| socket.row == Some(event.row) || closed && socket.cookie == event.cookie;
        let Some(socket) = sitting_mut(&mut self.all, seat).filter(ours) else { return Noted::Nothing };
        let cookie = seat.cookie;
        match event.kind {
            SocketEventKind::Opened => Noted::Nothing,
            SocketEventKind::Finished => Noted::Finished,
            SocketEventKind::Started => Noted::Woke(socket.process),
            SocketEventKind::Closed => {
                let (told, process, tuple) = (socket.told.as_ref().map(|spec| spec.flow), socket.process, socket.tuple);
                self.forget(cookie);
                Noted::Vanished { told, process, tuple }
            }
            SocketEventKind::LossGuard => {
                socket.row = None;
                socket.plain_until = now.plus(ASK_AGAIN);
                let told = socket.told.take().map(|spec| spec.flow);
                self.touched.push((cookie, socket.place()));
                self.rows.remove(&event.row.index);
                Noted::Guarded(told)
            }
            SocketEventKind::Expired | SocketEventKind::Released => {
                socket.row = None;
                self.touched.push((cookie, socket.place()));
                self.rows.remove(&event.row.index);
                Noted::Released
            }
        }
    }

    fn open(&mut self, now: Nanos, own: HostId, event: &SocketEvent) -> Noted {
        let before = self.rows.get(&event.row.index).and_then(|seat| sitting_mut(&mut self.all, *seat));
        if let Some(old) = before {
            if old.row == Some(event.row) {
                return Noted::Nothing; // A rescan reports what is known.
            }
            old.row = None;
            self.touched.push((old.cookie, old.place()));
        }
        let place = Place { netns: NetNs(event.netns), tuple: Tuple::of_v6(event.local, event.remote) };
        self.know(now, own, Known { cookie: event.cookie, place, uid: event.uid, pid: 0 });
        let seat = self.seats.get(&event.cookie).copied();
        if let Some((socket, seat)) = seat.and_then(|seat| Some((sitting_mut(&mut self.all, seat)?, seat))) {
            (socket.row, socket.measured) = (Some(event.row), false);
            self.touched.push((event.cookie, socket.place()));
            (socket.refusal, socket.plain_until, socket.row_comes) = (Nanos::ZERO, Nanos::ZERO, Nanos::ZERO);
            self.rows.insert(event.row.index, seat);
        }
        Noted::Appeared(event.row)
    }

    /// Takes a connection in that the kernel knows by this cookie.
    pub fn know(&mut self, now: Nanos, own: HostId, known: Known) {
        let Known { cookie, place: Place { netns, tuple }, uid, pid } = known;
        if let Some(socket) = self.get_mut(cookie) {
            socket.pid = if pid > 0 { pid } else { socket.pid };
            return;
        }
        // An earlier connection between the same ends is gone.
        if let Some(earlier) = self.places.get(&known.place).copied() {
            self.forget(earlier.cookie);
        }
        let flow = tuple.outgoing(own);
        let at = self.all.insert(Socket { cookie, netns, tuple, uid, pid, flow, since: now, ..Socket::default() });
        let seat = Seat { at, cookie };
        self.seats.insert(cookie, seat);
        self.places.insert(known.place, seat);
        // Two namespaces may have the same addresses. That of the host is the one that the network knows; of others it is the
        // first, so that nobody takes a flow away from who has it.
        if netns == self.own || !self.flows.contains_key(&flow) {
            let before = self.flows.insert(flow, seat).and_then(|other| self.sitting(other));
            let before = before.map(|other| (other.cookie, other.place()));
            self.touched.extend(before);
        }
        self.touched.push((cookie, known.place));
    }

    /// Forgets a connection; gives the flow that the brain knew.
    pub fn forget(&mut self, cookie: u64) -> Option<FlowId> {
        self.claim(cookie, None);
        let seat = self.seats.remove(&cookie)?;
        let socket = self.all.try_remove(seat.at)?;
        let place = socket.place();
        self.touched.push((cookie, place));
        // A later one may have the same addresses.
        if self.places.get(&place) == Some(&seat) {
            self.places.remove(&place);
        }
        if self.flows.get(&socket.flow) == Some(&seat) {
            self.flows.remove(&socket.flow);
        }
        if let Some(row) = socket.row {
            self.rows.remove(&row.index);
        }
        socket.told.map(|spec| spec.flow)
    }

    /// Takes a flow of this tenant from the brain: one that rests, of those the one that came last. Gives it, and where it is.
    pub fn give_up(&mut self, tenant: Tenant) -> Option<(FlowId, Place)> {
        let theirs = self.iter_mut().filter(|socket| socket.told.is_some() && socket.tenant == tenant);
        let socket = theirs.max_by_key(|socket| (socket.moved_in_slot == Bytes::ZERO, socket.since))?;
        socket.crowded_out = true;
        let place = socket.place();
        socket.told.take().map(|spec| (spec.flow, place))
    }

    /// Forgets the connections without a row that no process claims.
    pub fn forget_unclaimed(&mut self) {
        let unclaimed = |socket: &&Socket| socket.row.is_none() && socket.process.is_none();
        let cookies: Vec<u64> = self.iter().filter(unclaimed).map(|socket| socket.cookie).collect();
        for cookie in cookies {
            self.forget(cookie);
        }
    }

    /// What became of the wish to manage one.
    pub fn taken(&mut self, now: Nanos, taking: Taking) -> Option<FlowId> {
        let seat = *self.seats.get(&taking.cookie)?;
        let socket = sitting_mut(&mut self.all, seat)?;
        match taking.result {
            // The row is told by an event.
            Ok(()) | Err(NotTaken::HasRow) => {
                socket.row_comes = now.plus(ROW_COMES);
                None
            }
            Err(NotTaken::Gone) => self.forget(taking.cookie),
            // The next order asks again.
            Err(NotTaken::Late) => None,
            Err(NotTaken::NotOurs | NotTaken::TableFull | NotTaken::Refused(_)) => {
                socket.refusal = if socket.refusal == Nanos::ZERO { ASK_AGAIN } else { socket.refusal.times(2) };
                socket.refusal = socket.refusal.min(ASK_RARELY);
                socket.plain_until = now.plus(socket.refusal);
                self.touched.push((taking.cookie, socket.place()));
                socket.told.take().map(|spec| spec.flow)
            }
        }
    }

    /// Reads the measurements of every socket with a row. Returns rows that have another owner by now.
    pub fn measure(&mut self, datapath: &dyn Datapath) -> Vec<Row> {
        let mut lost = Vec::new();
        for socket in self.iter_mut() {
            let Some(row) = socket.row else { continue };
            match datapath.stats(row) {
                Some(stats) => {
                    if !std::mem::replace(&mut socket.measured, true) {
                        // Adopted in mid-life: what was sent before is none of ours.
                        (socket.base, socket.next_base, socket.slot_acked) = (stats.acked, stats.acked, stats.acked);
                        socket.counted = stats.acked;
                        socket.slot_retransmitted = stats.retransmitted;
                    }
                    socket.stats = stats;
                }
                None => lost.push(row),
            }
        }
        lost
    }

    /// The present connection there.
    pub fn at(&self, place: Place) -> Option<&Socket> {
        self.sitting(*self.places.get(&place)?)
    }
    pub fn at_mut(&mut self, place: Place) -> Option<&mut Socket> {
        sitting_mut(&mut self.all, *self.places.get(&place)?)
    }
    /// The one that the kernel knows by this cookie, to change it.
    pub fn get_mut(&mut self, cookie: u64) -> Option<&mut Socket> {
        sitting_mut(&mut self.all, *self.seats.get(&cookie)?)
    }
    fn get(&self, cookie: u64) -> Option<&Socket> {
        self.sitting(*self.seats.get(&cookie)?)
    }
    fn sitting(&self, seat: Seat) -> Option<&Socket> {
        self.all.get(seat.at).filter(|socket| socket.cookie == seat.cookie)
    }
    /// Those that came, went, lost their row or got one since the last call, by cookie, with their places: one may be there
    /// several times, and need not exist any more.
    pub fn take_touched(&mut self) -> Vec<(u64, Place)> {
        std::mem::take(&mut self.touched)
    }
    /// Are there any that [`Sockets::take_touched`] would give?
    pub fn has_touched(&self) -> bool {
        !self.touched.is_empty()
    }
    /// The namespace that a socket is in.
    pub fn netns_of(&self, cookie: u64) -> Option<NetNs> {
        self.get(cookie).map(|socket| socket.netns)
    }
    /// The socket that carries this flow.
    pub fn of_flow(&self, flow: FlowId) -> Option<&Socket> {
        self.sitting(*self.flows.get(&flow)?)
    }
    /// The same, to change it.
    pub fn of_flow_mut(&mut self, flow: FlowId) -> Option<&mut Socket> {
        sitting_mut(&mut self.all, *self.flows.get(&flow)?)
    }
    /// Is this the socket that the flow between its ends is taken for? Two namespaces may have the same addresses.
    pub fn carries_its_flow(&self, socket: &Socket) -> bool {
        self.flows.get(&socket.flow).is_some_and(|seat| seat.cookie == socket.cookie)
    }
    pub fn iter(&self) -> impl Iterator<Item = &Socket> {
        self.all.iter().map(|(_, socket)| socket)
    }
    /// All of them, to change them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Socket> {
        self.all.iter_mut().map(|(_, socket)| socket)
    }
    /// Those of one process.
    pub fn of(&self, process: ProcessKey) -> impl Iterator<Item = &Socket> {
        self.of_process.get(&process).into_iter().flatten().filter_map(|at| self.all.get(*at))
    }
    /// Changes those of one process.
    pub fn each_of(&mut self, process: ProcessKey, mut change: impl FnMut(&mut Socket)) {
        for at in self.of_process.get(&process).into_iter().flatten() {
            if let Some(socket) = self.all.get_mut(*at) {
                change(socket);
            }
        }
    }
    /// A socket is this process's, or nobody's any more.
    pub fn claim(&mut self, cookie: u64, process: Option<ProcessKey>) {
        let Some(seat) = self.seats.get(&cookie).copied() else { return };
        let Some(socket) = sitting_mut(&mut self.all, seat) else { return };
        let before = std::mem::replace(&mut socket.process, process);
        if before == process {
            return;
        }
        if let Some(before) = before
            && let Some(theirs) = self.of_process.get_mut(&before)
        {
            theirs.remove(&seat.at);
            if theirs.is_empty() {
                self.of_process.remove(&before);
            }
        }
        if let Some(process) = process {
            self.of_process.entry(process).or_default().insert(seat.at);
        }
    }
    /// A process is gone: what was its own is nobody's.
    pub fn disown(&mut self, process: ProcessKey) {
        self.each_of(process, |socket| socket.process = None);
        self.of_process.remove(&process);
    }
    /// How many have a row.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }
}

fn sitting_mut(all: &mut Slab<Socket>, seat: Seat) -> Option<&mut Socket> {
    all.get_mut(seat.at).filter(|socket| socket.cookie == seat.cookie)
}

#[cfg(test)]
mod tests;
