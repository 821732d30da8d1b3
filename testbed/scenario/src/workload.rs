//! What a scenario's jobs do, without doing it: who arrives when, who gets which hosts, which flows a round has, when
//! cross traffic flows. Pure: the testbed's runner and the simulator ask the same code, so both see one workload.

mod channels;
pub mod cross;
pub mod place;
pub mod queue;
pub mod round;
pub mod stages;
#[cfg(test)]
mod tests;

use crate::scenario::Scenario;

pub use channels::channels;
pub use cross::CrossEvents;
pub use queue::{Queue, Started};
pub use round::{Member, Pred, RoundFlow, round_flows};
pub use stages::{Stages, flows_in_stages, flows_of};

/// Indices of the jobs in the order in which they enter the queue: by arrival, then by place in the file.
pub fn arrival_order(scenario: &Scenario) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scenario.jobs.len()).collect();
    order.sort_by_key(|&i| (scenario.jobs.get(i).map(|j| j.arrival), i));
    order
}
