//! The brains of Sluice: what a host and a switch decide, as plain state machines.
//!
//! Nothing here has a clock, a socket, a file, a thread or randomness. Time comes in with every call ([`Now`]), effects
//! go out as values ([`Action`], [`Feedback`]). The same code runs in the daemon, in the emulated switch, in the
//! simulator and in the fault tests; same events, same actions, to the bit.
//!
//! | module | is |
//! | --- | --- |
//! | [`units`] | rates, bytes, times, slots and ids as types |
//! | [`backoff`] | when to dial again whom one could not reach |
//! | [`clock`] | the slot grid: wall time to slot number, never backwards |
//! | [`message`] | what hosts and table holders tell each other |
//! | [`deciding`] | of the statuses of a job's hosts the few that have to be told |
//! | [`event`] | what enters a host's brain and what leaves it |
//! | [`table`] | load tables: the exact per-flow map with leases, and the double-buffered soft table of P4 switches |
//! | [`switch`] | the brain of a table holder |
//! | [`price`], [`greedy`] | the price of a loaded link and the paper's Algorithm 1 |
//! | [`graph`] | one dependency graph for rings, parameter servers, trees and flow groups |
//! | [`path`] | headroom, cross traffic and the best-delivered ceiling of a flow |
//! | [`policy`] | the rules that turn demand into rates: `srpt-p`, `primal-dual`, `fair` |
//! | [`host`] | the brain of a host |
//! | [`benefit`] | whether a job is faster without Sluice, and its release |
//! | [`coast`] | the last orders of a process that ends in order |
//! | [`offenders`] | who asks for too much, and is not listened to for a while |
//! | [`mutant`] | defects that tests plant |

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::string_slice))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::unreachable))]
#![deny(clippy::iter_over_hash_type)]

pub mod backoff;
pub mod benefit;
pub mod clock;
pub mod coast;
pub mod deciding;
pub mod event;
pub mod graph;
pub mod greedy;
pub mod host;
pub mod message;
pub mod mutant;
pub mod offenders;
pub mod path;
pub mod policy;
pub mod price;
pub mod switch;
pub mod table;
pub mod units;

pub use event::{
    Action, Arrival, ClockTrust, Event, FlowProgress, FlowSpec, Hop, JobSpec, Now, Pattern, PredKind, Predecessor,
    Role, Term, Terms,
};
pub use message::{
    Announcement, Connection, Crowd, Feedback, FlowPromise, JobStatus, LinkView, PromiseSum, Rank, Refusal, Route,
    RouteQuestion,
};
pub use units::{BootId, Bytes, FlowId, HolderId, HostId, JobId, LinkId, Nanos, Rate, Share, Slot};
