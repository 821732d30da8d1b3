//! How long a round takes when its job has the network to itself: simulated, once per shape.
//!
//! The shape is everything that matters: bytes, dependencies, and which flows share which capacities. Jobs that are
//! placed alike have one shape, so a scenario of thousands of jobs has few.

use std::collections::{BTreeMap, HashMap};

use crate::fluid::{Dep, Fluid, Grid, Moving, NEVER};

/// One network flow of a round, its dependencies by place in the round.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) bytes: f64,
    /// The part of what is sent that arrives.
    pub(super) keep: f64,
    pub(super) path: Vec<u32>,
    pub(super) deps: Vec<Dep>,
}

/// Rounds seen so far, and their lengths in nanoseconds.
#[derive(Debug, Default)]
pub(super) struct Alone {
    seen: HashMap<Box<[u64]>, u64>,
}

impl Alone {
    /// Nanoseconds of a round of these flows on an empty network; [`NEVER`] if it cannot end.
    pub(super) fn round(&mut self, pieces: &[Piece], capacity: &[f64]) -> u64 {
        if pieces.is_empty() {
            return 0;
        }
        let (shape, links) = shape(pieces, capacity);
        if let Some(&ns) = self.seen.get(shape.as_slice()) {
            return ns;
        }
        let ns = simulate(pieces, &links, capacity);
        self.seen.insert(shape.into_boxed_slice(), ns);
        ns
    }
}

/// The round in numbers, links named by first use; and those names.
fn shape(pieces: &[Piece], capacity: &[f64]) -> (Vec<u64>, BTreeMap<u32, u32>) {
    let mut links: BTreeMap<u32, u32> = BTreeMap::new();
    let mut shape = vec![pieces.len() as u64];
    for piece in pieces {
        shape.extend([piece.bytes.to_bits(), piece.keep.to_bits(), piece.path.len() as u64, piece.deps.len() as u64]);
        for link in &piece.path {
            let fresh = links.len() as u32;
            let name = *links.entry(*link).or_insert(fresh);
            shape.push(u64::from(name));
            if name == fresh {
                shape.push(capacity[*link as usize].to_bits());
            }
        }
        for d in &piece.deps {
            shape.extend([u64::from(d.pred) * 2 + u64::from(d.after), d.lead.to_bits(), d.granule.to_bits()]);
        }
    }
    (shape, links)
}

fn simulate(pieces: &[Piece], links: &BTreeMap<u32, u32>, capacity: &[f64]) -> u64 {
    let mut rates = vec![0.0; links.len()];
    for (link, &name) in links {
        rates[name as usize] = capacity[*link as usize];
    }
    let mut fluid = Fluid::new(rates, Grid::default());
    let mut waits: Vec<u32> = vec![0; pieces.len()];
    let mut afters: Vec<Vec<u32>> = vec![Vec::new(); pieces.len()];
    let mut succs: Vec<Vec<u32>> = vec![Vec::new(); pieces.len()];
    for (i, piece) in pieces.iter().enumerate() {
        for dep in &piece.deps {
            let list = if dep.after { &mut afters } else { &mut succs };
            list[dep.pred as usize].push(i as u32);
            waits[i] += u32::from(dep.after);
        }
    }
    for ((i, piece), succs) in pieces.iter().enumerate().zip(succs) {
        let path = fluid.network.path_of(piece.path.iter().filter_map(|l| links.get(l)).copied());
        let preds = piece.deps.clone().into_boxed_slice();
        let (bytes, keep) = (piece.bytes, piece.keep);
        let succs = succs.into_boxed_slice();
        let moving = Moving { bytes, keep, weight: 1.0, cap: f64::INFINITY, preds, succs, ..Moving::default() };
        fluid.put(i as u32, moving, path);
    }
    let mut left = pieces.len();
    let mut now = 0;
    (0..pieces.len()).filter(|&i| waits[i] == 0).for_each(|i| fluid.start(i as u32, 0));
    let mut due = Vec::new();
    while left > 0 {
        fluid.share(now);
        fluid.changed.clear();
        fluid.stalled.clear();
        now = fluid.next();
        if now == NEVER {
            return NEVER;
        }
        due.clear();
        fluid.due(now, &mut due);
        for &slot in &due {
            if !fluid.has_ended(slot, now) {
                fluid.snap(slot, now);
                fluid.network.touch(slot);
                continue;
            }
            fluid.stop(slot, now, true);
            left -= 1;
            for &next in &afters[slot as usize] {
                waits[next as usize] -= 1;
                if waits[next as usize] == 0 {
                    fluid.start(next, now);
                }
            }
        }
    }
    now
}
