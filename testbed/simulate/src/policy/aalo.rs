//! `aalo`: coflows sink to lower queues as they send, without anybody knowing their sizes.
//!
//! After Chowdhury and Stoica, "Efficient Coflow Scheduling Without Prior Knowledge" (SIGCOMM 2015). A coflow is a
//! round; its queue goes by the bytes it has sent in this round. Between queues strict priority, inside one the earlier
//! round first; or, with `sharing = "weighted"`, all flows share with weight 10 − queue, and there is no order inside a
//! queue. Simplified: the coordinator knows at once what was sent.

use sluice_scenario::Scenario;

use super::sincronia::in_order;
use super::under_way::{ByGroup, Heed};
use crate::scheduler::{Order, Scheduler};
use crate::world::{JobIx, World};

/// How many queues there are.
const QUEUES: u32 = 10;
/// Bytes after which a coflow leaves the first queue; each further one lasts ten times as long.
const FIRST_BYTES: f64 = 1e7;

/// Queues by bytes sent.
pub fn aalo(scenario: &Scenario) -> impl Scheduler + use<> {
    let weighted = scenario.schedulers.options.aalo_weighted;
    ByGroup::new(scenario, Heed::Rounds, move |world, _, mut group, orders| {
        group.sort_by_cached_key(|&j| queue_of(world, j));
        if weighted {
            for &job in &group {
                let weight = f64::from(QUEUES - queue_of(world, job));
                orders.set_job(world, job, Order { weight, ..Order::default() });
            }
        } else {
            in_order(world, group.iter(), orders);
        }
        for &job in &group {
            orders.mark_job(job, leaves_at(queue_of(world, job)));
        }
    })
}

/// Bytes at which a coflow leaves a queue; infinite for the last.
fn leaves_at(queue: u32) -> f64 {
    if queue + 1 >= QUEUES { f64::INFINITY } else { FIRST_BYTES * 10f64.powi(queue.cast_signed()) }
}

/// The queue of a coflow that has sent so many bytes. One byte short of a threshold has passed it: the event that says
/// so may come that early.
pub fn queue(sent: f64) -> u32 {
    (0..QUEUES).find(|&q| sent + 1.0 < leaves_at(q)).unwrap_or(QUEUES - 1)
}

fn queue_of(world: &World<'_>, job: JobIx) -> u32 {
    queue(world.flows_of(job).map(|(_, f)| f.sent).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_grow_tenfold() {
        assert_eq!([0.0, 9.9e6, 1e7, 9.9e7, 1e8, 9.9e14, 1e15, 1e30].map(queue), [0, 0, 1, 1, 2, 8, 9, 9]);
        assert_eq!(leaves_at(8), 1e15);
        assert_eq!(leaves_at(9), f64::INFINITY);
    }
}
