//! All-reduce as one linear program: how much to root where, and how to divide every link between adding up and
//! sending out.
//!
//! A reduce-scatter followed by an all-gather roots the same amount at every node, which is not always best (section
//! 12, appendix B.7 of the ForestColl paper). The program maximises the sum of the amounts. Its flow conditions are
//! equivalent to one row per set of nodes, and rows are added only for sets that a flow shows to be violated. Behind
//! switches, pairs of compute nodes share links by one commodity per sender. Everything is in exact fractions, so that
//! the answer is exact and, multiplied by a common denominator, is packed into trees at once.

mod commodities;
#[cfg(test)]
mod tests;

use super::fabric::{self, Graph};
use super::flow::Arena;
use super::forest::{Direction, Forest, Tree, verify, verify_together};
use super::network::Network;
use super::paths::{Units, recover};
use super::split::SuppliedNetwork;
use super::{Fabric, Refusal, pack};
use crate::run::{Run, Stage};
use crate::simplex::{NoOptimum, Program};
use commodities::{Commodities, Kind};
use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{One, ToPrimitive};
use sluice_formats::quantity::Rational;
use std::collections::{BTreeMap, BTreeSet};

/// The exact method works on dense rows: 144 variables (16 GPUs without a switch) take a second or two, 750 (16 GPUs
/// behind box switches and a common one) some minutes, and more too long.
const MAX_VARIABLES: usize = 800;

/// The best all-reduce by trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllReduce {
    /// Σ x_v in the input's unit: an all-reduce of M bytes takes M / `sum_x`.
    pub sum_x: Rational,
    /// In-trees, then out-trees: a root has the same weight in both, and they share the links at the same time.
    pub forests: Vec<Forest>,
    /// By the ends of a link what its capacity is worth: the program's dual, which proves that no other is better.
    pub prices: BTreeMap<(u32, u32), Rational>,
}

/// The best rate of an all-reduce and forests that reach it. Shares of the fabric are not looked at.
///
/// # Errors
/// The conditions on fabrics; [`Refusal::ProgramTooLarge`]; [`Refusal::Stopped`].
pub fn all_reduce(fabric: &Fabric, relaxed: bool, run: &Run) -> Result<AllReduce, Refusal> {
    let fabric = &Fabric { weights: Vec::new(), ..fabric.clone() };
    let graph = fabric::scaled(fabric, relaxed)?;
    let commodities = Commodities::new(&graph);
    if commodities.variables() > MAX_VARIABLES {
        let (what, found, allowed) = ("the number of variables", commodities.variables(), MAX_VARIABLES);
        return Err(Refusal::ProgramTooLarge { what, found, allowed });
    }
    let Solved { values, sum, prices } = solve(&graph, &commodities, run)?;
    let (whole, trees) = in_whole(&values)?;
    let (u, sum_x) = (&graph.factor * &trees, &sum / &graph.factor);

    let forest = |kind| -> Result<Forest, Refusal> {
        let trees = trees_of(&graph, &commodities, &whole, kind, run)?;
        let forest = Forest { direction: Direction::Out, k: None, u: u.clone(), fixed_k: false, trees };
        Ok(if kind == Kind::Reduce { forest.reversed() } else { forest })
    };
    let forests = vec![forest(Kind::Reduce)?, forest(Kind::Broadcast)?];
    forests.iter().try_for_each(|forest| verify(fabric, forest))?;
    verify_together(fabric, &forests)?;
    let prices = graph.arcs.iter().map(|arc| (arc.from, arc.to)).zip(prices).collect();
    Ok(AllReduce { sum_x, forests, prices })
}

/// The program's optimum, in the graph's whole numbers.
struct Solved {
    values: Vec<Rational>,
    sum: Rational,
    /// Of the links, in the order of the graph.
    prices: Vec<Rational>,
}

