//! One communicator: what its events mean for its progress page.
//!
//! Collectives say what is enqueued, operations on the network when it moves and to whom. How much of a collective leaves
//! this rank is announced ahead where it is certain (one rank per host) or was seen in an earlier phase, otherwise with the
//! operations themselves, still before their first byte.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use sluice_progress::layout::NO_RANK;
use sluice_progress::{Pattern, PeerSlot, Publisher, State, Writer};

use crate::connections::Connections;
use crate::descr::{Coll, NetSocket, P2p, ProxyOp};
use crate::events::{self, Entry, Kind};
use crate::names::{Algo, Func};
use crate::neighbours::Neighbours;
use crate::next::Behind;
use crate::wire;
use crate::work::{Ended, Work};

/// After so many collectives announced ahead without any operation seen, collectives are taken to go another way than
/// the network.
const MAX_UNSEEN: u32 = 256;

/// What is known of a communicator when it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// How many ranks the communicator has; 0 where it is not known.
    pub nranks: u32,
    /// How many hosts it spans; 0 where it is not known.
    pub nnodes: u32,
    /// Own rank, or [`NO_RANK`].
    pub rank: u32,
    /// Process id of this process.
    pub pid: i32,
}

/// One communicator of this process.
#[derive(Debug)]
pub struct Comm {
    /// `None`: its progress is of no use to anybody.
    publisher: Option<Publisher>,
    shape: Shape,
    /// The profiler behind this one.
    pub behind: Option<Behind>,
    work: Work,
    near: [Neighbours; 3],
    /// A round is under way.
    round: AtomicBool,
    user_tag: AtomicU64,
    pattern: AtomicU32,
    largest: AtomicU64,
    unseen: AtomicU32,
    connections: Connections,
}

/// When the bytes of a piece of work that leave this rank are announced in the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Announce {
    /// All of them, ahead.
    Ahead = 0,
    /// As many as earlier phases showed; a neighbour that was not known adds its part.
    AsBefore = 1,
    /// With each operation, its part.
    WithOperations = 2,
    /// With the first operation: the version does not tell how many there will be.
    WithFirst = 3,
}

/// The facts of work, packed: number, when its bytes are announced, algorithm.
fn pack(number: u64, announce: Announce, algo: Algo) -> u64 {
    number << 8 | (announce as u64) << 4 | class(algo) as u64
}

fn unpack(facts: u64) -> (u64, Announce, usize) {
    let announce = match facts >> 4 & 0xf {
        0 => Announce::Ahead,
        1 => Announce::AsBefore,
        2 => Announce::WithOperations,
        _ => Announce::WithFirst,
    };
    (facts >> 8, announce, (facts & 0xf) as usize)
}

fn class(algo: Algo) -> usize {
    match algo {
        Algo::Ring => 0,
        Algo::Tree => 1,
        Algo::Other => 2,
    }
}

impl Comm {
    /// Without a publisher it only serves the profiler behind.
    pub fn new(publisher: Option<Publisher>, shape: Shape, behind: Option<Behind>) -> Comm {
        Comm {
            publisher,
            shape,
            behind,
            work: Work::default(),
            near: Default::default(),
            round: AtomicBool::new(false),
            user_tag: AtomicU64::new(0),
            pattern: AtomicU32::new(Pattern::Unknown.raw()),
            largest: AtomicU64::new(0),
            unseen: AtomicU32::new(0),
            connections: Connections::default(),
        }
    }

    /// The page, if there is one by now.
    pub fn writer(&self) -> Option<&Writer> {
        self.publisher.as_ref()?.writer()
    }

    /// A collective is enqueued. Bytes and facts of its entry.
    pub fn coll(&self, writer: &Writer, coll: &Coll) -> (u64, u64) {
        let bytes = coll.bytes.unwrap_or_else(|| {
            writer.error();
            0
        });
        let is_root = coll.root.and_then(|root| u32::try_from(root).ok()) == Some(self.shape.rank);
        let ring_ends_here = || {
            let next = self.near.first().and_then(|near| near.to.only());
            coll.func == Func::Broadcast
                && next.is_some()
                && next == coll.root.and_then(|root| u32::try_from(root).ok())
        };
        let mut whole = wire::per_rank(coll.func, bytes, self.shape.nranks, is_root);
        if coll.algo == Algo::Ring && ring_ends_here() {
            whole = 0;
        }
        let each = wire::per_neighbour(coll.func, coll.algo, bytes, whole);
        let near = self.near(class(coll.algo));
        near.runs_on(coll.channels);
        let (announce, ahead) = self.ahead(near, coll.algo, whole, each, coll.channels);
        self.talks(
            writer,
            bytes,
            match coll.algo {
                Algo::Ring => Pattern::Ring,
                Algo::Tree => Pattern::Tree,
                Algo::Other => Pattern::Unknown,
            },
        );
        let number = self.enqueue(writer, bytes, ahead, coll.user_tag);
        (each / u64::from(coll.channels.max(1)), pack(number, announce, coll.algo))
    }

