//! Sends between ranks: switches are merged away, so that a chunk that crosses them goes straight from the rank before
//! them to the rank behind them.
//!
//! Such a crossing begins in the epoch in which it leaves its rank. Whoever gets a chunk can send it on in a later epoch
//! only, so that crossings by epoch are in an order in which each has what it needs.

use std::collections::HashMap;

use crate::check::Timed;
use sluice_formats::problem::{E_LIMIT, INTERNAL_INVARIANT, Problem, Problems, UNSUPPORTED_FIELD};
use sluice_formats::topology::{Kind, Topology};

/// A chunk on its way from one rank to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// The place in the file of the send with which it leaves its rank.
    pub at: usize,
    /// The epoch of that send.
    pub epoch: u32,
    /// Index of the link that it leaves by.
    pub link: usize,
    /// The rank that sends.
    pub from: u32,
    /// The rank that receives.
    pub to: u32,
    /// The rank whose chunk it is.
    pub owner: u32,
    /// The chunk's number there.
    pub number: u64,
    /// The place in the file of the send with which a switch made it: a copy of a crossing that came to the switch once.
    pub copied: Option<usize>,
}

/// What comes to a switch for an epoch.
#[derive(Default)]
struct Passing {
    /// The sends with which it left ranks, by their index.
    begun: Vec<usize>,
    /// How often it was passed on.
    used: usize,
}

/// All crossings, by the epoch in which they begin. `ranks` has the rank of every participant's node.
///
/// # Errors
/// `UNSUPPORTED_FIELD` where a chunk stops at a node that is neither rank nor switch, `E_LIMIT` beyond 2³² epochs,
/// `INTERNAL_INVARIANT` for sends that the checker would refuse.
pub fn crossings(topology: &Topology, timed: &[Timed], ranks: &HashMap<usize, u32>) -> Result<Vec<Crossing>, Problems> {
    let defect = || Problem::new(INTERNAL_INVARIANT, "/content/sends", "the checker let pass a bad send");
    // By chunk, switch and epoch.
    let mut passing: HashMap<(usize, u64, usize, u64), Passing> = HashMap::new();
    let mut all = Vec::with_capacity(timed.len());
    let mut order: Vec<usize> = (0..timed.len()).collect();
    // What a switch passes on in an epoch came from a rank that began in an earlier one.
    order.sort_by_key(|index| timed[*index].epoch);
    for index in order {
        let send = &timed[index];
        let (mut first, mut copied) = (index, None);
        if !ranks.contains_key(&send.from) {
            let there = passing.get_mut(&(send.source, send.number, send.from, send.epoch)).ok_or_else(defect)?;
            let last = there.begun.len() - 1;
            copied = (there.used > last).then_some(send.at);
            first = there.begun[there.used.min(last)];
            there.used += 1;
        }
        let Some(to) = ranks.get(&send.to) else {
            let node = &topology.nodes()[send.to];
            if !matches!(node.kind, Kind::Switch | Kind::Nic) {
                let key = format!("/content/sends/{}/to", send.at);
                let error =
                    Problem::new(UNSUPPORTED_FIELD, key, "a node that takes no part would have to store chunks");
                return Err(error.found(&*node.id).allowed("participants and switches").into());
            }
            passing.entry((send.source, send.number, send.to, send.usable)).or_default().begun.push(first);
            continue;
        };
        let begun = &timed[first];
        all.push(Crossing {
            at: begun.at,
            epoch: u32::try_from(begun.epoch).map_err(|_| {
                let error = Problem::new(E_LIMIT, format!("/content/sends/{}/epoch", begun.at), "too many epochs");
                error.found(begun.epoch.to_string()).allowed(format!("at most {}", u32::MAX))
            })?,
            link: begun.link,
            from: *ranks.get(&begun.from).ok_or_else(defect)?,
            to: *to,
            owner: *ranks.get(&send.source).ok_or_else(defect)?,
            number: send.number,
            copied,
        });
    }
    all.sort_by_key(|crossing| crossing.epoch);
    Ok(all)
}

#[cfg(test)]
mod tests;
