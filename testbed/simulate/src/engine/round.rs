//! The network flows of a job's round as the engine needs them: local ones left out, dependencies by place.

use sluice_scenario::jobs::ring_chunks;
use sluice_scenario::route::Router;
use sluice_scenario::workload::{RoundFlow, Stages, channels, flows_in_stages, flows_of};
use sluice_scenario::{Arch, Job, LinkIx, Placement, Scenario};
use sluice_schedule::Nanos;

use super::alone::Piece;
use crate::error::SimError;
use crate::fluid::Dep;
use crate::scheduler::Rounds;
use crate::world::Flow;

/// Most flows of one round (`simulation.md` section 12).
const MAX_FLOWS: u64 = 10_000;

/// The network flows of a round of `job` on `placement`: as the world shows them (predecessors by place in the round) and as
/// the fluid moves them.
pub(super) fn network_flows(
    scenario: &Scenario,
    job: &Job,
    placement: &Placement,
    how: Rounds,
    efficiency: f64,
    router: &mut Router<'_>,
) -> Result<Vec<(Flow, Piece)>, SimError> {
    let chunked = match how {
        Rounds::AsTheJobSays => job.dependency == sluice_scenario::Dependency::StartAfter,
        Rounds::Staged { ring_chain, .. } => !ring_chain,
    };
    if job.arch == Arch::Ring && chunked && ring_chunks(placement.workers.len() as u64) > MAX_FLOWS {
        let flows = ring_chunks(placement.workers.len() as u64);
        return Err(SimError::Flows { job: job.id.clone(), flows, most: MAX_FLOWS });
    }
    let all = match how {
        Rounds::AsTheJobSays => flows_of(job, placement),
        Rounds::Staged { ring_chain, per_server } => {
            flows_in_stages(job, placement, Stages { ring_chain, whole_job: !per_server })
        }
    };
    let all = channels(all, scenario.network.rails);
    let mut place = vec![0u32; all.len()];
    let mut count = 0;
    for (flow, place) in all.iter().zip(&mut place) {
        *place = count;
        count += u32::from(!flow.local());
    }
    let granule = job.granule as f64;
    all.iter()
        .enumerate()
        .filter(|(_, f)| !f.local())
        .map(|(i, f)| network_flow(scenario, job, (i, f), &all, &place, granule, efficiency, router))
        .collect()
}

#[allow(clippy::too_many_arguments, reason = "one round, taken apart by one caller")]
fn network_flow(
    scenario: &Scenario,
    job: &Job,
    (index, flow): (usize, &RoundFlow),
    all: &[RoundFlow],
    place: &[u32],
    granule: f64,
    efficiency: f64,
    router: &mut Router<'_>,
) -> Result<(Flow, Piece), SimError> {
    // Chunks of one ring flow go one way: the path is that of the whole flow.
    let whole = match job.arch {
        Arch::Ring => flow.name.split('.').next().unwrap_or(&flow.name),
        _ => &flow.name,
    };
    let no_path = || SimError::NoPath { job: job.id.clone(), flow: flow.name.clone() };
    let path = router.path_by(flow.rail, &job.id, whole, flow.src, flow.dst).ok_or_else(no_path)?;
    let loss = loss_on(scenario, &path);
    let bytes = flow.bytes as f64;
    let deps = flow.preds.iter().filter_map(|p| {
        let pred = all.get(p.flow)?;
        let lead = p.lead as f64;
        // Where a lead lets everybody start, a message larger than it would let nobody go on.
        let granule = if lead > 0.0 { granule.min(lead) } else { granule };
        let ratio = bytes / pred.bytes as f64;
        Some(Dep { pred: *place.get(p.flow)?, after: p.after, lead, ratio, granule })
    });
    let deps: Vec<Dep> = deps.collect();
    let ideal_offset = match job.arch {
        Arch::Flows => job.flows.get(index).map_or(Nanos::ZERO, |g| g.ideal_offset),
        _ => Nanos::ZERO,
    };
    let piece = Piece { bytes, keep: (1.0 - loss) * efficiency, path: path.iter().map(|l| l.0 as u32).collect(), deps };
    let flow = Flow {
        name: flow.name.clone(),
        ends: Some((flow.from, flow.to)),
        src: flow.src,
        dst: flow.dst,
        path,
        bytes,
        stage: flow.stage,
        ideal_offset,
        loss,
        ..Flow::default()
    };
    Ok((flow, piece))
}

/// Probability that a byte is lost on a path.
pub(super) fn loss_on(scenario: &Scenario, path: &[LinkIx]) -> f64 {
    let kept = path.iter().filter_map(|&l| scenario.network.link(l)).map(|l| 1.0 - l.loss).product::<f64>();
    (1.0 - kept).clamp(0.0, 1.0)
}
