//! What the interface counters of a host would show: all bytes of its own links, and how many of them were managed.
//!
//! As in the daemon, only what shows in two slots running counts as others' traffic.

use sluice_scenario::LinkIx;
use sluice_schedule::{Bytes, Event, LinkId, Nanos, Rate};

use crate::world::{FlowIx, JobPhase, World};

/// Bytes that have crossed one own link in one direction, by whom.
#[derive(Clone, Debug)]
struct Meter {
    index: LinkIx,
    link: LinkId,
    /// Flows, are they managed, and what was counted of them.
    flows: Vec<(FlowIx, bool, f64)>,
    /// Bytes of flows that ended since the last reading: unmanaged, managed.
    ended: [f64; 2],
    /// Unmanaged rate of the last slot.
    before: Rate,
}

/// All own links of a host.
#[derive(Clone, Debug, Default)]
pub(super) struct Traffic {
    meters: Vec<Meter>,
    at: Option<Nanos>,
}

impl Traffic {
    pub fn watch(&mut self, index: LinkIx, link: LinkId) {
        if self.meters.iter().all(|meter| meter.index != index) {
            self.meters.push(Meter { index, link, flows: Vec::new(), ended: [0.0; 2], before: Rate::ZERO });
        }
    }

    /// A flow exists; of its path, own links count.
    pub fn opened(&mut self, world: &World<'_>, flow: FlowIx) {
        let Some(state) = world.flows.get(flow.0) else { return };
        let (managed, so_far) = (state.job.is_some(), carried(world, flow));
        for meter in self.meters.iter_mut().filter(|meter| state.path.contains(&meter.index)) {
            meter.flows.push((flow, managed, so_far));
        }
    }

    /// A flow is gone; what it sent since the last reading still counts.
    pub fn closed(&mut self, world: &World<'_>, flow: FlowIx) {
        let so_far = carried(world, flow);
        for meter in &mut self.meters {
            meter.flows.retain(|(known, managed, counted)| {
                if *known == flow {
                    meter.ended[usize::from(*managed)] += (so_far - counted).max(0.0);
                }
                *known != flow
            });
        }
    }

    /// Reads the counters at a slot edge.
    pub fn measure(&mut self, at: Nanos, world: &World<'_>) -> Vec<Event> {
        let elapsed = self.at.map(|before| at.minus(before));
        self.at = Some(at);
        let mut events = Vec::new();
        for meter in &mut self.meters {
            let mut sums = std::mem::take(&mut meter.ended);
            for (flow, managed, counted) in &mut meter.flows {
                let so_far = carried(world, *flow);
                sums[usize::from(*managed)] += (so_far - *counted).max(0.0);
                *counted = so_far;
            }
            let Some(elapsed) = elapsed.filter(|time| *time > Nanos::ZERO) else { continue };
            let rate = |bytes: f64| Rate::needed(Bytes(bytes as u64), elapsed);
            let (cross, managed) = (rate(sums[0]), rate(sums[1]));
            let lasting = cross.min(std::mem::replace(&mut meter.before, cross));
            events.push(Event::Measured { link: meter.link, total: managed.plus(lasting), managed });
        }
        events
    }
}

/// Bytes of a flow since it exists, over all rounds.
fn carried(world: &World<'_>, flow: FlowIx) -> f64 {
    let Some(state) = world.flows.get(flow.0) else { return 0.0 };
    let Some(job) = state.job.and_then(|job| world.jobs.get(job.0)) else { return world.sent(flow) };
    let under_way = job.phase == JobPhase::Communicating;
    job.rounds as f64 * state.bytes + if under_way { world.sent(flow) } else { 0.0 }
}
