//! Topologies, plans and planners: which trees, schedules and rates a collective should use on a given fabric.
//!
//! Without the feature `solvers` this is the formats and the checker alone, with no solver behind them.

pub mod check;
pub mod error;
pub mod export;
#[cfg(feature = "solvers")]
pub mod forestcoll;
pub mod interpret;
mod json;
pub mod plan;
pub mod quantity;
pub mod topology;
