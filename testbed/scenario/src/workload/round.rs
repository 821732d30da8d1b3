//! The flows of one round of a job, their bytes and their dependencies (`simulation.md` sections 4.1 to 4.3).

use crate::jobs::{Arch, GivenFlow, Job, Placement};
use crate::network::NodeIx;

/// A member of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Member {
    /// A worker, by rank.
    Worker(u32),
    /// A parameter server, by its place among the servers.
    Server(u32),
    /// The end of a listed flow: no member, a host.
    Host,
}

impl Member {
    pub(super) fn worker(rank: usize) -> Member {
        Member::Worker(rank as u32)
    }

    fn server(index: usize) -> Member {
        Member::Server(index as u32)
    }
}

/// What has to happen before a flow may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pred {
    /// Index of the predecessor in the same list.
    pub flow: usize,
    /// True: its last byte first. False: F ≤ lead + ρ · F_pred at every moment.
    pub after: bool,
    /// Bytes it may be ahead of the predecessor.
    pub lead: u64,
}

impl Pred {
    /// This predecessor of a local flow, seen from a flow for which the local one was `local`.
    fn behind(&self, local: &Pred) -> Pred {
        Pred { flow: self.flow, after: self.after || local.after, lead: self.lead.saturating_add(local.lead) }
    }
}

/// One directed transfer of a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundFlow {
    /// `ring0`, `agg0-1`, `bc1-0`, `up1`, `down1`, or the listed id.
    pub name: String,
    /// The member that sends.
    pub from: Member,
    /// The member that receives.
    pub to: Member,
    /// Host of the member that sends.
    pub src: NodeIx,
    /// Host of the member that receives.
    pub dst: NodeIx,
    /// Bytes it carries in every round.
    pub bytes: u64,
    /// Its predecessors among the network flows: dependencies through local flows are passed on.
    pub preds: Vec<Pred>,
    /// Which stage of the round it belongs to, 0 for the first: a server's broadcasts and a tree's broadcasts are 1.
    pub stage: u32,
    /// The card by which it leaves its host, where hosts have several.
    pub rail: Option<u32>,
}

impl RoundFlow {
    /// A transfer from one member of a job to another.
    pub(super) fn between(
        placement: &Placement,
        name: String,
        from: Member,
        to: Member,
        bytes: u64,
        preds: Vec<Pred>,
        stage: u32,
    ) -> RoundFlow {
        let host = |member| match member {
            Member::Worker(rank) => placement.workers[rank as usize],
            Member::Server(index) => placement.servers[index as usize],
            Member::Host => NodeIx::default(),
        };
        RoundFlow { name, from, to, src: host(from), dst: host(to), bytes, preds, stage, rail: None }
    }

    /// Both ends on one host: no time, no bandwidth.
    pub fn local(&self) -> bool {
        self.src == self.dst
    }
}

/// All flows of a round, local ones included, with pipelined dependencies; see [`super::stages`] for start-after.
pub fn round_flows(job: &Job, placement: &Placement) -> Vec<RoundFlow> {
    let mut flows = match job.arch {
        Arch::Ring => ring(job, placement),
        Arch::Ps => parameter_server(job, placement),
        Arch::Tree => tree(job, placement),
        Arch::Flows => listed(job),
        Arch::None => Vec::new(),
    };
    pass_through_local(&mut flows);
    flows
}

/// Chunk of a ring: the gradient divided by the number of ranks, rounded up.
pub fn ring_chunk(bytes: u64, workers: usize) -> u64 {
    bytes.div_ceil(workers.max(1) as u64)
}

pub(super) fn ring(job: &Job, placement: &Placement) -> Vec<RoundFlow> {
    let n = placement.workers.len();
    if n < 2 {
        return Vec::new();
    }
    let chunk = ring_chunk(job.bytes, n);
    let flow = |i: usize| {
        let preds = vec![Pred { flow: (i + n - 1) % n, after: false, lead: chunk }];
        let (from, to) = (Member::worker(i), Member::worker((i + 1) % n));
        RoundFlow::between(placement, format!("ring{i}"), from, to, 2 * (n as u64 - 1) * chunk, preds, 0)
    };
    (0..n).map(flow).collect()
}

