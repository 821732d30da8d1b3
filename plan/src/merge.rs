//! Sends between ranks: switches are merged away, so that a chunk that crosses them goes straight from the rank before
//! them to the rank behind them.
//!
//! Such a crossing begins in the epoch in which it leaves its rank. Whoever gets a chunk can send it on in a later epoch
//! only, so that crossings by epoch are in an order in which each has what it needs. What a switch sends on as the sum of
//! several is a crossing of each.

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
    /// The first epoch in which the receiver has it.
    pub usable: u64,
    /// Does the receiver add it to what it holds?
    pub reduces: bool,
    /// The place in the file of the send with which a switch made it: a copy of a crossing that came to the switch once.
    pub copied: Option<usize>,
    /// The place in the file of the send with which a switch made one of several that came to it.
    pub summed: Option<usize>,
}

/// A chunk between ranks.
#[derive(Clone, Default)]
struct Flying {
    /// The sends with which it left ranks, by their index: of a sum several.
    begun: Vec<usize>,
    /// The last send with which a switch copied it.
    copied: Option<usize>,
    /// The last send with which a switch added it up.
    summed: Option<usize>,
}

impl Flying {
    fn plus(mut self, other: Flying) -> Flying {
        self.begun.extend(other.begun);
        Flying { copied: self.copied.or(other.copied), summed: self.summed.or(other.summed), ..self }
    }
}

/// What comes to a switch for an epoch.
#[derive(Default)]
struct Passing {
    arrivals: Vec<Flying>,
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
        let mut flying = Flying { begun: vec![index], ..Flying::default() };
        if !ranks.contains_key(&send.from) {
            let there = passing.get_mut(&(send.source, send.number, send.from, send.epoch)).ok_or_else(defect)?;
            let last = there.arrivals.len().checked_sub(1).ok_or_else(defect)?;
            if send.reduces && topology.nodes()[send.from].can.reduce {
                flying = there.arrivals.drain(..).reduce(Flying::plus).ok_or_else(defect)?;
                flying.summed = if last > 0 { Some(send.at) } else { flying.summed };
            } else {
                flying.clone_from(&there.arrivals[there.used.min(last)]);
                flying.copied = if there.used > last { Some(send.at) } else { flying.copied };
                there.used += 1;
            }
        }
        let Some(to) = ranks.get(&send.to) else {
            let node = &topology.nodes()[send.to];
            if !matches!(node.kind, Kind::Switch | Kind::Nic) {
                let key = format!("/content/sends/{}/to", send.at);
                let error =
                    Problem::new(UNSUPPORTED_FIELD, key, "a node that takes no part would have to store chunks");
                return Err(error.found(&*node.id).allowed("participants and switches").into());
            }
            passing.entry((send.source, send.number, send.to, send.usable)).or_default().arrivals.push(flying);
            continue;
        };
        let owner = *ranks.get(&send.source).ok_or_else(defect)?;
        let Flying { begun, copied, summed } = flying;
        for begun in begun.into_iter().map(|index| &timed[index]) {
            all.push(Crossing {
                at: begun.at,
                epoch: u32::try_from(begun.epoch).map_err(|_| {
                    let error = Problem::new(E_LIMIT, format!("/content/sends/{}/epoch", begun.at), "too many epochs");
                    error.found(begun.epoch.to_string()).allowed(format!("at most {}", u32::MAX))
                })?,
                link: begun.link,
                from: *ranks.get(&begun.from).ok_or_else(defect)?,
                to: *to,
                owner,
                number: send.number,
                usable: send.usable,
                reduces: send.reduces,
                copied,
                summed,
            });
        }
    }
    all.sort_by_key(|crossing| crossing.epoch);
    Ok(all)
}

#[cfg(test)]
pub(crate) mod tests;
