//! What `sluiced` and `sluice-switch` tell those who run them: lines of their log, as named events, in four forms, at a bounded
//! rate; and a few words to the service manager ([`ServiceManager`]). What is worth a line is for those who write it;
//! `tests/calls.rs` holds every line of both programs to the names in [`Event`].

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::string_slice))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::unreachable))]
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

mod addresses;
mod event;
mod json;
mod limit;
mod limited;
mod manager;
mod panic;
mod start;

pub use addresses::without_addresses;
pub use event::{Event, Who};
pub use limit::{Left, Limiter};
pub use limited::Limits;
pub use manager::{NotifyState, ServiceManager};
pub use panic::abort_on_panic;
pub use start::{Form, NotAFilter, Started, filter, start};