    /// A send or receive is enqueued. Bytes and facts of its entry.
    pub fn p2p(&self, writer: &Writer, p2p: &P2p) -> (u64, u64) {
        if !p2p.is_send || u32::try_from(p2p.peer) == Ok(self.shape.rank) {
            // What comes in is somebody else's send; what a rank sends itself stays where it is.
            self.look_for_sockets(writer);
            return (0, pack(self.work.last(), Announce::Ahead, Algo::Other));
        }
        let bytes = p2p.bytes.unwrap_or_else(|| {
            writer.error();
            0
        });
        let (announce, ahead) = if self.one_rank_per_host() {
            (Announce::Ahead, bytes)
        } else if p2p.channels == 0 {
            (Announce::WithFirst, 0)
        } else {
            (Announce::WithOperations, 0)
        };
        self.talks(writer, bytes, Pattern::PeerToPeer);
        let number = self.enqueue(writer, bytes, ahead, p2p.user_tag);
        (bytes / u64::from(p2p.channels.max(1)), pack(number, announce, Algo::Other))
    }

    /// An operation on the network begins. Bytes of its entry, which are one more than the rank at its other end, and facts.
    pub fn op_begins(&self, writer: &Writer, comm: u64, op: &ProxyOp, parent: u64) -> (u64, u64) {
        if self.unseen.load(Ordering::Relaxed) > 0 {
            self.unseen.store(0, Ordering::Relaxed);
        }
        let mine = (op.pid == self.shape.pid).then(|| events::look(parent)).flatten();
        let work = mine.map(|(entry, _)| entry).filter(|entry| entry.kind == Kind::Work && entry.comm == comm);
        let (mut number, announce, class) =
            work.map_or((0, Announce::Ahead, class(Algo::Other)), |work| unpack(work.facts));
        let near = self.near(class);
        let peer = u32::try_from(op.peer).unwrap_or(NO_RANK);
        let new = if op.is_send { near.to.note(op.channel, peer) } else { near.from.note(op.channel, peer) };
        if new {
            self.new_neighbour(writer);
        }
        self.look_for_sockets(writer);
        if let Some(work) = work.filter(|_| op.is_send) {
            let more = match announce {
                Announce::Ahead => 0,
                Announce::AsBefore if !new => 0,
                Announce::AsBefore | Announce::WithOperations => work.bytes,
                Announce::WithFirst => events::swap_bytes(parent, 0),
            };
            if more > 0 {
                self.begin_round(writer);
                writer.expect(more);
            }
        }
        if number == 0 {
            number = self.work.last();
        }
        if self.work.op_begins() {
            writer.net_begin();
        }
        // The ranks of another process's operation (PXN) are those of another communicator.
        let rank = if op.pid == self.shape.pid && peer != NO_RANK { u64::from(peer) + 1 } else { 0 };
        (rank, number << 8 | u64::from(op.is_send))
    }

    /// An operation on the network has ended.
    pub fn op_ends(&self, writer: &Writer, entry: &Entry) {
        self.work.op_done(entry.facts >> 8);
        loop {
            let count = writer.net_ops();
            let held = match self.work.op_ends(count) {
                Ended::One if writer.net_end_of(count) => return,
                // Another began or ended meanwhile.
                Ended::One => continue,
                Ended::Held => return,
                Ended::Phase { held } => held,
            };
            self.near.iter().for_each(Neighbours::settle);
            if self.round.load(Ordering::SeqCst) {
                self.round.store(false, Ordering::SeqCst);
            }
            if held {
                writer.net_end();
            }
            writer.net_end();
            if self.work.pending() {
                // Enqueued by another thread at this very moment: the page must not say that nothing is.
                writer.state(State::Enqueued);
            }
            return;
        }
    }

    /// The facts of a step of this operation: did it send, and one more than the rank at the other end.
    pub fn step_begins(&self, comm: u64, parent: u64) -> u64 {
        let op = events::look(parent).map(|(entry, _)| entry);
        op.filter(|op| op.kind == Kind::Op && op.comm == comm).map_or(2, |op| op.facts & 1 | op.bytes << 2)
    }

    /// A step has ended: its bytes have moved.
    pub fn step_ends(&self, writer: &Writer, entry: &Entry) {
        match entry.facts & 3 {
            0 => writer.received(entry.bytes),
            1 => writer.sent(entry.bytes),
            _ => {}
        }
    }

