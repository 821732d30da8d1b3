//! The integer program of whole chunks: who starts which chunk on which lane in which epoch.
//!
//! F(c, lane, k) is 1 where chunk c starts on a lane in epoch k; it exists only where the chunk can be there by then and can
//! still get to somebody who wants it. B(c, n, k) is 1 from the epoch on in which node n holds the chunk; it is a sum of
//! binaries and need not be one itself. A node sends what it holds, a switch what arrives for that very epoch. Where a
//! node has a limited buffer, B of a chunk that it does not want itself is what it keeps there, and may fall again.
//!
//! Source: sections 4, 5 and 9 of the paper, with windows of `kappa` epochs.

use std::collections::{BTreeMap, HashMap, HashSet};

use sluice_planners::teccl::Objective;
use sluice_planners::teccl::demand::{Chunk, Demand};
use sluice_planners::teccl::lane::Lanes;
use sluice_planners::teccl::schedule::{Schedule, Send};
use sluice_solver::{Bounds, Failed, Program};

use super::builder::{Builder, Built, Drafted};

/// Values of a binary that are still 0 or 1.
const MAX_DISTANCE: f64 = 1e-4;

/// The program of a horizon.
#[derive(Debug)]
pub struct Model {
    pub program: Program,
    stands: Vec<Stands>,
}

/// The distances that say which variables there are.
pub struct Reach {
    /// By source node: epochs to every node.
    from: HashMap<usize, Vec<u64>>,
    /// By destination node: epochs from every node.
    to: HashMap<usize, Vec<u64>>,
}

impl Reach {
    /// Those of a demand.
    pub fn new(lanes: &Lanes, demand: &Demand) -> Reach {
        let (mut from, mut to) = (HashMap::new(), HashMap::new());
        for chunk in &demand.chunks {
            from.entry(chunk.source).or_insert_with(|| lanes.distances(chunk.source));
            for node in &chunk.wanted_by {
                to.entry(*node).or_insert_with(|| lanes.distances_to(*node));
            }
        }
        Reach { from, to }
    }
    /// Epochs to every node from one where a chunk begins.
    pub fn from(&self, source: usize) -> &[u64] {
        &self.from[&source]
    }
    /// Epochs from every node to the nearest of these, who want something.
    pub fn left(&self, lanes: &Lanes, wanted_by: impl Iterator<Item = usize>) -> Vec<u64> {
        let mut left = vec![u64::MAX; lanes.nodes.len()];
        for to in wanted_by.map(|node| &self.to[&node]) {
            left.iter_mut().zip(to).for_each(|(left, to)| *left = (*left).min(*to));
        }
        left
    }
}

/// What a column stands for.
#[derive(Clone, Copy, Debug)]
enum Stands {
    /// A chunk starts on a lane in an epoch.
    Sent(Send),
    /// A node holds a chunk at the start of an epoch.
    Held { node: usize, chunk: usize, epoch: u64 },
}

/// A column that fills a room for some epochs.
#[derive(Clone, Copy)]
pub(super) struct Filling {
    pub epoch: u64,
    pub kappa: u64,
    pub column: Drafted,
}

/// The sends of one chunk, as columns.
#[derive(Default)]
pub(super) struct Starts {
    /// By lane: by epoch the column.
    pub by_lane: BTreeMap<usize, BTreeMap<u64, Drafted>>,
}

impl Starts {
    /// The column of a send.
    pub fn at(&self, lane: usize, epoch: u64) -> Option<Drafted> {
        self.by_lane.get(&lane)?.get(&epoch).copied()
    }
    /// The columns of sends that arrive at a node for just this epoch.
    pub fn arrivals<'a>(&'a self, lanes: &'a Lanes, node: usize, epoch: u64) -> impl Iterator<Item = Drafted> + 'a {
        lanes.into[node].iter().filter_map(move |lane| {
            let start = epoch.checked_sub(lanes.lanes[*lane].after)?;
            self.at(*lane, start)
        })
    }
}

