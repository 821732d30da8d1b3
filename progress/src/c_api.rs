//! The C functions of `include/sluice_progress.h`: the same publisher behind small integers.
//!
//! Nothing here fails loudly: no message, no abort, no exit, no signal. A panic would be a bug and is caught at the
//! edge. Handles index a static table; a slot is freed only when no thread is inside it.

use std::ffi::{CStr, c_char, c_int};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::ident::{Ident, Pattern, Role, Source, State};
use crate::layout;
use crate::publisher::{Publisher, default_dirs};
use crate::view::{Peer, PeerKind};
use crate::writer::Writer;

/// Pages one process may have open through this interface.
const MAX_HANDLES: usize = 64;
/// Spins of a close that waits for other threads; after that the publisher stays allocated for ever.
const CLOSE_SPINS: u32 = 1_000_000;
/// A close takes the pointer and then asks who is inside; a call says that it is inside and then takes the pointer. One of
/// them has to see the other, so all four accesses need one order that both agree on: with less, arm64 may do the second
/// half of a close before the first, and free what a call has just taken (`order` goes through all executions).
const HANDSHAKE: Ordering = Ordering::SeqCst;

/// The C header's `struct sluice_ident`.
#[repr(C)]
#[derive(Debug)]
pub struct SluiceIdent {
    /// `sizeof(struct sluice_ident)` of the caller; fields beyond it are not read.
    pub size: u32,
    /// 1 nccl-profiler, 2 pslite-preload, 3 generic preload, 4 application.
    pub source: u32,
    /// NUL-terminated, may be null: taken from the environment.
    pub job_id: *const c_char,
    /// NUL-terminated, may be null.
    pub producer: *const c_char,
    /// Equal on all ranks; 0: not known.
    pub comm_id: u64,
    /// Rank of the process; 0xffffffff where it is not known.
    pub rank: u32,
    /// How many ranks the job has; 0 where it is not known.
    pub nranks: u32,
    /// How many hosts the job has; 0 where it is not known.
    pub nnodes: u32,
    /// Rank among the processes of this host; 0xffffffff where it is not known.
    pub local_rank: u32,
    /// 0 unknown, 1 ring, 2 tree, 3 ps, 4 p2p.
    pub pattern: u32,
    /// 0 peer, 1 scheduler, 2 server, 3 worker.
    pub role: u32,
    /// Bytes of an iteration; 0 where there is no hint.
    pub hint_iter_bytes: u64,
    /// Nanoseconds of computing in an iteration; 0 where there is no hint.
    pub hint_compute_ns: u64,
}

/// The C header's `struct sluice_peer`.
#[repr(C)]
#[derive(Debug)]
pub struct SluicePeer {
    /// `sizeof(struct sluice_peer)` of the caller.
    pub size: u32,
    /// Rank of the peer; 0xffffffff where it is not known.
    pub rank: u32,
    /// 1 connected, 2 accepted, 0 not known.
    pub kind: u16,
    /// Own port, host byte order.
    pub lport: u16,
    /// The other end's port, host byte order.
    pub rport: u16,
    /// Has to be zero.
    pub reserved: u16,
    /// Own address; IPv4 as mapped IPv6.
    pub laddr: [u8; 16],
    /// The other end's address; IPv4 as mapped IPv6.
    pub raddr: [u8; 16],
    /// Socket cookie; 0: not known.
    pub cookie: u64,
}

struct Slot {
    publisher: AtomicPtr<Publisher>,
    users: AtomicUsize,
}

static SLOTS: [Slot; MAX_HANDLES] =
    [const { Slot { publisher: AtomicPtr::new(ptr::null_mut()), users: AtomicUsize::new(0) } }; MAX_HANDLES];

/// Opens a page and returns a handle, or -1. A handle does not mean that a daemon listens: without one, all calls
/// succeed and do nothing, and the directory is looked for again at most once in ten seconds.
///
/// # Safety
/// `ident` points to a `struct sluice_ident` with its `size` set; its texts are NUL-terminated or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sluice_open(ident: *const SluiceIdent) -> c_int {
    quietly(|| {
        if ident.is_null() || !ident.is_aligned() {
            return None;
        }
        // SAFETY: not null, aligned, and by the caller's promise at least `size` readable bytes.
        let size = unsafe { (*ident).size } as usize;
        if size < size_of::<SluiceIdent>() {
            return None;
        }
        // SAFETY: the whole struct is readable now.
        let given = unsafe { &*ident };
        let ident = Ident {
            source: Source::from_raw(given.source),
            // SAFETY: by the caller's promise NUL-terminated or null.
            job_id: unsafe { text(given.job_id, layout::JOB_ID_BYTES) },
            // SAFETY: as above.
            producer: unsafe { text(given.producer, layout::PRODUCER_BYTES) },
            comm_id: given.comm_id,
            rank: given.rank,
            nranks: given.nranks,
            nnodes: given.nnodes,
            local_rank: given.local_rank,
            pattern: Pattern::from_raw(given.pattern),
            role: Role::from_raw(given.role),
            hint_iter_bytes: given.hint_iter_bytes,
            hint_compute_ns: given.hint_compute_ns,
        };
        let publisher = Box::into_raw(Box::new(Publisher::new(default_dirs(), ident.with_environment())));
        for (index, slot) in SLOTS.iter().enumerate() {
            let free = slot.users.load(Ordering::Acquire) == 0;
            let empty = ptr::null_mut();
            let order = (Ordering::AcqRel, Ordering::Relaxed);
            if free && slot.publisher.compare_exchange(empty, publisher, order.0, order.1).is_ok() {
                return c_int::try_from(index).ok();
            }
        }
        // SAFETY: no slot took the pointer, it is still only ours.
        drop(unsafe { Box::from_raw(publisher) });
        None
    })
}

