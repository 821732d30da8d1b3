//! The scenario file, version 1: one data model, two notations (TOML, JSON). The same file drives the simulator and
//! the testbed on real network namespaces (`simulation.md` section 2).
//!
//! Reading gives a [`Scenario`] in which every name is resolved, every number is checked and every job is drawn, or
//! all problems at once. What happens to the jobs afterwards is [`workload`]'s business.
//!
//! | module | is |
//! | --- | --- |
//! | [`Scenario`] | what was read |
//! | [`network`], [`route`] | hosts, switches and links; the path of a flow |
//! | [`jobs`], [`model`], [`arrivals`] | jobs of the file, known models, and jobs drawn from a trace or a mix |
//! | [`settings`], [`scheduler`] | everything else that a key can set |
//! | [`scale`] | the scenario as one machine can run it on real namespaces |
//! | [`set`] | other values for some keys |
//! | [`random`], [`exact`] | draws defined to the bit, fractions without rounding |
//! | [`problem`] | what is wrong with a file, and where |
//! | [`workload`] | who arrives when, who gets which hosts, which flows a round has |

pub mod arrivals;
pub mod exact;
pub mod jobs;
pub mod model;
pub mod network;
pub mod problem;
pub mod random;
mod read;
pub mod route;
pub mod scale;
mod scenario;
pub mod scheduler;
pub mod set;
pub mod settings;
mod synthetic;
mod table;
#[cfg(test)]
mod tests;
mod trace;
mod tree;
pub mod workload;

pub use self::jobs::{Arch, Defaults, Dependency, GivenFlow, Job, Pinned};
pub use self::network::{Host, Link, LinkIx, Network, NodeIx};
pub use self::problem::{Code, Problem, ScenarioError};
pub use self::read::Notation;
pub use self::route::Routing;
pub use self::scenario::Scenario;
pub use self::scheduler::{Policy, Schedulers, Tables, Tcp};
pub use self::set::{Axis, Set};
pub use self::settings::{
    Control, CrossFlow, CrossTraffic, Fault, FaultKind, Output, PlacePolicy, Placement, Testbed, Time,
};
