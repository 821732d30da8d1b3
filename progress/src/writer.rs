//! The job's side of a page: create it once, then relaxed atomic adds.
//!
//! Counters may be touched by any thread at any time. The iteration and the peers are groups of fields that belong
//! together; each is written under a mutex of this process and a sequence number that is odd while it is being
//! written, so that a reader in another process notices. A forked child writes nothing: it does not hold the lock.
//!
//! Reading the clock is the largest part of what an event costs. So only the beginnings and ends that somebody may
//! measure between, of iterations and of network phases, have the exact time; `last_*`, `created` and the heartbeat, which
//! tell how long a process has been silent, may have that of the kernel's last tick.

mod file;
#[cfg(test)]
mod heap;

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::ident::{Ident, Pattern, State};
use crate::layout::{self, PAGE_BYTES, PEER_CAP, RawPage};
use crate::sequence::changed;
use crate::sys;
use crate::view::Peer;
use file::{create_named, encode, unlink};

/// The front door: [`Page::create`].
#[derive(Debug)]
pub struct Page;

/// A peer entry of one page; only good for the writer that returned it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerSlot(usize);

impl PeerSlot {
    /// The entry's index in the page.
    pub fn index(self) -> usize {
        self.0
    }
    /// The entry with this index, if a page has so many.
    pub fn from_index(index: usize) -> Option<PeerSlot> {
        (index < PEER_CAP).then_some(PeerSlot(index))
    }
}

/// A page of this process. Dropping it marks it finished and removes the file.
#[derive(Debug)]
pub struct Writer {
    raw: NonNull<RawPage>,
    dir: OwnedFd,
    name: CString,
    pid: i32,
    /// Keeps the lock: classic locks go when any descriptor of the file is closed, so this is the only one.
    _file: File,
    iteration: Mutex<()>,
    peers: Mutex<usize>,
    /// The job said how many bytes an iteration has.
    said_iter_bytes: bool,
}

// SAFETY: the mapping lives as long as the writer and is only touched through atomics.
unsafe impl Send for Writer {}
// SAFETY: as above; groups of fields are guarded by mutexes.
unsafe impl Sync for Writer {}

impl Page {
    /// Creates a page in `dir`; `None` for whatever reason (no directory, no space, no permission): a job never
    /// learns that Sluice is absent. [`Writer::create`] tells the reason.
    pub fn create(dir: &Path, ident: Ident) -> Option<Writer> {
        Writer::create(dir, &ident).ok()
    }
}

