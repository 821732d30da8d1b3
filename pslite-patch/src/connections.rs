//! The connections of this process by descriptor, in a fixed table: which are PS-Lite's, and what moved on each.
//!
//! A descriptor is watched from when it is connected or accepted until the first byte that is not ZeroMQ's. One thread
//! at a time is inside a connection; ZeroMQ gives each to one of its threads, and where two meet it is none of its: then
//! it is left alone. Nothing here waits.
//!
//! A descriptor that is a copy of a watched one (`dup`) leads to the original's connection. When the original is closed
//! first, the connection moves to its newest copy.

use std::cell::UnsafeCell;
use std::mem::{MaybeUninit, take};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use libc::c_int;
use sluice_progress::guest::{self, socket};
use sluice_progress::{Peer, PeerKind, PeerSlot, Writer};

use crate::job;
use crate::van::{Decoder, Fact, Node};
use crate::zmtp::Lost;

/// Descriptors beyond are not watched.
pub const MAX_CONNECTIONS: usize = 8192;

static TABLE: [Slot; MAX_CONNECTIONS] = [const {
    Slot {
        watched: AtomicBool::new(false),
        busy: AtomicBool::new(false),
        turn: AtomicU32::new(0),
        original: AtomicU64::new(0),
        copy: AtomicU32::new(0),
        state: UnsafeCell::new(MaybeUninit::uninit()),
    }
}; MAX_CONNECTIONS];

/// No two threads' connections lie in one line.
#[repr(C, align(64))]
struct Slot {
    watched: AtomicBool,
    busy: AtomicBool,
    /// Counts the connections that were here.
    turn: AtomicU32,
    /// Of a copy: what [`link`] makes of the original's descriptor and turn; otherwise 0.
    original: AtomicU64,
    /// Of an original: one more than its newest copy's descriptor; 0: none.
    copy: AtomicU32,
    /// Initialised where `watched` is set and `original` is not, as who set `busy` sees them; touched only by that one.
    state: UnsafeCell<MaybeUninit<Connection>>,
}

// SAFETY: the state is only touched while `busy` is held.
unsafe impl Sync for Slot {}

/// Which way bytes went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Sent,
    Received,
}

/// What every call changes comes first.
#[derive(Debug)]
#[repr(C)]
struct Connection {
    /// Bytes that the page does not know of yet: sent, received, and sent to this peer.
    untold: Untold,
    slot: Option<PeerSlot>,
    /// The number of the other end.
    remote: Option<Node>,
    /// Names the other end for the rounds, once the socket is known.
    name: Option<u64>,
    sent: Decoder,
    received: Decoder,
    kind: PeerKind,
    /// The socket, once one of its ends has told its number: then it is PS-Lite's.
    socket: Option<Peer>,
}

#[derive(Debug, Default)]
struct Untold {
    sent: u64,
    received: u64,
    peer: u64,
}

/// Holds a connection; let go when dropped.
struct Inside<'a>(&'a Slot);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.busy.store(false, Ordering::Release);
    }
}

fn slot(fd: c_int) -> Option<&'static Slot> {
    TABLE.get(usize::try_from(fd).ok()?)
}

/// `None`, and the connection left alone, if another thread is inside.
fn enter(slot: &Slot) -> Option<Inside<'_>> {
    if slot.busy.swap(true, Ordering::Acquire) {
        slot.watched.store(false, Ordering::Relaxed);
        return None;
    }
    Some(Inside(slot))
}

/// Is this descriptor watched? The one question asked of every descriptor of the process.
#[inline]
pub fn watched(fd: c_int) -> bool {
    slot(fd).is_some_and(|slot| slot.watched.load(Ordering::Relaxed))
}

/// The highest descriptor that was ever watched, and so the last one to look at.
static HIGHEST: AtomicUsize = AtomicUsize::new(0);

fn link(fd: u32, turn: u32) -> u64 {
    u64::from(turn) << 32 | u64::from(fd.wrapping_add(1))
}

impl Slot {
    /// Where this descriptor's connection is kept: here, or with the original if that is still what it was.
    #[inline]
    fn home(&'static self) -> Option<&'static Slot> {
        let original = self.original.load(Ordering::Relaxed);
        if original == 0 { Some(self) } else { self.home_of_copy(original) }
    }

    #[cold]
    fn home_of_copy(&self, original: u64) -> Option<&'static Slot> {
        let home = TABLE.get(usize::try_from((original & 0xffff_ffff).checked_sub(1)?).ok()?)?;
        let same = u64::from(home.turn.load(Ordering::Relaxed)) == original >> 32;
        if same && home.watched.load(Ordering::Relaxed) {
            return Some(home);
        }
        self.watched.store(false, Ordering::Relaxed);
        None
    }

    /// From now on another connection, or none, is here.
    fn turns(&self) {
        self.turn.fetch_add(1, Ordering::Relaxed);
        self.original.store(0, Ordering::Relaxed);
        self.copy.store(0, Ordering::Relaxed);
    }

