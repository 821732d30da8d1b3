//! An order of coflows by the primal–dual method: the last place first, on the busiest port.
//!
//! After Agarwal et al., "Sincronia: Near-Optimal Network Design for Coflows" (SIGCOMM 2018), bottleneck – select –
//! scale – iterate. It solves a relaxed linear program (Σ_{c∈S} D_c(m)·C_c ≥ ½(Σ D)² + ½Σ D² for every port m and set S)
//! without a solver; the order it finds is proven to be within a factor of 4 of the best one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::ports::{Load, PortIx};

/// A coflow to be ordered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Coflow {
    /// What a second of its completion time costs, more than 0.
    pub weight: f64,
    /// Seconds of work that remain on each port.
    pub load: Load,
}

/// Positions of the coflows, first to last. The input's own order settles ties: it should be (round start, id).
///
/// Costs O(E log E) for E loads, where few coflows share a port.
pub fn order(coflows: &[Coflow]) -> Vec<usize> {
    let mut on: BTreeMap<PortIx, Vec<(usize, f64)>> = BTreeMap::new();
    for (c, coflow) in coflows.iter().enumerate() {
        for &(port, seconds) in coflow.load.iter().filter(|&&(_, s)| s > 0.0) {
            on.entry(port).or_default().push((c, seconds));
        }
    }
    // A port's sum is taken anew from who is left whenever one goes: subtracting would leave rounding behind.
    let sum = |members: &[(usize, f64)]| members.iter().map(|m| m.1).sum::<f64>();
    // Positive floats order like their bits.
    let mut busiest: BinaryHeap<(u64, Reverse<PortIx>)> =
        on.iter().map(|(&port, members)| (sum(members).to_bits(), Reverse(port))).collect();
    let mut weight: Vec<f64> = coflows.iter().map(|c| c.weight).collect();
    let mut open = vec![true; coflows.len()];
    let mut backwards = Vec::with_capacity(coflows.len());
    while let Some((bits, Reverse(port))) = busiest.pop() {
        let members = &on[&port];
        if members.is_empty() || sum(members).to_bits() != bits {
            continue;
        }
        let w = |c: usize| weight[c];
        let cheapest = members.iter().copied().min_by(|&(a, da), &(b, db)| {
            // Of equals the later one goes last.
            (w(a) / da).total_cmp(&(w(b) / db)).then(b.cmp(&a))
        });
        let Some((chosen, seconds)) = cheapest else { continue };
        let price = w(chosen) / seconds;
        for &(c, d) in members.iter().filter(|m| m.0 != chosen) {
            weight[c] = (weight[c] - price * d).max(0.0);
        }
        open[chosen] = false;
        backwards.push(chosen);
        for &(p, _) in &coflows[chosen].load {
            if let Some(members) = on.get_mut(&p) {
                members.retain(|m| m.0 != chosen);
                if !members.is_empty() {
                    busiest.push((sum(members).to_bits(), Reverse(p)));
                }
            }
        }
    }
    // Who has no load anywhere is done as soon as it is served: before the others, in the input's order.
    let idle = open.iter().enumerate().filter(|(_, o)| **o).map(|(c, _)| c);
    idle.chain(backwards.into_iter().rev()).collect()
}

#[cfg(test)]
#[path = "primal_dual_tests.rs"]
mod tests;
