//! `sincronia`: one order of all coflows, enforced by priorities inside the network.
//!
//! After Agarwal et al., "Sincronia: Near-Optimal Network Design for Coflows" (SIGCOMM 2018). A coflow is a round. The
//! order is taken anew when a round begins or ends, for the rounds that share links with it, directly or through others;
//! rounds that do not meet it keep the order they have. Inside a coflow flows share equally. Simplified: as many
//! priorities as there are coflows; switches have eight.

use sluice_scenario::Scenario;

use super::ports::Ports;
use super::primal_dual::{self, Coflow};
use super::under_way::{ByGroup, Heed, remaining};
use crate::scheduler::{Order, Orders, Scheduler};
use crate::world::{JobIx, World};

/// Priorities by primal–dual order.
pub fn sincronia(scenario: &Scenario) -> impl Scheduler + use<> {
    ByGroup::new(scenario, Heed::Rounds, |world, ports, group, orders| {
        let coflows: Vec<Coflow> = group.iter().map(|&j| coflow(world, ports, j)).collect();
        in_order(world, primal_dual::order(&coflows).into_iter().map(|c| &group[c]), orders);
    })
}

/// What is left of a job's round, with the job's weight.
pub(super) fn coflow(world: &World<'_>, ports: &Ports, job: JobIx) -> Coflow {
    let weight = world.scenario.jobs.get(job.0).map_or(1.0, |j| j.weight);
    Coflow { weight, load: ports.load(&remaining(world, job)) }
}

/// Gives every flow of these jobs the class of its place, from 1.
pub(super) fn in_order<'a>(world: &World<'_>, jobs: impl Iterator<Item = &'a JobIx>, orders: &mut Orders) {
    for (&job, class) in jobs.zip(1..) {
        orders.set_job(world, job, Order { class, ..Order::default() });
    }
}
