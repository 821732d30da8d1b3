//! The simulator: a scenario in virtual time, thousands of hosts on one thread (`simulation.md` of the specifications).
//!
//! | module | is |
//! | --- | --- |
//! | [`world`] | what there is: jobs, flows, links, in arrays by index |
//! | [`scheduler`] | what a scheduler is told and what it may say |
//! | [`sluice`] | the product itself as a scheduler |

pub mod scheduler;
pub mod sluice;
pub mod world;

pub use scheduler::{Change, Order, Orders, Rounds, Scheduler};
pub use sluice::SluiceScheduler;
pub use world::{Flow, FlowIx, FlowPhase, JobIx, JobPhase, JobState, World};
