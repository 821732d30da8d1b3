//! Stage A: the best rate any schedule can have, and the cut that proves it.
//!
//! 1/x* is the largest ratio of data owned inside a set of nodes to bandwidth out of it, over sets that leave a
//! compute node outside (section 4 of the ForestColl paper). Discrete Newton: test a ratio with one flow per compute
//! node; every flow that falls short shows a cut with a larger ratio; the largest is tested next. All in whole
//! numbers, and it ends at a cut whose ratio no flow refutes.

use super::Refusal;
use super::fabric::Graph;
use super::flow::Arena;
use super::network::{Arc, Network};
use super::ratio::Ratio;
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

/// A cut in the graph's whole numbers; the one of largest ratio is the optimum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bottleneck {
    /// Weight inside over bandwidth out, in lowest terms: 1/x* at the optimum.
    pub ratio: Ratio<i64>,
    /// Which nodes are inside.
    pub cut: Vec<bool>,
}

/// How many trees reach the optimum at the fewest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trees {
    /// Per root and unit of weight.
    pub k: i64,
    /// Per unit of capacity, in lowest terms.
    pub u: Ratio<i64>,
}

impl Bottleneck {
    pub fn trees(&self, graph: &Graph) -> Trees {
        let Ratio { over, under } = self.ratio;
        let divisor = graph.arcs.iter().fold(under, |divisor, arc| divisor.gcd(&arc.capacity));
        // U is in lowest terms, because `over` and `under`, and so `over` and the divisor, share no factor.
        Trees { k: under / divisor, u: Ratio { over, under: divisor } }
    }

    /// In the input's units.
    pub fn in_units(&self, graph: &Graph) -> Optimum {
        let Trees { k, u } = self.trees(graph);
        let cut = (0_u32..).zip(&self.cut).filter(|(_, inside)| **inside).map(|(node, _)| node).collect();
        Optimum { inverse_x: graph.in_units(self.ratio), cut, k: k as u64, u: graph.in_units(u) }
    }
}

/// The exact optimum with its bottleneck cut.
pub(super) fn newton(graph: &Graph, run: &Run) -> Result<Bottleneck, Refusal> {
    let total = graph.total_weight();
    let mut into = vec![0_i64; graph.nodes];
    for arc in &graph.arcs {
        into[arc.to as usize] += arc.capacity;
    }
    // The first ratio tested: everything except one compute node.
    let without = |node: usize| Ratio { over: total - graph.weights[node], under: into[node] };
    let outside = (0..graph.compute).max_by(|&a, &b| without(a).compare(without(b)).then(b.cmp(&a)));
    let outside = outside.unwrap_or(0);
    let cut = (0..graph.nodes).map(|node| node != outside).collect();
    let mut best = Bottleneck { ratio: without(outside).lowest(), cut };
    for round in 0.. {
        run.report(Stage::Optimum, round * graph.compute, 0)?;
        match refute(graph, best.ratio, run)? {
            None => break,
            Some(larger) => best = larger,
        }
    }
    Ok(best)
}

/// The cut of largest ratio among those that flows for a ratio show to be above it.
fn refute(graph: &Graph, least: Ratio<i64>, run: &Run) -> Result<Option<Bottleneck>, Refusal> {
    let arcs = graph.arcs.iter().map(|arc| Arc { capacity: arc.capacity * least.over, ..*arc });
    let network = Network::new(graph.nodes, arcs);
    let state = || (Arena::new(graph.nodes), vec![0; network.arcs()]);
    let shown = run.each(graph.compute, state, |(arena, flow), sink| {
        flow.fill(0);
        for (node, &weight) in (0..).zip(&graph.weights) {
            arena.give(node, weight * least.under);
        }
        arena.push(&network, flow, sink as u32, i64::MAX);
        let cut = arena.reach(&network, flow).to_vec();
        (arena.clear() > 0).then(|| Bottleneck { ratio: ratio(graph, &cut), cut })
    })?;
    Ok(shown.into_iter().flatten().reduce(|best, new| if best.ratio.is_below(new.ratio) { new } else { best }))
}

/// Weight inside over bandwidth out, in lowest terms.
fn ratio(graph: &Graph, inside: &[bool]) -> Ratio<i64> {
    let over = graph.weights.iter().zip(inside).filter(|(_, inside)| **inside).map(|(weight, _)| weight).sum();
    let leaving = |arc: &&Arc| inside[arc.from as usize] && !inside[arc.to as usize];
    let under = graph.arcs.iter().filter(leaving).map(|arc| arc.capacity).sum();
    Ratio { over, under }.lowest()
}