    fn watch(&self, fd: c_int) {
        HIGHEST.fetch_max(usize::try_from(fd).unwrap_or(0), Ordering::Relaxed);
        self.watched.store(true, Ordering::Relaxed);
    }
}

/// A connection begins on this descriptor.
#[cold]
pub fn begins(fd: c_int, kind: PeerKind) {
    let Some(slot) = slot(fd) else { return };
    let Some(_inside) = enter(slot) else { return };
    let (untold, sent, received) = (Untold::default(), Decoder::new(), Decoder::new());
    let new = Connection { untold, slot: None, remote: None, name: None, sent, received, kind, socket: None };
    slot.turns();
    // SAFETY: this thread is inside.
    unsafe { (*slot.state.get()).write(new) };
    slot.watch(fd);
}

/// The descriptor is about to be closed. A child in its parent's memory closes none of the parent's.
#[cold]
pub fn ends(fd: c_int) {
    if !guest::borrows_memory() {
        over(fd);
    }
}

/// All of these descriptors are about to be closed.
#[cold]
pub fn all_end(first: u32, last: u32) {
    let highest = u32::try_from(HIGHEST.load(Ordering::Relaxed)).unwrap_or(u32::MAX);
    let each = || (first..=last.min(highest)).filter_map(|fd| c_int::try_from(fd).ok()).filter(|fd| watched(*fd));
    if each().next().is_some() && !guest::borrows_memory() {
        each().for_each(over);
    }
}

/// `to` is the same as `fd` from now on, and no longer what it was.
#[cold]
pub fn copied(fd: c_int, to: c_int) {
    if guest::borrows_memory() {
        return;
    }
    over(to);
    let (Some(slot), Some(new)) = (slot(fd), self::slot(to)) else { return };
    if !slot.watched.load(Ordering::Relaxed) {
        return;
    }
    let Some(home) = slot.home() else { return };
    let Some(_inside) = enter(new) else { return };
    new.turns();
    // A copy of a copy leads to the original too.
    let known = slot.original.load(Ordering::Relaxed);
    let own = || link(u32::try_from(fd).unwrap_or(u32::MAX), slot.turn.load(Ordering::Relaxed));
    new.original.store(if known == 0 { own() } else { known }, Ordering::Relaxed);
    home.copy.store(u32::try_from(to).map_or(0, |to| to + 1), Ordering::Relaxed);
    new.watch(to);
}

/// Nothing of this descriptor is followed any more. The connection lives on if it has a copy.
fn over(fd: c_int) {
    let Some(slot) = slot(fd) else { return };
    let Some(_inside) = enter(slot) else { return };
    if slot.watched.swap(false, Ordering::Relaxed) && slot.original.load(Ordering::Relaxed) == 0 && !passed_on(fd, slot)
    {
        // SAFETY: this thread is inside, and what was watched is initialised.
        let connection = unsafe { (*slot.state.get()).assume_init_mut() };
        if let (Some(writer), Some(slot)) = (job::writer(), connection.slot) {
            writer.peer_gone(slot);
        }
    }
    slot.turns();
}

/// Moves the connection to its newest copy; false if there is none. The caller is inside `slot`.
fn passed_on(fd: c_int, slot: &Slot) -> bool {
    let heir = slot.copy.load(Ordering::Relaxed).checked_sub(1).and_then(|heir| c_int::try_from(heir).ok());
    let Some(heir) = heir.and_then(self::slot) else { return false };
    let link = link(u32::try_from(fd).unwrap_or(u32::MAX), slot.turn.load(Ordering::Relaxed));
    let Some(_inside) = enter(heir) else { return false };
    if !heir.watched.load(Ordering::Relaxed) || heir.original.load(Ordering::Relaxed) != link {
        return false;
    }
    heir.turns();
    // SAFETY: this thread is inside both, what was watched is initialised, and nobody reads it there any more.
    unsafe { std::ptr::copy_nonoverlapping(slot.state.get(), heir.state.get(), 1) };
    true
}

/// What passes here cannot be followed any further.
#[cold]
pub fn leave(fd: c_int) {
    let Some(slot) = slot(fd) else { return };
    if let Some(home) = slot.home() {
        home.watched.store(false, Ordering::Relaxed);
    }
    slot.watched.store(false, Ordering::Relaxed);
}

/// These bytes went this way, in this order.
pub fn moved<'a>(fd: c_int, way: Way, pieces: impl Iterator<Item = &'a [u8]>) {
    let Some(slot) = slot(fd).and_then(Slot::home) else { return };
    let Some(_inside) = enter(slot) else { return };
    // A copy that came to be here meanwhile has nothing of its own.
    if !slot.watched.load(Ordering::Relaxed) || slot.original.load(Ordering::Relaxed) != 0 {
        return;
    }
    // SAFETY: this thread is inside, and what is watched and no copy is initialised.
    let connection = unsafe { (*slot.state.get()).assume_init_mut() };
    for piece in pieces {
        if connection.passes(fd, way, piece).is_err() {
            slot.watched.store(false, Ordering::Relaxed);
            if let Some(writer) = job::writer().filter(|_| connection.socket.is_some()) {
                writer.error();
            }
            break;
        }
    }
    connection.tell();
}

