//! The simulator: a scenario in virtual time, thousands of hosts on one thread (`simulation.md` of the specifications).
//!
//! | module | is |
//! | --- | --- |
//! | [`world`] | what there is: jobs, flows, links, in arrays by index |
//! | [`scheduler`] | what a scheduler is told and what it may say |
//! | [`sluice`] | the product itself as a scheduler |
//! | [`share`] | who gets how much bandwidth |
//! | `fluid` | flows in motion: progress, bounds, what happens next |
//! | `engine` | virtual time: jobs, rounds, the queue, cross traffic; [`run`] |
//! | [`log`] | what is written down while it runs: [`Outcome`] |
//! | [`error`] | why a run ends without a result |
//! | [`watch`] | looking on, and stopping |

mod engine;
pub mod error;
mod fluid;
pub mod log;
pub mod scheduler;
pub mod share;
pub mod sluice;
pub mod watch;
pub mod world;

pub use engine::run;
pub use error::SimError;
pub use log::Outcome;
pub use scheduler::{Change, Order, Orders, Rounds, Scheduler};
pub use sluice::SluiceScheduler;
pub use watch::Watch;
pub use world::{Flow, FlowIx, FlowPhase, JobIx, JobPhase, JobState, World};