/// Functions that tell the page something and return 0, or -1 for a bad handle.
macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $type:ty),*) $act:expr;)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(handle: c_int $(, $arg: $type)*) -> c_int {
            with(handle, $act)
        }
    )*};
}

calls! {
    /// `bytes` of tensors were queued, of which `wire_bytes` will leave this rank.
    sluice_enqueue(bytes: u64, wire_bytes: u64) |writer| writer.enqueue(bytes, wire_bytes);
    /// A network operation begins.
    sluice_net_begin() Writer::net_begin;
    /// A network operation ends.
    sluice_net_end() Writer::net_end;
    /// `bytes` were handed to sockets.
    sluice_sent(bytes: u64) |writer| writer.sent(bytes);
    /// `bytes` were taken from sockets.
    sluice_received(bytes: u64) |writer| writer.received(bytes);
    /// Says that an iteration begins.
    sluice_iteration() Writer::iteration;
    /// 0 init, 1 compute, 2 enqueued, 3 on the wire, 4 finished.
    sluice_state(state: u64) |writer| writer.state(State::from_raw(state));
}

/// Publishes a connection; returns its index for [`sluice_peer_sent`], or -1.
///
/// # Safety
/// `peer` points to a `struct sluice_peer` with its `size` set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sluice_peer(handle: c_int, peer: *const SluicePeer) -> c_int {
    quietly(|| {
        // SAFETY: not null, aligned, and by the caller's promise at least `size` readable bytes.
        if peer.is_null() || !peer.is_aligned() || (unsafe { (*peer).size } as usize) < size_of::<SluicePeer>() {
            return None;
        }
        // SAFETY: the whole struct is readable now.
        let given = unsafe { &*peer };
        let address = |octets: [u8; 16], port| {
            let ip = Ipv6Addr::from(octets);
            SocketAddr::new(ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4), port)
        };
        let peer = Peer {
            rank: Some(given.rank).filter(|&rank| rank != layout::NO_RANK),
            kind: PeerKind::from_raw(given.kind),
            local: address(given.laddr, given.lport),
            remote: address(given.raddr, given.rport),
            cookie: given.cookie,
            tx_bytes: 0,
        };
        let slot = inside(handle, |writer| writer.peer(&peer)).flatten()?;
        c_int::try_from(slot.index()).ok()
    })
}

/// `bytes` were handed to the socket of the peer with this index.
#[unsafe(no_mangle)]
pub extern "C" fn sluice_peer_sent(handle: c_int, peer: c_int, bytes: u64) -> c_int {
    with(handle, |writer| {
        if let Some(slot) = usize::try_from(peer).ok().and_then(crate::writer::PeerSlot::from_index) {
            writer.peer_sent(slot, bytes);
        }
    })
}

/// Marks the page finished and removes it.
#[unsafe(no_mangle)]
pub extern "C" fn sluice_close(handle: c_int) -> c_int {
    quietly(|| {
        let slot = SLOTS.get(usize::try_from(handle).ok()?)?;
        let publisher = slot.publisher.swap(ptr::null_mut(), HANDSHAKE);
        if publisher.is_null() {
            return None;
        }
        for _ in 0..CLOSE_SPINS {
            if slot.users.load(HANDSHAKE) == 0 {
                // SAFETY: the pointer left the table and nobody is inside.
                drop(unsafe { Box::from_raw(publisher) });
                break;
            }
            std::hint::spin_loop();
        }
        Some(0)
    })
}

/// Version of the page and of this interface: major × 1000 + minor.
#[unsafe(no_mangle)]
pub extern "C" fn sluice_version() -> c_int {
    c_int::from(layout::MAJOR as u8) * 1000 + c_int::from(layout::MINOR as u8)
}

/// Runs `act` on the writer behind a handle; `None` for a bad handle or while there is no page.
fn inside<T>(handle: c_int, act: impl FnOnce(&Writer) -> T) -> Option<T> {
    let slot = SLOTS.get(usize::try_from(handle).ok()?)?;
    // Entered before the pointer is read: a close that swaps it afterwards waits for this thread.
    slot.users.fetch_add(1, HANDSHAKE);
    struct Leave<'a>(&'a AtomicUsize);
    impl Drop for Leave<'_> {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Release);
        }
    }
    let _leave = Leave(&slot.users);
    let publisher = slot.publisher.load(HANDSHAKE);
    // SAFETY: while this thread is counted in `users`, a close does not free what it has swapped out.
    let publisher = unsafe { publisher.as_ref() }?;
    publisher.writer().map(act)
}

/// 0 for a good handle, with or without a page behind it; -1 for a bad one.
fn with(handle: c_int, act: impl FnOnce(&Writer)) -> c_int {
    quietly(|| {
        let slot = SLOTS.get(usize::try_from(handle).ok()?)?;
        inside(handle, act);
        (!slot.publisher.load(Ordering::Acquire).is_null()).then_some(0)
    })
}

fn quietly(act: impl FnOnce() -> Option<c_int>) -> c_int {
    catch_unwind(AssertUnwindSafe(act)).ok().flatten().unwrap_or(-1)
}

/// At most `most` bytes of a C text.
///
/// # Safety
/// `text` is null or NUL-terminated.
unsafe fn text(text: *const c_char, most: usize) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: not null, NUL-terminated by the caller's promise.
    let bytes = unsafe { CStr::from_ptr(text) }.to_bytes();
    String::from_utf8_lossy(bytes.get(..most).unwrap_or(bytes)).into_owned()
}

#[cfg(test)]
mod order;
