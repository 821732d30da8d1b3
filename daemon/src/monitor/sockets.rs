//! The sockets that the data path manages: their rows, whose they are, and what the kernel measured of them.

use std::collections::{BTreeMap, HashMap};

use sluice_ebpf::{Datapath, FlowStats, Row, SocketEvent, SocketEventKind};
use sluice_schedule::{Bytes, FlowId, FlowProgress, FlowSpec, HostId, Nanos, Rate};

use super::ProcessKey;
use super::tuple::Tuple;

/// A rate sample older than this says nothing of the present.
const STALE_SAMPLE: Nanos = Nanos::from_millis(120);

#[derive(Clone, Debug, Default)]
pub struct Socket {
    pub row: Row,
    pub tuple: Tuple,
    pub uid: u32,
    /// The flow this host sends on it.
    pub flow: FlowId,
    /// The process that uses it, once that is known.
    pub process: Option<ProcessKey>,
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

#[derive(Debug, Default)]
pub struct Sockets {
    rows: BTreeMap<u32, Socket>,
    tuples: HashMap<Tuple, u32>,
    flows: HashMap<FlowId, u32>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Noted {
    /// A socket has a row now.
    Appeared(Row),
    /// It sends after a pause.
    Woke(Option<ProcessKey>),
    /// The row is gone; if the brain knew the flow, it has to hear that.
    Vanished {
        told: Option<FlowId>,
        process: Option<ProcessKey>,
        /// Its addresses, if the connection itself is gone, not only its row.
        closed: Option<Tuple>,
    },
    Nothing,
}

impl Socket {
    /// Acknowledged since the round began.
    pub fn delivered(&self) -> Bytes {
        self.stats.acked.minus(self.base)
    }
    pub fn rate(&self, now: Nanos) -> Rate {
        if now.minus(self.stats.updated) > STALE_SAMPLE { Rate::ZERO } else { self.stats.delivery_rate }
    }
    /// A round begins. What the last one left in the send buffer is none of it, even if that is still on its way: else
    /// so many bytes of this round would count as delivered before they are, and the flow be thought done too early.
    pub fn begin(&mut self, demand: Bytes) {
        self.base = self.next_base;
        self.demand = demand;
    }
    /// The round is over; what is still queued belongs to it.
    pub fn end(&mut self) {
        self.last_round = self.stats.acked.plus(self.stats.queued).minus(self.base);
        self.rounds += 1;
        self.demand = self.last_round;
        self.next_base = self.stats.acked.plus(self.stats.queued);
    }
    /// The round is over, and all that is queued belongs to the next one.
    pub fn end_exactly(&mut self) {
        self.last_round = self.delivered();
        self.rounds += 1;
        self.demand = self.last_round;
        self.next_base = self.stats.acked;
    }
    /// Acknowledged since the last call.
    pub fn take_moved(&mut self) -> Bytes {
        let before = std::mem::replace(&mut self.counted, self.stats.acked);
        self.stats.acked.minus(before)
    }
    /// Between rounds: stray bytes belong to no round.
    pub fn idle(&mut self) {
        self.next_base = self.next_base.max(self.stats.acked);
    }
    /// The end of the round, or of the plan's flow that it is at, as bytes acknowledged, if the kernel has not been asked
    /// to tell of it.
    pub fn take_mark(&mut self) -> Option<Bytes> {
        let term = self.told.as_ref().and_then(|spec| spec.terms.at(self.delivered()));
        let end = term.map(|term| term.end).filter(|end| *end > self.delivered());
        let mark = self.base.plus(end.unwrap_or(Bytes(u64::MAX)).min(self.demand));
        let fresh = self.demand > Bytes::ZERO && mark > self.stats.acked && mark != self.marked;
        fresh.then(|| {
            self.marked = mark;
            mark
        })
    }
    pub fn slot_edge(&mut self) {
        self.moved_in_slot = self.stats.acked.minus(self.slot_acked);
        self.slot_acked = self.stats.acked;
        self.retransmitted_in_slot = self.stats.retransmitted.saturating_sub(self.slot_retransmitted);
        self.slot_retransmitted = self.stats.retransmitted;
    }
    /// What the brain should hear, if that changed.
    pub fn progress(&mut self, now: Nanos) -> Option<FlowProgress> {
        self.told.as_ref()?;
        let progress = FlowProgress {
            flow: self.flow,
            delivered: self.delivered(),
            rate: self.rate(now),
            queued: self.stats.queued,
            rtt: self.stats.rtt_min,
        };
        (self.reported != Some(progress)).then(|| {
            self.reported = Some(progress);
            progress
        })
    }
    /// Forget what was reported, so that the next report is made whatever it is.
    pub fn report_again(&mut self) {
        self.reported = None;
    }
}

impl Sockets {
    /// Takes an event of the data path in.
    pub fn event(&mut self, now: Nanos, own: HostId, event: &SocketEvent) -> Noted {
        match event.kind {
            SocketEventKind::Opened => self.open(now, own, event),
            SocketEventKind::Started => match self.rows.get(&event.row.index) {
                Some(socket) if socket.row == event.row => Noted::Woke(socket.process),
                _ => Noted::Nothing,
            },
            SocketEventKind::Finished | SocketEventKind::TableFull => Noted::Nothing,
            kind => self.close(event.row, kind == SocketEventKind::Closed),
        }
    }

