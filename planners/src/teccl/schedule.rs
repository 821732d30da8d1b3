//! A schedule of sends, when it is done, and which of its sends somebody needs.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::demand::Demand;
use super::lane::Lanes;

/// A chunk that starts on a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Send {
    /// The epoch in which the chunk starts, from 0.
    pub epoch: u64,
    /// Its place among the demand's chunks.
    pub chunk: usize,
    /// The lane's place in [`Lanes::lanes`].
    pub lane: usize,
}

/// Sends, by epoch, chunk and lane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// Ascending, by epoch first.
    pub sends: Vec<Send>,
    /// Epochs until the last chunk is where it is wanted.
    pub finish: u64,
}

/// A demand that is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its place in [`Demand::chunks`].
    pub chunk: usize,
    /// The node that wants it.
    pub node: usize,
    /// The first epoch in which it has it.
    pub usable: u64,
}

/// A demand that the sends do not meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unmet {
    /// Its place in [`Demand::chunks`].
    pub chunk: usize,
    /// Who does not get it.
    pub node: usize,
}

impl Schedule {
    /// When every demand is met that is.
    pub fn arrivals(&self, lanes: &Lanes, demand: &Demand) -> impl Iterator<Item = Arrival> {
        let mut first: BTreeMap<(usize, usize), u64> = BTreeMap::new();
        for send in &self.sends {
            let lane = &lanes.lanes[send.lane];
            if demand.chunks[send.chunk].wanted_by.binary_search(&lane.to).is_ok() {
                let usable = first.entry((send.chunk, lane.to)).or_insert(u64::MAX);
                *usable = (*usable).min(send.epoch + lane.after);
            }
        }
        first.into_iter().map(|((chunk, node), usable)| Arrival { chunk, node, usable })
    }

    /// The sends that bring every chunk first to whoever wants it, and those that these need; all others are left out.
    ///
    /// # Errors
    /// A demand that is not met.
    pub fn pruned(lanes: &Lanes, demand: &Demand, sends: &[Send]) -> Result<Schedule, Unmet> {
        let mut by_chunk: BTreeMap<usize, Vec<Send>> = BTreeMap::new();
        for send in sends {
            by_chunk.entry(send.chunk).or_default().push(*send);
        }
        let (mut kept, mut finish) = (Vec::new(), 0);
        for (i, chunk) in demand.chunks.iter().enumerate() {
            let arrivals = Arrivals::new(lanes, by_chunk.remove(&i).unwrap_or_default());
            let mut needed = HashSet::new();
            // Of a switch that does not copy every arrival serves one send.
            let mut taken: HashMap<(usize, u64), usize> = HashMap::new();
            for node in &chunk.wanted_by {
                let unmet = Unmet { chunk: i, node: *node };
                let mut send = arrivals.first(*node).ok_or(unmet)?;
                finish = finish.max(send.epoch + lanes.lanes[send.lane].after);
                while needed.insert(send) {
                    kept.push(send);
                    let (from, lane) = (lanes.lanes[send.lane].from, &lanes.nodes[lanes.lanes[send.lane].from]);
                    if from == chunk.source {
                        break;
                    }
                    send = if lane.is_switch {
                        let used = taken.entry((from, send.epoch)).or_default();
                        let arrival = arrivals.at(from, send.epoch, *used).ok_or(unmet)?;
                        *used += usize::from(!lane.copies);
                        arrival
                    } else if lane.buffer.is_some() && chunk.wanted_by.binary_search(&from).is_err() {
                        // What came before may have been dropped; the last takes the least room.
                        arrivals.last(from, send.epoch).ok_or(unmet)?
                    } else {
                        let first = arrivals.first(from).ok_or(unmet)?;
                        if first.epoch + lanes.lanes[first.lane].after > send.epoch {
                            return Err(unmet);
                        }
                        first
                    };
                }
            }
        }
        kept.sort_unstable();
        Ok(Schedule { sends: kept, finish })
    }
}