impl Model {
    /// The program of a horizon of `epochs`; `None` where it would be too large.
    ///
    /// # Errors
    /// Where the solver does not take it.
    pub fn new(
        lanes: &Lanes,
        demand: &Demand,
        reach: &Reach,
        epochs: u64,
        objective: Option<Objective>,
    ) -> Result<Option<Model>, Failed> {
        let mut builder: Builder<Stands> = Builder::new();
        let binary = Bounds { lower: 0.0, upper: 1.0 };
        let mut by_room: Vec<Vec<Filling>> = vec![Vec::new(); lanes.rooms.len()];
        // By node with a limited buffer and epoch what it keeps.
        let mut kept: BTreeMap<(usize, u64), Vec<Drafted>> = BTreeMap::new();
        let mut before: Option<(usize, Vec<Drafted>)> = None;
        for (number, chunk) in demand.chunks.iter().enumerate() {
            let from = reach.from(chunk.source);
            let left = reach.left(lanes, chunk.wanted_by.iter().copied());
            let mut flow = Starts::default();
            for (place, lane) in lanes.lanes.iter().enumerate() {
                let passed = lane.after.saturating_add(left[lane.to]);
                let Some(last) = epochs.checked_sub(passed) else { continue };
                if lane.to == chunk.source || from[lane.from] > last {
                    continue;
                }
                let starts = flow.by_lane.entry(place).or_default();
                for epoch in from[lane.from]..=last {
                    let send = Send { epoch, chunk: number, lane: place };
                    let column = builder.binary(Stands::Sent(send));
                    starts.insert(epoch, column);
                    lane.rooms
                        .iter()
                        .for_each(|room| by_room[*room].push(Filling { epoch, kappa: lane.kappa, column }));
                }
            }
            if builder.is_full() {
                return Ok(None);
            }
            let mut firsts = Vec::new();
            for node in 0..lanes.nodes.len() {
                let can = from[node] <= epochs && left[node] <= epochs - from[node];
                if node == chunk.source || !can {
                    continue;
                }
                if lanes.nodes[node].is_switch {
                    switch(&mut builder, lanes, &flow, node, epochs)?;
                    continue;
                }
                let wants = chunk.wanted_by.binary_search(&node).is_ok();
                let limited = lanes.nodes[node].buffer.is_some() && !wants;
                let mut last: Option<Drafted> = None;
                for epoch in from[node]..=epochs {
                    let gain = objective.filter(|_| wants && epoch > 0).map(|objective| objective.gain(epoch));
                    let worth = gain.map_or(0.0, |gain| gain * demand.weight(number));
                    let must = wants && epoch == epochs;
                    let bounds = if must { Bounds::exactly(1.0) } else { binary };
                    let holds = builder.column(worth, bounds, Stands::Held { node, chunk: number, epoch });
                    let arrivals: Vec<Drafted> = flow.arrivals(lanes, node, epoch).collect();
                    // Held is what was held before and what has just come; in a buffer it may also be dropped.
                    let least = if limited { f64::NEG_INFINITY } else { 0.0 };
                    let row = builder.row(Bounds { lower: least, upper: 0.0 })?;
                    builder.entry(holds, row, 1.0);
                    last.iter().chain(&arrivals).for_each(|column| builder.entry(*column, row, -1.0));
                    if limited {
                        kept.entry((node, epoch)).or_default().push(holds);
                        let once = builder.row(Bounds::at_most(1.0))?;
                        arrivals.iter().for_each(|column| builder.entry(*column, once, 1.0));
                    }
                    for lane in &lanes.out[node] {
                        let Some(send) = flow.at(*lane, epoch) else {
                            continue;
                        };
                        let row = builder.row(Bounds::at_most(0.0))?;
                        builder.entry(send, row, 1.0);
                        builder.entry(holds, row, -1.0);
                        if limited {
                            arrivals.iter().for_each(|column| builder.entry(*column, row, -1.0));
                        }
                    }
                    last = Some(holds);
                    if chunk.wanted_by.first() == Some(&node) {
                        firsts.push(holds);
                    }
                }
            }
            // Of chunks that are alike the first wants to be first.
            if let Some((_, earlier)) = before.take_if(|(other, _)| alike(&demand.chunks[*other], chunk)) {
                let row = builder.row(Bounds::at_least(0.0))?;
                earlier.into_iter().for_each(|column| builder.entry(column, row, 1.0));
                firsts.iter().for_each(|column| builder.entry(*column, row, -1.0));
            }
            before = Some((number, firsts));
        }
        for ((node, _), holds) in kept {
            let most = lanes.nodes[node].buffer.unwrap_or(u64::MAX);
            if most < holds.len() as u64 {
                let row = builder.row(Bounds::at_most(most as f64))?;
                holds.into_iter().for_each(|column| builder.entry(column, row, 1.0));
            }
        }
        rooms(&mut builder, lanes, by_room)?;
        let Built { program, stands } = builder.finish()?;
        Ok(Some(Model { program, stands }))
    }

    /// The sends that values stand for; `None` where they are not whole.
    pub fn sends(&self, values: &[f64]) -> Option<Vec<Send>> {
        let mut sends = Vec::new();
        for (stands, value) in self.stands.iter().zip(values) {
            let Stands::Sent(send) = stands else { continue };
            if (value - value.round()).abs() > MAX_DISTANCE {
                return None;
            }
            if *value > 0.5 {
                sends.push(*send);
            }
        }
        Some(sends)
    }

