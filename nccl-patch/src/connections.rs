//! The connections of one communicator in its page: found by a look at the process's sockets when they should have
//! appeared, or named by the transport itself, which says of each chunk on which socket it goes.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

use sluice_progress::guest::Errno;
use sluice_progress::guest::socket::{peer_of, tcp_cookie};
use sluice_progress::layout::{NO_RANK, PEER_CAP};
use sluice_progress::{Peer, PeerKind, PeerSlot, Writer};

use crate::descr::NetSocket;
use crate::neighbours::{Neighbours, Pairs};
use crate::sockets;

/// Least time between two searches for the sockets of one communicator, in nanoseconds.
const SEARCH_GAP_NS: u64 = 50_000_000;
/// After so many searches in vain only a new neighbour causes another.
const MAX_VAIN_SEARCHES: u32 = 100;

/// All of them, and the search for more.
#[derive(Debug)]
pub struct Connections {
    wanted: AtomicBool,
    next_ns: AtomicU64,
    vain: AtomicU32,
    /// So many places are taken; they are not given back.
    count: AtomicUsize,
    places: [Place; PEER_CAP],
    /// Held by who searches or takes a place.
    adding: Mutex<()>,
}

/// A connection in the page.
#[derive(Debug)]
struct Place {
    cookie: AtomicU64,
    slot: AtomicUsize,
    connected: AtomicBool,
    accepted: AtomicBool,
    rank: AtomicU32,
    /// The rank is what the transport's own operations say, no conclusion.
    certain: AtomicBool,
}

impl Place {
    fn slot(&self) -> Option<PeerSlot> {
        PeerSlot::from_index(self.slot.load(Ordering::Relaxed))
    }

    fn is(&self, writer: &Writer, rank: u32) {
        if self.rank.load(Ordering::Relaxed) != rank
            && self.rank.swap(rank, Ordering::Relaxed) != rank
            && let Some(slot) = self.slot()
        {
            writer.peer_rank(slot, rank);
        }
    }
}

impl Default for Connections {
    fn default() -> Connections {
        let places = [const {
            Place {
                cookie: AtomicU64::new(0),
                slot: AtomicUsize::new(0),
                connected: AtomicBool::new(false),
                accepted: AtomicBool::new(false),
                rank: AtomicU32::new(NO_RANK),
                certain: AtomicBool::new(false),
            }
        }; PEER_CAP];
        Connections {
            wanted: AtomicBool::new(true),
            next_ns: AtomicU64::new(0),
            vain: AtomicU32::new(0),
            count: AtomicUsize::new(0),
            places,
            adding: Mutex::new(()),
        }
    }
}

impl Connections {
    /// A neighbour that was not known: its connections are there by now, or will be soon.
    pub fn soon(&self) {
        if self.places().is_empty() {
            self.next_ns.store(0, Ordering::Relaxed);
        }
        self.wanted.store(true, Ordering::Relaxed);
    }

    /// A transport reported something of its own: there may be new ones.
    pub fn stirs(&self) {
        if self.places().is_empty() {
            self.wanted.store(true, Ordering::Relaxed);
        }
    }

    /// Puts connections into the page that have appeared since the last look.
    pub fn look(&self, writer: &Writer, near: &[Neighbours]) {
        if !self.wanted.load(Ordering::Relaxed) {
            return;
        }
        let now = now_ns();
        if now < self.next_ns.load(Ordering::Relaxed) {
            return;
        }
        let Some(adding) = self.adding() else { return };
        self.next_ns.store(now.saturating_add(SEARCH_GAP_NS), Ordering::Relaxed);
        let new = sockets::take_new(|peer| {
            if self.find(peer.cookie).is_none() {
                self.add(&adding, writer, peer);
            }
        });
        // Another thread looks: its turn is not ours. Nothing found: connections may still be on their way.
        let vain = self.places().is_empty() && self.vain.fetch_add(1, Ordering::Relaxed) < MAX_VAIN_SEARCHES;
        self.wanted.store(new.is_none() || vain, Ordering::Relaxed);
        self.name(writer, near);
    }

    /// Says which rank is at the other end, where there is only one that it can be.
    pub fn name(&self, writer: &Writer, near: &[Neighbours]) {
        let one = |of: fn(&Neighbours) -> &Pairs| {
            let mut ranks = near.iter().map(of).filter(|pairs| pairs.count() > 0).map(|pairs| pairs.only());
            let first = ranks.next().flatten()?;
            ranks.all(|rank| rank == Some(first)).then_some(first)
        };
        let (to, from) = (one(|near| &near.to), one(|near| &near.from));
        for place in self.places().iter().filter(|place| !place.certain.load(Ordering::Relaxed)) {
            let rank = if place.connected.load(Ordering::Relaxed) {
                to
            } else if place.accepted.load(Ordering::Relaxed) {
                from
            } else {
                None
            };
            place.is(writer, rank.unwrap_or(NO_RANK));
        }
    }

    /// The transport moves bytes on this socket, to or from this rank where that is known. The connection's entry in the
    /// page, which it gets if it has none.
    #[cold]
    pub fn uses(&self, writer: &Writer, socket: &NetSocket, rank: Option<u32>) -> Option<PeerSlot> {
        // What this asks the kernel must not show in the caller's errno.
        let _errno = Errno::keep();
        let cookie = tcp_cookie(socket.fd)?;
        let known = || self.find(cookie);
        let place = known().or_else(|| {
            if self.places().len() == PEER_CAP {
                return None;
            }
            let adding = self.adding()?;
            known().or_else(|| self.add(&adding, writer, &peer_of(socket.fd, cookie)?))
        })?;
        if let Some(rank) = rank {
            place.certain.store(true, Ordering::Relaxed);
            place.is(writer, rank);
        }
        place.slot()
    }

    fn places(&self) -> &[Place] {
        self.places.get(..self.count.load(Ordering::Acquire)).unwrap_or_default()
    }

    fn find(&self, cookie: u64) -> Option<&Place> {
        self.places().iter().find(|place| place.cookie.load(Ordering::Relaxed) == cookie)
    }

    /// `None`: another thread is at it.
    fn adding(&self) -> Option<MutexGuard<'_, ()>> {
        match self.adding.try_lock() {
            Ok(adding) => Some(adding),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn add(&self, _adding: &MutexGuard<'_, ()>, writer: &Writer, peer: &Peer) -> Option<&Place> {
        let count = self.count.load(Ordering::Relaxed);
        let place = self.places.get(count)?;
        let slot = writer.peer(peer)?;
        place.cookie.store(peer.cookie, Ordering::Relaxed);
        place.slot.store(slot.index(), Ordering::Relaxed);
        place.connected.store(peer.kind == PeerKind::Connected, Ordering::Relaxed);
        place.accepted.store(peer.kind == PeerKind::Accepted, Ordering::Relaxed);
        self.count.store(count + 1, Ordering::Release);
        Some(place)
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