    fn open(&mut self, now: Nanos, own: HostId, event: &SocketEvent) -> Noted {
        if let Some(old) = self.rows.get(&event.row.index) {
            if old.row == event.row {
                return Noted::Nothing; // A rescan reports what is known.
            }
            self.forget(event.row.index);
        }
        let tuple = Tuple::of_v6(event.local, event.remote);
        let flow = tuple.outgoing(own);
        let socket = Socket { row: event.row, tuple, uid: event.uid, flow, since: now, ..Socket::default() };
        self.tuples.insert(tuple, event.row.index);
        self.flows.insert(flow, event.row.index);
        self.rows.insert(event.row.index, socket);
        Noted::Appeared(event.row)
    }

    fn close(&mut self, row: Row, closed: bool) -> Noted {
        match self.rows.get(&row.index) {
            Some(socket) if socket.row == row => {
                let (told, process) = (socket.told.as_ref().map(|spec| spec.flow), socket.process);
                let closed = closed.then_some(socket.tuple);
                self.forget(row.index);
                Noted::Vanished { told, process, closed }
            }
            _ => Noted::Nothing,
        }
    }

    fn forget(&mut self, index: u32) {
        if let Some(socket) = self.rows.remove(&index) {
            // A later socket may have taken the same addresses.
            if self.tuples.get(&socket.tuple) == Some(&index) {
                self.tuples.remove(&socket.tuple);
                self.flows.remove(&socket.flow);
            }
        }
    }

    /// Reads the measurements of every socket of known processes. Returns rows that have another owner by now.
    pub fn measure(&mut self, datapath: &dyn Datapath) -> Vec<Row> {
        let mut lost = Vec::new();
        for socket in self.rows.values_mut() {
            match datapath.stats(socket.row) {
                Some(stats) => {
                    if !std::mem::replace(&mut socket.measured, true) {
                        // Adopted in mid-life: what was sent before is none of ours.
                        (socket.base, socket.next_base, socket.slot_acked) = (stats.acked, stats.acked, stats.acked);
                        socket.counted = stats.acked;
                        socket.slot_retransmitted = stats.retransmitted;
                    }
                    socket.stats = stats;
                }
                None => lost.push(socket.row),
            }
        }
        lost
    }

    pub fn at(&self, tuple: &Tuple) -> Option<&Socket> {
        self.rows.get(self.tuples.get(tuple)?)
    }
    pub fn at_mut(&mut self, tuple: &Tuple) -> Option<&mut Socket> {
        self.rows.get_mut(self.tuples.get(tuple)?)
    }
    /// The socket that carries this flow.
    pub fn of_flow(&self, flow: FlowId) -> Option<&Socket> {
        self.rows.get(self.flows.get(&flow)?)
    }
    pub fn iter(&self) -> impl Iterator<Item = &Socket> {
        self.rows.values()
    }
    /// All of them, to change them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Socket> {
        self.rows.values_mut()
    }
    pub fn of(&self, process: ProcessKey) -> impl Iterator<Item = &Socket> {
        self.rows.values().filter(move |socket| socket.process == Some(process))
    }
    /// Those of one process, to change them.
    pub fn of_mut(&mut self, process: ProcessKey) -> impl Iterator<Item = &mut Socket> {
        self.rows.values_mut().filter(move |socket| socket.process == Some(process))
    }
    pub fn len(&self) -> usize {
        self.rows.len()
    }
}

#[cfg(test)]
mod tests {
    use sluice_schedule::{Term, Terms};

    use super::*;

    #[test]
    fn the_kernel_is_asked_to_tell_of_the_end_of_every_flow_of_a_plan() {
        let term = |end| Term { end: Bytes(end), ..Term::default() };
        let terms = Terms { terms: vec![term(300), term(900)], ..Terms::default() };
        let told = FlowSpec { terms, ..FlowSpec::default() };
        let mut socket = Socket { told: Some(told), base: Bytes(1000), demand: Bytes(800), ..Socket::default() };
        let mut mark = |acked| {
            socket.stats.acked = Bytes(acked);
            socket.take_mark()
        };
        assert_eq!(mark(1000), Some(Bytes(1300)), "the first flow's end");
        assert_eq!(mark(1299), None, "asked already");
        assert_eq!(mark(1300), Some(Bytes(1800)), "the round ends before the second does");
        assert_eq!(mark(1800), None);
        assert_eq!(mark(1900), None, "nothing is known of what comes after it");
        socket.told = None;
        (socket.base, socket.demand) = (Bytes(2000), Bytes(500));
        assert_eq!(socket.take_mark(), Some(Bytes(2500)), "without a plan it is the round's");
    }
}
