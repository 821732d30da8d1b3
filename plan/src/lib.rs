//! Topologies, plans and planners: which trees, schedules and rates a collective should use on a given fabric.
//!
//! Without the feature `solvers` this is what needs no solver: formats, checker, exporters, an interpreter of MSCCL
//! programs, and the reading of whoever follows a plan.

pub mod check;
#[cfg(feature = "solvers")]
pub mod direct;
pub mod error;
pub mod export;
pub mod follow;
#[cfg(feature = "solvers")]
pub mod forestcoll;
#[cfg(feature = "solvers")]
mod ignorable;
pub mod interpret;
mod json;
pub mod plan;
pub mod quantity;
pub mod topology;
