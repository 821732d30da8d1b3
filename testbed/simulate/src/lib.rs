//! The simulator: a scenario in virtual time, thousands of hosts on one thread (`simulation.md` of the specifications).
//!
//! | module | is |
//! | --- | --- |
//! | [`world`] | what there is: jobs, flows, links, in arrays by index |
//! | [`scheduler`] | what a scheduler is told and what it may say |
//! | [`policy`] | the schedulers that Sluice is compared with |
//! | [`sluice`] | the product itself as a scheduler |
//! | `fluid` | flows in motion: progress, bounds, what happens next |
//! | `engine` | virtual time: jobs, rounds, the queue, cross traffic; [`run`] |
//! | [`log`] | what is written down while it runs: [`Outcome`] |
//! | [`metrics`] | from observations to figures |
//! | [`mod@result`] | what a run hands over: `result` and `machine` |
//! | [`error`] | why a run ends without a result |
//! | [`trace`] | a run as a file for Perfetto |
//! | [`runs`] | scenarios under schedulers by name, in parallel |
//! | [`sweep`] | a grid of runs that can be interrupted and resumed |
//! | [`page`] | a run as the charts of the HTML page want it |
//! | `limit` | `bound` as a row beside the schedulers |
//! | [`why`] | whether `sluice why` finds the cause that was injected |
//! | [`watch`] | looking on, and stopping |
//! | [`profile`] | where a run's time goes |

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::string_slice))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::unreachable))]
#![deny(clippy::iter_over_hash_type)]

mod engine;
pub mod error;
mod fluid;
mod limit;
pub mod log;
pub mod metrics;
pub mod page;
pub mod policy;
pub mod profile;
pub mod result;
pub mod runs;
pub mod scheduler;
pub mod sluice;
pub mod sweep;
pub mod trace;
pub mod watch;
pub mod why;
pub mod world;

pub use engine::run;
pub use error::SimError;
pub use log::Outcome;
pub use metrics::figures;
pub use result::result;
pub use scheduler::{Change, Needs, Order, Orders, Rounds, Scheduler};
pub use sluice::SluiceScheduler;
pub use watch::Watch;
pub use world::{Flow, FlowIx, FlowPhase, JobIx, JobPhase, JobState, World};
