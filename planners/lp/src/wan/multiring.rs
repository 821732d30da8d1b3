//! MultiRing with the best order in each collective: its flows run at their collective's budget, one at a time on a
//! link.
//!
//! Source: section 8 of the allocation page. Budgets come from the reciprocal program; collectives are ordered apart
//! from each other, several at a time.

use crate::wan::disjunctive::jobs::Jobs;
use crate::wan::disjunctive::search::{self, Limits};
use crate::wan::refusal::Refusal;
use sluice_planners::Run;
use sluice_planners_wan::Instance;
use sluice_planners_wan::greedy::{self, Key};
use sluice_planners_wan::multiring::{self, MultiRing};
use std::time::Duration;

/// How to plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// May a flow use all that its collective's budget means on its own route?
    pub per_link_budget: bool,
    /// Of the search for each collective's order.
    pub limits: Limits,
}

impl Default for Options {
    /// Budgets as the paper has them, and 5 seconds for each collective.
    fn default() -> Options {
        Options { per_link_budget: false, limits: Limits { time: Some(Duration::from_secs(5)), ..Limits::default() } }
    }
}

/// A plan, and how good its orders are.
#[derive(Clone, Debug, PartialEq)]
pub struct Ordered {
    /// Budgets, starts and times.
    pub plan: MultiRing,
    /// The mean over collectives of their times, in s.
    pub mean: f64,
    /// By collective the time below which no order takes it at these budgets, in s.
    pub bounds: Vec<f64>,
    /// By collective: is no order better, by more than the gap?
    pub proved: Vec<bool>,
}

impl Ordered {
    /// Is no order of any collective better?
    pub fn proved_optimal(&self) -> bool {
        self.proved.iter().all(|proved| *proved)
    }
    /// The mean below which no orders go at these budgets, in s.
    pub fn bound(&self) -> f64 {
        self.bounds.iter().sum::<f64>() / self.bounds.len() as f64
    }
}

/// Plans budgets, and for each collective the best order that is found within the limits.
///
/// # Errors
/// `Solver` for budgets that cannot be found, and when the run is called off. Time that runs out is no error.
pub fn multiring(instance: &Instance, options: Options, run: &Run<'_>) -> Result<Ordered, Refusal> {
    let budgets = multiring::budgets(instance)?.x;
    let rates = multiring::rates(instance, &budgets, options.per_link_budget);
    let size = |flow: usize| instance.flows()[flow].size;
    let best = |collective: usize| -> Result<(Jobs, search::Found), Refusal> {
        let of = |flow: usize| (instance.flows()[flow].collective == collective).then_some(0);
        let jobs = Jobs::new(instance, 1, of, |flow| size(flow) / rates[flow]);
        let mut firsts = Vec::new();
        for key in Key::ALL {
            let starts = greedy::list(instance, &jobs.flows, &rates, key)?;
            firsts.push(jobs.flows.iter().map(|flow| starts[*flow]).collect());
        }
        let found = search::search(&jobs, &firsts, 0.0, options.limits, run)?;
        Ok((jobs, found))
    };
    // Each search ends at the deadline by itself, with the best that it has.
    let patient = Run { deadline: None, ..*run };
    let found = patient.each(instance.collectives(), || (), |(), collective| best(collective))?;
    let mut starts = vec![0.0; instance.flows().len()];
    let (mut bounds, mut proved) = (Vec::new(), Vec::new());
    for found in found {
        let (jobs, found) = found?;
        jobs.flows.iter().zip(&found.starts).for_each(|(flow, start)| starts[*flow] = *start);
        bounds.push(found.bound);
        proved.push(found.proved);
    }
    let plan = multiring::with_starts(instance, budgets, options.per_link_budget, starts)?;
    let mean = plan.t.iter().sum::<f64>() / plan.t.len() as f64;
    Ok(Ordered { plan, mean, bounds, proved })
}
