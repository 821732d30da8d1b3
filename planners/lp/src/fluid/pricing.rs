//! What a master asks next: the cheapest way for every class of jobs at its prices, as whole routes or by links.
//!
//! Routes are exact, and a plan can be made of them. By links a job is a program of its own, as the relaxation sees it:
//! nodes that cannot copy are balanced, or taken apart.

use super::block::Block;
use super::draft::Draft;
use super::{failed, stage};
use sluice_planners::Run;
use sluice_planners::fluid::closure::Closure;
use sluice_planners::fluid::demand::{Direction, Shape};
use sluice_planners::fluid::folding::{Folding, JobClass};
use sluice_planners::fluid::merging::{Merged, Views};
use sluice_planners::fluid::network::Network;
use sluice_planners::fluid::price::{cheapest_paths, cheapest_tree};
use sluice_planners::fluid::refusal::Refusal;
use sluice_planners::fluid::tree::Route;
use sluice_solver::{Method, Program, Sense};
use std::collections::BTreeMap;

/// The fabric, and the fabric turned round.
#[derive(Clone, Debug)]
pub struct Sides {
    /// As it is, for data that goes out from its root.
    pub out: Network,
    /// Turned round, for sums.
    pub inward: Network,
}

impl Sides {
    /// Both sides of a fabric.
    pub fn of(network: Network) -> Sides {
        let inward = network.reversed();
        Sides { out: network, inward }
    }
    /// The side on which a block is planned.
    pub fn side(&self, direction: Direction) -> &Network {
        match direction {
            Direction::Out => &self.out,
            Direction::In => &self.inward,
        }
    }
}

/// How the cheapest way is looked for.
#[derive(Clone, Copy, Debug)]
pub enum Pricing<'a> {
    /// As a routing tree, or a path to every end.
    Routes,
    /// By a program over links.
    Links {
        /// How blocks see the fabric.
        views: &'a Views,
        /// Do nodes that cannot copy take in as much as they give out?
        balance: bool,
    },
}

/// The cheapest way of a class.
#[derive(Clone, Debug, Default)]
pub struct Best {
    /// By block of the job; none by links.
    pub routes: Vec<Route>,
    /// By link what the job's data loads, in units.
    pub usage: BTreeMap<u32, f64>,
    /// No way costs less.
    pub bound: f64,
}

/// The cheapest way of every class at these prices of links.
///
/// # Errors
/// `Unreachable`, `Solver`, `Stopped`.
pub fn cheapest(
    pricing: Pricing<'_>,
    sides: &Sides,
    folding: &Folding,
    edge_prices: &[f64],
    run: &Run<'_>,
) -> Result<Vec<Best>, Refusal> {
    match pricing {
        Pricing::Routes => by_routes(sides, folding, edge_prices, run),
        Pricing::Links { views, balance } => {
            let best = |(): &mut (), class: usize| by_links(views, balance, &folding.classes[class], edge_prices, run);
            run.each(folding.classes.len(), || (), best)?.into_iter().collect()
        }
    }
}

fn by_routes(sides: &Sides, folding: &Folding, edge_prices: &[f64], run: &Run<'_>) -> Result<Vec<Best>, Refusal> {
    let classes = &folding.classes;
    let blocks = || classes.iter().flat_map(|class| &class.job.blocks);
    let arcs = |direction| {
        let trees = blocks().any(|block| block.direction == direction && block.shape == Shape::Tree);
        trees.then(|| Closure::of(sides.side(direction), edge_prices, run)).transpose()
    };
    let (out, inward) = (arcs(Direction::Out)?, arcs(Direction::In)?);
    let best = |(): &mut (), class: usize| -> Result<Best, Refusal> {
        let mut best = Best::default();
        for block in &classes[class].job.blocks {
            let arcs = match block.direction {
                Direction::Out => &out,
                Direction::In => &inward,
            };
            let priced = match arcs.as_ref().filter(|_| block.shape == Shape::Tree) {
                Some(arcs) => cheapest_tree(block, arcs)?,
                None => cheapest_paths(sides.side(block.direction), block, edge_prices)?,
            };
            let units = block.units.to_f64();
            best.bound += units * priced.bound;
            for (edge, times) in priced.route.usage() {
                *best.usage.entry(edge).or_default() += units * times;
            }
            best.routes.push(priced.route);
        }
        Ok(best)
    };
    run.each(classes.len(), || (), best)?.into_iter().collect()
}

fn by_links(
    views: &Views,
    balance: bool,
    class: &JobClass,
    edge_prices: &[f64],
    run: &Run<'_>,
) -> Result<Best, Refusal> {
    let mut best = Best::default();
    for block in &class.job.blocks {
        let view = views.of(block);
        // Prices need not be alike where the fabric is: nothing is merged.
        let merged = Merged::nothing(view, block);
        let mut program = Program::new(Sense::Minimise);
        let mut draft = Draft::default();
        let columns = Block { view, merged: &merged, balance, root: None }.add(&mut program, &mut draft);
        let columns = columns.map_err(failed)?;
        for (original, column) in view.original.iter().zip(&columns.w) {
            if let Some(column) = column {
                draft.columns[*column].cost = edge_prices[*original as usize];
            }
        }
        draft.enter(&mut program).map_err(failed)?;
        let solution = stage::solve(&mut program, Method::Simplex, run)?;
        best.bound += solution.objective;
        for (original, column) in view.original.iter().zip(&columns.w) {
            let load = column.map_or(0.0, |column| solution.values[column]);
            if load > 0.0 {
                *best.usage.entry(*original).or_default() += load;
            }
        }
    }
    Ok(best)
}
