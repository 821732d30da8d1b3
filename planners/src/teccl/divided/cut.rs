//! Amounts, cut into pieces of whole bytes that travel by paths, none above what there is room for.
//!
//! A path leads back from where something is read, and carries what the least of its amounts is.

use std::collections::BTreeMap;

use sluice_formats::problem::{Problem, Problems};

use super::super::demand::Chunk;
use super::super::instance::Instance;
use super::super::to_plan::Piece;
use super::{Amounts, Delivered, Origin, Sent};

/// Chunks that are nothing, where a solver computes with doubles.
const NOTHING: f64 = 1e-7;
/// Chunks by which what a pair reads may miss what it wants.
const MAX_MISSED: f64 = 1e-4;
/// Bytes that are moved to other ways, one after the other, at most.
const MAX_MOVES: usize = 1 << 16;

/// Amounts, cut into pieces.
pub(super) struct Cut {
    pub amounts: Amounts,
    pub starts: Vec<Start>,
    pub finish: u64,
}

/// A piece of a chunk that starts on a lane in an epoch.
pub(super) struct Start {
    pub lane: usize,
    pub epoch: u64,
    /// By its place in the demand.
    pub chunk: usize,
    pub piece: Piece,
}

/// A way that something takes, from its source to who reads it.
struct Way {
    /// Lanes with the epochs in which it starts on them, the last first.
    sends: Vec<(usize, u64)>,
    /// Nodes with limited buffers, and epochs in which it waits there.
    waits: Vec<(usize, u64)>,
    /// The first epoch in which the reader has it.
    arrival: u64,
    amount: f64,
    bytes: u64,
}

impl Cut {
    pub fn new(instance: &Instance<'_>, amounts: Amounts) -> Result<Cut, Problems> {
        let mut ways: BTreeMap<(Origin, usize), Vec<Way>> = BTreeMap::new();
        let mut by_origin: BTreeMap<Origin, Amounts> = BTreeMap::new();
        for sent in &amounts.sent {
            by_origin.entry(sent.origin).or_default().sent.push(*sent);
        }
        for delivered in &amounts.delivered {
            by_origin.entry(delivered.origin).or_default().delivered.push(*delivered);
        }
        for (origin, of) in by_origin {
            paths(instance, origin, &of, &mut ways);
        }
        let chunks = wanted(instance);
        let bytes_of_chunk = instance.terms.chunk.to_u64().unwrap_or(1);
        let mut loads = Loads::new(instance);
        for ((origin, node), numbers) in &chunks {
            let list = ways.entry((*origin, *node)).or_default();
            let sum: f64 = list.iter().map(|way| way.amount).sum();
            let wanted = numbers.len() as f64;
            if (sum - wanted).abs() > MAX_MISSED * wanted.max(1.0) {
                let message = format!("the solver delivers {sum} chunks where {wanted} are wanted");
                return Err(Problem::new("Numerical", "", message).into());
            }
            for way in list.iter_mut() {
                way.bytes = (way.amount / sum * wanted * bytes_of_chunk as f64) as u64;
                loads.add(way, way.bytes);
            }
        }
        let mut cut = Cut { amounts, starts: Vec::new(), finish: 0 };
        for ((origin, node), numbers) in &chunks {
            let list = ways.entry((*origin, *node)).or_default();
            let wanted = numbers.len() as u64 * bytes_of_chunk;
            // What rounding down left goes where there is most room.
            let mut left = wanted.saturating_sub(list.iter().map(|way| way.bytes).sum());
            while left > 0 {
                let room = |way: &Way| loads.room(way);
                let Some((room, best)) = list.iter_mut().map(|way| (room(way), way)).max_by_key(|(room, _)| *room)
                else {
                    break;
                };
                let more = u64::try_from(room).unwrap_or(0).clamp(1, left);
                best.bytes += more;
                loads.add(best, more);
                left -= more;
            }
        }
        loads.level(&mut ways);
        for ((origin, node), numbers) in &chunks {
            let list = ways.entry((*origin, *node)).or_default();
            list.sort_by(|a, b| (a.arrival, &a.sends).cmp(&(b.arrival, &b.sends)));
            let mut at = 0;
            for way in list.iter().filter(|way| way.bytes > 0) {
                let end = at + way.bytes;
                cut.finish = cut.finish.max(way.arrival);
                while at < end {
                    let (number, offset) = (at / bytes_of_chunk, at % bytes_of_chunk);
                    let bytes = (bytes_of_chunk - offset).min(end - at);
                    let Some(&chunk) = numbers.get(number as usize) else { break };
                    let piece = Piece { offset, bytes };
                    let starts = way.sends.iter().map(|&(lane, epoch)| Start { lane, epoch, chunk, piece });
                    cut.starts.extend(starts);
                    at += bytes;
                }
            }
        }
        Ok(cut)
    }
}

