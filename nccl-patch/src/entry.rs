//! The functions that NCCL calls. Each returns success whatever it is given, and lets no panic out.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

use sluice_progress::guest::{self, Errno};

use crate::abi::{Logger, Version, state};
use crate::begin;
use crate::comms;
use crate::descr::{Descr, Event};
use crate::events::{self, Entry, Kind};
use crate::next::Arguments;

/// What NCCL takes for success.
const SUCCESS: c_int = 0;

/// `init` of versions 2 and 3.
///
/// # Safety
/// As NCCL calls it; pointers may be null.
pub unsafe extern "C" fn init_v2<const V: Version>(context: *mut *mut c_void, mask: *mut c_int) -> c_int {
    let arguments = Arguments { id: 0, name: ptr::null(), nnodes: 0, nranks: 0, rank: -1, logger: None };
    // SAFETY: passed on.
    unsafe { init(V, context, mask, &arguments) }
}

/// `init` of version 4.
///
/// # Safety
/// As NCCL calls it; pointers may be null.
#[allow(clippy::too_many_arguments, reason = "the interface of NCCL")]
pub unsafe extern "C" fn init_v4(
    context: *mut *mut c_void,
    mask: *mut c_int,
    name: *const c_char,
    id: u64,
    nnodes: c_int,
    nranks: c_int,
    rank: c_int,
    logger: Option<Logger>,
) -> c_int {
    // SAFETY: passed on.
    unsafe { init(4, context, mask, &Arguments { id, name, nnodes, nranks, rank, logger }) }
}

/// `init` of versions 5 to 7.
///
/// # Safety
/// As NCCL calls it; pointers may be null.
#[allow(clippy::too_many_arguments, reason = "the interface of NCCL")]
pub unsafe extern "C" fn init_v5<const V: Version>(
    context: *mut *mut c_void,
    id: u64,
    mask: *mut c_int,
    name: *const c_char,
    nnodes: c_int,
    nranks: c_int,
    rank: c_int,
    logger: Option<Logger>,
) -> c_int {
    // SAFETY: passed on.
    unsafe { init(V, context, mask, &Arguments { id, name, nnodes, nranks, rank, logger }) }
}

unsafe fn init(version: Version, context: *mut *mut c_void, mask: *mut c_int, arguments: &Arguments) -> c_int {
    if !cfg!(test) {
        guest::quiet_panics();
    }
    // SAFETY: null or NCCL's; a misaligned one is left alone.
    unsafe { put(context, ptr::null_mut()) };
    let _errno = Errno::keep();
    guard(|| {
        let mask = (!mask.is_null() && mask.is_aligned()).then_some(mask);
        // SAFETY: not null, aligned, and NCCL's. Other threads of NCCL read it while it is written, hence atomic.
        let mask = mask.map(|mask| unsafe { AtomicI32::from_ptr(mask) });
        let before = mask.map_or(0, |mask| mask.load(Ordering::Relaxed));
        if context.is_null() || !context.is_aligned() {
            return;
        }
        let begun = begin::communicator(version, arguments, before);
        if let Some(mask) = mask {
            mask.store(begun.mask, Ordering::Relaxed);
        }
        // SAFETY: as above.
        unsafe { put(context, begun.context as *mut c_void) };
    });
    SUCCESS
}

/// `startEvent`.
///
/// # Safety
/// `descr` is null or a descriptor of version `V`; `handle` null or a place for one.
pub unsafe extern "C" fn start_event<const V: Version>(
    context: *mut c_void,
    handle: *mut *mut c_void,
    descr: *const c_void,
) -> c_int {
    // SAFETY: null or NCCL's; a misaligned one is left alone.
    unsafe { put(handle, ptr::null_mut()) };
    guard(|| {
        // SAFETY: by the caller's promise.
        let Some(descr) = (unsafe { Descr::new(V, descr) }) else { return };
        if handle.is_null() || !handle.is_aligned() {
            return;
        }
        if let Some(event) = start(context as u64, &descr) {
            // SAFETY: as above.
            unsafe { put(handle, event as *mut c_void) };
        }
    });
    SUCCESS
}

