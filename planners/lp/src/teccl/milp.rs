//! The integer program of whole chunks: who starts which chunk on which lane in which epoch.
//!
//! F(c, lane, k) is 1 where chunk c starts on a lane in epoch k; it exists only where the chunk can be there by then and can
//! still get to somebody who wants it. B(c, n, k) is 1 from the epoch on in which node n holds the chunk; it is a sum of
//! binaries and need not be one itself. A node sends what it holds, a switch what arrives for that very epoch. Where a
//! node has a limited buffer, B of a chunk that it does not want itself is what it keeps there, and may fall again.
//!
//! Source: sections 4, 5 and 9 of the paper, with windows of `kappa` epochs.

use std::collections::{BTreeMap, HashMap};

use sluice_planners::teccl::demand::Demand;
use sluice_planners::teccl::lane::Lanes;
use sluice_planners::teccl::schedule::Send;
use sluice_solver::{Bounds, Column, Failed, Program, Row, Sense};

/// Columns and rows that a solver gets through at most.
pub const MAX_COLUMNS: usize = 4_000_000;
/// Values of a binary that are still 0 or 1.
const MAX_DISTANCE: f64 = 1e-4;

/// What is maximised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objective {
    /// Nothing: any schedule.
    Nothing,
    /// Every demand counts 1/(k+1) for each epoch k by whose end it is met.
    Harmonic,
    /// Every demand counts 1 for each such epoch: the sum of completion epochs is least.
    SumCompletion,
}

impl Objective {
    /// What a demand gains by holding its chunk at the start of epoch `k`, 1 or later.
    pub fn gain(self, k: u64) -> f64 {
        match self {
            Objective::Nothing => 0.0,
            Objective::Harmonic => 1.0 / k as f64,
            Objective::SumCompletion => 1.0,
        }
    }
}

/// The program of a horizon.
#[derive(Debug)]
pub struct Model {
    /// For the solver.
    pub program: Program,
    /// By column the send that it stands for.
    sends: Vec<Option<Send>>,
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
}

/// A column before the program knows it.
struct Draft {
    worth: f64,
    bounds: Bounds,
    entries: Vec<(Row, f64)>,
    send: Option<Send>,
}

/// Rows and columns as they come together: all rows stand before the first column.
struct Builder {
    program: Program,
    columns: Vec<Draft>,
}

impl Builder {
    fn row(&mut self, bounds: Bounds) -> Result<Row, Failed> {
        self.program.row(bounds)
    }
    fn column(&mut self, worth: f64, bounds: Bounds, send: Option<Send>) -> usize {
        self.columns.push(Draft { worth, bounds, entries: Vec::new(), send });
        self.columns.len() - 1
    }
    fn entry(&mut self, column: usize, row: Row, factor: f64) {
        self.columns[column].entries.push((row, factor));
    }
}

/// The sends of one chunk, as columns.
#[derive(Default)]
struct Flow {
    /// By lane: by epoch the column.
    starts: BTreeMap<usize, BTreeMap<u64, usize>>,
}

