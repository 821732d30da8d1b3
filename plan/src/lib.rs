//! Topologies, plans and planners: which trees, schedules and rates a collective should use on a given fabric.
//!
//! Without the feature `solvers` this is what needs no solver: formats, checker, exporters and an interpreter of MSCCL
//! programs.

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