    /// A transport reports something of its own. With the socket that a chunk goes on: bytes that will have been sent on it
    /// at the end, and one more than its place in the page.
    pub fn net_begins(
        &self,
        writer: &Writer,
        comm: u64,
        socket: Option<&NetSocket>,
        parent: u64,
    ) -> Option<(u64, u64)> {
        let Some(socket) = socket else {
            self.connections.stirs();
            self.look_for_sockets(writer);
            return None;
        };
        let step = events::look(parent).map(|(entry, _)| entry);
        let step = step.filter(|step| step.kind == Kind::Step && step.comm == comm);
        let rank = step.and_then(|step| u32::try_from(step.facts >> 2).ok()?.checked_sub(1));
        let slot = self.connections.uses(writer, socket, rank)?;
        socket.is_send.then_some((socket.bytes, slot.index() as u64 + 1))
    }

    /// It is over: the bytes were handed to that socket.
    pub fn net_ends(&self, writer: &Writer, entry: &Entry) {
        let index = usize::try_from(entry.facts).ok().and_then(|facts| facts.checked_sub(1));
        if let Some(slot) = index.and_then(PeerSlot::from_index) {
            writer.peer_sent(slot, entry.bytes);
        }
    }

    fn near(&self, class: usize) -> &Neighbours {
        let [ring, tree, other] = &self.near;
        [ring, tree, other].get(class).copied().unwrap_or(other)
    }

    /// Do all neighbours of this rank live on other hosts?
    fn one_rank_per_host(&self) -> bool {
        let known = self.shape.nnodes > 1 && self.shape.nnodes == self.shape.nranks;
        known && self.unseen.load(Ordering::Relaxed) < MAX_UNSEEN
    }

    /// When the wire bytes of a collective are announced, and how many are at once.
    fn ahead(&self, near: &Neighbours, algo: Algo, whole: u64, each: u64, channels: u8) -> (Announce, u64) {
        let alone = self.one_rank_per_host();
        if alone && algo != Algo::Tree {
            return (Announce::Ahead, whole);
        }
        match near.expected(each) {
            Some(_) if channels == 0 => (Announce::Ahead, whole),
            Some(bytes) => (Announce::AsBefore, bytes),
            // Of a tree the mean, the first time.
            None if alone => (Announce::Ahead, whole),
            None if channels == 0 => (Announce::WithFirst, 0),
            None => (Announce::WithOperations, 0),
        }
    }

    /// The number of the work.
    fn enqueue(&self, writer: &Writer, bytes: u64, wire: u64, user_tag: u64) -> u64 {
        self.look_for_sockets(writer);
        let tagged = user_tag != 0;
        if tagged && self.user_tag.swap(user_tag, Ordering::Relaxed) != user_tag {
            writer.iteration();
        }
        let number = writer.next_op();
        if wire > 0 {
            self.work.enqueued(number);
            // One lost to another thread does not matter; locked operations are what an event costs.
            let unseen = self.unseen.load(Ordering::Relaxed);
            if unseen < MAX_UNSEEN {
                self.unseen.store(unseen + 1, Ordering::Relaxed);
            }
            self.begin_round(writer);
        }
        writer.enqueue_op(bytes, wire);
        if wire > 0 { number } else { 0 }
    }

    /// Without tags of the application a round is a phase: from the first bytes to the last.
    fn begin_round(&self, writer: &Writer) {
        let new = !self.round.load(Ordering::Relaxed) && !self.round.swap(true, Ordering::SeqCst);
        if new && self.user_tag.load(Ordering::Relaxed) == 0 {
            writer.iteration();
        }
    }

    /// How the ranks talk: as the largest operation so far does.
    fn talks(&self, writer: &Writer, bytes: u64, pattern: Pattern) {
        if bytes > self.largest.load(Ordering::Relaxed) {
            self.largest.store(bytes, Ordering::Relaxed);
            if self.pattern.swap(pattern.raw(), Ordering::Relaxed) != pattern.raw() {
                writer.pattern(pattern);
            }
        }
    }

    fn new_neighbour(&self, writer: &Writer) {
        self.connections.soon();
        let ring = self.near(class(Algo::Ring));
        if ring.to.count() + ring.from.count() > 0 {
            writer.ring(ring.from.only().unwrap_or(NO_RANK), ring.to.only().unwrap_or(NO_RANK));
        }
        self.connections.name(writer, &self.near);
    }

    fn look_for_sockets(&self, writer: &Writer) {
        self.connections.look(writer, &self.near);
    }
}
