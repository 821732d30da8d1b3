//! A schedule of sends as a runtime sees it, messages from rank to rank, and as JSON with numbers for nodes.
//!
//! What crosses switches is one message (`merge`), and the epochs in which messages begin are steps ([`mod@lower`]).

pub(super) mod lower;

use std::collections::HashMap;

use serde::Serialize;

use super::messages::Messages;
use super::{UNSUPPORTED_FIELD, refused};
use crate::check::{Timed, timed};
use crate::merge::crossings;
use crate::plan::{Collective, Op, Plan, Sends};
use sluice_formats::problem::{E_LIMIT, INTERNAL_INVARIANT, Problem, Problems};
use sluice_formats::quantity::Rational;
use sluice_formats::topology::Topology;

/// Chunks of all ranks at most.
pub(super) const MAX_CELLS: u64 = 1 << 31;
/// The collectives whose programs have buffers that runtimes agree on.
pub(super) const COLLECTIVES: [Collective; 6] = [
    Collective::AllGather,
    Collective::AllReduce,
    Collective::AllToAll,
    Collective::Broadcast,
    Collective::Reduce,
    Collective::ReduceScatter,
];

/// Messages, and whether copying or adding up in switches was given up.
pub struct Lowered {
    /// From rank to rank.
    pub messages: Messages,
    /// Does a switch copy or add up in the plan?
    pub lossy: bool,
}

/// Puts sends that the checker found right into ranks and messages.
pub fn messages(plan: &Plan, topology: &Topology, sends: &Sends) -> Result<Lowered, Problems> {
    let collective = plan.body.collective;
    if !COLLECTIVES.contains(&collective) || sends.model.divisible == Some(true) {
        let error = Problem::new(UNSUPPORTED_FIELD, "/collective", "sends of this kind are not exported as programs");
        let allowed: Vec<&str> = COLLECTIVES.iter().map(|collective| collective.word()).collect();
        let error = error.found(collective.word());
        return Err(error.allowed(format!("{} in whole chunks", allowed.join(", "))).into());
    }
    let participants = participants(plan, topology);
    let ranks: HashMap<usize, u32> = participants.iter().copied().zip(0..).collect();
    let (n, shard) = (participants.len() as u64, sends.model.chunks);
    let all = if collective.is_rooted() { shard } else { n.saturating_mul(shard) };
    if n.saturating_mul(all) > MAX_CELLS {
        let error = Problem::new(E_LIMIT, "/content/model/chunks", "the program would be too large");
        let error = error.found(format!("{shard} chunks of each of {n} ranks"));
        return Err(error.allowed(format!("{MAX_CELLS} chunks on all ranks together")).into());
    }
    let root = plan.body.root.and_then(|root| ranks.get(&topology.node(plan.id(root))?));
    // Below MAX_CELLS.
    let own = |rank: u32| if root.is_none_or(|root| *root == rank) { shard as u32 } else { 0 };
    let layout = Messages::new(collective, (0..n as u32).map(own).collect());
    let timed = timed(plan, topology, sends).map_err(|violation| refused(&violation))?;
    let crossings = crossings(topology, &timed, &ranks)?;
    let lossy = crossings.iter().any(|crossing| crossing.copied.is_some() || crossing.summed.is_some());
    Ok(Lowered { messages: lower::lower(layout, crossings), lossy })
}

pub(super) fn participants(plan: &Plan, topology: &Topology) -> Vec<usize> {
    match &plan.body.participants {
        Some(list) => list.iter().filter_map(|node| topology.node(plan.id(*node))).collect(),
        None => topology.compute(),
    }
}

#[derive(Serialize)]
struct Document {
    epoch_us: f64,
    finish_epochs: u64,
    finish_us: f64,
    #[serde(rename = "algo_bandwidth_GBps")]
    algo_bandwidth: Option<f64>,
    solver: Solver,
    sends: Vec<Row>,
}

#[derive(Serialize)]
struct Solver {
    status: Option<&'static str>,
    bound: Option<f64>,
}

#[derive(Serialize)]
struct Row {
    src: usize,
    chunk: u64,
    from: usize,
    to: usize,
    epoch: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    op: Option<&'static str>,
}

/// The schedule with numbers for nodes, by epoch, source, chunk, from and to.
pub fn json(plan: &Plan, topology: &Topology, sends: &Sends) -> Result<String, Problems> {
    let timed = timed(plan, topology, sends).map_err(|violation| refused(&violation))?;
    let row = |send: &Timed| {
        let entry = &*sends.sends[send.at].entry;
        let (src, chunk, from, to, epoch) = (send.source, send.number, send.from, send.to, send.epoch);
        let op = send.reduces.then_some(Op::Reduce.word());
        Row { src, chunk, from, to, epoch, offset: entry.offset, bytes: entry.bytes, op }
    };
    let mut rows: Vec<Row> = timed.iter().map(row).collect();
    rows.sort_by_key(|row| (row.epoch, row.src, row.chunk, row.from, row.to, row.offset));
    let claim = &plan.body.claim;
    let tau = sends.model.tau.value();
    let finish = claim.finish_epochs.or(sends.finish_epochs);
    let finish = finish.unwrap_or_else(|| timed.iter().map(|send| send.usable).max().unwrap_or(0));
    let time = tau * &Rational::from(finish);
    let n = participants(plan, topology).len() as u64;
    let parts = match plan.body.collective {
        Collective::AllGather | Collective::ReduceScatter | Collective::AllReduce | Collective::AllToAll => {
            Some(n * sends.model.chunks)
        }
        Collective::Broadcast | Collective::Reduce => Some(sends.model.chunks),
        _ => None,
    };
    let size = parts.map(|parts| sends.model.chunk.value() * &Rational::from(parts));
    let document = Document {
        epoch_us: tau.to_f64() * 1e6,
        finish_epochs: finish,
        finish_us: time.to_f64() * 1e6,
        algo_bandwidth: size.and_then(|size| size.checked_div(&time)).map(|rate| rate.to_f64() / 1e9),
        solver: Solver {
            status: claim.status.map(crate::plan::Status::word),
            bound: claim.lower_bound.as_ref().map(|bound| bound.value.to_f64()),
        },
        sends: rows,
    };
    let text = serde_json::to_string(&document);
    let text = text.map_err(|error| Problem::new(INTERNAL_INVARIANT, "", error.to_string()))?;
    Ok(text + "\n")
}
