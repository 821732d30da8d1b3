//! A schedule of sends as a runtime sees it, messages from rank to rank, and as JSON with numbers for nodes.
//!
//! A chunk that crosses switches is one message from the rank before them to the rank behind them, in the order of the epochs
//! in which they start. Whoever gets a chunk can send it on in a later epoch only, so that epochs are steps.

use std::collections::HashMap;

use serde::Serialize;

use super::messages::{Message, Messages};
use super::{UNSUPPORTED_FIELD, refused};
use crate::check::{Timed, timed};
use crate::plan::{Collective, Plan, Sends};
use sluice_formats::problem::{E_LIMIT, INTERNAL_INVARIANT, Problem, Problems};
use sluice_formats::quantity::Rational;
use sluice_formats::topology::Topology;

/// Chunks of all ranks at most.
const MAX_CELLS: u64 = 1 << 31;

/// Messages, and whether copying in switches was given up.
pub struct Lowered {
    /// From rank to rank.
    pub messages: Messages,
    /// Does a switch copy in the plan?
    pub lossy: bool,
}

/// Puts sends that the checker found right into ranks and messages.
pub fn messages(plan: &Plan, topology: &Topology, sends: &Sends) -> Result<Lowered, Problems> {
    let collective = plan.body.collective;
    if collective != Collective::AllGather || sends.model.divisible == Some(true) {
        let error = Problem::new(UNSUPPORTED_FIELD, "/collective", "sends of this kind are not exported as programs");
        return Err(error.found(collective.word()).allowed("allgather in whole chunks").into());
    }
    let participants = participants(plan, topology);
    let ranks: HashMap<usize, u32> = participants.iter().copied().zip(0..).collect();
    let (n, shard) = (participants.len() as u64, sends.model.chunks);
    if n.saturating_mul(n).saturating_mul(shard) > MAX_CELLS {
        let error = Problem::new(E_LIMIT, "/content/model/chunks", "the program would be too large");
        let error = error.found(format!("{shard} chunks of each of {n} ranks"));
        return Err(error.allowed(format!("{MAX_CELLS} chunks on all ranks together")).into());
    }
    let defect = || Problem::new(INTERNAL_INVARIANT, "/content/sends", "the checker let pass a bad send");
    let timed = timed(plan, topology, sends).map_err(|violation| refused(&violation))?;
    // By chunk, switch and epoch: the ranks whose data is there for that epoch, and since when it has been on the way.
    let mut passing: HashMap<(usize, u64, usize, u64), Passing> = HashMap::new();
    let (mut all, mut lossy) = (Vec::with_capacity(timed.len()), false);
    let mut order: Vec<&Timed> = timed.iter().collect();
    // What a switch passes on in an epoch came from a rank that began in an earlier one.
    order.sort_by_key(|send| send.epoch);
    for send in order {
        let begun = match ranks.get(&send.from) {
            Some(rank) => Begun { rank: *rank, epoch: send.epoch },
            None => {
                let key = (send.source, send.number, send.from, send.epoch);
                let there = passing.get_mut(&key).ok_or_else(defect)?;
                let last = there.begun.len() - 1;
                lossy |= there.used > last;
                let begun = there.begun[there.used.min(last)];
                there.used += 1;
                begun
            }
        };
        match ranks.get(&send.to) {
            None => {
                let key = (send.source, send.number, send.to, send.usable);
                passing.entry(key).or_default().begun.push(begun);
            }
            Some(to) => {
                let owner = ranks.get(&send.source).ok_or_else(defect)?;
                let first = u64::from(*owner) * shard + send.number;
                all.push(Message {
                    step: u32::try_from(begun.epoch).map_err(|_| defect())?,
                    from: begun.rank,
                    to: *to,
                    channel: 0,
                    first: u32::try_from(first).map_err(|_| defect())?,
                    count: 1,
                    adds: false,
                    moves: false,
                });
            }
        }
    }
    all.sort_by_key(|message| (message.step, message.from, message.to, message.first));
    all.dedup_by(|next, last| {
        let joins = (next.step, next.from, next.to) == (last.step, last.from, last.to)
            && next.first == last.first + last.count
            && !u64::from(next.first).is_multiple_of(shard);
        if joins {
            last.count += next.count;
        }
        joins
    });
    all.sort_by_key(|message| (message.step, message.first, message.from, message.to));
    let steps = all.last().map_or(0, |message| message.step + 1);
    let messages = Messages { ranks: n as u32, shard: shard as u32, collective, steps, all };
    Ok(Lowered { messages, lossy })
}

/// Where a message began.
#[derive(Clone, Copy)]
struct Begun {
    rank: u32,
    epoch: u64,
}

/// What is at a switch for an epoch.
#[derive(Default)]
struct Passing {
    begun: Vec<Begun>,
    /// How often it was passed on.
    used: usize,
}

fn participants(plan: &Plan, topology: &Topology) -> Vec<usize> {
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
}

/// The schedule with numbers for nodes, by epoch, source, chunk, from and to.
pub fn json(plan: &Plan, topology: &Topology, sends: &Sends) -> Result<String, Problems> {
    let timed = timed(plan, topology, sends).map_err(|violation| refused(&violation))?;
    let row = |send: &Timed| {
        let entry = &*sends.sends[send.at].entry;
        let (src, chunk, from, to, epoch) = (send.source, send.number, send.from, send.to, send.epoch);
        Row { src, chunk, from, to, epoch, offset: entry.offset, bytes: entry.bytes }
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
        Collective::AllGather | Collective::AllToAll => Some(n * sends.model.chunks),
        Collective::Broadcast => Some(sends.model.chunks),
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
