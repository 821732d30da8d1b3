//! Direct-connect topologies: graphs without switches whose collectives run in synchronised steps.
//!
//! Method: L. Zhao, "Efficient direct-connect topologies for collective communications" (NSDI '25), with the
//! corrections that the tests name. Costs are exact fractions; sizes are in shards, times in steps.

pub mod bfb;
pub mod expand;
pub mod expr;
pub mod family;
pub mod finder;
mod from_topology;
mod graph;
mod refusal;
mod replay;
mod schedule;
pub mod search;
#[cfg(test)]
mod testing;
mod to_plan;
mod to_topology;
mod turn;

pub use expr::Expr;
pub use from_topology::{IGNORABLE, Problem, Request, UNSUPPORTED_FIELD};
pub use graph::{Edge, Graph, Symmetry};
pub use refusal::Refusal;
pub use replay::{Fault, replay};
pub use schedule::{Cost, Schedule, Send, Shape};
pub use to_plan::{INTERNAL_INVARIANT, Made, make, plan_of, steps_plan};
pub use to_topology::{Hardware, topology};
