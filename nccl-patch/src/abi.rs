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
    /// What one launch of a kernel holds.
    pub const GROUP: u64 = 1 << 0;
    /// A collective is enqueued.
    pub const COLL: u64 = 1 << 1;
    /// A send or receive is enqueued.
    pub const P2P: u64 = 1 << 2;
    /// One channel and direction of an operation on the network.
    pub const PROXY_OP: u64 = 1 << 3;
    /// One chunk of such an operation.
    pub const PROXY_STEP: u64 = 1 << 4;
    /// The thread that drives the network sleeps or wakes; the last one of version 2.
    pub const PROXY_CTRL: u64 = 1 << 5;
    /// A channel of a kernel; since version 3.
    pub const KERNEL_CH: u64 = 1 << 6;
    /// Something that a network transport reports; since version 3.
    pub const NET_PLUGIN: u64 = 1 << 7;
    /// A group of calls; since version 5, as the next three.
    pub const GROUP_API: u64 = 1 << 8;
    /// The call of a collective.
    pub const COLL_API: u64 = 1 << 9;
    /// The call of a send or receive.
    pub const P2P_API: u64 = 1 << 10;
    /// A kernel is launched.
    pub const KERNEL_LAUNCH: u64 = 1 << 11;
    /// A collective by copy engines; since version 6, as the next two.
    pub const CE_COLL: u64 = 1 << 12;
    /// Its ranks wait for each other.
    pub const CE_SYNC: u64 = 1 << 13;
    /// Some of its copies.
    pub const CE_BATCH: u64 = 1 << 14;
    /// A part of a kernel's channel; since version 7.
    pub const KERNEL_PHASE: u64 = 1 << 15;
}

/// States of `recordEventState`. Versions 2 and 3 have others before these, of operations, which version 4 gave up.
pub mod state {
    use std::ffi::c_int;
    /// The first state of a step: a send waits for the GPU.
    pub const SEND_GPU_WAIT: c_int = 8;
    /// A send waits for the network: it has been posted, and `transSize` holds its bytes.
    pub const SEND_WAIT: c_int = 9;
    /// A receive waits for the flush: it has arrived, and `transSize` holds its bytes.
    pub const RECV_FLUSH_WAIT: c_int = 11;
    /// A receive waits for the GPU: it has arrived, and `transSize` holds its bytes.
    pub const RECV_GPU_WAIT: c_int = 12;
    /// The first state of the thread that drives the network.
    pub const CTRL_FIRST: c_int = 13;
    /// The last one.
    pub const CTRL_LAST: c_int = 18;
    /// A channel of a kernel stops: the last state of version 4.
    pub const KERNEL_STOP: c_int = 22;
    /// A group of calls ends: the last state of version 5.
    pub const GROUP_LAST: c_int = 24;
    /// A batch of copies is complete: the last state of version 6.
    pub const CE_LAST: c_int = 30;
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
