//! What a job's flows are together: a ring, parameter servers, or flows as they were seen.
//!
//! Where the flows show a ring or servers whole, the job is replayed as one, so that its flows wait for each other as they do
//! in the library. Else each flow is replayed by itself; what a server broadcasts waits for what it aggregates, and what goes
//! down a tree for what comes up.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use sluice_formats::recording::{Pattern, Role};

use super::merge::{Flow, Merged};
use crate::model::MAX_BYTES;
use crate::order::topological;

/// Flows are alike if none differs by more than one part of so many from the median.
const ALIKE: u64 = 10;

/// What a job is replayed as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// These hosts in a circle, with a gradient of so many bytes.
    Ring(Vec<String>, u64),
    /// Workers, servers, bytes of a gradient.
    Servers(Vec<String>, Vec<String>, u64),
    /// Flow by flow; true: what they wait for ran in a circle and is left out.
    Flows(bool),
}

impl Shape {
    /// The shape of a job.
    pub fn of(job: &Merged) -> Shape {
        ring(job).or_else(|| servers(job)).unwrap_or_else(|| Shape::Flows(is_circle(job)))
    }

    /// What a reader of the result should know.
    pub fn note(&self, job: &Merged) -> Option<String> {
        match self {
            Shape::Flows(true) => Some("what its flows wait for runs in a circle; each goes by itself".into()),
            Shape::Flows(false) if job.pattern == Pattern::Ring => Some(
                "its flows are no whole ring of equals, as where a host did not record; each goes by itself".into(),
            ),
            _ => None,
        }
    }

    /// The keys of a scenario's job that say it.
    pub fn entry(&self, job: &Merged) -> Value {
        match self {
            Shape::Ring(workers, bytes) => json!({"arch": "ring", "bytes": bytes, "placement": {"workers": workers}}),
            Shape::Servers(workers, servers, bytes) => {
                json!({"arch": "ps", "bytes": bytes, "placement": {"workers": workers, "servers": servers}})
            }
            Shape::Flows(circle) => {
                let before = predecessors(job);
                let flow = |(at, (flow, bytes)): (usize, (&Flow, &u64))| {
                    let waits = if *circle { &[][..] } else { &before[at] };
                    let pipelined: Vec<String> = waits.iter().map(|at| format!("f{at}")).collect();
                    json!({"id": format!("f{at}"), "src": flow.from, "dst": flow.to, "bytes": bytes, "pipelined": pipelined})
                };
                json!({"arch": "flows", "flows": job.flows.iter().enumerate().map(flow).collect::<Vec<_>>()})
            }
        }
    }
}

fn alike<'b>(bytes: impl Iterator<Item = &'b u64>) -> Option<u64> {
    let mut sorted: Vec<u64> = bytes.copied().collect();
    sorted.sort_unstable();
    let median = *sorted.get(sorted.len() / 2)?;
    sorted.iter().all(|bytes| bytes.abs_diff(median) <= median / ALIKE).then_some(median)
}

fn ring(job: &Merged) -> Option<Shape> {
    let ring = |flow: &Flow| flow.role == Role::Ring || job.pattern == Pattern::Ring && flow.role == Role::Plain;
    let next: BTreeMap<&str, &str> = job.flows.keys().map(|flow| (flow.from.as_str(), flow.to.as_str())).collect();
    if !job.flows.keys().all(ring) || next.len() != job.flows.len() {
        return None;
    }
    let first = *next.keys().next()?;
    let (mut workers, mut at) = (vec![first.to_owned()], *next.get(first)?);
    while at != first {
        if workers.len() > next.len() {
            return None;
        }
        workers.push(at.to_owned());
        at = next.get(at)?;
    }
    let ranks = workers.len() as u64;
    if ranks != next.len() as u64 || ranks < 2 {
        return None;
    }
    // Each rank sends 2 (n − 1) chunks of n.
    let bytes = u128::from(alike(job.flows.values())?) * u128::from(ranks) / u128::from(2 * (ranks - 1));
    Some(Shape::Ring(workers, u64::try_from(bytes).ok()?.max(1)))
}

fn servers(job: &Merged) -> Option<Shape> {
    let mut workers: BTreeSet<&str> = BTreeSet::new();
    let mut servers: BTreeSet<&str> = BTreeSet::new();
    for flow in job.flows.keys() {
        let (worker, server) = match flow.role {
            Role::Aggregate => (&flow.from, &flow.to),
            Role::Broadcast => (&flow.to, &flow.from),
            _ => return None,
        };
        workers.insert(worker);
        servers.insert(server);
    }
    let both = |worker: &str, server: &str| {
        let flow = |from: &str, to: &str, role| Flow { from: from.to_owned(), to: to.to_owned(), role };
        let ways = [flow(worker, server, Role::Aggregate), flow(server, worker, Role::Broadcast)];
        worker == server || ways.iter().all(|way| job.flows.contains_key(way))
    };
    let whole = workers.iter().all(|worker| servers.iter().all(|server| both(worker, server)));
    if !whole || servers.is_empty() || servers.len() > workers.len() * 4 {
        return None;
    }
    let shard = alike(job.flows.values())?;
    let own = |names: BTreeSet<&str>| names.into_iter().map(str::to_owned).collect();
    let bytes = shard.checked_mul(servers.len() as u64).filter(|bytes| *bytes <= MAX_BYTES)?;
    Some(Shape::Servers(own(workers), own(servers), bytes))
}

/// For each flow, in order, the places of those that bound it.
fn predecessors(job: &Merged) -> Vec<Vec<usize>> {
    let mut into: BTreeMap<(&str, Role), Vec<usize>> = BTreeMap::new();
    for (at, flow) in job.flows.keys().enumerate() {
        into.entry((&flow.to, flow.role)).or_default().push(at);
    }
    let into = |host: &str, role| into.get(&(host, role)).cloned().unwrap_or_default();
    let before = |flow: &Flow| match flow.role {
        Role::Broadcast => into(&flow.from, Role::Aggregate),
        Role::Reduce => into(&flow.from, Role::Reduce),
        Role::Spread => {
            let from_above = into(&flow.from, Role::Spread);
            if from_above.is_empty() { into(&flow.from, Role::Reduce) } else { from_above }
        }
        Role::Plain | Role::Ring | Role::Aggregate => Vec::new(),
    };
    job.flows.keys().map(before).collect()
}

fn is_circle(job: &Merged) -> bool {
    let before = predecessors(job);
    topological(before.len(), |at| before[at].iter().copied()).len() < before.len()
}
