//! Hosts assigned as if every job ended at its isolated run time, so that only the network differs between schedulers
//! (`placement.freeze`, `simulation.md` section 2.9).
//!
//! A job still waits until the GPUs of its hosts are free: in the run itself jobs take longer than alone.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use sluice_scenario::Scenario;
use sluice_scenario::route::Router;
use sluice_scenario::workload::{Queue, arrival_order};

use super::alone::Alone;
use super::{compute, round};
use crate::error::SimError;
use crate::scheduler::Rounds;

/// The scenario with every job pinned to the hosts it would get.
pub(super) fn assign(scenario: &Scenario) -> Result<Scenario, SimError> {
    let mut pinned = scenario.clone();
    let capacity: Vec<f64> = scenario.network.links.iter().map(|l| l.rate.0 as f64 / 8.0).collect();
    let mut router = Router::new(&scenario.routing, &scenario.network, scenario.seed);
    let mut alone = Alone::default();
    let mut queue = Queue::new(scenario);
    let mut arrivals = arrival_order(scenario).into_iter().peekable();
    let mut ends: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    loop {
        let arrival = arrivals.peek().and_then(|&j| scenario.jobs.get(j)).map(|j| j.arrival.0);
        let end = ends.peek().map(|e| e.0.0);
        let Some(now) = arrival.into_iter().chain(end).min() else { break };
        while let Some(&Reverse((_, job))) = ends.peek().filter(|e| e.0.0 <= now) {
            ends.pop();
            queue.release(job);
        }
        while let Some(job) = arrivals.next_if(|&j| scenario.jobs.get(j).is_some_and(|j| j.arrival.0 <= now)) {
            queue.enter(job);
        }
        for started in queue.serve() {
            let job = &scenario.jobs[started.job];
            let flows =
                round::network_flows(scenario, job, &started.placement, Rounds::AsTheJobSays, 1.0, &mut router)?;
            let pieces: Vec<_> = flows.into_iter().map(|(_, piece)| piece).collect();
            let run = compute::isolated_run(scenario.seed, job, alone.round(&pieces, &capacity));
            ends.push(Reverse((now.saturating_add(run), started.job)));
            pinned.jobs[started.job].pinned = Some(started.placement);
        }
    }
    Ok(pinned)
}
