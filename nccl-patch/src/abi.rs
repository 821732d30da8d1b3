//! The C interface between NCCL and a profiler plug-in: function types, event bits, states. Facts of NCCL's published
//! headers, versions 2 to 7; nothing here does anything.

use std::ffi::{c_char, c_int, c_ulong, c_void};

/// A version of the profiler interface, 2 to 7.
pub type Version = u8;

/// NCCL's logger: level, subsystems, file, line, format and its arguments.
pub type Logger = unsafe extern "C" fn(c_int, c_ulong, *const c_char, c_int, *const c_char, ...);

/// `init` of versions 2 and 3: context, event mask.
pub type InitV2 = unsafe extern "C" fn(*mut *mut c_void, *mut c_int) -> c_int;
/// `init` of version 4: context, event mask, name, hash, nodes, ranks, rank, logger.
pub type InitV4 = unsafe extern "C" fn(
    *mut *mut c_void,
    *mut c_int,
    *const c_char,
    u64,
    c_int,
    c_int,
    c_int,
    Option<Logger>,
) -> c_int;
/// `init` of versions 5 to 7: the communicator's id is the second argument, otherwise as [`InitV4`].
pub type InitV5 = unsafe extern "C" fn(
    *mut *mut c_void,
    u64,
    *mut c_int,
    *const c_char,
    c_int,
    c_int,
    c_int,
    Option<Logger>,
) -> c_int;
/// `startEvent`: context, where the handle goes, descriptor.
pub type StartEvent = unsafe extern "C" fn(*mut c_void, *mut *mut c_void, *const c_void) -> c_int;
/// `stopEvent` takes the handle of an event.
pub type StopEvent = unsafe extern "C" fn(*mut c_void) -> c_int;
/// `recordEventState`: handle, state, arguments.
pub type RecordState = unsafe extern "C" fn(*mut c_void, c_int, *const c_void) -> c_int;
/// `finalize` takes the context of a communicator.
pub type Finalize = unsafe extern "C" fn(*mut c_void) -> c_int;

/// `ncclProfiler_vN`: six pointers. `I` is the version's `init`.
#[repr(C)]
#[derive(Debug)]
pub struct Profiler<I> {
    /// The plug-in's name, NUL-terminated.
    pub name: *const c_char,
    /// Called once for each communicator.
    pub init: I,
    /// Called when an event begins.
    pub start_event: StartEvent,
    /// Called when an event ends.
    pub stop_event: StopEvent,
    /// Something happened within an event.
    pub record_event_state: RecordState,
    /// The communicator is gone.
    pub finalize: Finalize,
}

// SAFETY: function pointers and a pointer to a static text.
unsafe impl<I> Sync for Profiler<I> {}

/// Bits of the event mask, and the `type` of a descriptor.
pub mod event {
    /// A collective is enqueued.
    pub const COLL: u64 = 1 << 1;
    /// A send or receive is enqueued.
    pub const P2P: u64 = 1 << 2;
    /// One channel and direction of an operation on the network.
    pub const PROXY_OP: u64 = 1 << 3;
    /// One chunk of such an operation.
    pub const PROXY_STEP: u64 = 1 << 4;
    /// Something that a network transport reports.
    pub const NET_PLUGIN: u64 = 1 << 7;
}

/// States of `recordEventState` at which a proxy step's `transSize` holds the bytes that moved.
pub mod state {
    use std::ffi::c_int;
    /// A send waits for the network: it has been posted with its size.
    pub const SEND_WAIT: c_int = 9;
    /// A receive waits for the flush: it has arrived.
    pub const RECV_FLUSH_WAIT: c_int = 11;
    /// A receive waits for the GPU: it has arrived.
    pub const RECV_GPU_WAIT: c_int = 12;
}

/// Levels and subsystems of the logger.
pub mod log {
    use std::ffi::{c_int, c_ulong};
    /// NCCL's level for warnings.
    pub const WARN: c_int = 2;
    /// NCCL's level for information.
    pub const INFO: c_int = 3;
    /// Subsystems INIT and PROFILE.
    pub const SUBSYSTEMS: c_ulong = 0x1 | 0x4000;
}
