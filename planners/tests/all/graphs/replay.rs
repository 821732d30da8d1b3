//! What a schedule does, unit by unit: proof that everybody ends with what it is owed, and the measured loads.
//!
//! Shares nothing with the planners but their public types, and judges them in the unit tests too. All-gather: who has which unit. Reduce-scatter: whose contributions are in whose
//! partial sum of which unit; a send moves the sum. Steps use what was there before them.

use super::{Cost, Graph, Schedule, Send, Shape};
use sluice_formats::quantity::Rational;

/// Bytes of a table at most: half a gibibyte.
const MAX_BYTES: u128 = 1 << 29;

/// Why a schedule does not do what it should.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A send that cannot be: no such edge, shard or unit, a loop, a step out of range.
    #[error("send {place} ({send:?}): {reason}")]
    BadSend {
        /// Its place.
        place: usize,
        /// The send.
        send: Send,
        /// What cannot be.
        reason: &'static str,
    },
    /// Somebody sends what it does not have.
    #[error("send {place} ({send:?}): vertex {vertex} does not have unit {unit} of shard {} then", .send.shard)]
    NotThere {
        /// Its place.
        place: usize,
        /// The send.
        send: Send,
        /// Who sends.
        vertex: u32,
        /// The unit.
        unit: u32,
    },
    /// A contribution that is in the receiver's sum already.
    #[error("send {place} ({send:?}): vertex {vertex} adds a contribution to unit {unit} for the second time")]
    Twice {
        /// Its place.
        place: usize,
        /// The send.
        send: Send,
        /// Who receives.
        vertex: u32,
        /// The unit.
        unit: u32,
    },
    /// Something is missing at the end.
    #[error("after step {step} vertex {vertex} lacks unit {unit} of shard {shard}, or a contribution to it")]
    Missing {
        /// The last step of the phase.
        step: u32,
        /// Who lacks it.
        vertex: u32,
        /// Owner of the shard.
        shard: u32,
        /// The unit.
        unit: u32,
    },
    /// More state than fits in memory.
    #[error("a replay of {vertices} vertices and {units} units needs too much memory")]
    TooLarge {
        /// Vertices.
        vertices: u32,
        /// Units per shard.
        units: u32,
    },
}

/// Runs a schedule and measures it.
///
/// # Errors
/// The first [`Fault`].
pub fn replay(graph: &Graph, schedule: &Schedule) -> Result<Cost, Fault> {
    let reduce_steps = match schedule.shape {
        Shape::AllGather => 0,
        Shape::ReduceScatter => schedule.steps,
        Shape::AllReduce { reduce_steps } => reduce_steps,
    };
    for (place, &send) in schedule.sends.iter().enumerate() {
        let bad = |reason| Err(Fault::BadSend { place, send, reason });
        match graph.edges().get(send.edge as usize) {
            None => return bad("no such edge"),
            Some(edge) if edge.tail == edge.head => return bad("a self-loop carries nothing"),
            Some(_) => {}
        }
        if send.shard >= graph.n() || send.lo >= send.hi || send.hi > schedule.units {
            return bad("no such shard or units");
        }
        if !(1..=schedule.steps).contains(&send.step) {
            return bad("no such step");
        }
    }
    let mut steps: Vec<Vec<usize>> = vec![Vec::new(); schedule.steps as usize];
    for (place, send) in schedule.sends.iter().enumerate() {
        steps[send.step as usize - 1].push(place);
    }
    let (inward, outward) = steps.split_at((reduce_steps as usize).min(steps.len()));
    if schedule.shape != Shape::AllGather {
        Sums::new(graph, schedule)?.run(inward)?;
    }
    if schedule.shape != Shape::ReduceScatter {
        gather(graph, schedule, outward)?;
    }
    Ok(measured(graph, schedule, &steps))
}

/// The largest load in each step up to the last that sends anything.
fn measured(graph: &Graph, schedule: &Schedule, steps: &[Vec<usize>]) -> Cost {
    let mut on = vec![0_u64; graph.edges().len()];
    let mut load = |step: &Vec<usize>| {
        on.fill(0);
        for send in step.iter().map(|place| schedule.sends[*place]) {
            on[send.edge as usize] += u64::from(send.hi - send.lo);
        }
        let most = on.iter().max().copied().unwrap_or(0);
        Rational::new(i128::from(most), i128::from(schedule.units)).unwrap_or(Rational::ZERO)
    };
    let used = steps.iter().rposition(|step| !step.is_empty()).map_or(0, |last| last + 1);
    let loads = steps[..used].iter().map(&mut load).collect();
    Cost::new(loads, graph.n(), graph.degree().ok())
}

