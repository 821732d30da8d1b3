//! The kernel side of Sluice: BPF programs in C (`bpf/`), their one ABI header, the loader, and the datapath that the
//! daemon drives. No policy lives here: the daemon says a rate, the kernel program holds it, guards it, and lets go of
//! the socket by itself when the order has expired.
//!
//! [`Kernel::open`] tries the tiers of [`Options::tiers`] and returns a [`Datapath`]; [`cleanup::cleanup`] undoes
//! everything. A planned stop is the daemon's: it writes long expiries through [`Datapath::order`] and drops the
//! datapath; the pins stay, and the next [`Kernel::open`] takes the flows over.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::string_slice))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::unreachable))]
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

mod abi;
/// What [`words`] is compiled on.
mod atomic {
    pub use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
}
pub mod cleanup;
pub mod datapath;
mod fallback;
#[doc(hidden)]
pub mod fuzz;
mod grip;
mod kernel;
mod loader;
mod mapping;
mod missing;
mod netns;
mod observe;
pub mod options;
mod pins;
mod probe;
mod ring;
mod silence;
pub mod sysctl;
mod table;
pub mod traces;
pub mod verifier;
mod words;

pub use abi::{ABI, Counters};
pub use datapath::{Datapath, FlowStats, NotTaken, Row, Sequence, SocketEvent, SocketEventKind, Taking, Tier, Wanted};
pub use fallback::Opened;
pub use grip::{Descriptors, Grip, Gripped, Hands, MAX_WANTED};
pub use kernel::Kernel;
pub use missing::{Feature, NoFeature};
pub use observe::Observe;
pub use options::{Error, Options};
pub use pins::mount_pins;
pub use probe::cookie;
