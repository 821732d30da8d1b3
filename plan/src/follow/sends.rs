//! A schedule of chunks in epochs, in ranks: who sends which chunk after which over which link.
//!
//! Switches are merged away: what crosses them is one message between ranks, which leaves by the link of its first hop.
//! A follower keeps the order of the epochs on every link, not their times: a chunk goes on when it has come and it is its
//! turn. As with steps a chunk may enter a rank once only, so that its ways are a tree.

use std::collections::{HashMap, HashSet};

use super::steps::{Sent, Stepped, Waits, trees};
use super::{Tree, UNSUPPORTED_FIELD};
use crate::check;
use crate::merge::crossings;
use crate::plan::{Plan, Sends};
use sluice_formats::problem::{E_LIMIT, Problem, Problems};
use sluice_formats::topology::Topology;

/// Reads the sends of a plan that the checker found right. `ranks` are the ranks of the job by node.
pub fn follow(
    plan: &Plan,
    topology: &Topology,
    sends: &Sends,
    ranks: &HashMap<usize, u32>,
) -> Result<(Vec<Tree>, Stepped), Problems> {
    let refuse = |key: String, message: &str| Problem::new(UNSUPPORTED_FIELD, key, message);
    if sends.model.divisible == Some(true) {
        let error = refuse("/content/model/divisible".into(), "chunks that are cut cannot be followed");
        return Err(error.found("true").allowed("whole chunks").into());
    }
    let timed = check::timed(plan, topology, sends)
        .map_err(|violation| Problem::new(violation.code.word(), violation.at, violation.message))?;
    let shard = sends.model.chunks;
    let mut sent = Vec::new();
    // Who has which chunk, and which sums have left whom.
    let (mut entered, mut left) = (HashSet::new(), HashSet::new());
    for crossing in crossings(topology, &timed, ranks)? {
        if let Some(place) = crossing.copied.or(crossing.summed) {
            let key = format!("/content/sends/{place}");
            let error = refuse(key, "a switch that copies or adds up cannot be followed");
            let switch = plan.id(sends.sends[place].entry.from);
            return Err(error
                .found(switch)
                .allowed("participants")
                .help("plan with switches that only forward")
                .into());
        }
        let at = format!("/content/sends/{}", crossing.at);
        let adds = crossing.reduces;
        let first = u64::from(crossing.owner) * shard + crossing.number;
        let again = match adds {
            true => crossing.from == crossing.owner || !left.insert((first, crossing.from)),
            false => crossing.to == crossing.owner || !entered.insert((first, crossing.to)),
        };
        if again {
            let message = if adds { "a sum leaves a rank twice" } else { "a chunk enters a rank that has it" };
            let error = refuse(at, message).allowed("sends that bring every chunk to every rank once");
            return Err(error.into());
        }
        let link = u32::try_from(crossing.link).map_err(|_| {
            let error = Problem::new(E_LIMIT, at, "too many links").found(crossing.link.to_string());
            error.allowed(format!("at most {}", u32::MAX))
        })?;
        let (step, from, to) = (crossing.epoch, crossing.from, crossing.to);
        sent.push(Sent { step, from, to, first, end: first + 1, adds, link });
    }
    sent.sort_unstable();
    let trees = trees(plan, &sent, ranks.len(), shard, "/content/sends")?;
    Ok((trees, Stepped { shard, sent, waits: Waits::Chunk }))
}

#[cfg(test)]
mod tests;
