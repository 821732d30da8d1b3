//! The progress page: 4096 bytes of shared memory in which a training process says what it is about to send.
//!
//! * [`layout`] — where every field lies; the one description of the format, version 1.0.
//! * [`Page`], [`Writer`], [`Publisher`] — the job's side. Nothing here may ever disturb the job: every failure is
//!   silence, and the page is looked for again at most once in ten seconds.
//! * [`Reader`], [`PageView`], [`Scan`] — the daemon's side. Nothing read is trusted: files are checked on the
//!   descriptor, contents are claims, and a reader never maps a file that somebody else can truncate.
//! * [`guest`] — what a library needs that lives in a job's process: no panic, no errno, no mark of it outside.
//! * `c_api` — the same writer behind `include/sluice_progress.h`. `python/` holds one in pure Python.
//!
//! What a claim is worth (clamping it, matching it with sockets) is left to the daemon.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::string_slice))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::unreachable))]
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

/// What [`sequence`] is compiled on.
mod atomic {
    pub use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
}
mod c_api;
pub mod guest;
mod ident;
pub mod layout;
mod opening;
mod publisher;
mod reader;
mod scan;
mod sequence;
mod sys;
mod view;
mod writer;

pub use c_api::{
    SluiceIdent, SluicePeer, sluice_close, sluice_enqueue, sluice_iteration, sluice_net_begin, sluice_net_end,
    sluice_open, sluice_peer, sluice_peer_sent, sluice_received, sluice_sent, sluice_state, sluice_version,
};
pub use ident::{Ident, Pattern, Role, Source, State};
pub use opening::{open as open_beneath, publisher_of};
pub use publisher::{Publisher, default_dirs};
pub use reader::{Liveness, PageError, Reader};
pub use scan::{Budget, Found, Opener, PageKey, Scan, Step, gives_way, most_of};
pub use view::{Iteration, PageView, Peer, PeerKind};
pub use writer::{Page, PeerSlot, Writer};
