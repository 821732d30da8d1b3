//! Cartesian products and powers: the factors along the coordinates.

use super::{gather, ordered, units};
use crate::direct::graph::fitting;
use crate::direct::{Edge, Graph, Refusal, Schedule, Send, Symmetry};

/// The product of the factors. A vertex has its coordinates as digits, the first most significant; arcs stand in the
/// order of the coordinates, then of the factor's edges, then of the other coordinates.
///
/// # Errors
/// `EmptyTopology` without factors; `TopologyTooLarge`.
pub fn product(factors: &[&Graph]) -> Result<Graph, Refusal> {
    let n = factors.iter().try_fold(1_u64, |n, factor| n.checked_mul(factor.n().into())).unwrap_or(u64::MAX);
    let edges = factors.iter().map(|factor| factor.edges().len() as u64 * (n / u64::from(factor.n()))).sum::<u64>();
    if factors.is_empty() {
        return Err(Refusal::EmptyTopology);
    }
    let (n, _) = fitting(n, edges.div_ceil(n))?;
    let mut arcs = Vec::with_capacity(edges as usize);
    let mut weight = n;
    for factor in factors {
        weight /= factor.n();
        for edge in factor.edges() {
            let rest = Rest { size: factor.n(), weight };
            arcs.extend(
                (0..n / factor.n())
                    .map(|other| Edge { tail: rest.vertex(other, edge.tail), head: rest.vertex(other, edge.head) }),
            );
        }
    }
    let transitive = factors.iter().all(|factor| factor.symmetry() == Symmetry::VertexTransitive);
    let symmetry = if transitive { Symmetry::VertexTransitive } else { Symmetry::None };
    Ok(Graph::new(n, arcs)?.with_symmetry(symmetry))
}

/// The product of `exponent` copies.
///
/// # Errors
/// As [`product`].
pub fn power(graph: &Graph, exponent: u32) -> Result<Graph, Refusal> {
    // No graph of two vertices and more fits more than 20 times; of a single vertex it is always the same.
    let most = if graph.n() == 1 { 1 } else { 21 };
    product(&vec![graph; exponent.min(most) as usize])
}

/// The schedule on a power as a whole; where that is too large, [`power_sends`] gives its sends one by one.
///
/// # Errors
/// As [`power_sends`]; `InvalidChunking` for too many sends.
pub fn power_schedule(graph: &Graph, schedule: &Schedule, exponent: u32) -> Result<Schedule, Refusal> {
    let base = u64::from(graph.n());
    let per = (0..exponent).try_fold(0_u64, |sum, phase| sum.checked_add(base.checked_pow(exponent - 1 + phase)?));
    let all = per.and_then(|per| per.checked_mul(schedule.sends.len() as u64)?.checked_mul(exponent.into()));
    super::room(all.unwrap_or(u64::MAX))?;
    let mut sends = Vec::new();
    let (units, steps) = power_sends(graph, schedule, exponent, |send| sends.push(send))?;
    Ok(ordered(units, steps, sends))
}

/// The sends on a power, one by one in no order; gives back units per shard and steps.
///
/// A shard is cut in as many parts as there are coordinates; part `i` spreads along coordinate `i`, then along the next
/// ones, each time everything that the vertices along that coordinate have by then.
///
/// # Errors
/// `Internal` for what is no all-gather on `graph`; `InvalidChunking`; `TopologyTooLarge`; `EmptyTopology` for a power
/// of zero.
pub fn power_sends(
    graph: &Graph,
    schedule: &Schedule,
    exponent: u32,
    mut take: impl FnMut(Send),
) -> Result<(u32, u32), Refusal> {
    gather(graph, schedule)?;
    let q = u64::from(graph.n());
    let n = q.checked_pow(exponent).unwrap_or(u64::MAX);
    if exponent == 0 {
        return Err(Refusal::EmptyTopology);
    }
    let edges = graph.edges().len() as u64;
    let (n, _) = fitting(n, (edges * u64::from(exponent)).div_ceil(q))?;
    let units = units(schedule.units, exponent)?;
    let steps = schedule.steps.checked_mul(exponent).ok_or_else(|| Refusal::InvalidChunking {
        reason: format!("{exponent} times {} steps are too many", schedule.steps),
    })?;
    let q = graph.n();
    let others = n / q;
    for part in 0..exponent {
        for phase in 0..exponent {
            let coordinate = (part + phase) % exponent;
            // The weights of the coordinates that are spread by now.
            let spread: Vec<u32> = (0..phase).map(|before| q.pow(exponent - 1 - (part + before) % exponent)).collect();
            let along = Rest { size: q, weight: q.pow(exponent - 1 - coordinate) };
            let first = coordinate * graph.edges().len() as u32 * others;
            for send in &schedule.sends {
                for other in 0..others {
                    let edge = first + send.edge * others + other;
                    let (lo, hi) = (send.lo + part * schedule.units, send.hi + part * schedule.units);
                    let step = phase * schedule.steps + send.step;
                    let owner = along.vertex(other, send.shard);
                    // All owners that differ from this one in spread coordinates only.
                    for code in 0..q.pow(phase) {
                        let (mut shard, mut code) = (owner, code);
                        for weight in &spread {
                            shard = shard - shard / weight % q * weight + code % q * weight;
                            code /= q;
                        }
                        take(Send { step, edge, shard, lo, hi });
                    }
                }
            }
        }
    }
    Ok((units, steps))
}

/// One coordinate of a product: its values and what one is worth in a vertex's number.
struct Rest {
    size: u32,
    weight: u32,
}

impl Rest {
    /// The vertex with this value of the coordinate and the other coordinates as the digits of `other`.
    fn vertex(&self, other: u32, value: u32) -> u32 {
        (other / self.weight * self.size + value) * self.weight + other % self.weight
    }
}
