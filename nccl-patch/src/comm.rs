//! One communicator: what its events mean for its progress page.
//!
//! Collectives say what is enqueued, operations on the network when it moves and to whom. How much of a collective leaves
//! this rank is announced ahead where it is certain (one rank per host) or was seen in an earlier phase, otherwise with the
//! operations themselves, still before their first byte.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, TryLockError};

use sluice_progress::layout::{NO_RANK, PEER_CAP};
use sluice_progress::{Pattern, PeerKind, PeerSlot, Publisher, State, Writer};

use crate::descr::{Coll, P2p, ProxyOp};
use crate::events::{self, Entry, Kind};
use crate::names::{Algo, Func};
use crate::neighbours::Neighbours;
use crate::next::Behind;
use crate::sockets;
use crate::wire;
use crate::work::{Ended, Work};

/// Least time between two searches for the sockets of one communicator, in nanoseconds.
const SEARCH_GAP_NS: u64 = 50_000_000;
/// After so many searches in vain only a new neighbour causes another.
const MAX_VAIN_SEARCHES: u32 = 100;
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
    search: SocketSearch,
}

/// The search for the sockets.
#[derive(Debug)]
struct SocketSearch {
    wanted: AtomicBool,
    next_ns: AtomicU64,
    vain: AtomicU32,
    found: AtomicUsize,
    peers: Mutex<Vec<PeerInPage>>,
}

/// A connection in the page.
#[derive(Clone, Copy, Debug)]
struct PeerInPage {
    slot: PeerSlot,
    kind: PeerKind,
    rank: u32,
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
            search: SocketSearch {
                wanted: AtomicBool::new(true),
                next_ns: AtomicU64::new(0),
                vain: AtomicU32::new(0),
                found: AtomicUsize::new(0),
                peers: Mutex::new(Vec::with_capacity(PEER_CAP)),
            },
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

    /// An operation on the network begins. Facts of its entry.
    pub fn op_begins(&self, writer: &Writer, comm: u64, op: &ProxyOp, parent: u64) -> u64 {
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
        number << 8 | u64::from(op.is_send)
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

    /// The facts of a step of this operation: did it send?
    pub fn step_begins(&self, comm: u64, parent: u64) -> u64 {
        let op = events::look(parent).map(|(entry, _)| entry);
        op.filter(|op| op.kind == Kind::Op && op.comm == comm).map_or(2, |op| op.facts & 1)
    }

    /// A step has ended: its bytes have moved.
    pub fn step_ends(&self, writer: &Writer, entry: &Entry) {
        match entry.facts {
            0 => writer.received(entry.bytes),
            1 => writer.sent(entry.bytes),
            _ => {}
        }
    }

    /// A transport reported a socket: there may be new ones.
    pub fn socket_reported(&self, writer: &Writer) {
        if self.search.found.load(Ordering::Relaxed) == 0 {
            self.search.wanted.store(true, Ordering::Relaxed);
        }
        self.look_for_sockets(writer);
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
        if self.search.found.load(Ordering::Relaxed) == 0 {
            self.search.next_ns.store(0, Ordering::Relaxed);
        }
        self.search.wanted.store(true, Ordering::Relaxed);
        let ring = self.near(class(Algo::Ring));
        if ring.to.count() + ring.from.count() > 0 {
            writer.ring(ring.from.only().unwrap_or(NO_RANK), ring.to.only().unwrap_or(NO_RANK));
        }
        if let Ok(mut peers) = self.search.peers.try_lock() {
            self.name(writer, &mut peers);
        }
    }

    /// Puts connections into the page that have appeared since the last look.
    fn look_for_sockets(&self, writer: &Writer) {
        let search = &self.search;
        if !search.wanted.load(Ordering::Relaxed) {
            return;
        }
        let now = now_ns();
        if now < search.next_ns.load(Ordering::Relaxed) {
            return;
        }
        let mut peers = match search.peers.try_lock() {
            Ok(peers) => peers,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        search.next_ns.store(now.saturating_add(SEARCH_GAP_NS), Ordering::Relaxed);
        let new = sockets::take_new(|peer| {
            if let Some(slot) = writer.peer(peer).filter(|_| peers.len() < PEER_CAP) {
                peers.push(PeerInPage { slot, kind: peer.kind, rank: NO_RANK });
            }
        });
        // Another thread looks: its turn is not ours. Nothing found: connections may still be on their way.
        let vain = peers.is_empty() && search.vain.fetch_add(1, Ordering::Relaxed) < MAX_VAIN_SEARCHES;
        search.wanted.store(new.is_none() || vain, Ordering::Relaxed);
        search.found.store(peers.len(), Ordering::Relaxed);
        self.name(writer, &mut peers);
    }

    /// Says which rank is at the other end, where there is only one that it can be.
    fn name(&self, writer: &Writer, peers: &mut [PeerInPage]) {
        let one = |of: fn(&Neighbours) -> &crate::neighbours::Pairs| {
            let mut ranks = self.near.iter().map(of).filter(|pairs| pairs.count() > 0).map(|pairs| pairs.only());
            let first = ranks.next().flatten()?;
            ranks.all(|rank| rank == Some(first)).then_some(first)
        };
        let (to, from) = (one(|near| &near.to), one(|near| &near.from));
        for peer in peers {
            let rank = match peer.kind {
                PeerKind::Connected => to,
                PeerKind::Accepted => from,
                PeerKind::Unknown => None,
            };
            let rank = rank.unwrap_or(NO_RANK);
            if rank != std::mem::replace(&mut peer.rank, rank) {
                writer.peer_rank(peer.slot, rank);
            }
        }
    }
}

/// CLOCK_MONOTONIC in nanoseconds as of the kernel's last tick, a few ms ago; 0 if it cannot be read.
fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid, writable timespec.
    if unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &mut time) } != 0 {
        return 0;
    }
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}