/// By origin and reader the chunks that it wants, by their places in the demand.
fn wanted(instance: &Instance<'_>) -> BTreeMap<(Origin, usize), Vec<usize>> {
    let mut wanted: BTreeMap<(Origin, usize), Vec<usize>> = BTreeMap::new();
    for (place, chunk) in instance.demand.chunks.iter().enumerate() {
        let Chunk { tenant, source, wanted_by, .. } = chunk;
        let origin = Origin { tenant: *tenant, source: *source };
        wanted_by.iter().for_each(|node| wanted.entry((origin, *node)).or_default().push(place));
    }
    wanted
}

/// The ways of one origin's data: from the last that is read backwards, rather waiting than moving, rather late than early.
fn paths(instance: &Instance<'_>, origin: Origin, of: &Amounts, ways: &mut BTreeMap<(Origin, usize), Vec<Way>>) {
    let lanes = &instance.lanes;
    // By place what came there from where, and what waits there for the next epoch.
    let mut came: BTreeMap<(usize, u64), BTreeMap<(u64, usize), f64>> = BTreeMap::new();
    let mut change: BTreeMap<usize, BTreeMap<u64, f64>> = BTreeMap::new();
    for Sent { lane, epoch, amount, .. } in &of.sent {
        let (from, to, usable) = (lanes.lanes[*lane].from, lanes.lanes[*lane].to, epoch + lanes.lanes[*lane].after);
        *came.entry((to, usable)).or_default().entry((*epoch, *lane)).or_default() += amount;
        *change.entry(to).or_default().entry(usable).or_default() += amount;
        *change.entry(from).or_default().entry(*epoch).or_default() -= amount;
    }
    for Delivered { node, epoch, amount, .. } in &of.delivered {
        *change.entry(*node).or_default().entry(*epoch).or_default() -= amount;
    }
    let mut stock: BTreeMap<(usize, u64), f64> = BTreeMap::new();
    let last = of.delivered.iter().map(|read| read.epoch).max().unwrap_or(0);
    for (node, changes) in change {
        if node == origin.source || lanes.nodes[node].is_switch {
            continue;
        }
        let mut held = 0.0;
        for epoch in 0..=last {
            held += changes.get(&epoch).copied().unwrap_or(0.0);
            if held > NOTHING {
                stock.insert((node, epoch), held);
            }
        }
    }
    let mut reads = of.delivered.clone();
    reads.sort_by_key(|read| (std::cmp::Reverse(read.epoch), read.node));
    for read in reads {
        let mut left = read.amount;
        while left > NOTHING {
            let mut way = Way { sends: Vec::new(), waits: Vec::new(), arrival: 0, amount: left, bytes: 0 };
            let (mut node, mut epoch) = (read.node, read.epoch);
            // Where it waited, so that what it takes can be taken off.
            let mut waited: Vec<(usize, u64)> = Vec::new();
            while node != origin.source {
                let before = epoch.checked_sub(1).map(|before| (node, before));
                let held = before.and_then(|place| stock.get(&place)).copied().unwrap_or(0.0);
                if let Some(place) = before.filter(|_| held > NOTHING) {
                    way.amount = way.amount.min(held);
                    waited.push(place);
                    epoch -= 1;
                    continue;
                }
                let mut arrivals = came.get(&(node, epoch)).into_iter().flatten();
                let Some(((start, lane), amount)) = arrivals.rfind(|(_, amount)| **amount > NOTHING) else {
                    break;
                };
                if way.sends.is_empty() {
                    way.arrival = epoch;
                }
                way.amount = way.amount.min(*amount);
                way.sends.push((*lane, *start));
                (node, epoch) = (lanes.lanes[*lane].from, *start);
            }
            if node != origin.source {
                // Less than a solver can tell from nothing is missing.
                break;
            }
            for place in &waited {
                stock.entry(*place).and_modify(|held| *held -= way.amount);
            }
            for (lane, start) in &way.sends {
                let place = (lanes.lanes[*lane].to, start + lanes.lanes[*lane].after);
                let arrivals = came.entry(place).or_default();
                arrivals.entry((*start, *lane)).and_modify(|amount| *amount -= way.amount);
            }
            left -= way.amount;
            way.waits = waited.into_iter().filter(|(node, _)| *node != read.node).collect();
            ways.entry((origin, read.node)).or_default().push(way);
        }
    }
}

