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
//! | [`mod@replay`] | a scenario of what daemons recorded |
//! | [`random`] | draws defined to the bit |
//! | [`workload`] | who arrives when, who gets which hosts, which flows a round has |

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::string_slice))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::unreachable))]

pub mod arrivals;
pub mod jobs;
pub mod model;
pub mod network;
mod order;
mod quantities;
pub mod random;
mod read;
pub mod replay;
pub mod route;
pub mod scale;
mod scenario;
pub mod scheduler;
pub mod set;
pub mod settings;
mod synthetic;
#[cfg(test)]
mod tests;
mod trace;
pub mod workload;

pub use sluice_formats::document::Notation;

pub use self::jobs::{Arch, Defaults, Dependency, GivenFlow, Job, Placement};
pub use self::network::{Host, Link, LinkIx, Network, NodeIx};
pub use self::route::Routing;
pub use self::scenario::Scenario;
pub use self::scheduler::{Policy, Schedulers, Surplus, Tables, Tcp, Transport};
pub use self::set::{Axis, Set};
pub use self::settings::{
    Control, CrossFlow, CrossTraffic, Fault, FaultKind, Output, PlacePolicy, PlacementRules, Testbed, Time,
};
