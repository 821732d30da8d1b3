//! ForestColl: spanning-tree schedules that reach the best rate a fabric allows, with the cut that proves it.
//!
//! From L. Zhao's ForestColl (dissertation, University of Washington, 2026, chapter 4; NSDI '26). A plan goes through
//! the stages of that paper, one file each: the optimum, switches removed, trees packed, paths recovered. Nodes are
//! indices here ([`Fabric`]); [`Instance`] reads them out of a topology, and [`make`] gives a plan that the checker
//! accepts. Everything is exact: whole numbers inside, fractions outside, no float anywhere. Same input, same forest,
//! with any number of threads.

mod allreduce;
mod best;
mod fabric;
mod fixed;
mod flow;
mod forest;
mod from_topology;
mod network;
mod optimum;
mod pack;
mod paths;
mod prune;
mod ratio;
mod refusal;
mod split;
mod symmetry;
#[cfg(test)]
mod testing;
mod to_plan;

pub use allreduce::{AllReduce, all_reduce};
pub use best::{Best, Tried, best_of};
pub use fabric::Fabric;
pub use forest::{Direction, Edge, Forest, Tree};
pub use from_topology::{Instance, OVERFLOW, SUPPORT};
pub use optimum::Optimum;
pub use refusal::Refusal;
pub use to_plan::{Made, Way, make};

use crate::run::{Run, Stage};
use fabric::Graph;
use network::{Arc, Network};
use optimum::Trees;
use split::SuppliedNetwork;

/// What the collective does. Shares of the data are the fabric's weights, except where there is a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Collective {
    /// Everybody gets everybody's part: out-trees of every root.
    AllGather,
    /// Everybody gets the sum of its own part: in-trees of every root.
    ReduceScatter,
    /// Everybody gets the sum of everything: in-trees, then the same trees outwards.
    AllReduce,
    /// One root's data to all.
    Broadcast {
        /// Its index, below [`Fabric::compute`].
        root: usize,
    },
    /// Everybody's data summed up at one root.
    Reduce {
        /// Its index, below [`Fabric::compute`].
        root: usize,
    },
}

/// What the caller may choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// This many trees per root instead of as many as the optimum needs.
    pub fixed_k: Option<i64>,
    /// Refuse a forest with more trees per root than this.
    pub most_k: Option<u64>,
    /// Let switches with the capability copy or add ([`Fabric::multicast`], [`Fabric::aggregate`]).
    pub in_network: bool,
    /// Try constructions from symmetry before the general way.
    pub symmetry: bool,
    /// Allow unequal bandwidth in and out at nodes of a fabric without switches.
    pub relaxed: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { fixed_k: None, most_k: None, in_network: true, symmetry: true, relaxed: false }
    }
}

/// Forests that no other beats, or the best of a fixed number of trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// What no schedule can beat, and why.
    pub optimum: Optimum,
    /// One forest; two for all-reduce, inwards first.
    pub forests: Vec<Forest>,
}

/// The optimum of an all-gather (with equal bandwidth in and out at every node also that of a reduce-scatter).
///
/// # Errors
/// The conditions on fabrics, in a fixed order, or [`Refusal::Stopped`].
pub fn optimum(fabric: &Fabric, relaxed: bool, run: &Run) -> Result<Optimum, Refusal> {
    let graph = fabric::scaled(fabric, relaxed)?;
    Ok(optimum::newton(&graph, run)?.in_units(&graph))
}

/// The optimum and a forest that reaches it, or the best forest of a fixed k.
///
/// # Errors
/// The conditions on fabrics, in a fixed order; limits of `options`; [`Refusal::Stopped`].
pub fn plan(fabric: &Fabric, collective: Collective, options: &Options, run: &Run) -> Result<Planned, Refusal> {
    match collective {
        Collective::AllGather => outwards(fabric, options, run),
        Collective::ReduceScatter => inwards(fabric, options, run),
        Collective::AllReduce => {
            let scatter = inwards(fabric, options, run)?;
            let gather = outwards(fabric, options, run)?;
            Ok(Planned { optimum: gather.optimum, forests: [scatter.forests, gather.forests].concat() })
        }
        Collective::Broadcast { root } => outwards(&rooted(fabric, root)?, options, run),
        Collective::Reduce { root } => inwards(&rooted(fabric, root)?, options, run),
    }
}

