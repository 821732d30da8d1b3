//! Chunks that may be cut, and are not copied: amounts from a linear program become pieces that travel by paths.
//!
//! Source: section 3 of the paper for the program; the pieces are this project's. Amounts of one tenant's source flow
//! through places, which are nodes at epochs; a path leads back from where something is read, and carries what the least
//! of its amounts is.

use std::collections::BTreeMap;

use super::bound::Bound;
use super::demand::Chunk;
use super::greedy;
use super::instance::{Instance, Mode, Options};
use super::objective::Objective;
use super::search::{Goal, horizon, infeasible};
use super::to_plan::{Entry, Made, Outcome, Piece, Worth, plan};
use crate::run::{Run, Stage, Stopped};
use sluice_formats::problem::{Problem, Problems};
use sluice_plan::plan::CertificateKind;

/// How often a horizon in which nothing was found is doubled.
const MAX_DOUBLINGS: u32 = 6;
/// Chunks that are nothing, where a solver computes with doubles.
const NOTHING: f64 = 1e-7;
/// Chunks by which what a pair reads may miss what it wants.
const MAX_MISSED: f64 = 1e-4;
/// Bytes that are moved to other ways, one after the other, at most.
const MAX_MOVES: usize = 1 << 16;

/// Whose data flows: a tenant's at a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// By its place in [`Demand::tenants`](super::demand::Demand::tenants); 0 where there are none.
    pub tenant: usize,
    /// The node where the data begins.
    pub source: usize,
}

/// What starts on a lane in an epoch.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// The data that moves: whose and from where.
    pub origin: Origin,
    /// The lane's place in [`Lanes::lanes`](super::lane::Lanes::lanes).
    pub lane: usize,
    /// The epoch in which it starts, from 0.
    pub epoch: u64,
    /// How much starts, in chunks and parts of them.
    pub amount: f64,
}

/// What a node has got at the start of an epoch for itself.
#[derive(Clone, Copy, Debug)]
pub struct Delivered {
    /// The data that is read: whose and from where.
    pub origin: Origin,
    /// The node that reads it.
    pub node: usize,
    /// At the start of this epoch.
    pub epoch: u64,
    /// How much it reads, in chunks and parts of them.
    pub amount: f64,
}

/// A solution of the linear program.
#[derive(Clone, Debug, Default)]
pub struct Amounts {
    /// What starts on lanes; the order means nothing.
    pub sent: Vec<Sent>,
    /// What nodes read for themselves; the order means nothing.
    pub delivered: Vec<Delivered>,
}

/// What a horizon came to.
#[derive(Clone, Debug)]
pub enum Answer {
    /// So it can be done.
    Found(Amounts),
    /// No amounts meet all demands within these epochs.
    Infeasible,
    /// Time ran out, or the program would be too large.
    Unknown,
}

/// Somebody who solves the linear program.
pub trait Divide {
    /// Amounts that meet all demands within so many epochs, with little traffic, or such as gain most.
    ///
    /// # Errors
    /// Being called off, and what breaks down.
    fn amounts(
        &self,
        instance: &Instance<'_>,
        epochs: u64,
        objective: Option<Objective>,
        run: &Run<'_>,
    ) -> Result<Answer, Problems>;
}