impl Flow {
    /// The columns of sends that arrive at a node for just this epoch.
    fn arrivals<'a>(&'a self, lanes: &'a Lanes, node: usize, epoch: u64) -> impl Iterator<Item = usize> + 'a {
        lanes.into[node].iter().filter_map(move |lane| {
            let start = epoch.checked_sub(lanes.lanes[*lane].after)?;
            self.starts.get(lane)?.get(&start).copied()
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
        objective: Objective,
    ) -> Result<Option<Model>, Failed> {
        let mut builder = Builder { program: Program::new(Sense::Maximise), columns: Vec::new() };
        let binary = Bounds { lower: 0.0, upper: 1.0 };
        let mut by_room: Vec<Vec<(u64, u64, usize)>> = vec![Vec::new(); lanes.rooms.len()];
        // By node with a limited buffer and epoch what it keeps.
        let mut kept: BTreeMap<(usize, u64), Vec<usize>> = BTreeMap::new();
        let mut before: Option<(usize, Vec<usize>)> = None;
        for (number, chunk) in demand.chunks.iter().enumerate() {
            let from = &reach.from[&chunk.source];
            let mut left = vec![u64::MAX; lanes.nodes.len()];
            for to in chunk.wanted_by.iter().map(|node| &reach.to[node]) {
                left.iter_mut().zip(to).for_each(|(left, to)| *left = (*left).min(*to));
            }
            let mut flow = Flow::default();
            for (place, lane) in lanes.lanes.iter().enumerate() {
                let passed = lane.after.saturating_add(left[lane.to]);
                let Some(last) = epochs.checked_sub(passed) else { continue };
                if lane.to == chunk.source || from[lane.from] > last {
                    continue;
                }
                let starts = flow.starts.entry(place).or_default();
                for epoch in from[lane.from]..=last {
                    let send = Send { epoch, chunk: number, lane: place };
                    let column = builder.column(0.0, binary, Some(send));
                    starts.insert(epoch, column);
                    lane.rooms.iter().for_each(|room| by_room[*room].push((epoch, lane.kappa, column)));
                }
            }
            if builder.columns.len() > MAX_COLUMNS {
                return Ok(None);
            }
            let mut firsts = Vec::new();
            for node in 0..lanes.nodes.len() {
                let can = from[node] <= epochs && left[node] <= epochs - from[node];
                if node == chunk.source || !can {
                    continue;
                }
                if lanes.nodes[node].is_switch {
                    builder.switch(lanes, &flow, node, epochs)?;
                    continue;
                }
                let wants = chunk.wanted_by.binary_search(&node).is_ok();
                let limited = lanes.nodes[node].buffer.is_some() && !wants;
                let mut last: Option<usize> = None;
                for epoch in from[node]..=epochs {
                    let worth = if wants && epoch > 0 { objective.gain(epoch) } else { 0.0 };
                    let must = wants && epoch == epochs;
                    let holds = builder.column(worth, if must { Bounds::exactly(1.0) } else { binary }, None);
                    let arrivals: Vec<usize> = flow.arrivals(lanes, node, epoch).collect();
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
                        let Some(send) = flow.starts.get(lane).and_then(|starts| starts.get(&epoch)).copied() else {
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
            // Chunks of one source that the same nodes want are alike: the first of them wants to be first.
            let alike = |other: usize| {
                let other = &demand.chunks[other];
                (other.tenant, other.source, &other.wanted_by) == (chunk.tenant, chunk.source, &chunk.wanted_by)
            };
            if let Some((_, earlier)) = before.take_if(|(other, _)| alike(*other)) {
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
        builder.rooms(lanes, by_room)?;
        builder.finish()
    }

    /// The sends that values stand for; `None` where they are not whole.
    pub fn sends(&self, values: &[f64]) -> Option<Vec<Send>> {
        let mut sends = Vec::new();
        for (send, value) in self.sends.iter().zip(values) {
            let Some(send) = send else { continue };
            if (value - value.round()).abs() > MAX_DISTANCE {
                return None;
            }
            if *value > 0.5 {
                sends.push(*send);
            }
        }
        Some(sends)
    }
}

impl Builder {
    /// A switch sends in an epoch what arrives for it: to several only if it copies.
    fn switch(&mut self, lanes: &Lanes, flow: &Flow, node: usize, epochs: u64) -> Result<(), Failed> {
        for epoch in 0..=epochs {
            let leaving = lanes.out[node].iter().filter_map(|lane| flow.starts.get(lane)?.get(&epoch).copied());
            let leaving: Vec<usize> = leaving.collect();
            if leaving.is_empty() {
                continue;
            }
            let arrivals: Vec<usize> = flow.arrivals(lanes, node, epoch).collect();
            let groups: Vec<&[usize]> =
                if lanes.nodes[node].copies { leaving.chunks(1).collect() } else { vec![&leaving] };
            for group in groups {
                let row = self.row(Bounds::at_most(0.0))?;
                group.iter().for_each(|column| self.entry(*column, row, 1.0));
                arrivals.iter().for_each(|column| self.entry(*column, row, -1.0));
            }
        }
        Ok(())
    }

    /// No room holds more at a time than it can.
    fn rooms(&mut self, lanes: &Lanes, by_room: Vec<Vec<(u64, u64, usize)>>) -> Result<(), Failed> {
        for (room, mut starts) in by_room.into_iter().enumerate() {
            starts.sort_unstable();
            let mut epochs: Vec<u64> = starts.iter().map(|(epoch, ..)| *epoch).collect();
            epochs.dedup();
            for epoch in epochs {
                let there = starts.iter().filter(|(start, kappa, _)| *start <= epoch && epoch < start + kappa);
                let there: Vec<usize> = there.map(|(.., column)| *column).collect();
                let limit = lanes.rooms[room].limit(epoch);
                if there.len() as u64 > limit {
                    let row = self.row(Bounds::at_most(limit as f64))?;
                    there.into_iter().for_each(|column| self.entry(column, row, 1.0));
                }
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Option<Model>, Failed> {
        let mut sends = Vec::with_capacity(self.columns.len());
        for Draft { worth, bounds, mut entries, send } in self.columns {
            entries.sort_unstable_by_key(|(row, _)| *row);
            // A lane may be in a row twice over, as where a room is filled by a send and the next.
            entries.dedup_by(|next, first| {
                let same = next.0 == first.0;
                if same {
                    first.1 += next.1;
                }
                same
            });
            let _: Column = match send {
                Some(_) => self.program.integer(worth, bounds, entries)?,
                None => self.program.column(worth, bounds, entries)?,
            };
            sends.push(send);
        }
        Ok(Some(Model { program: self.program, sends }))
    }
}
