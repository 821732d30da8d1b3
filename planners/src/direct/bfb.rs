//! Breadth-first broadcast (BFB): every shard travels on shortest paths only, and each receiver takes what is t hops
//! away in step t, spread over its links as evenly as can be.
//!
//! The best such schedule falls apart into one small problem per receiver and step: jobs (the shards at that distance),
//! links (from in-neighbours one hop nearer), and the least largest load U of a link. Its value is a fraction with a
//! denominator of at most the number of links, so whole numbers suffice and nothing is rounded (section 3.6 and appendix A.5 of
//! the dissertation, which solves linear programs instead).
//!
//! | module | is |
//! | --- | --- |
//! | `inlinks`, `arrivals` | who sends to whom; what reaches one receiver in which step, and over which links |
//! | `transport`, `least` | splitting jobs over links; the least largest load |
//! | `schedule` | whole units, sends, reduce-scatter and all-reduce |
//! | `unequal` | links that differ in latency and speed |

mod arrivals;
mod inlinks;
mod least;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod samples;
mod schedule;
#[cfg(test)]
mod tests;
mod transport;
mod unequal;

pub use schedule::{
    Costed, MAX_SENDS, MAX_UNITS, Options, Planned, all_gather, all_gather_cost, all_reduce, all_reduce_cost,
    reduce_scatter, reduce_scatter_cost,
};
pub use unequal::LinkTime;

use super::{Cost, Graph, Refusal, Symmetry};
use crate::run::{Run, Stage};
use arrivals::Arrivals;
use inlinks::Inlinks;
use least::Least;
use sluice_formats::quantity::Rational;

/// Loads of the steps of the best BFB all-gather, with any number of threads the same.
///
/// A graph that its generator calls vertex-transitive is solved for receiver 0 only.
///
/// # Errors
/// `NotStronglyConnected` with a pair; `TopologyTooLarge` if irregular with hubs beyond memory; `Cancelled`, `TimeLimit`.
pub fn cost(graph: &Graph, run: &Run) -> Result<Cost, Refusal> {
    let links = Inlinks::new(graph)?;
    Ok(Cost::new(loads(&links, receivers(graph), run)?, graph.n(), graph.degree().ok()))
}

/// How many receivers, from 0 on, stand for all.
fn receivers(graph: &Graph) -> u32 {
    match graph.symmetry() {
        Symmetry::None => graph.n(),
        Symmetry::VertexTransitive => 1,
    }
}

/// The largest U of the first `receivers` receivers in each step.
fn loads(links: &Inlinks, receivers: u32, run: &Run) -> Result<Vec<Rational>, Refusal> {
    let parts = over_receivers(receivers, run, |receivers| {
        let (mut arrivals, mut least, mut loads) = (Arrivals::new(links), Least::default(), Vec::new());
        for receiver in receivers {
            arrivals.at(links, receiver);
            loads.resize(loads.len().max(arrivals.steps()), Rational::ZERO);
            for (load, step) in loads.iter_mut().zip(1..=arrivals.steps()) {
                least.raise(load, &mut arrivals, step);
            }
        }
        loads
    })?;
    let steps = parts.iter().map(Vec::len).max().unwrap_or(0);
    let largest = |step: usize| parts.iter().filter_map(|part| part.get(step)).max().cloned().unwrap_or(Rational::ZERO);
    Ok((0..steps).map(largest).collect())
}

/// Every receiver below `receivers` goes to one of the threads; what each thread makes of its receivers.
fn over_receivers<R: Send>(
    receivers: u32,
    run: &Run,
    worker: impl Fn(&mut dyn Iterator<Item = u32>) -> R + Sync,
) -> Result<Vec<R>, Refusal> {
    let parts = run.share(receivers as usize, |own| {
        worker(&mut own.map(|receiver| {
            run.tell(Stage::Schedule, receiver as u64, receivers.into(), format_args!(""));
            receiver as u32
        }))
    })?;
    Ok(parts)
}

/// The fewest steps that any graph of `n` vertices of degree `d` can do with (Moore bound); `None` where no degree does.
pub fn fewest_steps(n: u32, d: u32) -> Option<u32> {
    let (mut reached, mut ring, mut steps) = (1_u64, 1_u64, 0);
    while reached < u64::from(n) {
        ring = ring.saturating_mul(d.into());
        if ring == 0 {
            return None;
        }
        reached = reached.saturating_add(ring);
        steps += 1;
    }
    Some(steps)
}

/// The least τ that any schedule on `n` vertices can have: (n−1)/n.
pub fn least_bandwidth(n: u32) -> Rational {
    Rational::new(i128::from(n.saturating_sub(1)), i128::from(n.max(1))).unwrap_or(Rational::ZERO)
}