fn start(context: u64, descr: &Descr) -> Option<u64> {
    let comm = comms::enter(context)?;
    let next = comm.behind.as_ref().map_or(ptr::null_mut(), |behind| behind.start(descr));
    let mut entry = Entry { kind: Kind::Other, comm: context, bytes: 0, facts: 0, next };
    if let Some(writer) = comm.writer() {
        match descr.event() {
            Event::Coll(coll) => {
                entry.kind = Kind::Work;
                (entry.bytes, entry.facts) = comm.coll(writer, &coll);
            }
            Event::P2p(p2p) => {
                entry.kind = Kind::Work;
                (entry.bytes, entry.facts) = comm.p2p(writer, &p2p);
            }
            Event::ProxyOp(op) => {
                entry.kind = Kind::Op;
                (entry.bytes, entry.facts) = comm.op_begins(writer, context, &op, descr.parent());
            }
            Event::ProxyStep => {
                entry.kind = Kind::Step;
                entry.facts = comm.step_begins(context, descr.parent());
            }
            Event::NetPlugin(socket) => {
                if let Some((bytes, facts)) = comm.net_begins(writer, context, socket.as_ref(), descr.parent()) {
                    (entry.kind, entry.bytes, entry.facts) = (Kind::Net, bytes, facts);
                }
            }
            Event::Other => {}
        }
    }
    if entry.kind == Kind::Other && next.is_null() {
        return None;
    }
    // The end of work says that it was enqueued, which its start did: only a profiler behind wants to hear of it.
    let event = if entry.kind == Kind::Work && next.is_null() { events::keep(&entry) } else { events::begin(&entry) };
    if event.is_none() {
        // No room. Neither side hears of this event again, so it ends here.
        if let Some(behind) = &comm.behind {
            behind.stop(next);
        }
        if let Some(writer) = comm.writer() {
            writer.dropped();
            if entry.kind == Kind::Op {
                comm.op_ends(writer, &entry);
            }
        }
    }
    event
}

/// `stopEvent`.
///
/// # Safety
/// Any value is taken.
pub unsafe extern "C" fn stop_event(handle: *mut c_void) -> c_int {
    guard(|| {
        let Some(entry) = events::end(handle as u64) else { return };
        let Some(comm) = comms::enter(entry.comm) else { return };
        if let Some(writer) = comm.writer() {
            match entry.kind {
                Kind::Op => comm.op_ends(writer, &entry),
                Kind::Step => comm.step_ends(writer, &entry),
                Kind::Net => comm.net_ends(writer, &entry),
                Kind::Work | Kind::Other => {}
            }
        }
        if let Some(behind) = &comm.behind {
            behind.stop(entry.next);
        }
    });
    SUCCESS
}

/// `recordEventState`.
///
/// # Safety
/// `arguments` is null or the arguments of that state.
pub unsafe extern "C" fn record_event_state<const V: Version>(
    handle: *mut c_void,
    state: c_int,
    arguments: *const c_void,
) -> c_int {
    guard(|| {
        let Some((entry, true)) = events::look(handle as u64) else { return };
        let moved = matches!(state, state::SEND_WAIT | state::RECV_FLUSH_WAIT | state::RECV_GPU_WAIT);
        if entry.kind == Kind::Step && moved && V >= 4 && !arguments.is_null() {
            // SAFETY: by the caller's promise eight bytes, which at these states are `transSize`.
            let bytes = unsafe { arguments.cast::<u64>().read_unaligned() };
            events::swap_bytes(handle as u64, bytes);
        }
        if !entry.next.is_null()
            && let Some(behind) = comms::enter(entry.comm).as_ref().and_then(|comm| comm.behind.as_ref())
        {
            behind.state(entry.next, state, arguments);
        }
    });
    SUCCESS
}

/// `finalize`.
///
/// # Safety
/// Any value is taken.
pub unsafe extern "C" fn finalize(context: *mut c_void) -> c_int {
    guard(|| {
        let behind = comms::enter(context as u64).and_then(|comm| comm.behind);
        comms::end(context as u64);
        events::end_all(context as u64);
        if let Some(behind) = behind {
            behind.finalize();
        }
    });
    SUCCESS
}

/// Stores a pointer where there is a place for it.
///
/// # Safety
/// `place` is null, misaligned, or writable.
unsafe fn put(place: *mut *mut c_void, value: *mut c_void) {
    if !place.is_null() && place.is_aligned() {
        // SAFETY: by the caller's promise.
        unsafe { place.write(value) };
    }
}

/// Runs `act`; a panic ends here.
fn guard(act: impl FnOnce()) {
    #[cfg(test)]
    let act = || {
        assert!(!tests::PANIC.load(Ordering::Relaxed), "asked for");
        act();
    };
    guest::guard(act);
}

#[cfg(test)]
mod tests;
