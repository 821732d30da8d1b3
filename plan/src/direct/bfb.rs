//! Breadth-first broadcast (BFB): every shard travels on shortest paths only, and each receiver takes what is t hops
//! away in step t, spread over its links as evenly as can be.
//!
//! The best such schedule falls apart into one small problem per receiver and step: jobs (the shards at that distance),
//! links (from in-neighbours one hop nearer), and the least largest load U of a link. Its value is a fraction with a
//! denominator of at most the number of links, so whole numbers suffice and nothing is rounded (section 3.6 and appendix A.5 of
//! the dissertation, which solves linear programs instead).

mod arrivals;
mod inlinks;
mod least;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
mod transport;

use std::sync::atomic::{AtomicU32, Ordering};

use super::{Cost, Graph, Refusal, Symmetry};
use crate::quantity::Rational;
use arrivals::Arrivals;
use inlinks::Inlinks;
use least::{Least, Ratio};

/// Loads of the steps of the best BFB all-gather, with any number of threads the same.
///
/// A graph that its generator calls vertex-transitive is solved for receiver 0 only.
///
/// # Errors
/// `NotStronglyConnected` with a pair; `TopologyTooLarge` if irregular with hubs beyond memory.
pub fn cost(graph: &Graph, threads: usize) -> Result<Cost, Refusal> {
    let links = Inlinks::new(graph)?;
    let loads = loads(&links, receivers(graph), threads).iter().filter_map(Ratio::exact).collect();
    Ok(Cost::new(loads, graph.n(), graph.degree().ok()))
}

/// How many receivers, from 0 on, stand for all.
fn receivers(graph: &Graph) -> u32 {
    match graph.symmetry() {
        Symmetry::None => graph.n(),
        Symmetry::VertexTransitive => 1,
    }
}

/// The largest U of the first `receivers` receivers in each step.
fn loads(links: &Inlinks, receivers: u32, threads: usize) -> Vec<Ratio> {
    let next = AtomicU32::new(0);
    let worker = || {
        let (mut arrivals, mut least, mut loads) = (Arrivals::new(links), Least::default(), Vec::new());
        loop {
            let receiver = next.fetch_add(1, Ordering::Relaxed);
            if receiver >= receivers {
                return loads;
            }
            arrivals.at(links, receiver);
            loads.resize(loads.len().max(arrivals.steps()), Ratio::ZERO);
            for (load, step) in loads.iter_mut().zip(1..=arrivals.steps()) {
                *load = least.at_least(*load, &mut arrivals, step);
            }
        }
    };
    std::thread::scope(|scope| {
        let others = 1..threads.min(receivers as usize);
        let others: Vec<_> = others.map(|_| scope.spawn(worker)).collect();
        let mut all: Vec<Ratio> = worker();
        for other in others {
            let loads = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            all.resize(all.len().max(loads.len()), Ratio::ZERO);
            for (load, theirs) in all.iter_mut().zip(loads) {
                *load = theirs.max(*load);
            }
        }
        all
    })
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