    /// The values that a schedule stands for; `None` where nodes have limited buffers, which say more than a schedule, and
    /// where it uses what the program has no column for.
    pub fn start(&self, lanes: &Lanes, demand: &Demand, schedule: &Schedule) -> Option<Vec<f64>> {
        if lanes.nodes.iter().any(|node| node.buffer.is_some() && !node.is_switch) {
            return None;
        }
        let places = in_order(lanes, demand, schedule);
        let renamed = |send: &Send| Send { chunk: places[send.chunk], ..*send };
        let sends: HashSet<Send> = schedule.sends.iter().map(renamed).collect();
        let mut held: HashMap<(usize, usize), u64> = HashMap::new();
        for send in &sends {
            let lane = &lanes.lanes[send.lane];
            let first = held.entry((lane.to, send.chunk)).or_insert(u64::MAX);
            *first = (*first).min(send.epoch + lane.after);
        }
        let known = self.stands.iter().filter(|stands| matches!(stands, Stands::Sent(send) if sends.contains(send)));
        if known.count() < sends.len() {
            return None;
        }
        let value = |stands: &Stands| match stands {
            Stands::Sent(send) => f64::from(u8::from(sends.contains(send))),
            Stands::Held { node, chunk, epoch } => {
                f64::from(u8::from(held.get(&(*node, *chunk)).is_some_and(|first| first <= epoch)))
            }
        };
        Some(self.stands.iter().map(value).collect())
    }
}

/// A switch sends in an epoch what arrives for it: to several only if it copies.
pub(super) fn switch<T>(
    builder: &mut Builder<T>,
    lanes: &Lanes,
    flow: &Starts,
    node: usize,
    epochs: u64,
) -> Result<(), Failed> {
    for epoch in 0..=epochs {
        let leaving = lanes.out[node].iter().filter_map(|lane| flow.at(*lane, epoch));
        let leaving: Vec<Drafted> = leaving.collect();
        if leaving.is_empty() {
            continue;
        }
        let arrivals: Vec<Drafted> = flow.arrivals(lanes, node, epoch).collect();
        let groups: Vec<&[Drafted]> =
            if lanes.nodes[node].copies { leaving.chunks(1).collect() } else { vec![&leaving] };
        for group in groups {
            let row = builder.row(Bounds::at_most(0.0))?;
            group.iter().for_each(|column| builder.entry(*column, row, 1.0));
            arrivals.iter().for_each(|column| builder.entry(*column, row, -1.0));
        }
    }
    Ok(())
}

/// No room holds more at a time than it can.
fn rooms<T>(builder: &mut Builder<T>, lanes: &Lanes, by_room: Vec<Vec<Filling>>) -> Result<(), Failed> {
    for (room, mut starts) in by_room.into_iter().enumerate() {
        starts.sort_unstable_by_key(|filling| filling.epoch);
        let mut epochs: Vec<u64> = starts.iter().map(|filling| filling.epoch).collect();
        epochs.dedup();
        for epoch in epochs {
            let there = starts.iter().filter(|filling| filling.epoch <= epoch && epoch < filling.epoch + filling.kappa);
            let there: Vec<Drafted> = there.map(|filling| filling.column).collect();
            let limit = lanes.rooms[room].limit(epoch);
            if there.len() as u64 > limit {
                let row = builder.row(Bounds::at_most(limit as f64))?;
                there.into_iter().for_each(|column| builder.entry(column, row, 1.0));
            }
        }
    }
    Ok(())
}

/// Do the same nodes want both chunks of one source? Then one is as good as the other.
fn alike(one: &Chunk, other: &Chunk) -> bool {
    (one.tenant, one.source, &one.wanted_by) == (other.tenant, other.source, &other.wanted_by)
}

/// By chunk the one whose place it takes, so that of those alike the first is the first where both are wanted first.
fn in_order(lanes: &Lanes, demand: &Demand, schedule: &Schedule) -> Vec<usize> {
    let mut first: Vec<u64> = vec![u64::MAX; demand.chunks.len()];
    for arrival in schedule.arrivals(lanes, demand) {
        if demand.chunks[arrival.chunk].wanted_by.first() == Some(&arrival.node) {
            first[arrival.chunk] = arrival.usable;
        }
    }
    let mut places: Vec<usize> = vec![0; demand.chunks.len()];
    let mut begin = 0;
    while begin < demand.chunks.len() {
        let same = (begin..demand.chunks.len()).take_while(|i| alike(&demand.chunks[begin], &demand.chunks[*i]));
        let mut group: Vec<usize> = same.collect();
        let end = begin + group.len();
        group.sort_by_key(|chunk| first[*chunk]);
        (begin..end).zip(group).for_each(|(place, chunk)| places[chunk] = place);
        begin = end;
    }
    places
}
