//! The connections of this process by descriptor, in a fixed table: which are PS-Lite's, and what moved on each.
//!
//! A descriptor is watched from when it is connected or accepted until the first byte that is not ZeroMQ's. One thread
//! at a time is inside a connection; ZeroMQ gives each to one of its threads, and where two meet it is none of its: then
//! it is left alone. Nothing here waits.

use std::cell::UnsafeCell;
use std::mem::{MaybeUninit, take};
use std::sync::atomic::{AtomicBool, Ordering};

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
        state: UnsafeCell::new(MaybeUninit::uninit()),
    }
}; MAX_CONNECTIONS];

/// No two threads' connections lie in one line.
#[repr(C, align(64))]
struct Slot {
    watched: AtomicBool,
    busy: AtomicBool,
    /// Initialised since it was first watched; touched only by who set `busy`.
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

/// A connection begins on this descriptor.
#[cold]
pub fn begins(fd: c_int, kind: PeerKind) {
    let Some(slot) = slot(fd) else { return };
    let Some(_inside) = enter(slot) else { return };
    let (untold, sent, received) = (Untold::default(), Decoder::new(), Decoder::new());
    let new = Connection { untold, slot: None, remote: None, name: None, sent, received, kind, socket: None };
    // SAFETY: this thread is inside.
    unsafe { (*slot.state.get()).write(new) };
    slot.watched.store(true, Ordering::Relaxed);
}

/// The descriptor is about to be closed. A child in its parent's memory closes none of the parent's.
#[cold]
pub fn ends(fd: c_int) {
    let Some(slot) = slot(fd) else { return };
    if guest::borrows_memory() {
        return;
    }
    let Some(_inside) = enter(slot) else { return };
    if slot.watched.swap(false, Ordering::Relaxed) {
        // SAFETY: this thread is inside, and what was watched is initialised.
        let connection = unsafe { (*slot.state.get()).assume_init_mut() };
        if let (Some(writer), Some(slot)) = (job::writer(), connection.slot) {
            writer.peer_gone(slot);
        }
    }
}

/// What passes here cannot be followed any further.
#[cold]
pub fn leave(fd: c_int) {
    if let Some(slot) = slot(fd) {
        slot.watched.store(false, Ordering::Relaxed);
    }
}

/// These bytes went this way, in this order.
pub fn moved<'a>(fd: c_int, way: Way, pieces: impl Iterator<Item = &'a [u8]>) {
    let Some(slot) = slot(fd) else { return };
    let Some(_inside) = enter(slot) else { return };
    if !slot.watched.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: this thread is inside, and what is watched is initialised.
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
