//! The best schedule with a fixed number of trees per root.
//!
//! With k trees per root and U trees per unit of bandwidth, a link of bandwidth b takes ⌊U·b⌋ trees; wanted is the
//! smallest U that feeds every node (section 4.5.5, appendix B.5.4 of the ForestColl paper). Only fractions n/b matter,
//! so that the search halves an interval and moves both ends to such fractions until none lies between them.

use super::Refusal;
use super::fabric::{Fabric, Graph};
use super::flow::Arena;
use super::network::{Arc, Network};
use super::optimum::Bottleneck;
use super::ratio::Ratio;
use crate::run::{Run, Stage};
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(test)]
mod tests;

/// Denominator of the middles that are tried: coarse enough for products within i128. Where two ends are so close that
/// no such middle lies between them, hardly any candidate does, and they are tried one by one.
const FINE: i128 = 1 << 60;

/// The smallest U, in the graph's whole numbers and in lowest terms.
pub(super) fn best(graph: &Graph, optimum: &Bottleneck, k: i64, run: &Run) -> Result<Ratio<i64>, Refusal> {
    let overflow = Refusal::Overflow { what: "k times the weights or bandwidths" };
    let mut bandwidths: Vec<i128> = graph.arcs.iter().map(|arc| arc.capacity.into()).collect();
    bandwidths.sort_unstable();
    bandwidths.dedup();
    let (Some(&slowest), Some(&fastest)) = (bandwidths.first(), bandwidths.last()) else {
        return Err(Refusal::InternalInvariant { what: "a connected fabric has links" });
    };
    // U·x* = k is the least there can be, and one tree more on the slowest link makes up for all rounding.
    let over = i128::from(optimum.ratio.over).checked_mul(k.into()).ok_or_else(|| overflow.clone())?;
    let under = i128::from(optimum.ratio.under);
    // With U·b below 2⁶², all products below stay within i128.
    let top = over.checked_mul(slowest).and_then(|high| high.checked_add(under)).ok_or_else(|| overflow.clone())?;
    top.checked_mul(fastest).and_then(|top| top.checked_mul(4)).ok_or_else(|| overflow.clone())?;
    i64::try_from(top / (under * slowest) + 1)
        .ok()
        .and_then(|most| most.checked_mul(graph.arcs.iter().map(|arc| arc.capacity).sum::<i64>())?.checked_mul(2))
        .ok_or_else(|| overflow.clone())?;
    k.checked_mul(graph.total_weight()).and_then(|total| total.checked_mul(4)).ok_or(overflow)?;

    // The largest fraction up to here with the same floors, and the smallest above with others.
    let trees = |u: Ratio<i128>, bandwidth: i128| u.over * bandwidth / u.under;
    let down = |u| greatest(bandwidths.iter().map(|&b| Ratio { over: trees(u, b), under: b }));
    let up = |u| least(bandwidths.iter().map(|&b| Ratio { over: trees(u, b) + 1, under: b }));
    let mut tested = 0;
    let mut feasible = |u: Ratio<i128>| {
        run.report(Stage::FixedK, tested, 0)?;
        tested += 1;
        feeds(graph, &floored(graph, Ratio { over: u.over as i64, under: u.under as i64 }), k, run)
    };
    let mut low = down(Ratio { over, under });
    if low.over > 0 && feasible(low)? {
        return in_range(low);
    }
    let mut high = down(Ratio { over: top, under: under * slowest });
    loop {
        let next = up(low);
        if !next.is_below(high) {
            return in_range(high);
        }
        let middle = (low.over * FINE / low.under + high.over * FINE / high.under) / 2;
        let middle = down(Ratio { over: middle, under: FINE });
        let test = if low.is_below(middle) && middle.is_below(high) { middle } else { next };
        if feasible(test)? { high = test } else { low = test }
    }
}

fn in_range(u: Ratio<i128>) -> Result<Ratio<i64>, Refusal> {
    let part = |number: i128| i64::try_from(number).map_err(|_| Refusal::Overflow { what: "U" });
    let u = u.lowest();
    Ok(Ratio { over: part(u.over)?, under: part(u.under)? })
}

fn greatest(ratios: impl Iterator<Item = Ratio<i128>>) -> Ratio<i128> {
    ratios.reduce(|a, b| if a.is_below(b) { b } else { a }).unwrap_or(Ratio { over: 0, under: 1 })
}

fn least(ratios: impl Iterator<Item = Ratio<i128>>) -> Ratio<i128> {
    ratios.reduce(|a, b| if b.is_below(a) { b } else { a }).unwrap_or(Ratio { over: 0, under: 1 })
}

/// How many trees each link takes at `u` per unit of capacity; links that take none are left out.
pub(super) fn floored(graph: &Graph, u: Ratio<i64>) -> Vec<Arc> {
    let floor = |capacity: i64| (i128::from(capacity) * i128::from(u.over) / i128::from(u.under)) as i64;
    let arcs = graph.arcs.iter().map(|arc| Arc { capacity: floor(arc.capacity), ..*arc });
    arcs.filter(|arc| arc.capacity > 0).collect()
}

/// Edge splitting needs every node balanced after rounding, unless there is no switch.
pub(super) fn eulerian(fabric: &Fabric, graph: &Graph, arcs: &[Arc], k: i64) -> Result<(), Refusal> {
    let mut surplus = vec![0_i64; graph.nodes];
    for &Arc { from, to, capacity } in arcs {
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
fn feeds(graph: &Graph, arcs: &[Arc], k: i64, run: &Run) -> Result<bool, Refusal> {
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
