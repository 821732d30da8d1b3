//! Direct-connect topologies: graphs without switches whose collectives run in synchronised steps.
//!
//! Method: L. Zhao, "Efficient direct-connect topologies for collective communications" (NSDI '25), with the
//! corrections that the tests name. Costs are exact fractions; sizes are in shards, times in steps.

pub mod bfb;
mod graph;
mod refusal;
mod schedule;

pub use graph::{Edge, Graph, Symmetry};
pub use refusal::Refusal;
pub use schedule::{Cost, Schedule, Send, Shape};
