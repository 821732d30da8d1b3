//! `libsluice-pslite.so`: loaded before a PS-Lite process, it reads what the process sends and receives on its ZeroMQ
//! connections and publishes pushes, pulls and rounds in the progress page. It changes no argument, no result and no
//! errno; without `DMLC_ROLE` it does nothing.
//!
//! | module | is |
//! | --- | --- |
//! | `zmtp` | the framing of ZeroMQ: pure |
//! | `meta`, `van` | PS-Lite's messages, of dmlc and of bytedance: pure |
//! | `rounds` | rounds from keys that come again: lock-free |
//! | `connections` | descriptors, and what moved on each |
//! | `job` | the page of this process |
//! | `hooks`, `real` | the C library's functions, before and behind |

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::string_slice))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::unreachable))]
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]
#![cfg_attr(test, allow(dead_code, reason = "a test program keeps the C library's functions"))]

mod connections;
#[cfg(not(test))]
mod hooks;
mod job;
mod meta;
mod real;
mod rounds;
mod van;
mod zmtp;

use std::ffi::c_char;
use std::sync::atomic::{AtomicBool, Ordering};

use sluice_progress::guest;

static ON: AtomicBool = AtomicBool::new(false);

/// Is this a process of PS-Lite that publishes?
fn on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Runs when the library is loaded.
#[cold]
extern "C" fn load() {
    guest::guard(|| {
        real::find_all();
        if !guest::privileged() && job::prepare() {
            guest::quiet_panics();
            guest::watch_forks();
            ON.store(true, Ordering::Relaxed);
        }
    });
}

#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static LOAD: extern "C" fn() = load;

/// The version of this library, NUL-terminated.
#[unsafe(no_mangle)]
pub extern "C" fn sluice_pslite_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
