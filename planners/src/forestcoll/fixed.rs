//! The best schedule with a fixed number of trees per root.
//!
//! With k trees per root and U trees per unit of bandwidth, a link of bandwidth b takes ⌊U·b⌋ trees; wanted is the
//! smallest U that feeds every node (section 4.5.5, appendix B.5.4 of the ForestColl paper). Only fractions n/b matter,
//! so that the search halves an interval and moves both ends to such fractions until none lies between them.

use super::Refusal;
use super::fabric::{Arcs, Fabric, Graph};
use super::flow::Arena;
use super::network::Network;
use super::optimum::Scaled;
use crate::run::{Run, Stage};
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(test)]
mod tests;

/// A fraction of whole numbers.
type Fraction = (i128, i128);

/// Denominator of the middles that are tried: coarse enough for products within i128. Where two ends are so close that
/// no such middle lies between them, hardly any candidate does, and they are tried one by one.
const FINE: i128 = 1 << 60;

/// The smallest U, in the graph's whole numbers, as numerator and denominator in lowest terms.
pub(super) fn best(graph: &Graph, optimum: &Scaled, k: i64, run: &Run) -> Result<(i64, i64), Refusal> {
    let overflow = Refusal::Overflow { what: "k times the weights or bandwidths" };
    let mut bandwidths: Vec<i128> = graph.arcs.iter().map(|arc| arc.2.into()).collect();
    bandwidths.sort_unstable();
    bandwidths.dedup();
    let (Some(&slowest), Some(&fastest)) = (bandwidths.first(), bandwidths.last()) else {
        return Err(Refusal::InternalInvariant { what: "a connected fabric has links" });
    };
    // U·x* = k is the least there can be, and one tree more on the slowest link makes up for all rounding.
    let over = i128::from(optimum.p).checked_mul(k.into()).ok_or_else(|| overflow.clone())?;
    let under = i128::from(optimum.q);
    // With U·b below 2⁶², all products below stay within i128.
    let top = over.checked_mul(slowest).and_then(|high| high.checked_add(under)).ok_or_else(|| overflow.clone())?;
    top.checked_mul(fastest).and_then(|top| top.checked_mul(4)).ok_or_else(|| overflow.clone())?;
    i64::try_from(top / (under * slowest) + 1)
        .ok()
        .and_then(|most| most.checked_mul(graph.arcs.iter().map(|arc| arc.2).sum::<i64>())?.checked_mul(2))
        .ok_or_else(|| overflow.clone())?;
    k.checked_mul(graph.total_weight()).and_then(|total| total.checked_mul(4)).ok_or(overflow)?;

    // The largest fraction up to here with the same floors, and the smallest above with others.
    let down = |(n, d): Fraction| greatest(bandwidths.iter().map(|&b| (n * b / d, b)));
    let up = |(n, d): Fraction| least(bandwidths.iter().map(|&b| (n * b / d + 1, b)));
    let mut tested = 0;
    let mut feasible = |(n, d): Fraction| {
        run.report(Stage::FixedK, tested, 0)?;
        tested += 1;
        feeds(graph, &floored(graph, n as i64, d as i64), k, run)
    };
    let mut low = down((over, under));
    if low.0 > 0 && feasible(low)? {
        return in_range(low);
    }
    let mut high = down((top, under * slowest));
    loop {
        let next = up(low);
        if !below(next, high) {
            return in_range(high);
        }
        let middle = down(((low.0 * FINE / low.1 + high.0 * FINE / high.1) / 2, FINE));
        let test = if below(low, middle) && below(middle, high) { middle } else { next };
        if feasible(test)? { high = test } else { low = test }
    }
}

fn in_range((over, under): Fraction) -> Result<(i64, i64), Refusal> {
    let divisor = num_integer::gcd(over, under);
    let part = |number: i128| i64::try_from(number / divisor).map_err(|_| Refusal::Overflow { what: "U" });
    Ok((part(over)?, part(under)?))
}

fn below(a: Fraction, b: Fraction) -> bool {
    a.0 * b.1 < b.0 * a.1
}

fn greatest(fractions: impl Iterator<Item = Fraction>) -> Fraction {
    fractions.reduce(|a, b| if below(a, b) { b } else { a }).unwrap_or((0, 1))
}

fn least(fractions: impl Iterator<Item = Fraction>) -> Fraction {
    fractions.reduce(|a, b| if below(b, a) { b } else { a }).unwrap_or((0, 1))
}

/// What each link takes at U = over/under; links that take nothing are left out.
pub(super) fn floored(graph: &Graph, over: i64, under: i64) -> Arcs {
    let floor = |capacity: i64| (i128::from(capacity) * i128::from(over) / i128::from(under)) as i64;
    let arcs = graph.arcs.iter().map(|&(from, to, capacity)| (from, to, floor(capacity)));
    arcs.filter(|arc| arc.2 > 0).collect()
}

/// Edge splitting needs every node balanced after rounding, unless there is no switch.
pub(super) fn eulerian(fabric: &Fabric, graph: &Graph, arcs: &[(u32, u32, i64)], k: i64) -> Result<(), Refusal> {
    let mut surplus = vec![0_i64; graph.nodes];
    for &(from, to, capacity) in arcs {
        surplus[from as usize] -= capacity;
        surplus[to as usize] += capacity;
    }
    match surplus.iter().position(|&surplus| surplus != 0) {
        Some(node) if graph.nodes > graph.compute => {
            Err(Refusal::FixedKNotEulerian { k: k as u64, name: fabric.names[node].clone() })
        }
        _ => Ok(()),
    }
}

/// Whether every compute node gets k trees per root and unit of weight.
fn feeds(graph: &Graph, arcs: &[(u32, u32, i64)], k: i64, run: &Run) -> Result<bool, Refusal> {
    let network = Network::new(graph.nodes, arcs.iter().copied());
    let short = AtomicBool::new(false);
    let state = || (Arena::new(graph.nodes), vec![0; network.arcs()]);
    run.each(graph.compute, state, |(arena, flow), sink| {
        if short.load(Ordering::Relaxed) {
            return;
        }
        flow.fill(0);
        for (node, &weight) in (0..).zip(&graph.weights) {
            arena.give(node, weight * k);
        }
        arena.push(&network, flow, sink as u32, i64::MAX);
        if arena.clear() > 0 {
            short.store(true, Ordering::Relaxed);
        }
    })?;
    Ok(!short.into_inner())
}