impl Writer {
    /// Creates a page: a temporary file is locked and filled, then renamed to its final name.
    ///
    /// # Errors
    /// The directory is absent, not writable or full, or the file system knows no locks.
    pub fn create(dir: &Path, ident: &Ident) -> io::Result<Writer> {
        sys::watch_forks();
        let path = CString::new(dir.as_os_str().as_bytes())?;
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
        // SAFETY: `path` is NUL-terminated; the descriptor is owned from here on.
        let dir = unsafe { OwnedFd::from_raw_fd(sys::check(libc::open(path.as_ptr(), flags))?) };
        let start = sys::start_ticks("self").unwrap_or(0);
        let page = encode(ident, start);
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
        // Names collide only between containers that share the directory: a few tries are plenty.
        for _ in 0..8 {
            let n = COUNT.fetch_add(1, Ordering::Relaxed);
            // SAFETY: geteuid and getpid have no preconditions.
            let (uid, pid) = unsafe { (libc::geteuid(), libc::getpid()) };
            let stem = format!("{uid}.{pid}.{start}.{}.{n}", ident.source.raw());
            match create_named(&dir, &stem, &page) {
                Ok((file, name)) => return Writer::map(dir, name, file, ident),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    fn map(dir: OwnedFd, name: CString, file: File, ident: &Ident) -> io::Result<Writer> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh shared mapping of a file of PAGE_BYTES bytes that this process has just created.
        let raw =
            unsafe { libc::mmap(std::ptr::null_mut(), PAGE_BYTES, protection, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        let raw = if raw == libc::MAP_FAILED { None } else { NonNull::new(raw.cast::<RawPage>()) };
        let Some(raw) = raw else {
            let error = io::Error::last_os_error();
            unlink(&dir, &name);
            return Err(error);
        };
        let pid = sys::current_pid();
        let said_iter_bytes = ident.hint_iter_bytes != 0;
        let (iteration, peers) = (Mutex::new(()), Mutex::new(0));
        Ok(Writer { raw, dir, name, pid, _file: file, iteration, peers, said_iter_bytes })
    }

    /// The page, unless this process is a forked child of the one that created it.
    #[inline]
    fn page(&self) -> Option<&RawPage> {
        if !self.is_own() {
            return None;
        }
        // SAFETY: the mapping is valid until drop, page-aligned, and all later writes go through atomics.
        Some(unsafe { self.raw.as_ref() })
    }

    /// Does this process still publish? False in a forked child.
    #[inline]
    pub fn is_own(&self) -> bool {
        sys::current_pid() == self.pid
    }

    /// The file's name in its directory.
    pub fn file_name(&self) -> &str {
        self.name.to_str().unwrap_or_default()
    }

    /// A new iteration (round) begins: what is enqueued from here on belongs to it.
    pub fn iteration(&self) {
        let Some(page) = self.page() else { return };
        let Ok(_guard) = self.iteration.lock() else { return };
        let now = sys::monotonic_ns();
        changed(&page.iter_seq, || {
            page.iter.fetch_add(1, Ordering::Relaxed);
            page.iter_base_bytes.store(page.enq_bytes.load(Ordering::Relaxed), Ordering::Relaxed);
            page.iter_start_ns.store(now, Ordering::Relaxed);
        });
        page.heartbeat_ns.store(now, Ordering::Relaxed);
    }

    /// `bytes` of tensors were queued; `wire_bytes` of them (after the algorithm's factor) will leave this rank.
    #[inline]
    pub fn enqueue(&self, bytes: u64, wire_bytes: u64) {
        self.next_op();
        self.enqueue_op(bytes, wire_bytes);
    }

    /// The first half of [`Writer::enqueue`], for a library that numbers what it queues: how many there are with this one.
    #[inline]
    pub fn next_op(&self) -> u64 {
        self.page().map_or(0, |page| page.enq_ops.fetch_add(1, Ordering::SeqCst).wrapping_add(1))
    }

    /// The second half of [`Writer::enqueue`].
    #[inline]
    pub fn enqueue_op(&self, bytes: u64, wire_bytes: u64) {
        let Some(page) = self.page() else { return };
        let now = sys::tick_ns();
        page.enq_bytes.fetch_add(bytes, Ordering::Relaxed);
        if wire_bytes > 0 {
            page.enq_wire_bytes.fetch_add(wire_bytes, Ordering::Relaxed);
        }
        page.last_enq_ns.store(now, Ordering::Relaxed);
        page.heartbeat_ns.store(now, Ordering::Relaxed);
        // A process already on the wire stays there.
        let queued = |state| (state < State::Enqueued.raw()).then_some(State::Enqueued.raw());
        let _ = page.state.fetch_update(Ordering::Release, Ordering::Relaxed, queued);
    }

    /// More of what was queued will leave this rank than [`Writer::enqueue`] was told.
    #[inline]
    pub fn expect(&self, wire_bytes: u64) {
        let Some(page) = self.page() else { return };
        page.enq_wire_bytes.fetch_add(wire_bytes, Ordering::Relaxed);
    }

    /// A network operation begins.
    #[inline]
    pub fn net_begin(&self) {
        let Some(page) = self.page() else { return };
        let begins = page.inflight.fetch_add(1, Ordering::Relaxed) == 0;
        let now = if begins { sys::monotonic_ns() } else { sys::tick_ns() };
        if begins {
            page.phase_seq.fetch_add(1, Ordering::Relaxed);
            page.phase_begin_ns.store(now, Ordering::Relaxed);
        }
        page.last_net_ns.store(now, Ordering::Relaxed);
        page.heartbeat_ns.store(now, Ordering::Relaxed);
        page.state.store(State::OnWire.raw(), Ordering::Release);
    }

    /// A network operation ends; with the last one the network phase is over.
    pub fn net_end(&self) {
        while !self.net_end_of(self.net_ops()) {}
    }

    /// Network operations under way.
    #[inline]
    pub fn net_ops(&self) -> u64 {
        self.page().map_or(0, |page| page.inflight.load(Ordering::SeqCst))
    }

    /// As [`Writer::net_end`], of so many under way. False: there are more or fewer by now, and nothing is changed.
    #[inline]
    pub fn net_end_of(&self, count: u64) -> bool {
        let Some(page) = self.page() else { return true };
        let left = count.saturating_sub(1);
        if page.inflight.compare_exchange(count, left, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            return false;
        }
        let now = if count == 1 { sys::monotonic_ns() } else { sys::tick_ns() };
        page.last_net_ns.store(now, Ordering::Relaxed);
        page.heartbeat_ns.store(now, Ordering::Relaxed);
        match count {
            0 => drop(page.errors.fetch_add(1, Ordering::Relaxed)),
            1 => {
                page.phase_end_ns.store(now, Ordering::Relaxed);
                page.state.store(State::Compute.raw(), Ordering::Release);
            }
            _ => {}
        }
        true
    }

    /// `bytes` were handed to sockets.
    #[inline]
    pub fn sent(&self, bytes: u64) {
        let Some(page) = self.page() else { return };
        page.tx_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// `bytes` were taken from sockets.
    #[inline]
    pub fn received(&self, bytes: u64) {
        let Some(page) = self.page() else { return };
        page.rx_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// What the process does now, where the library does not see it from the other calls.
    pub fn state(&self, state: State) {
        let Some(page) = self.page() else { return };
        page.heartbeat_ns.store(sys::tick_ns(), Ordering::Relaxed);
        page.state.store(state.raw(), Ordering::Release);
    }

    /// Neighbours in the ring.
    pub fn ring(&self, prev: u32, next: u32) {
        self.topology(|page, _| {
            page.ring_prev.store(prev, Ordering::Relaxed);
            page.ring_next.store(next, Ordering::Relaxed);
        });
    }

    /// How the ranks exchange tensors, where the library learns it only with its first operation.
    pub fn pattern(&self, pattern: Pattern) {
        self.topology(|page, _| page.pattern.store(pattern.raw(), Ordering::Relaxed));
    }

    /// Bytes that this rank enqueues per iteration, as its first ones showed. What the job itself said stays.
    pub fn usual_iteration(&self, bytes: u64) {
        if self.said_iter_bytes {
            return;
        }
        self.topology(|page, _| page.hint_iter_bytes.store(bytes, Ordering::Relaxed));
    }

    /// The rank at the other end of a connection, where that is learned later than the connection.
    pub fn peer_rank(&self, peer: PeerSlot, rank: u32) {
        self.topology(|page, _| {
            if let Some(entry) = page.peers.get(peer.0) {
                entry.rank.store(rank, Ordering::Relaxed);
            }
        });
    }

    /// The library had no room for an event and let it go.
    pub fn dropped(&self) {
        let Some(page) = self.page() else { return };
        page.drops.fetch_add(1, Ordering::Relaxed);
    }

    /// The library met something it does not understand.
    #[inline]
    pub fn error(&self) {
        let Some(page) = self.page() else { return };
        page.errors.fetch_add(1, Ordering::Relaxed);
    }

    /// Publishes a connection; `None` when all 56 entries are taken (a feature bit then says that there are more).
    pub fn peer(&self, peer: &Peer) -> Option<PeerSlot> {
        self.topology(|page, count| {
            if *count >= PEER_CAP {
                page.feature_bits.fetch_or(layout::FEATURE_MORE_PEERS, Ordering::Relaxed);
                return None;
            }
            let index = *count;
            let entry = page.peers.get(index)?;
            let relaxed = Ordering::Relaxed;
            entry.rank.store(peer.rank.unwrap_or(layout::NO_RANK), relaxed);
            let family = if peer.local.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 } as u32;
            entry.family_kind.store(family | u32::from(peer.kind.raw()) << 16, relaxed);
            entry.ports.store(u32::from(peer.local.port()) | u32::from(peer.remote.port()) << 16, relaxed);
            for (words, address) in [(&entry.laddr, peer.local), (&entry.raddr, peer.remote)] {
                let (low, high) = words_of(address);
                words[0].store(low, relaxed);
                words[1].store(high, relaxed);
            }
            entry.cookie.store(peer.cookie, relaxed);
            entry.tx_bytes.store(peer.tx_bytes, relaxed);
            entry.flags.store(layout::PEER_USED, relaxed);
            *count += 1;
            page.npeers.store(*count as u32, relaxed);
            Some(PeerSlot(index))
        })
        .flatten()
    }

    /// `bytes` were handed to the socket of this peer (also counted by [`Writer::sent`] if the caller does).
    #[inline]
    pub fn peer_sent(&self, peer: PeerSlot, bytes: u64) {
        let Some(entry) = self.page().and_then(|page| page.peers.get(peer.0)) else { return };
        entry.tx_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The connection is closed; its entry stays, marked as not in use.
    pub fn peer_gone(&self, peer: PeerSlot) {
        self.topology(|page, _| {
            if let Some(entry) = page.peers.get(peer.0) {
                entry.flags.store(0, Ordering::Relaxed);
            }
        });
    }

    fn topology<T>(&self, change: impl FnOnce(&RawPage, &mut usize) -> T) -> Option<T> {
        let page = self.page()?;
        let mut count = self.peers.lock().ok()?;
        Some(changed(&page.topo_seq, || change(page, &mut count)))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(page) = self.page() {
            page.state.store(State::Finished.raw(), Ordering::Release);
            unlink(&self.dir, &self.name);
        }
        // SAFETY: the mapping was made in `map` with this size and is not used after this.
        unsafe { libc::munmap(self.raw.as_ptr().cast(), PAGE_BYTES) };
    }
}

/// The two words of a mapped address, in memory order.
fn words_of(address: SocketAddr) -> (u64, u64) {
    let octets = match address.ip() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    };
    let both = u128::from_le_bytes(octets);
    (both as u64, (both >> 64) as u64)
}
