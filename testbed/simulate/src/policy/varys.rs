//! `varys`: the coflow with the shortest bottleneck first, every coflow at one common pace.
//!
//! After Chowdhury, Zhong and Stoica, "Efficient Coflow Scheduling with Varys" (SIGCOMM 2014). A coflow is a round; its
//! place goes by all that remains of it, its rates to the flows that may send now. Thought again whenever a flow begins
//! or ends, for the rounds that share links with it. Simplified: no deadlines, no admission, no anti-starvation slices;
//! ports only, as in the original.

use sluice_scenario::Scenario;

use super::madd::madd;
use super::ports::{Ports, Transfer};
use super::under_way::{ByGroup, Heed, released, remaining};
use crate::scheduler::{Order, Orders, Scheduler};
use crate::world::{FlowIx, JobIx, World};

/// Smallest effective bottleneck first, with MADD rates.
pub fn varys(scenario: &Scenario) -> impl Scheduler + use<> {
    ByGroup::new(scenario, Heed::Flows, |world, ports, mut group, orders| {
        by_gamma(world, ports, &mut group);
        cap(&madd_rates(world, ports, &group), orders);
    })
}

/// Jobs by ascending Γ of what remains of their rounds; equals stay as they stand.
pub(super) fn by_gamma(world: &World<'_>, ports: &Ports, group: &mut [JobIx]) {
    // Positive floats order like their bits.
    group.sort_by_cached_key(|&j| ports.gamma(&remaining(world, j)).to_bits());
}

/// MADD rates for the released flows of jobs in this order.
pub(super) fn madd_rates(world: &World<'_>, ports: &mut Ports, order: &[JobIx]) -> Vec<(FlowIx, f64)> {
    let flows: Vec<Vec<(FlowIx, Transfer)>> = order.iter().map(|&j| released(world, j)).collect();
    let transfers: Vec<Vec<Transfer>> = flows.iter().map(|c| c.iter().map(|f| f.1).collect()).collect();
    let rates = madd(&transfers, ports);
    flows.iter().flatten().map(|f| f.0).zip(rates.into_iter().flatten()).collect()
}

/// Caps flows at these rates, bytes per second.
pub(super) fn cap(rates: &[(FlowIx, f64)], orders: &mut Orders) {
    for &(flow, cap) in rates {
        orders.set(flow, Order { cap, ..Order::default() });
    }
}