/// Plans pieces of chunks, claims and checks.
///
/// # Errors
/// As [`super::make`].
pub fn make(instance: &Instance<'_>, solver: &dyn Divide, run: &Run<'_>) -> Result<Made, Problems> {
    let mode = instance.options().mode;
    let goal = match mode {
        Mode::Feasible(epochs) | Mode::Objective { epochs: Some(epochs), .. } => Goal::Feasible(epochs),
        Mode::MinEpochs | Mode::Objective { epochs: None, .. } => Goal::MinEpochs,
    };
    let mut horizons = Horizons { instance, solver, run, bound: instance.bound.clone(), best: None };
    match goal {
        Goal::Feasible(epochs) if epochs < instance.bound.epochs => {
            return Err(infeasible(epochs, instance.bound.epochs));
        }
        Goal::Feasible(epochs) => {
            if !horizons.holds(epochs)? && !run.is_late() {
                return Err(infeasible(epochs, horizons.bound.epochs));
            }
        }
        Goal::MinEpochs => horizons.fewest()?,
    }
    let Horizons { bound, best, .. } = horizons;
    let Some(mut best) = best else {
        return Err(if run.is_late() { Stopped::TimeLimit.problem().into() } else { horizon(bound.epochs) });
    };
    let mut worth = None;
    if let Mode::Objective { objective, epochs } = mode {
        let epochs = epochs.unwrap_or(best.finish);
        let most = objective.most(&instance.lanes, &instance.demand, epochs);
        let (mut value, mut limit) = (gained(instance, &best.amounts, objective, epochs), most);
        if let Answer::Found(amounts) = solver.amounts(instance, epochs, Some(objective), run)? {
            value = gained(instance, &amounts, objective, epochs);
            limit = value;
            best = Cut::new(instance, amounts)?;
        }
        worth = Some(Worth { objective, epochs, value, bound: limit.max(value) });
    }
    let entries = best.starts.iter().map(|start| Entry {
        epoch: start.epoch,
        chunk: &instance.demand.chunks[start.chunk],
        lane: &instance.lanes.lanes[start.lane],
        is_reversed: false,
        piece: Some(start.piece),
    });
    let outcome = Outcome { finish: best.finish, bound, worth, late: run.is_late() };
    plan(instance, entries.collect(), &outcome)
}

/// What a solution gains, weights counted.
fn gained(instance: &Instance<'_>, amounts: &Amounts, objective: Objective, epochs: u64) -> f64 {
    let weight = |tenant: usize| instance.demand.tenants.get(tenant).map_or(1.0, |tenant| tenant.weight.to_f64());
    let gain = |of: &Delivered| of.amount * weight(of.origin.tenant) * objective.gains_from(of.epoch, epochs);
    amounts.delivered.iter().map(gain).sum()
}

/// The search for the fewest epochs.
struct Horizons<'a> {
    instance: &'a Instance<'a>,
    solver: &'a dyn Divide,
    run: &'a Run<'a>,
    bound: Bound,
    best: Option<Cut>,
}

impl Horizons<'_> {
    /// Are so many epochs enough? If not, the bound is higher, unless time ran out.
    fn holds(&mut self, epochs: u64) -> Result<bool, Problems> {
        let to = self.best.as_ref().map_or(epochs, |best| best.finish);
        self.run.tell(Stage::Program, 0, 0, format_args!("{} to {to} epochs: trying {epochs}", self.bound.epochs));
        match self.solver.amounts(self.instance, epochs, None, self.run)? {
            Answer::Found(amounts) => {
                self.best = Some(Cut::new(self.instance, amounts)?);
                Ok(true)
            }
            Answer::Infeasible => {
                self.bound = Bound { epochs: epochs + 1, kind: CertificateKind::Solver, nodes: Vec::new() };
                Ok(false)
            }
            Answer::Unknown => Ok(false),
        }
    }

    /// Whole chunks say how many epochs are enough, for pieces need no more; between that and the bound each program
    /// decides about half.
    fn fewest(&mut self) -> Result<(), Problems> {
        let whole = self.instance.with(Options { divisible: false, ..self.instance.options().clone() });
        let whole = whole.ok().and_then(|whole| {
            let (bound, seed) = (whole.bound.epochs, self.instance.options().seed);
            greedy::best(&whole.lanes, &whole.hops, &whole.demand, bound, seed, self.run).ok().flatten()
        });
        let mut most = whole.map_or(self.bound.epochs.saturating_mul(2), |whole| whole.finish);
        for _ in 0..MAX_DOUBLINGS {
            while self.bound.epochs < most && !self.run.is_late() {
                let middle = self.bound.epochs + (most - self.bound.epochs) / 2;
                if self.holds(middle)? {
                    most = self.best.as_ref().map_or(middle, |best| best.finish.min(middle));
                }
            }
            if self.best.is_some() || self.run.is_late() || self.holds(most)? {
                return Ok(());
            }
            most = most.saturating_mul(2);
        }
        Ok(())
    }
}

/// Amounts, cut into pieces.
struct Cut {
    amounts: Amounts,
    starts: Vec<Start>,
    finish: u64,
}

/// A piece of a chunk that starts on a lane in an epoch.
struct Start {
    lane: usize,
    epoch: u64,
    /// By its place in the demand.
    chunk: usize,
    piece: Piece,
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
    fn new(instance: &Instance<'_>, amounts: Amounts) -> Result<Cut, Problems> {
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