/// A place that has only so much room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Narrow {
    /// A lane in an epoch.
    Lane(usize, u64),
    /// A node's buffer in an epoch.
    Buffer(usize, u64),
}

/// Which way: of whose data, to whom, and its place among those.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Which {
    pair: (Origin, usize),
    place: usize,
}

impl Way {
    /// Where it needs room.
    fn places(&self) -> impl Iterator<Item = Narrow> {
        let lanes = self.sends.iter().map(|(lane, epoch)| Narrow::Lane(*lane, *epoch));
        lanes.chain(self.waits.iter().map(|(node, epoch)| Narrow::Buffer(*node, *epoch)))
    }
}

/// Bytes on every lane in every epoch, and in every limited buffer.
struct Loads<'a> {
    instance: &'a Instance<'a>,
    chunk: f64,
    bytes: BTreeMap<Narrow, u64>,
}

impl<'a> Loads<'a> {
    fn new(instance: &'a Instance<'a>) -> Loads<'a> {
        Loads { instance, chunk: instance.terms.chunk.to_f64(), bytes: BTreeMap::new() }
    }
    fn add(&mut self, way: &Way, bytes: u64) {
        way.places().for_each(|place| *self.bytes.entry(place).or_default() += bytes);
    }
    /// Bytes that there is room for at a place; below zero where more goes than should, `None` where there is no limit.
    fn left(&self, place: Narrow) -> Option<i64> {
        let most = match place {
            Narrow::Lane(lane, epoch) => (self.instance.lanes.lanes[lane].rate(epoch).to_f64() * self.chunk).min(1e15),
            Narrow::Buffer(node, _) => self.instance.lanes.nodes[node].bytes?,
        };
        Some(most as i64 - self.bytes.get(&place).map_or(0, |bytes| *bytes as i64))
    }
    /// Bytes that there is room for all the way.
    fn room(&self, way: &Way) -> i64 {
        way.places().filter_map(|place| self.left(place)).min().unwrap_or(0)
    }

    /// Moves single bytes to other ways of the same data, while that makes what is too much anywhere less: of all squares of
    /// it the sum. Rounded to bytes, what fitted as fractions can be some bytes too much.
    fn level(&mut self, ways: &mut BTreeMap<(Origin, usize), Vec<Way>>) {
        let mut through: BTreeMap<Narrow, Vec<Which>> = BTreeMap::new();
        for (pair, list) in ways.iter() {
            for (place, way) in list.iter().enumerate() {
                let which = Which { pair: *pair, place };
                way.places().for_each(|narrow| through.entry(narrow).or_default().push(which));
            }
        }
        let over = |loads: &Loads<'_>, place: Narrow| loads.left(place).map_or(0, |left| (-left).max(0));
        let mut tight: Vec<Narrow> = self.bytes.keys().copied().filter(|place| over(self, *place) > 1).collect();
        for _ in 0..MAX_MOVES {
            let Some(place) = tight.last().copied() else { return };
            if over(self, place) <= 1 {
                tight.pop();
                continue;
            }
            // What a byte more, or less, there changes of the sum of squares.
            let squares = |way: &Way, other: &Way| -> i64 {
                let more = other.places().filter(|place| !way.places().any(|of| of == *place));
                let less = way.places().filter(|place| !other.places().any(|of| of == *place));
                let left = |place| self.left(place).unwrap_or(i64::MAX);
                let square = |over: i64| over.clamp(0, 1 << 20).pow(2);
                more.map(|place| square(1_i64.saturating_sub(left(place))) - square(left(place).saturating_neg()))
                    .sum::<i64>()
                    + less
                        .map(|place| {
                            square((-1_i64).saturating_sub(left(place))) - square(left(place).saturating_neg())
                        })
                        .sum::<i64>()
            };
            let moves = through.get(&place).into_iter().flatten().filter_map(|which| {
                let list = ways.get(&which.pair)?;
                let way = list.get(which.place).filter(|way| way.bytes > 0)?;
                let others = list.iter().enumerate().filter(|(other, _)| *other != which.place);
                others.map(|(other, to)| (squares(way, to), *which, other)).min()
            });
            let Some((_, which, to)) = moves.min().filter(|(change, ..)| *change < 0) else {
                tight.pop();
                continue;
            };
            let (Some(list), from) = (ways.get_mut(&which.pair), which.place) else { return };
            list[from].bytes -= 1;
            list[to].bytes += 1;
            for place in list[from].places() {
                self.bytes.entry(place).and_modify(|bytes| *bytes -= 1);
            }
            self.add(&list[to], 1);
            tight.extend(list[to].places().filter(|place| over(self, *place) > 1));
        }
    }
}