fn rooted(fabric: &Fabric, root: usize) -> Result<Fabric, Refusal> {
    if root < fabric.compute {
        return Ok(fabric.rooted(root));
    }
    Err(Refusal::BadWeights { reason: format!("root {root} is none of the {} compute nodes", fabric.compute) })
}

/// In-trees are out-trees of the transposed fabric, turned round.
fn inwards(fabric: &Fabric, options: &Options, run: &Run) -> Result<Planned, Refusal> {
    let mut turned = fabric.transposed();
    turned.multicast.clone_from(&fabric.aggregate);
    let mut planned = outwards(&turned, options, run)?;
    // The cut is one of the transposed fabric: what enters it is the bottleneck, which with equal bandwidth in and out
    // is the same as what leaves it.
    planned.forests = planned.forests.into_iter().map(Forest::reversed).collect();
    Ok(planned)
}

fn outwards(fabric: &Fabric, options: &Options, run: &Run) -> Result<Planned, Refusal> {
    let graph = fabric::scaled(fabric, options.relaxed)?;
    if let Some(k) = options.fixed_k.filter(|&k| k < 1) {
        return Err(Refusal::BadK { k });
    }
    let best = optimum::newton(&graph, run)?;
    let optimum = best.in_units(&graph);
    let Trees { k, u } = match options.fixed_k {
        Some(k) => Trees { k, u: fixed::best(&graph, &best, k, run)? },
        None => best.trees(&graph),
    };
    let arcs = fixed::floored(&graph, u);
    if options.fixed_k.is_some() {
        fixed::eulerian(fabric, &graph, &arcs, k)?;
    }
    let u = graph.in_units(u);
    if let Some(limit) = options.most_k.filter(|&limit| k as u64 > limit) {
        return Err(Refusal::KTooLarge { k: k as u64, limit });
    }
    let supply: Option<Vec<i64>> = graph.weights.iter().map(|&weight| weight.checked_mul(k)).collect();
    let supply = supply.filter(|supply| supply.iter().try_fold(0_i64, |sum, &one| sum.checked_add(one)).is_some());
    let supply = supply.ok_or(Refusal::Overflow { what: "k times all weights" })?;
    let forest = |mut trees: Vec<Tree>| -> Result<Forest, Refusal> {
        if options.in_network {
            prune::prune(&mut trees, graph.nodes, &fabric.multicast);
        }
        let (k, u, fixed_k) = (Some(k as u64), u.clone(), options.fixed_k.is_some());
        let forest = Forest { direction: Direction::Out, k, u, fixed_k, trees };
        forest::verify(fabric, &forest)?;
        run.report(Stage::Verification, 1, 1)?;
        Ok(forest)
    };
    if options.symmetry
        && let Some(trees) = symmetry::trees(&graph, &fabric.boxes, &arcs, &supply, run)?
        && let Ok(forest) = forest(trees)
    {
        return Ok(Planned { optimum, forests: vec![forest] });
    }
    let trees = trees(&graph, &arcs, supply, run)?;
    Ok(Planned { optimum, forests: vec![forest(trees)?] })
}

/// The general way: stages C, D and E.
fn trees(graph: &Graph, arcs: &[Arc], supply: Vec<i64>, run: &Run) -> Result<Vec<Tree>, Refusal> {
    let network = Network::new(graph.nodes, arcs.iter().copied());
    let fed = SuppliedNetwork::new(network, graph.compute, supply, run)?;
    let mut fed = fed.ok_or(Refusal::InternalInvariant { what: "the optimum leaves a node short" })?;
    let splits = split::remove_switches(&mut fed, run)?;
    let batches = pack::pack(fed, run)?;
    paths::recover(&batches, paths::Units::new(arcs, &splits), run)
}
