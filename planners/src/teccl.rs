//! TE-CCL: when each chunk of a collective starts on which link, as a flow problem over epochs.
//!
//! Source: X. Liu et al., "Rethinking Machine Learning Collective Communication as a Multi-Commodity Flow Problem", SIGCOMM
//! 2024. The model (`lane`, `demand`), bounds that need no solver (`bound`), schedules that need none (`greedy`, over
//! `route`) and their form as a plan are here; what lies between a bound and the best schedule found is for a solver.

pub mod bound;
pub mod demand;
pub mod divided;
pub mod greedy;
mod groups;
mod instance;
pub mod lane;
pub mod objective;
pub mod route;
pub mod schedule;
mod search;
mod to_plan;

#[cfg(test)]
mod tests;

pub use instance::{Instance, Mode, Options, SUPPORT, Volume};
pub use objective::Objective;
pub use search::{Found, Goal, Search, Valued, make};
pub use to_plan::{Ending, Figures, Made, Worth};
