//! Rounds of jobs that do not pipeline: whole transfers one after the other (`simulation.md` section 4.3).

use super::round::{Member, Pred, RoundFlow, parameter_server, pass_through_local, ring, ring_chunk, round_flows};
use crate::jobs::{Arch, Dependency, Job, Placement};
use crate::order::topological;

/// What counts as a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages {
    /// A ring's stages are whole flows, 0→1 first; otherwise 2(n−1) steps in which every rank passes on one chunk.
    pub ring_chain: bool,
    /// All of a job's aggregations come before all of its broadcasts; otherwise each server goes by its own.
    pub whole_job: bool,
}

/// All flows of a round, local ones included, as the job's own `dependency` says.
pub fn flows_of(job: &Job, placement: &Placement) -> Vec<RoundFlow> {
    match job.dependency {
        Dependency::Pipelined => round_flows(job, placement),
        Dependency::StartAfter => flows_in_stages(job, placement, Stages::default()),
    }
}

/// All flows of a round, local ones included, in stages, whatever the job's library could do.
pub fn flows_in_stages(job: &Job, placement: &Placement, stages: Stages) -> Vec<RoundFlow> {
    let mut flows = match job.arch {
        Arch::Ring if stages.ring_chain => chain(job, placement),
        Arch::Ring => return chunks(job, placement),
        Arch::Ps => servers(job, placement, stages.whole_job),
        Arch::Tree | Arch::Flows | Arch::None => all_after(round_flows(job, placement)),
    };
    pass_through_local(&mut flows);
    if job.arch != Arch::Ps {
        let depths = depths(&flows);
        flows.iter_mut().zip(depths).for_each(|(flow, depth)| flow.stage = depth);
    }
    flows
}

fn all_after(mut flows: Vec<RoundFlow>) -> Vec<RoundFlow> {
    let preds = flows.iter_mut().flat_map(|f| &mut f.preds);
    preds.for_each(|p| *p = Pred { flow: p.flow, after: true, lead: 0 });
    flows
}

/// 0→1, then 1→2, …: a ring in the reading that costs it most.
fn chain(job: &Job, placement: &Placement) -> Vec<RoundFlow> {
    let mut flows = ring(job, placement);
    for (i, flow) in flows.iter_mut().enumerate() {
        flow.preds = i.checked_sub(1).map(|flow| Pred { flow, after: true, lead: 0 }).into_iter().collect();
    }
    flows
}

fn servers(job: &Job, placement: &Placement, whole_job: bool) -> Vec<RoundFlow> {
    let mut flows = parameter_server(job, placement);
    let aggregations = placement.workers.len() * placement.servers.len();
    for flow in &mut flows {
        if flow.stage == 0 {
            continue;
        }
        if whole_job {
            flow.preds = (0..aggregations).map(|flow| Pred { flow, after: true, lead: 0 }).collect();
        } else {
            flow.preds.iter_mut().for_each(|p| p.after = true);
        }
    }
    flows
}

/// Step k of rank i comes after step k − 1 of rank i and of rank i − 1. Flow (i, k) stands at k · n + i.
fn chunks(job: &Job, placement: &Placement) -> Vec<RoundFlow> {
    let n = placement.workers.len();
    if n < 2 {
        return Vec::new();
    }
    let chunk = ring_chunk(job.bytes, n);
    let steps = 2 * (n - 1);
    let mut flows: Vec<RoundFlow> = Vec::with_capacity(n * steps);
    for k in 0..steps {
        for i in 0..n {
            let mut preds: Vec<Pred> = Vec::new();
            // A step of the same rank and one of the rank before; a local one hands on what it waited for.
            for before in if k == 0 { Vec::new() } else { vec![(k - 1) * n + i, (k - 1) * n + (i + n - 1) % n] } {
                match flows.get(before) {
                    Some(f) if f.local() => f.preds.iter().for_each(|p| latest(&mut preds, p.flow, n)),
                    _ => latest(&mut preds, before, n),
                }
            }
            preds.sort_unstable_by_key(|p| p.flow);
            let (from, to) = (Member::worker(i), Member::worker((i + 1) % n));
            flows.push(RoundFlow::between(placement, format!("ring{i}.{k}"), from, to, chunk, preds, k as u32));
        }
    }
    flows
}

/// Adds a step to wait for; of one rank's steps only the last counts.
fn latest(preds: &mut Vec<Pred>, flow: usize, n: usize) {
    match preds.iter_mut().find(|p| p.flow % n == flow % n) {
        Some(p) => p.flow = p.flow.max(flow),
        None => preds.push(Pred { flow, after: true, lead: 0 }),
    }
}

/// How many flows come before each on the longest way to it.
fn depths(flows: &[RoundFlow]) -> Vec<u32> {
    let preds = |i: usize| flows[i].preds.iter().map(|pred| pred.flow);
    let mut depth = vec![0; flows.len()];
    for i in topological(flows.len(), preds) {
        depth[i] = preds(i).map(|pred| depth[pred] + 1).max().unwrap_or(0);
    }
    depth
}
