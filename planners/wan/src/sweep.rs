//! Sweeps: generated instances of a growing number of collectives, each under several methods, for several seeds.
//!
//! A method and an instance are one piece of work; pieces are shared out among threads, and the result is the same for any
//! number of them unless time runs out.

mod chart;
pub mod page;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sluice_planners::{Run, Stage};

use crate::bound;
use crate::generate::{Sizes, Workload};
use crate::graph::Graph;
use crate::instance::Instance;
use crate::method::{Method, Options, Solver, propose};
use crate::refusal::Refusal;

/// Pieces of work of a sweep at most.
pub const MAX_PIECES: usize = 1_000_000;

/// What is swept over.
#[derive(Clone, Debug)]
pub struct Grid<'a> {
    /// What the collectives run on.
    pub graph: &'a Graph,
    /// Numbers of collectives.
    pub collectives: Vec<usize>,
    /// Seeds for each of them.
    pub seeds: Vec<u64>,
    /// Participants of a collective.
    pub participants: usize,
    /// What has a size of its own.
    pub sizes: Sizes,
    /// What sizes are multiplied by.
    pub scale: f64,
    /// The methods, in the order in which they are shown.
    pub methods: Vec<Method>,
    /// What is chosen of them.
    pub options: Options,
    /// How long a method may take on an instance.
    pub limit: Option<Duration>,
}

impl<'a> Grid<'a> {
    /// What generates the instance of so many collectives and a seed.
    pub fn workload(&self, collectives: usize, seed: u64) -> Workload<'a> {
        Workload {
            participants: self.participants,
            sizes: self.sizes,
            scale: self.scale,
            ..Workload::new(self.graph, collectives, seed)
        }
    }
}

/// An instance with what its methods come to.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// How many collectives.
    pub collectives: usize,
    /// The seed.
    pub seed: u64,
    /// No plan has a mean time below this, in s.
    pub bound: f64,
    /// By method the mean time in s, or why there is none.
    pub means: Vec<Result<f64, Refusal>>,
}

/// The mean of some numbers and how far they lie apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation, of one less than their number; 0 for a single one.
    pub deviation: f64,
    /// How many there are.
    pub count: usize,
}

impl Spread {
    /// Of these numbers; `None` if there are none.
    pub fn of(numbers: &[f64]) -> Option<Spread> {
        let count = numbers.len();
        if count == 0 {
            return None;
        }
        let mean = numbers.iter().sum::<f64>() / count as f64;
        let squares: f64 = numbers.iter().map(|number| (number - mean) * (number - mean)).sum();
        let deviation = if count > 1 { (squares / (count - 1) as f64).sqrt() } else { 0.0 };
        Some(Spread { mean, deviation, count })
    }
}

/// A finished sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// What the graph is called.
    pub graph: String,
    /// Numbers of collectives.
    pub collectives: Vec<usize>,
    /// The methods, in the order of [`Cell::means`].
    pub methods: Vec<Method>,
    /// By number of collectives, then by seed.
    pub cells: Vec<Cell>,
}

impl Sweep {
    /// The mean times of a method on the instances of so many collectives, in s; `None` if it has none.
    pub fn spread(&self, method: usize, collectives: usize) -> Option<Spread> {
        let cells = self.cells.iter().filter(|cell| cell.collectives == collectives);
        Spread::of(&cells.filter_map(|cell| cell.means.get(method)?.as_ref().ok().copied()).collect::<Vec<_>>())
    }
    /// The bounds of the instances of so many collectives, in s.
    pub fn bounds(&self, collectives: usize) -> Option<Spread> {
        let cells = self.cells.iter().filter(|cell| cell.collectives == collectives);
        Spread::of(&cells.map(|cell| cell.bound).collect::<Vec<_>>())
    }
}

/// What a piece of work comes to.
type Piece = Result<Result<f64, Refusal>, Refusal>;

/// Sweeps.
///
/// # Errors
/// What the generator refuses, `TooLarge`, and [`Refusal::Stopped`]. What a method refuses stands in its place.
pub fn run(grid: &Grid<'_>, solver: Option<&dyn Solver>, run: &Run<'_>) -> Result<Sweep, Refusal> {
    let points: Vec<(usize, u64)> =
        grid.collectives.iter().flat_map(|count| grid.seeds.iter().map(move |seed| (*count, *seed))).collect();
    // The last piece of an instance is its bound.
    let each = grid.methods.len() + 1;
    let total = points.len().saturating_mul(each);
    if total > MAX_PIECES {
        return Err(Refusal::TooLarge { what: "pieces of work", found: total, allowed: MAX_PIECES });
    }
    let done = AtomicUsize::new(0);
    let piece = |(): &mut (), index: usize| -> Piece {
        let (collectives, seed) = points[index / each];
        let instance = grid.workload(collectives, seed).generate()?;
        let deadline = grid.limit.and_then(|limit| Instant::now().checked_add(limit));
        let own = Run { threads: 1, watch: &|_| {}, deadline, ..*run };
        let found = match grid.methods.get(index % each) {
            Some(method) => mean(*method, &instance, &grid.options, solver, &own),
            None => Ok(lower(&instance, solver, &own)),
        };
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        run.tell(Stage::Sweep, done as u64, total as u64, format_args!("{collectives} collectives, seed {seed}"));
        Ok(found)
    };
    let mut pieces = run.each(total, || (), piece).map_err(|_| Refusal::Stopped)?.into_iter();
    let mut cells = Vec::with_capacity(points.len());
    for (collectives, seed) in points {
        let mut means = pieces.by_ref().take(each).collect::<Result<Vec<_>, Refusal>>()?;
        let bound = means.pop().and_then(Result::ok).unwrap_or(0.0);
        cells.push(Cell { collectives, seed, bound, means });
    }
    let graph = grid.graph.name().to_owned();
    Ok(Sweep { graph, collectives: grid.collectives.clone(), methods: grid.methods.clone(), cells })
}

/// The mean time of what a method proposes.
fn mean(
    method: Method,
    instance: &Instance,
    options: &Options,
    solver: Option<&dyn Solver>,
    run: &Run<'_>,
) -> Result<f64, Refusal> {
    let proposed = propose(method, instance, options, solver, run)?;
    Ok(proposed.plan.execute_until(instance, &mut || run.is_cancelled())?.mean)
}

/// The best bound there is.
fn lower(instance: &Instance, solver: Option<&dyn Solver>, run: &Run<'_>) -> f64 {
    let run = Run { deadline: None, ..*run };
    let of_each = || bound::of_each(instance).value;
    solver.and_then(|solver| solver.bound(instance, &run).ok()).map_or_else(of_each, |bound| bound.value)
}
