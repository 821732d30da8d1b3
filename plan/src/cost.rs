//! How long a plan takes for any size of data, from what the plan and its topology say: latency at one end, bandwidth at
//! the other, and what lies between. Exact.
//!
//! | kind | is taken as |
//! | --- | --- |
//! | `trees`, `paths` | pipelines filled with ever smaller pieces: the time on the busiest link or group, M times the time per byte, and the latencies of the longest way. Of an all-reduce the longest way is that to a root and from it to all |
//! | `steps` | one step after the other: each the longest, over its links, of latency and bytes over capacity; a `step_length` instead of the bytes where there is one |
//! | `sends` | a replay without epochs: chunks grow with the size, each send begins once its chunk is there, its link is free, and those that the plan begins before it on that link have begun |
//!
//! What no topology says is in none of them: the time to begin a message, to cut data into pieces, to add up.

mod pipeline;
mod replay;
mod steps;

use crate::check::{Fabric, Report, Violation, check};
use crate::export::refused;
use crate::plan::{Collective, Content, Plan};
use replay::Replay;
use sluice_formats::problem::{Problem, Problems, UNSUPPORTED_FIELD};
use sluice_formats::quantity::Rational;
use sluice_formats::topology::Topology;
use steps::Step;

/// What a plan costs, in seconds and bytes, or abstract as the topology's capacities are.
#[derive(Clone, Debug)]
pub struct Cost {
    /// What the checker found in the plan, which is good.
    pub report: Report,
    model: Model,
}

#[derive(Clone, Debug)]
enum Model {
    /// Latencies of the longest way, and the time per byte.
    Pipeline {
        latency: Rational,
        per_byte: Rational,
    },
    Steps(Vec<Step>),
    Sends(Replay),
}

impl Cost {
    /// Checks a plan and works out its costs on `topology`, whose digest must be the plan's.
    ///
    /// # Errors
    /// `PLAN_REFUSED` with the checker's words for a plan that is wrong; `UNSUPPORTED_FIELD` for plans whose time is no
    /// function of a size: rates, weights, orders, demands of their own, and sends over links whose capacity varies with the
    /// epoch; `E_LIMIT` for more sends than can be replayed.
    pub fn new(plan: &Plan, topology: &Topology) -> Result<Cost, Problems> {
        let report = check(plan, Some(topology));
        if let Some(violation) = &report.violation {
            return Err(refused(violation));
        }
        let flows = matches!(plan.body.content, Content::Rates(_) | Content::Weights(_) | Content::Order(_));
        if plan.body.collective == Collective::Custom && !flows {
            let error = Problem::new(UNSUPPORTED_FIELD, "/collective", "demands of a plan's own have no size to vary");
            return Err(error.found("custom").allowed("a collective").into());
        }
        let fabric = Fabric::new(plan, topology).map_err(|violation| refused(&violation))?;
        let per_byte = report.figures.as_ref().map_or(Rational::ZERO, |figures| figures.time_per_byte.clone());
        let pipeline = |latency| Model::Pipeline { latency, per_byte };
        let model = match &plan.body.content {
            Content::Trees(trees) => pipeline::of_trees(plan, &fabric, trees).map(pipeline),
            Content::Paths(paths) => pipeline::of_paths(plan, &fabric, paths).map(pipeline),
            Content::Steps(steps) => steps::of(plan, &fabric, steps).map(Model::Steps),
            Content::Sends(sends) => Ok(Model::Sends(Replay::new(plan, topology, sends)?)),
            Content::Rates(_) | Content::Weights(_) | Content::Order(_) => {
                let error = Problem::new(UNSUPPORTED_FIELD, "/content/kind", "this kind of plan is for one size only");
                return Err(error.found(plan.body.content.kind().word()).allowed("trees, paths, steps, sends").into());
            }
        };
        let model = model.map_err(|violation: Violation| refused(&violation))?;
        Ok(Cost { report, model })
    }

    /// The time for so many bytes.
    pub fn time(&self, size: &Rational) -> Rational {
        match &self.model {
            Model::Pipeline { latency, per_byte } => latency + &(size * per_byte),
            Model::Steps(steps) => sum(steps.iter().map(|step| step.time(size))),
            Model::Sends(replay) => replay.time(size),
        }
    }
    /// The latency term: the time for hardly any data.
    pub fn latency(&self) -> Rational {
        self.time(&Rational::ZERO)
    }
    /// The bandwidth term: the time for each byte of very much data.
    pub fn per_byte(&self) -> Rational {
        match &self.model {
            Model::Pipeline { per_byte, .. } => per_byte.clone(),
            Model::Steps(steps) => sum(steps.iter().map(Step::per_byte)),
            Model::Sends(replay) => replay.per_byte(),
        }
    }
}

fn sum(terms: impl Iterator<Item = Rational>) -> Rational {
    terms.fold(Rational::ZERO, |sum, term| &sum + &term)
}

#[cfg(test)]
mod tests;
