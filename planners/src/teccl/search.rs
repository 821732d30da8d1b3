//! From a bound and the greedy orders to a plan, by way of a solver where they do not meet.

use super::greedy;
use super::instance::{Instance, Mode};
use super::schedule::Schedule;
use super::to_plan::{Made, plan};
use crate::run::{Run, Stopped};
use sluice_formats::problem::{Problem, Problems};

/// What is known of the least number of epochs.
#[derive(Clone, Debug)]
pub struct Found {
    /// The best schedule.
    pub schedule: Option<Schedule>,
    /// No schedule has fewer epochs.
    pub bound: u64,
    /// Is that so by the instance's own bound, which anybody can recompute? Else a solver said so.
    pub proved: bool,
}

/// Somebody who can narrow what lies between a bound and a schedule.
pub trait Search {
    /// Narrows it until both meet, or time runs out.
    ///
    /// # Errors
    /// Being called off, and what breaks down.
    fn search(&self, instance: &Instance<'_>, found: Found, run: &Run<'_>) -> Result<Found, Problems>;
}

/// Plans, claims and checks; `solver` is asked only where bound and greedy orders do not meet.
///
/// # Errors
/// `Infeasible` where there are too few epochs; `NoFeasibleHorizon` where no schedule was found and none was proved
/// impossible; `CANCELLED`, `TimeLimit`; `Solver`; `Numerical` where the checker disagrees.
pub fn make(instance: &Instance<'_>, solver: Option<&dyn Search>, run: &Run<'_>) -> Result<Made, Problems> {
    let Instance { lanes, hops, demand, bound, options, .. } = instance;
    let (enough, most) = match options.mode {
        Mode::Feasible(epochs) => (epochs, epochs),
        Mode::MinEpochs => (bound.epochs, u64::MAX),
    };
    let mut found = Found { schedule: None, bound: bound.epochs, proved: true };
    if found.bound <= most {
        let stopped = |stopped: Stopped| Problems::from(stopped.problem());
        found.schedule = greedy::best(lanes, hops, demand, enough, options.seed, run).map_err(stopped)?;
        let open = found.schedule.as_ref().is_none_or(|schedule| schedule.finish > enough);
        if let Some(solver) = solver.filter(|_| open) {
            found = solver.search(instance, found, run)?;
        }
    }
    if found.bound > most {
        let error = Problem::new("Infeasible", "epochs", "no schedule has so few epochs");
        let error = error.found(most.to_string()).allowed(format!("{} or more", found.bound));
        return Err(error.detail("N", most).detail("lower_bound", found.bound).into());
    }
    match found.schedule.take().filter(|schedule| schedule.finish <= most) {
        Some(schedule) => plan(instance, &schedule, &found, run.is_late()),
        None if run.is_late() => Err(Stopped::TimeLimit.problem().into()),
        None => {
            let message = "no schedule was found, and none was proved impossible";
            Err(Problem::new("NoFeasibleHorizon", "epochs", message).detail("lower_bound", found.bound).into())
        }
    }
}
