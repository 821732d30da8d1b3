//! From a candidate to its graph and its schedules.

use std::collections::HashMap;

use super::{Candidate, Recipe};
use crate::direct::{Cost, Expr, Graph, Refusal, Schedule, bfb, expand};
use crate::run::Run;
use sluice_formats::quantity::Rational;

impl Candidate {
    /// The graph and its all-gather, at most at the cost that the candidate says.
    ///
    /// # Errors
    /// Those of building the graph; `InvalidChunking` and `TopologyTooLarge` for schedules beyond memory.
    pub fn all_gather(&self, run: &Run) -> Result<(Graph, Schedule), Refusal> {
        made(&self.expr, &self.recipe, run)
    }

    /// The graph and its reduce-scatter: the all-gather turned around and mirrored where a mirror is known, else the best
    /// breadth-first one.
    ///
    /// # Errors
    /// As [`Candidate::all_gather`].
    pub fn reduce_scatter(&self, run: &Run) -> Result<(Graph, Schedule), Refusal> {
        if !self.flags.mirrored {
            let graph = self.expr.graph()?;
            let schedule = bfb::reduce_scatter(&graph, &bfb::Options::default(), run)?.schedule;
            return Ok((graph, schedule));
        }
        let (graph, gather) = self.all_gather(run)?;
        let scatter = gather.transposed().mapped(&graph.transposed(), &graph, &self.expr.mirror()?)?;
        Ok((graph, scatter))
    }

    /// The graph and its all-reduce: its reduce-scatter, then its all-gather.
    ///
    /// # Errors
    /// As [`Candidate::all_gather`].
    pub fn all_reduce(&self, run: &Run) -> Result<(Graph, Schedule), Refusal> {
        let scatter = self.reduce_scatter(run)?.1;
        let (graph, gather) = self.all_gather(run)?;
        Ok((graph, scatter.then(gather)?))
    }
}

/// What a schedule costs, counted from its sends; that it does its collective is for others to say.
pub fn measured(graph: &Graph, schedule: &Schedule) -> Cost {
    let mut loads = vec![HashMap::new(); schedule.steps as usize];
    for send in &schedule.sends {
        if let Some(load) = loads.get_mut(send.step.wrapping_sub(1) as usize) {
            *load.entry(send.edge).or_insert(0_u64) += u64::from(send.hi - send.lo);
        }
    }
    let most = loads.iter().map(|load| load.values().copied().max().unwrap_or(0));
    let shards = most.filter_map(|units| Rational::new(i128::from(units), i128::from(schedule.units)));
    Cost::new(shards.collect(), graph.n(), graph.degree().ok())
}

fn made(expr: &Expr, recipe: &Recipe, run: &Run) -> Result<(Graph, Schedule), Refusal> {
    match (expr, recipe) {
        (_, Recipe::Bfb | Recipe::Published) => {
            let graph = expr.graph()?;
            let schedule = bfb::all_gather(&graph, &bfb::Options::default(), run)?.schedule;
            Ok((graph, schedule))
        }
        (Expr::Line(times, base), Recipe::Line(below)) => {
            let (graph, schedule) = match times {
                0 | 1 => made(base, below, run)?,
                _ => made(&Expr::Line(times - 1, base.clone()), below, run)?,
            };
            Ok((expand::line(&graph)?, expand::line_schedule(&graph, &schedule)?))
        }
        (Expr::Degree(base, copies), Recipe::Degree(below)) => {
            let (graph, schedule) = made(base, below, run)?;
            Ok((expand::degree(&graph, *copies)?, expand::degree_schedule(&graph, &schedule, *copies)?))
        }
        (Expr::Power(base, exponent), Recipe::Power(below)) => {
            let (graph, schedule) = made(base, below, run)?;
            Ok((expand::power(&graph, *exponent)?, expand::power_schedule(&graph, &schedule, *exponent)?))
        }
        (Expr::Bidirectional(base), Recipe::Bidirectional(below)) => {
            let (graph, schedule) = made(base, below, run)?;
            let both = expand::bidirectional_schedule(&graph, &schedule, &base.mirror()?)?;
            Ok((expand::bidirectional(&graph)?, both))
        }
        _ => Err(Refusal::Internal { reason: format!("{expr} is not made like {recipe:?}") }),
    }
}