fn solve(graph: &Graph, commodities: &Commodities, run: &Run) -> Result<Solved, Refusal> {
    let mut gain = vec![Rational::ZERO; commodities.variables()];
    gain[..graph.compute].fill(Rational::ONE);
    let mut program = Program::new(gain);
    for (row, bound) in commodities.rows(graph) {
        program.add(&row, Rational::from(bound as u64));
    }
    // Single nodes and all but one bound every amount.
    let mut known = BTreeSet::new();
    for node in 0..graph.compute {
        for alone in [true, false] {
            let inside: Vec<bool> = (0..graph.compute).map(|other| (other == node) == alone).collect();
            for kind in [Kind::Reduce, Kind::Broadcast] {
                if known.insert((kind, inside.clone())) {
                    program.add(&commodities.cut(kind, &inside), Rational::ZERO);
                }
            }
        }
    }
    for round in 0.. {
        run.report(Stage::AllReduceProgram, round, 0)?;
        program.solve(run).map_err(|failed| match failed {
            NoOptimum::Stopped(stopped) => stopped.into(),
            NoOptimum::Unbounded => {
                Refusal::InternalInvariant { what: "the all-reduce program has no bounded optimum" }
            }
        })?;
        let values = program.values();
        let mut found = false;
        for kind in [Kind::Reduce, Kind::Broadcast] {
            for inside in violated(graph, commodities, &values, kind)? {
                if known.insert((kind, inside.clone())) {
                    program.add(&commodities.cut(kind, &inside), Rational::ZERO);
                    found = true;
                }
            }
        }
        if !found {
            // The rows of the links are the first.
            let prices = (0..graph.arcs.len()).map(|link| program.price(link)).collect();
            return Ok(Solved { values, sum: program.objective(), prices });
        }
    }
    Err(Refusal::InternalInvariant { what: "the all-reduce program has endless rounds" })
}

/// The values times their common denominator, and that denominator.
fn in_whole(values: &[Rational]) -> Result<(Vec<i64>, Rational), Refusal> {
    let common = values.iter().fold(BigInt::one(), |common, value| common.lcm(&value.denominator()));
    let whole = |value: &Rational| (value.numerator() * (&common / value.denominator())).to_i64();
    let whole: Option<Vec<i64>> = values.iter().map(whole).collect();
    let overflow = Refusal::Overflow { what: "the amounts of the all-reduce program in whole numbers" };
    whole.zip(Rational::from_big(common, BigInt::one())).ok_or(overflow)
}

/// Sets of compute nodes whose roots cannot get all out (broadcast) or in (reduce).
fn violated(
    graph: &Graph,
    commodities: &Commodities,
    values: &[Rational],
    kind: Kind,
) -> Result<Vec<Vec<bool>>, Refusal> {
    let (whole, _) = in_whole(values)?;
    let network = Network::new(graph.compute, commodities.pairs(kind, &whole));
    let mut arena = Arena::new(graph.compute);
    let mut cuts = Vec::new();
    for sink in 0..graph.compute as u32 {
        let mut flow = vec![0; network.arcs()];
        (0..).zip(&whole[..graph.compute]).for_each(|(node, &amount)| arena.give(node, amount));
        arena.push(&network, &mut flow, sink, i64::MAX);
        let inside = arena.reach(&network, &flow).to_vec();
        if arena.clear() > 0 {
            cuts.push(inside);
        }
    }
    Ok(cuts)
}

/// Out-trees of one kind; those of a reduction have all links turned round.
fn trees_of(
    graph: &Graph,
    commodities: &Commodities,
    whole: &[i64],
    kind: Kind,
    run: &Run,
) -> Result<Vec<Tree>, Refusal> {
    let network = Network::new(graph.compute, commodities.pairs(kind, whole));
    let fed = SuppliedNetwork::new(network, graph.compute, whole[..graph.compute].to_vec(), run)?;
    let fed = fed.ok_or(Refusal::InternalInvariant { what: "the all-reduce program leaves a node short" })?;
    let batches = pack::pack(fed, run)?;
    let ways = commodities.ways(kind, whole);
    recover(&batches, Units::of_ways(ways), run)
}
