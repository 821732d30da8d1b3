//! The best schedule in which flows never share a link at the same time, each at the rate that it has alone.
//!
//! Source: section 6 of the allocation page, programs (4) to (7) of the paper. What is kept of the search are the
//! orders; the starts are the earliest that they allow.

use crate::wan::bound::lower_bound;
use crate::wan::disjunctive::jobs::Jobs;
use crate::wan::disjunctive::search::{self, Limits, MAX_JOBS};
use crate::wan::refusal::Refusal;
use sluice_planners::{Run, Stopped};
use sluice_planners_wan::Instance;
use sluice_planners_wan::greedy::{self, Key};
use sluice_planners_wan::schedule::Schedule;

/// A schedule, and how good it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Nonconcurrent {
    /// Starts, rates and orders.
    pub schedule: Schedule,
    /// By collective, in s.
    pub t: Vec<f64>,
    /// The mean of `t`.
    pub mean: f64,
    /// No such schedule has a mean below this, in s.
    pub bound: f64,
    /// Is there none better, by more than the gap?
    pub proved_optimal: bool,
    /// There were too many flows to search for an order: the best greedy schedule was taken.
    pub greedy: bool,
    /// Branches that were looked at.
    pub nodes: u64,
}

/// The best such schedule, or the best that was found within the limits.
///
/// # Errors
/// `Solver`, and when the run is called off. Time that runs out is no error.
pub fn nonconcurrent(instance: &Instance, limits: Limits, run: &Run<'_>) -> Result<Nonconcurrent, Refusal> {
    let collectives = instance.collectives();
    let jobs = Jobs::new(
        instance,
        collectives,
        |flow| Some(instance.flows()[flow].collective),
        |flow| instance.duration(flow),
    );
    let floor = match lower_bound(instance, run) {
        Ok(bound) => bound.value * collectives as f64,
        Err(Refusal::Stopped(Stopped::TimeLimit)) => 0.0,
        Err(refusal) => return Err(refusal),
    };
    let firsts = Key::ALL.map(|key| greedy::nonconcurrent(instance, key).starts);
    let found = search::search(&jobs, &firsts, floor, limits, run)?;
    let t = jobs.ends(&found.starts);
    let share = 1.0 / collectives as f64;
    Ok(Nonconcurrent {
        schedule: Schedule::nonconcurrent(instance, found.starts)?,
        t,
        mean: found.total * share,
        bound: found.bound * share,
        proved_optimal: found.proved,
        greedy: jobs.count() > MAX_JOBS,
        nodes: found.nodes,
    })
}