/// Do nodes hold no more for others than they may? What a node wants itself and what it sends on at once takes no room; a
/// chunk that leaves later takes room from its arrival until it leaves for the last time before it comes again.
pub(super) fn keeps_buffers(lanes: &Lanes, demand: &Demand, schedule: &Schedule) -> bool {
    let relays = |node: usize, chunk: usize| {
        let of = &demand.chunks[chunk];
        let limited = lanes.nodes[node].buffer.is_some() && !lanes.nodes[node].is_switch;
        limited && of.source != node && of.wanted_by.binary_search(&node).is_err()
    };
    // By node and chunk: when it comes, and when it is sent.
    let mut moves: BTreeMap<(usize, usize), (Vec<u64>, Vec<u64>)> = BTreeMap::new();
    for send in &schedule.sends {
        let lane = &lanes.lanes[send.lane];
        if relays(lane.to, send.chunk) {
            moves.entry((lane.to, send.chunk)).or_default().0.push(send.epoch + lane.after);
        }
        if relays(lane.from, send.chunk) {
            moves.entry((lane.from, send.chunk)).or_default().1.push(send.epoch);
        }
    }
    // By node and epoch by how much there is more.
    let mut changes: BTreeMap<usize, BTreeMap<u64, i64>> = BTreeMap::new();
    for ((node, _), (mut comes, goes)) in moves {
        comes.sort_unstable();
        for (i, begin) in comes.iter().enumerate() {
            let next = comes.get(i + 1).copied().unwrap_or(u64::MAX);
            let last = goes.iter().filter(|epoch| **epoch < next).max();
            if let Some(end) = last.filter(|end| *end > begin) {
                let of = changes.entry(node).or_default();
                *of.entry(*begin).or_default() += 1;
                *of.entry(end + 1).or_default() -= 1;
            }
        }
    }
    changes.into_iter().all(|(node, changes)| {
        let most = lanes.nodes[node].buffer.map_or(i64::MAX, |most| i64::try_from(most).unwrap_or(i64::MAX));
        changes
            .values()
            .scan(0, |held, change| {
                *held += change;
                Some(*held)
            })
            .all(|held| held <= most)
    })
}

/// The sends of a chunk by where and when they arrive.
struct Arrivals<'a> {
    lanes: &'a Lanes,
    /// By node: by the epoch from which the node can send on, then by lane.
    at: BTreeMap<usize, Vec<Send>>,
}

impl<'a> Arrivals<'a> {
    fn new(lanes: &'a Lanes, sends: Vec<Send>) -> Arrivals<'a> {
        let mut at: BTreeMap<usize, Vec<Send>> = BTreeMap::new();
        for send in sends {
            at.entry(lanes.lanes[send.lane].to).or_default().push(send);
        }
        let mut made = Arrivals { lanes, at: BTreeMap::new() };
        for (node, mut list) in at {
            list.sort_unstable_by_key(|send| (made.usable(send), lanes.lanes[send.lane].from, send.lane));
            made.at.insert(node, list);
        }
        made
    }
    fn usable(&self, send: &Send) -> u64 {
        send.epoch + self.lanes.lanes[send.lane].after
    }
    fn first(&self, node: usize) -> Option<Send> {
        self.at.get(&node)?.first().copied()
    }
    /// The last arrival that can be sent on in this epoch.
    fn last(&self, node: usize, epoch: u64) -> Option<Send> {
        self.at.get(&node)?.iter().rev().find(|send| self.usable(send) <= epoch).copied()
    }
    /// The arrival at a switch that is there in just this epoch, after leaving out so many.
    fn at(&self, node: usize, epoch: u64, skip: usize) -> Option<Send> {
        let list = self.at.get(&node)?;
        list.iter().filter(|send| self.usable(send) == epoch).nth(skip).copied()
    }
}
