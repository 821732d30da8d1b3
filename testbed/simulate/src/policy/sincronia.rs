//! `sincronia`: one order of all coflows, enforced by priorities inside the network.
//!
//! After Agarwal et al., "Sincronia: Near-Optimal Network Design for Coflows" (SIGCOMM 2018). A coflow is a round. The
//! order is taken anew when a round begins or ends, for the rounds that share links with it, directly or through others;
//! rounds that do not meet it keep the order they have. Inside a coflow flows share equally. Simplified: as many
//! priorities as there are coflows; switches have eight.

use sluice_scenario::Scenario;

use super::ports::Ports;
use super::primal_dual::{self, Coflow};
use super::under_way::{Heed, UnderWay, remaining};
use crate::scheduler::{Change, Needs, Order, Orders, Scheduler};
use crate::world::{JobIx, World};

/// Priorities by primal–dual order.
#[derive(Clone, Debug)]
pub struct Sincronia {
    ports: Ports,
    under_way: UnderWay,
}

impl Sincronia {
    /// For the hosts and jobs of a scenario.
    pub fn new(scenario: &Scenario) -> Sincronia {
        Sincronia { ports: Ports::of(scenario), under_way: UnderWay::new(scenario) }
    }
}

/// What is left of a job's round, with the job's weight.
pub(super) fn coflow(world: &World<'_>, ports: &Ports, job: JobIx) -> Coflow {
    let weight = world.scenario.jobs.get(job.0).map_or(1.0, |j| j.weight);
    Coflow { weight, load: ports.load(&remaining(world, job)) }
}

/// Gives every flow of these jobs the class of its place, from 1.
pub(super) fn in_order<'a>(world: &World<'_>, jobs: impl Iterator<Item = &'a JobIx>, orders: &mut Orders) {
    for (&job, class) in jobs.zip(1..) {
        for (flow, _) in world.flows_of(job) {
            orders.set(flow, Order { class, ..Order::default() });
        }
    }
}

impl Scheduler for Sincronia {
    fn needs(&self) -> Needs {
        Needs::PROGRESS
    }

    fn decide(&mut self, world: &World<'_>, changes: &[Change], orders: &mut Orders) {
        for group in self.under_way.touched(world, changes, Heed::Rounds) {
            let coflows: Vec<Coflow> = group.iter().map(|&j| coflow(world, &self.ports, j)).collect();
            in_order(world, primal_dual::order(&coflows).iter().filter_map(|&c| group.get(c)), orders);
        }
    }
}
