//! A scenario as everything else sees it: resolved, checked, every job drawn.

use crate::jobs::{Defaults, Job};
use crate::network::{LinkIx, Network, NodeIx};
use crate::route::{Router, Routing};
use crate::scheduler::Schedulers;
use crate::settings::{Control, CrossFlow, CrossTraffic, Fault, Output, PlacementRules, Testbed, Time};

/// A scenario: resolved, checked, drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Its name, part of file names.
    pub name: String,
    /// The only source of randomness.
    pub seed: u64,
    /// `[time]`
    pub time: Time,
    /// `[network]`
    pub network: Network,
    /// `[routing]`
    pub routing: Routing,
    /// `[placement]`
    pub placement: PlacementRules,
    /// `[defaults]`
    pub defaults: Defaults,
    /// All jobs in file order: those of `jobs`, then those drawn from `arrivals`.
    pub jobs: Vec<Job>,
    /// Rows of the trace that were larger than `max_gpus`.
    pub dropped_jobs: u64,
    /// `cross_flows`
    pub cross_flows: Vec<CrossFlow>,
    /// `cross_traffic`
    pub cross_traffic: Option<CrossTraffic>,
    /// `control`
    pub control: Control,
    /// `faults`
    pub faults: Vec<Fault>,
    /// `[scheduler]`
    pub schedulers: Schedulers,
    /// `[output]`
    pub output: Output,
    /// `[testbed]`
    pub testbed: Testbed,
}

impl Scenario {
    /// The links a flow of a job takes; `None` where there is no path.
    pub fn path(&self, job: &str, flow: &str, src: NodeIx, dst: NodeIx) -> Option<Vec<LinkIx>> {
        Router::new(&self.routing, &self.network, self.seed).path(job, flow, src, dst)
    }
}
