//! Direct-connect topologies: graphs without switches whose collectives run in synchronised steps.
//!
//! Method: L. Zhao, "Efficient direct-connect topologies for collective communications" (NSDI '25), with the
//! corrections that the tests name. Costs are exact fractions; sizes are in shards, times in steps.
//!
//! | module | is |
//! | --- | --- |
//! | `graph`, `schedule`, `refusal` | the words that all parts share |
//! | [`family`], [`expand`], [`expr`] | graphs by rule, larger ones from smaller ones, and how both are written |
//! | [`bfb`] | the best breadth-first schedule of a graph, and its cost alone |
//! | `turn` | schedules backwards, on another graph, in finer units, one after the other |
//! | [`finder`], [`search`] | the graphs of a size and degree that no other beats; better ones at random |
//! | `from_topology`, `to_topology`, `to_plan` | from a topology to a graph and back, from a schedule to a checked plan |

pub mod bfb;
pub mod expand;
pub mod expr;
pub mod family;
pub mod finder;
mod from_topology;
mod graph;
mod refusal;
#[cfg(test)]
#[path = "../tests/all/graphs/replay.rs"]
mod replay;
mod schedule;
pub mod search;
#[cfg(test)]
mod testing;
mod to_plan;
mod to_topology;
mod turn;

pub use expr::Expr;
pub use from_topology::{Instance, Options, Proof, SUPPORT};
pub use graph::{Edge, Graph, Symmetry};
pub use refusal::Refusal;
pub use schedule::{Cost, Schedule, Send, Shape};
pub use to_plan::{Figures, Made, figures, make, make_while, plan_of};
pub use to_topology::{Hardware, topology};
