//! Where the time of a job's rounds went: compute, own sender, a peer, a link, another job, loss.
//!
//! Nothing here has a clock, a socket, a file or a thread. What hosts saw comes in ([`seen`]), as they saw it or out of their
//! flight records ([`record`]); shares of time by cause come out ([`share`]).
//!
//! | module | is |
//! | --- | --- |
//! | [`seen`] | what one host saw of its jobs in one slot |
//! | [`record`] | the same as bytes: a flight record, which any reader survives |
//! | `rounds` | a job's iterations, cut out of slots |
//! | `blame` | what held a job back in a part of a slot, as far as its host can tell |
//! | `network` | whose bytes had a link while a flow wanted to send |
//! | [`hosts`] | the records of several hosts: who waits for whom, to the end of the chain |
//! | [`share`] | shares by cause, and what is more than in other rounds |
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::string_slice))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::unreachable))]
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]
#![deny(clippy::iter_over_hash_type)]

mod blame;
pub mod hosts;
mod network;
pub mod record;
mod rounds;
pub mod seen;
pub mod share;

pub use hosts::Hosts;
pub use record::{Record, Unreadable};
pub use rounds::{Iteration, iterations, usual};
pub use share::{Cause, Report, Shares};
