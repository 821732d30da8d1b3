//! Stage A: the best rate any schedule can have, and the cut that proves it.
//!
//! 1/x* is the largest ratio of data owned inside a set of nodes to bandwidth out of it, over sets that leave a
//! compute node outside (section 4 of the ForestColl paper). Discrete Newton: test a ratio with one flow per compute
//! node; every flow that falls short shows a cut with a larger ratio; the largest is tested next. All in whole
//! numbers, and it ends at a cut whose ratio no flow refutes.

use super::Refusal;
use super::fabric::Graph;
use super::flow::Arena;
use super::network::Network;
use crate::run::{Run, Stage};
use num_integer::Integer;
use sluice_formats::quantity::Rational;

#[cfg(test)]
mod tests;

/// What no schedule can beat: `inverse_x` in time per unit of data and weight, that is one over the input's unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Optimum {
    /// 1/x*: an all-gather of M bytes takes M / (sum of weights) · 1/x* at least, and as long with the forest.
    pub inverse_x: Rational,
    /// The bottleneck: nodes whose data must leave through links that carry nothing else. Ascending.
    pub cut: Vec<u32>,
    /// The fewest trees per root (and unit of weight) that reach the optimum.
    pub k: u64,
    /// Trees per unit of bandwidth at that k: a link of bandwidth b takes U·b trees, a whole number.
    pub u: Rational,
}

/// The optimum in the graph's whole numbers.
#[derive(Clone, Debug)]
pub(super) struct Scaled {
    /// 1/x* = p/q in lowest terms.
    pub p: i64,
    /// See `p`.
    pub q: i64,
    /// Which nodes are inside the bottleneck cut.
    pub cut: Vec<bool>,
}

impl Scaled {
    /// Trees per root and unit of weight, and trees per unit of capacity, as a fraction.
    pub fn trees(&self, graph: &Graph) -> (i64, i64, i64) {
        let divisor = graph.arcs.iter().fold(self.q, |divisor, arc| divisor.gcd(&arc.2));
        // U = p/g in lowest terms, because p and q, and so p and g, share no factor.
        (self.q / divisor, self.p, divisor)
    }

    /// In the input's units.
    pub fn in_units(&self, graph: &Graph) -> Optimum {
        let (k, p, divisor) = self.trees(graph);
        let cut = (0_u32..).zip(&self.cut).filter(|(_, inside)| **inside).map(|(node, _)| node).collect();
        Optimum { inverse_x: graph.in_units(self.p, self.q), cut, k: k as u64, u: graph.in_units(p, divisor) }
    }
}

/// The exact optimum with its bottleneck cut.
pub(super) fn newton(graph: &Graph, run: &Run) -> Result<Scaled, Refusal> {
    let total = graph.total_weight();
    let mut into = vec![0_i64; graph.nodes];
    for arc in &graph.arcs {
        into[arc.1 as usize] += arc.2;
    }
    // The first ratio tested: everything except one compute node.
    let outside = (0..graph.compute).max_by(|&a, &b| {
        let ratio = |v: usize| (i128::from(total - graph.weights[v]), i128::from(into[v]));
        let ((a_over, a_under), (b_over, b_under)) = (ratio(a), ratio(b));
        (a_over * b_under).cmp(&(b_over * a_under)).then(b.cmp(&a))
    });
    let outside = outside.unwrap_or(0);
    let mut cut: Vec<bool> = (0..graph.nodes).map(|node| node != outside).collect();
    let mut best = lowest(total - graph.weights[outside], into[outside]);
    for round in 0.. {
        run.report(Stage::Optimum, round * graph.compute, 0)?;
        match refute(graph, best, run)? {
            None => break,
            Some((ratio, larger)) => (best, cut) = (ratio, larger),
        }
    }
    Ok(Scaled { p: best.0, q: best.1, cut })
}

/// A ratio in lowest terms and the inside of a cut that has it.
type Bottleneck = ((i64, i64), Vec<bool>);

/// The cut of largest ratio among those that flows for the ratio p/q show to be above it.
fn refute(graph: &Graph, (p, q): (i64, i64), run: &Run) -> Result<Option<Bottleneck>, Refusal> {
    let arcs = graph.arcs.iter().map(|&(from, to, capacity)| (from, to, capacity * p));
    let network = Network::new(graph.nodes, arcs);
    let state = || (Arena::new(graph.nodes), vec![0; network.arcs()]);
    let shown = run.each(graph.compute, state, |(arena, flow), sink| {
        flow.fill(0);
        for (node, &weight) in (0..).zip(&graph.weights) {
            arena.give(node, weight * q);
        }
        arena.push(&network, flow, sink as u32, i64::MAX);
        let cut = arena.reach(&network, flow).to_vec();
        (arena.clear() > 0).then(|| (ratio(graph, &cut), cut))
    })?;
    let above = |a: (i64, i64), b: (i64, i64)| i128::from(a.0) * i128::from(b.1) > i128::from(b.0) * i128::from(a.1);
    Ok(shown.into_iter().flatten().reduce(|best, new| if above(new.0, best.0) { new } else { best }))
}

/// Weight inside over bandwidth out, in lowest terms.
pub(super) fn ratio(graph: &Graph, inside: &[bool]) -> (i64, i64) {
    let weight = graph.weights.iter().zip(inside).filter(|(_, inside)| **inside).map(|(weight, _)| weight).sum();
    let leaving = |&&(from, to, _): &&(u32, u32, i64)| inside[from as usize] && !inside[to as usize];
    let out = graph.arcs.iter().filter(leaving).map(|arc| arc.2).sum();
    lowest(weight, out)
}

fn lowest(over: i64, under: i64) -> (i64, i64) {
    let divisor = over.gcd(&under).max(1);
    (over / divisor, under / divisor)
}
