//! How far a flow is, and whether what it depends on lets it go on.

use crate::world::{FlowIx, JobPhase, World};

/// Bytes of a flow since it exists, over all rounds.
pub(super) fn carried(world: &World<'_>, flow: FlowIx) -> f64 {
    let Some(state) = world.flows.get(flow.0) else { return 0.0 };
    let Some(job) = state.job.and_then(|job| world.jobs.get(job.0)) else { return world.sent(flow) };
    let under_way = job.phase == JobPhase::Communicating;
    job.rounds as f64 * state.bytes + if under_way { world.sent(flow) } else { 0.0 }
}

/// Has a flow sent all that what it depends on allows?
pub(super) fn bound(world: &World<'_>, flow: FlowIx) -> bool {
    let Some(of) = world.flows.get(flow.0) else { return false };
    let sent = world.sent(flow);
    let allowed = |pred: &crate::world::Predecessor| pred.lead + pred.ratio * world.sent(pred.flow);
    let done = of.remaining() <= 1.0;
    !done && of.preds.iter().any(|pred| !pred.after && sent >= allowed(pred) - 1500.0)
}
