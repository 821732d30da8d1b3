//! `libnccl-profiler-sluice.so`: an NCCL profiler plug-in that publishes the progress of collectives in the progress
//! page. It moves no bytes, starts no thread, never follows a handle, and does nothing that a job could notice.
//!
//! | module | is |
//! | --- | --- |
//! | [`abi`] | NCCL's interface as types and numbers |
//! | `entry` | the functions that NCCL calls |
//! | `begin`, `nccl` | setting up a communicator; which NCCL it is |
//! | `comm` | what its events mean for its page |
//! | [`descr`], [`names`] | descriptors of versions 2 to 7, read |
//! | `wire`, `work`, `neighbours` | how many bytes leave, when a phase is over, to whom: pure |
//! | `events`, `comms` | handles and contexts: numbers of static slots |
//! | `sockets`, `connections` | this process's TCP connections; which are a communicator's |
//! | `next`, `translate` | the profiler behind this one, and its version of the interface |
//! | `report` | the lines it writes |

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::string_slice))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::unreachable))]
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

pub mod abi;
mod begin;
mod comm;
mod comms;
mod connections;
pub mod descr;
mod entry;
mod events;
pub mod names;
mod nccl;
mod neighbours;
mod next;
mod report;
mod sockets;
mod translate;
mod wire;
mod work;

use std::ffi::c_char;

use abi::{InitV2, InitV4, InitV5, Profiler, Version};

/// Handles and contexts are 64-bit numbers in the place of pointers.
const _: () = assert!(size_of::<usize>() == 8);

const fn table<const V: Version, I>(init: I) -> Profiler<I> {
    Profiler {
        name: c"Sluice".as_ptr(),
        init,
        start_event: entry::start_event::<V>,
        stop_event: entry::stop_event,
        record_event_state: entry::record_event_state::<V>,
        finalize: entry::finalize,
    }
}

/// NCCL 2.24 and 2.25.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "NCCL looks for this name")]
pub static ncclProfiler_v2: Profiler<InitV2> = table::<2, InitV2>(entry::init_v2::<2>);
/// The table that NCCL 2.26 looks for.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "NCCL looks for this name")]
pub static ncclProfiler_v3: Profiler<InitV2> = table::<3, InitV2>(entry::init_v2::<3>);
/// The table that NCCL 2.27 looks for.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "NCCL looks for this name")]
pub static ncclProfiler_v4: Profiler<InitV4> = table::<4, InitV4>(entry::init_v4);
/// The table that NCCL 2.28 looks for.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "NCCL looks for this name")]
pub static ncclProfiler_v5: Profiler<InitV5> = table::<5, InitV5>(entry::init_v5::<5>);
/// NCCL 2.29 and 2.30.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "NCCL looks for this name")]
pub static ncclProfiler_v6: Profiler<InitV5> = table::<6, InitV5>(entry::init_v5::<6>);
/// NCCL 2.31 and later.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "NCCL looks for this name")]
pub static ncclProfiler_v7: Profiler<InitV5> = table::<7, InitV5>(entry::init_v5::<7>);

/// The version of this library, NUL-terminated.
#[unsafe(no_mangle)]
pub extern "C" fn sluice_nccl_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