pub(super) fn parameter_server(job: &Job, placement: &Placement) -> Vec<RoundFlow> {
    let (workers, servers) = (placement.workers.len(), placement.servers.len());
    let shard = job.bytes.div_ceil(servers.max(1) as u64);
    let mut flows = Vec::with_capacity(2 * workers * servers);
    for (w, p) in (0..workers).flat_map(|w| (0..servers).map(move |p| (w, p))) {
        let (name, from, to) = (format!("agg{w}-{p}"), Member::worker(w), Member::server(p));
        flows.push(RoundFlow::between(placement, name, from, to, shard, Vec::new(), 0));
    }
    for (p, w) in (0..servers).flat_map(|p| (0..workers).map(move |w| (p, w))) {
        let into = (0..workers).map(|v| Pred { flow: v * servers + p, after: false, lead: 0 }).collect();
        let (name, from, to) = (format!("bc{p}-{w}"), Member::server(p), Member::worker(w));
        flows.push(RoundFlow::between(placement, name, from, to, shard, into, 1));
    }
    flows
}

fn tree(job: &Job, placement: &Placement) -> Vec<RoundFlow> {
    let n = placement.workers.len();
    let fanout = (job.fanout as usize).max(1);
    let parent = |i: usize| (i - 1) / fanout;
    let children = |i: usize| (i * fanout + 1).min(n)..((i + 1).saturating_mul(fanout) + 1).min(n);
    // Flow up{i} has index i − 1, flow down{i} index n − 1 + i − 1.
    let up = |i: usize| Pred { flow: i - 1, after: false, lead: 0 };
    let down = |i: usize| Pred { flow: n - 2 + i, after: false, lead: 0 };
    let flow = |name: String, from: usize, to: usize, preds: Vec<Pred>, stage: u32| {
        RoundFlow::between(placement, name, Member::worker(from), Member::worker(to), job.bytes, preds, stage)
    };
    let ups = (1..n).map(|i| flow(format!("up{i}"), i, parent(i), children(i).map(up).collect(), 0));
    let downs = (1..n).map(|i| {
        let preds = if parent(i) == 0 { children(0).map(up).collect() } else { vec![down(parent(i))] };
        flow(format!("down{i}"), parent(i), i, preds, 1)
    });
    ups.chain(downs).collect()
}

fn listed(job: &Job) -> Vec<RoundFlow> {
    let flow = |f: &GivenFlow| {
        let pred = |after| move |&flow: &usize| Pred { flow, after, lead: 0 };
        RoundFlow {
            name: f.id.clone(),
            from: Member::Host,
            to: Member::Host,
            src: f.src,
            dst: f.dst,
            bytes: f.bytes,
            preds: f.pipelined.iter().map(pred(false)).chain(f.after.iter().map(pred(true))).collect(),
            stage: 0,
            rail: None,
        }
    };
    job.flows.iter().map(flow).collect()
}

/// A local predecessor is replaced by its own predecessors, leads added up; one without predecessors is done at once.
pub(super) fn pass_through_local(flows: &mut [RoundFlow]) {
    let before: Vec<(bool, Vec<Pred>)> = flows.iter().map(|f| (f.local(), f.preds.clone())).collect();
    // For which flow a local one was last looked at: once is enough, and a ring inside one host has no end.
    let mut seen = vec![usize::MAX; flows.len()];
    for (i, flow) in flows.iter_mut().enumerate() {
        let mut found: Vec<Pred> = Vec::new();
        let mut open = std::mem::take(&mut flow.preds);
        while let Some(pred) = open.pop() {
            let Some((local, further)) = before.get(pred.flow) else { continue };
            if std::mem::replace(&mut seen[pred.flow], i) == i {
                continue;
            }
            if *local {
                open.extend(further.iter().map(|p| p.behind(&pred)));
            } else {
                found.push(pred);
            }
        }
        found.sort_by_key(|p| p.flow);
        flow.preds = found;
    }
}
