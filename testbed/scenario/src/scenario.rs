//! A scenario as everything else sees it: resolved, checked, every job drawn.

use crate::jobs::{Defaults, Job};
use crate::network::{LinkIx, Network, NodeIx};
use crate::route::{Router, Routing};
use crate::scheduler::Schedulers;
use crate::settings::{Control, CrossFlow, CrossTraffic, Fault, Output, PlacementRules, Testbed, Time};
use crate::workload::RoundFlow;

/// A scenario: resolved, checked, drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Its name, part of file names.
    pub name: String,
    /// The only source of randomness.
    pub seed: u64,
    /// Slots and the end of a run: `[time]`.
    pub time: Time,
    /// Hosts, switches and links: `[network]`.
    pub network: Network,
    /// Which of several paths a flow takes: `[routing]`.
    pub routing: Routing,
    /// Which hosts a job gets: `[placement]`.
    pub placement: PlacementRules,
    /// What holds for jobs that do not say otherwise: `[defaults]`.
    pub defaults: Defaults,
    /// All jobs in file order: those of `jobs`, then those drawn from `arrivals`.
    pub jobs: Vec<Job>,
    /// Rows of the trace that were larger than `max_gpus`.
    pub dropped_jobs: u64,
    /// Unmanaged flows with given times: `cross_flows`.
    pub cross_flows: Vec<CrossFlow>,
    /// Unmanaged flows at random: `cross_traffic`.
    pub cross_traffic: Option<CrossTraffic>,
    /// How messages of the scheduler travel in the simulator: `control`.
    pub control: Control,
    /// What breaks when: `faults`.
    pub faults: Vec<Fault>,
    /// What to run, with which options: `[scheduler]`.
    pub schedulers: Schedulers,
    /// Where results are written: `[output]`.
    pub output: Output,
    /// What only the runner on namespaces looks at: `[testbed]`.
    pub testbed: Testbed,
}

impl Scenario {
    /// The links a flow of a job takes; `None` where there is no path.
    pub fn path(&self, job: &str, flow: &str, src: NodeIx, dst: NodeIx) -> Option<Vec<LinkIx>> {
        Router::new(&self.routing, &self.network, self.seed).path(job, flow, src, dst)
    }

    /// The links that a flow of a job's round takes, by its card if it has one; `None` where there is no path.
    pub fn path_of(&self, job: &str, flow: &RoundFlow) -> Option<Vec<LinkIx>> {
        Router::new(&self.routing, &self.network, self.seed).path_by(flow.rail, job, &flow.name, flow.src, flow.dst)
    }
}
