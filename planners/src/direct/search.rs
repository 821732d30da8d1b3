//! Searching for better graphs: directed circulants and Cayley graphs of metacyclic groups with fewer steps or less load.
//!
//! Each candidate costs one breadth-first search from one receiver (`receiver`), some microseconds. Work is cut into
//! batches with a stream of random numbers each; a round of batches starts from the same best candidates, so what is found
//! depends on the seed and the number of rounds, not on the number of threads. A deadline ends a search with what it has.
//! It is looked at between rounds.

mod frontier;
mod group;
mod receiver;
mod walk;

#[cfg(test)]
mod tests;

use super::Refusal;
use crate::run::{Run, Stage, Stopped};
use frontier::{Frontier, Point};
use group::Group;
use sluice_formats::quantity::Rational;
use walk::Walker;

/// Batches of a round; more threads than this find nothing to do.
const BATCHES: u64 = 8;
/// Vertices at most; beyond, a candidate takes so long that chance finds little.
const MAX_VERTICES: u32 = 1 << 14;

/// What is searched for.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Number of vertices, 2 to 16384.
    pub n: u32,
    /// Degree, 2 to 10.
    pub d: u32,
    /// Only graphs whose every arc has its reverse.
    pub bidirectional: bool,
    /// Number from which all chance comes.
    pub seed: u64,
    /// Rounds at most, some tenths of a second each; the same number finds the same.
    pub rounds: u64,
}

/// A graph that was found: what the finder needs of a base graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The graph as an expression: `DC(8,{1,3})` or `MC(8,2,3,4;(0,1),(5,0))`.
    pub expression: String,
    /// Vertices, as many as were asked for.
    pub n: u32,
    /// Links out of each vertex, and as many in.
    pub d: u32,
    /// Steps of the best breadth-first schedule.
    pub t_l: u32,
    /// Its τ, exact, in units of M/B.
    pub t_b: Rational,
    /// τ of the reduce-scatter; it differs where the graph is not like its transpose.
    pub t_b_reduce: Rational,
    /// Has every arc its reverse?
    pub bidirectional: bool,
}

impl Request {
    fn check(&self) -> Result<(), Refusal> {
        let refuse = |reason: String| Err(Refusal::InvalidFamily { family: "search".into(), reason });
        if !(2..=MAX_VERTICES).contains(&self.n) {
            return refuse(format!("{} vertices; allowed: 2 to {MAX_VERTICES}", self.n));
        }
        let most = receiver::MAX_DEGREE.min(self.n - 1);
        if !(2..=most).contains(&self.d) {
            return refuse(format!("degree {} with {} vertices; allowed: 2 to {most}", self.d, self.n));
        }
        Ok(())
    }
    /// The least number of steps that Moore's bound allows.
    fn least_steps(&self) -> u32 {
        let (mut reached, mut front, mut steps) = (1u64, 1u64, 0);
        while reached < u64::from(self.n) {
            front *= if self.bidirectional && steps > 0 { u64::from(self.d) - 1 } else { u64::from(self.d) };
            reached += front;
            steps += 1;
            if self.bidirectional && self.d == 2 {
                return self.n / 2;
            }
        }
        steps
    }
}

/// The sizes whose finds bear on graphs of `n` vertices and degree `d`: these themselves, those whose line graphs, taken
/// again and again, they are, and those whose copies or squares they are. Largest first, without repeats.
pub fn bases(n: u32, d: u32) -> Vec<(u32, u32)> {
    let lines = std::iter::successors(Some(n), |&n| n.checked_div(d).filter(|_| d > 1 && n.is_multiple_of(d)));
    let mut bases: Vec<(u32, u32)> = lines.map(|n| (n, d)).collect();
    let copies = (2..=d).filter(|k| d.is_multiple_of(*k) && n.is_multiple_of(*k)).map(|k| (n / k, d / k));
    bases.extend(copies);
    let root = n.isqrt();
    if root * root == n && d.is_multiple_of(2) {
        bases.push((root, d / 2));
    }
    bases.retain(|&(n, d)| d >= 2 && d < n && n <= MAX_VERTICES && d <= receiver::MAX_DEGREE);
    bases.sort_unstable_by(|a, b| b.cmp(a));
    bases.dedup();
    bases
}

/// Searches until the deadline, or nothing better is possible. What is found is ascending in steps and descending in τ.
///
/// # Errors
/// `E_RANGE` for a number of vertices or a degree outside the limits of [`Request`]; `Cancelled`.
pub fn search(request: &Request, run: &Run) -> Result<Vec<Found>, Refusal> {
    request.check()?;
    let groups: Vec<Group> = std::iter::once(Group::cyclic(request.n)).chain(Group::all(request.n)).collect();
    // About as much work in every batch, whatever the size of the graph.
    let evaluations = (1 << 20) / (u64::from(request.n) * u64::from(request.d)) + 500;
    let mut best = Frontier::default();
    for number in 0..request.rounds {
        let about = format_args!("{} vertices of degree {}", request.n, request.d);
        run.tell(Stage::Search, number * BATCHES * evaluations, 0, about);
        if run.is_late() || complete(request, &best) {
            break;
        }
        best = round(request, &groups, &best, number * BATCHES, evaluations, run)?;
    }
    Ok(best.points().iter().filter_map(|point| found(request, point)).collect())
}

/// A round of batches, all from the same best candidates; their finds are put together in the order of batches.
fn round(
    request: &Request,
    groups: &[Group],
    best: &Frontier,
    first: u64,
    evaluations: u64,
    run: &Run,
) -> Result<Frontier, Stopped> {
    // A round is begun in time or not at all, and then it is done.
    let whole = Run { deadline: None, ..*run };
    let walker = || Walker::new(request, groups);
    let walk = |walker: &mut Walker<'_>, batch: usize| walker.batch(best, first + batch as u64, evaluations);
    let batches = whole.each(BATCHES as usize, walker, walk)?;
    let mut best = best.clone();
    for point in batches.iter().flat_map(Frontier::points) {
        best.add(point.clone());
    }
    Ok(best)
}

/// Is there a graph with the fewest steps and the least load at once?
fn complete(request: &Request, best: &Frontier) -> bool {
    let bound = receiver::PARTS * u64::from(request.n - 1);
    let is_best = |loads: u64| loads * u64::from(request.d) == bound;
    best.points().first().is_some_and(|p| p.t_l == request.least_steps() && is_best(p.loads) && is_best(p.reduce))
}

fn found(request: &Request, point: &Point) -> Option<Found> {
    let (n, d) = (request.n, request.d);
    let share = |loads: u64| {
        let parts = i128::from(n) * i128::from(receiver::PARTS);
        Rational::new(i128::from(d) * i128::from(loads), parts)
    };
    let mut back: Vec<_> = point.generators.iter().map(|&s| point.group.inverse(s)).collect();
    back.sort_unstable();
    Some(Found {
        expression: point.group.expression(&point.generators),
        n,
        d,
        t_l: point.t_l,
        t_b: share(point.loads)?,
        t_b_reduce: share(point.reduce)?,
        bidirectional: back == point.generators,
    })
}