fn gather(graph: &Graph, schedule: &Schedule, steps: &[Vec<usize>]) -> Result<(), Fault> {
    let (n, units) = (graph.n(), schedule.units);
    if u128::from(n) * u128::from(n) * u128::from(units) > MAX_BYTES {
        return Err(Fault::TooLarge { vertices: n, units });
    }
    let place = |vertex: u32, shard: u32, unit: u32| {
        ((vertex as usize * n as usize) + shard as usize) * units as usize + unit as usize
    };
    let mut has = vec![false; n as usize * n as usize * units as usize];
    for vertex in 0..n {
        has[place(vertex, vertex, 0)..][..units as usize].fill(true);
    }
    for step in steps {
        for (at, send) in step.iter().map(|at| (*at, schedule.sends[*at])) {
            let vertex = graph.edges()[send.edge as usize].tail;
            if let Some(unit) = (send.lo..send.hi).find(|unit| !has[place(vertex, send.shard, *unit)]) {
                return Err(Fault::NotThere { place: at, send, vertex, unit });
            }
        }
        for send in step.iter().map(|at| schedule.sends[*at]) {
            let vertex = graph.edges()[send.edge as usize].head;
            has[place(vertex, send.shard, send.lo)..][..(send.hi - send.lo) as usize].fill(true);
        }
    }
    match has.iter().position(|has| !has) {
        None => Ok(()),
        Some(missing) => {
            let (unit, pair) = (missing % units as usize, missing / units as usize);
            let (vertex, shard) = (pair / n as usize, pair % n as usize);
            let (vertex, shard, unit) = (vertex as u32, shard as u32, unit as u32);
            Err(Fault::Missing { step: schedule.steps, vertex, shard, unit })
        }
    }
}

/// Sets of contributors, by vertex, shard and unit.
struct Sums<'a> {
    graph: &'a Graph,
    schedule: &'a Schedule,
    words: usize,
    sets: Vec<u64>,
}

impl<'a> Sums<'a> {
    fn new(graph: &'a Graph, schedule: &'a Schedule) -> Result<Sums<'a>, Fault> {
        let (n, units) = (graph.n(), schedule.units);
        let words = (n as usize).div_ceil(64);
        let cells = u128::from(n) * u128::from(n) * u128::from(units);
        if cells * words as u128 * 8 > MAX_BYTES {
            return Err(Fault::TooLarge { vertices: n, units });
        }
        let mut sets = vec![0; cells as usize * words];
        let per_vertex = n as usize * units as usize * words;
        for (vertex, own) in sets.chunks_mut(per_vertex).enumerate() {
            own.chunks_mut(words).for_each(|set| set[vertex / 64] = 1 << (vertex % 64));
        }
        Ok(Sums { graph, schedule, words, sets })
    }
    fn place(&self, vertex: u32, shard: u32, unit: u32) -> std::ops::Range<usize> {
        let (n, units) = (self.graph.n() as usize, self.schedule.units as usize);
        let start = ((vertex as usize * n + shard as usize) * units + unit as usize) * self.words;
        start..start + self.words
    }

    fn run(mut self, steps: &[Vec<usize>]) -> Result<(), Fault> {
        for step in steps {
            let mut moved = Vec::new();
            for (place, send) in step.iter().map(|place| (*place, self.schedule.sends[*place])) {
                let edge = self.graph.edges()[send.edge as usize];
                for unit in send.lo..send.hi {
                    let from = self.place(edge.tail, send.shard, unit);
                    let set = self.sets[from.clone()].to_vec();
                    if set.iter().all(|word| *word == 0) {
                        return Err(Fault::NotThere { place, send, vertex: edge.tail, unit });
                    }
                    self.sets[from].fill(0);
                    moved.push((place, send, edge.head, unit, set));
                }
            }
            for (place, send, vertex, unit, set) in moved {
                let to = self.place(vertex, send.shard, unit);
                for (sum, word) in self.sets[to].iter_mut().zip(set) {
                    if *sum & word != 0 {
                        return Err(Fault::Twice { place, send, vertex, unit });
                    }
                    *sum |= word;
                }
            }
        }
        let step = steps.len() as u32;
        for shard in 0..self.graph.n() {
            for unit in 0..self.schedule.units {
                let set = &self.sets[self.place(shard, shard, unit)];
                if set.iter().map(|word| word.count_ones()).sum::<u32>() < self.graph.n() {
                    return Err(Fault::Missing { step, vertex: shard, shard, unit });
                }
            }
        }
        Ok(())
    }
}
