//! Rounds of jobs that do not pipeline: whole transfers one after the other (`simulation.md` section 4.3).

use std::collections::VecDeque;

use super::place::Seats;
use super::round::{
    Member, Pred, RoundFlow, host, parameter_server, pass_through_local, rank, ring, ring_chunk, round_flows,
};
use crate::jobs::{Arch, Dependency, Job};

/// What counts as a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages {
    /// A ring's stages are whole flows, 0→1 first; otherwise 2(n−1) steps in which every rank passes on one chunk.
    pub ring_chain: bool,
    /// All of a job's aggregations come before all of its broadcasts; otherwise each server goes by its own.
    pub whole_job: bool,
}

/// All flows of a round, local ones included, as the job's own `dependency` says.
pub fn flows_of(job: &Job, seats: &Seats) -> Vec<RoundFlow> {
    match job.dependency {
        Dependency::Pipelined => round_flows(job, seats),
        Dependency::StartAfter => flows_in_stages(job, seats, Stages::default()),
    }
}

/// All flows of a round, local ones included, in stages, whatever the job's library could do.
pub fn flows_in_stages(job: &Job, seats: &Seats, stages: Stages) -> Vec<RoundFlow> {
    let mut flows = match job.arch {
        Arch::Ring if stages.ring_chain => chain(job, seats),
        Arch::Ring => return chunks(job, seats),
        Arch::Ps => servers(job, seats, stages.whole_job),
        Arch::Tree | Arch::Flows | Arch::None => all_after(round_flows(job, seats)),
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
fn chain(job: &Job, seats: &Seats) -> Vec<RoundFlow> {
    let mut flows = ring(job, seats);
    for (i, flow) in flows.iter_mut().enumerate() {
        flow.preds = i.checked_sub(1).map(|flow| Pred { flow, after: true, lead: 0 }).into_iter().collect();
    }
    flows
}

fn servers(job: &Job, seats: &Seats, whole_job: bool) -> Vec<RoundFlow> {
    let mut flows = parameter_server(job, seats);
    let aggregations = seats.workers.len() * seats.servers.len();
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
fn chunks(job: &Job, seats: &Seats) -> Vec<RoundFlow> {
    let n = seats.workers.len();
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
            flows.push(RoundFlow {
                name: format!("ring{i}.{k}"),
                from: Member::Worker(rank(i)),
                to: Member::Worker(rank((i + 1) % n)),
                src: host(&seats.workers, i),
                dst: host(&seats.workers, (i + 1) % n),
                bytes: chunk,
                preds,
                stage: u32::try_from(k).unwrap_or(u32::MAX),
            });
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
    let mut open: Vec<usize> = flows.iter().map(|f| f.preds.len()).collect();
    let mut next: Vec<Vec<usize>> = vec![Vec::new(); flows.len()];
    for (i, flow) in flows.iter().enumerate() {
        for pred in &flow.preds {
            if let Some(list) = next.get_mut(pred.flow) {
                list.push(i);
            }
        }
    }
    let mut depth = vec![0u32; flows.len()];
    let mut ready: VecDeque<usize> = (0..flows.len()).filter(|&i| open.get(i) == Some(&0)).collect();
    while let Some(i) = ready.pop_front() {
        let here = depth.get(i).copied().unwrap_or(0);
        for &s in next.get(i).map_or(&[][..], Vec::as_slice) {
            if let (Some(d), Some(left)) = (depth.get_mut(s), open.get_mut(s)) {
                *d = here.saturating_add(1).max(*d);
                *left -= 1;
                if *left == 0 {
                    ready.push_back(s);
                }
            }
        }
    }
    depth
}