impl Connection {
    #[inline]
    fn passes(&mut self, fd: c_int, way: Way, piece: &[u8]) -> Result<(), Lost> {
        let count = piece.len() as u64;
        let decoder = match way {
            Way::Sent => {
                self.untold.sent = self.untold.sent.saturating_add(count);
                self.untold.peer = self.untold.peer.saturating_add(count);
                &mut self.sent
            }
            Way::Received => {
                self.untold.received = self.untold.received.saturating_add(count);
                // What comes in tells who sends it and that there are tensors; from then on it is only counted.
                if self.slot.is_some() && self.remote.is_some() {
                    return Ok(());
                }
                &mut self.received
            }
        };
        if decoder.skip(piece.len()) { Ok(()) } else { self.reads(fd, way, piece) }
    }

    fn reads(&mut self, fd: c_int, way: Way, piece: &[u8]) -> Result<(), Lost> {
        let Connection { untold: _, slot, kind, socket, name, remote, sent, received } = self;
        let decoder = if way == Way::Sent { sent } else { received };
        let (mut foreign, mut about) = (false, About { kind: *kind, socket, name, remote, slot });
        decoder.feed(piece, |fact| foreign |= about.learn(fd, way, fact).is_err())?;
        if foreign { Err(Lost) } else { Ok(()) }
    }

    /// Brings the page's counters up to date; what moved before there was a page is told with the first.
    #[inline]
    fn tell(&mut self) {
        if self.name.is_none() {
            return;
        }
        let Some(writer) = job::writer() else { return };
        let Connection { untold, slot, .. } = self;
        if untold.sent > 0 {
            writer.sent(take(&mut untold.sent));
        }
        if untold.received > 0 {
            writer.received(take(&mut untold.received));
        }
        if let Some(slot) = slot.filter(|_| untold.peer > 0) {
            writer.peer_sent(slot, take(&mut untold.peer));
        }
    }
}

/// A connection without its decoders.
struct About<'a> {
    kind: PeerKind,
    socket: &'a mut Option<Peer>,
    name: &'a mut Option<u64>,
    remote: &'a mut Option<Node>,
    slot: &'a mut Option<PeerSlot>,
}

impl About<'_> {
    /// An error: the connection does not cross the network, or is gone.
    fn learn(&mut self, fd: c_int, way: Way, fact: Fact) -> Result<(), Lost> {
        if let Fact::Sender(node) = fact {
            return self.named(fd, way, node);
        }
        let (Some(name), Some(writer)) = (*self.name, job::writer()) else { return Ok(()) };
        let sends = way == Way::Sent;
        match fact {
            Fact::Tensor { key, bytes, wire } => {
                // The first tensor on a connection puts it into the page.
                if self.slot.is_none() {
                    self.publish(writer);
                }
                if sends {
                    job::tensor(writer, name, key, bytes, wire);
                }
            }
            Fact::TensorEnds { key } if sends => job::tensor_ends(writer, name, key),
            Fact::Pull { key } if sends => job::pull(writer, name, key),
            Fact::Rest { wire } if sends => writer.expect(wire),
            Fact::Unknown => writer.error(),
            _ => {}
        }
        Ok(())
    }

    #[cold]
    fn publish(&mut self, writer: &Writer) {
        let rank = self.remote.and_then(Node::rank);
        *self.slot = self.socket.as_ref().and_then(|socket| writer.peer(&Peer { rank, ..*socket }));
    }

    #[cold]
    fn named(&mut self, fd: c_int, way: Way, node: Node) -> Result<(), Lost> {
        if self.socket.is_none() {
            let found = socket::tcp_cookie(fd).and_then(|cookie| socket::peer_of(fd, cookie)).ok_or(Lost)?;
            *self.name = Some(name_of(&found));
            *self.socket = Some(Peer { kind: self.kind, ..found });
        }
        match way {
            Way::Sent => job::is(node),
            Way::Received if *self.remote != Some(node) => {
                *self.remote = Some(node);
                if let (Some(writer), Some(slot), Some(rank)) = (job::writer(), *self.slot, node.rank()) {
                    writer.peer_rank(slot, rank);
                }
            }
            Way::Received => {}
        }
        Ok(())
    }
}

/// The other end as a number: the same when a connection is made again.
fn name_of(peer: &Peer) -> u64 {
    let mut octets = [0; 16];
    match peer.remote.ip() {
        std::net::IpAddr::V4(v4) => octets[..4].copy_from_slice(&v4.octets()),
        std::net::IpAddr::V6(v6) => octets = v6.octets(),
    }
    let address = u128::from_ne_bytes(octets);
    ((address ^ address >> 64) as u64).rotate_left(16) ^ u64::from(peer.remote.port())
}
