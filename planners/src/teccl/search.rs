//! From a bound and the greedy orders to a plan, by way of a solver where they do not meet.

use super::bound::Bound;
use super::greedy;
use super::instance::{Instance, Mode};
use super::objective::Objective;
use super::schedule::Schedule;
use super::to_plan::{Entry, Made, Outcome, Worth, plan};
use crate::run::{Run, Stopped};
use sluice_formats::problem::{INTERNAL_INVARIANT, Problem, Problems};
use sluice_plan::plan::CertificateKind;

/// Which schedule is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Any of so many epochs.
    Feasible(u64),
    /// One of as few as can be.
    MinEpochs,
}

impl Goal {
    /// Is a schedule of so many epochs what is looked for, if none can have fewer than `bound`?
    pub fn is_met(self, epochs: u64, bound: u64) -> bool {
        match self {
            Goal::Feasible(most) => epochs <= most,
            Goal::MinEpochs => epochs <= bound,
        }
    }
    fn most(self) -> u64 {
        match self {
            Goal::Feasible(most) => most,
            Goal::MinEpochs => u64::MAX,
        }
    }
}

/// What is known of the least number of epochs.
#[derive(Clone, Debug)]
pub struct Found {
    /// The shortest schedule known; `None`: none is.
    pub schedule: Option<Schedule>,
    /// No schedule has fewer epochs.
    pub bound: u64,
    /// Is that so by the instance's own bound, which anybody can recompute? Else a solver said so.
    pub proved: bool,
}

/// A schedule, and how much more another one may gain.
#[derive(Clone, Debug)]
pub struct Valued {
    /// The schedule that gains most of those known.
    pub schedule: Schedule,
    /// No schedule gains more than this.
    pub bound: f64,
}

/// Somebody who can narrow what lies between a bound and a schedule.
pub trait Search {
    /// Does it begin where the greedy orders end? Else it looks for itself.
    fn needs_start(&self) -> bool {
        true
    }

    /// Narrows it until both meet, or time runs out.
    ///
    /// # Errors
    /// Being called off, and what breaks down.
    fn search(&self, instance: &Instance<'_>, goal: Goal, found: Found, run: &Run<'_>) -> Result<Found, Problems>;

    /// Makes a schedule gain more within so many epochs, until none gains more, or time runs out.
    ///
    /// # Errors
    /// Being called off, and what breaks down.
    fn improve(
        &self,
        instance: &Instance<'_>,
        objective: Objective,
        epochs: u64,
        start: Valued,
        run: &Run<'_>,
    ) -> Result<Valued, Problems> {
        let _ = (instance, objective, epochs, run);
        Ok(start)
    }
}

/// Plans, claims and checks; `solver` is asked only where bound and greedy orders do not meet.
///
/// # Errors
/// `Infeasible` where there are too few epochs; `NoFeasibleHorizon` where no schedule was found and none was proved
/// impossible; `CANCELLED`, `TimeLimit`; `Solver`; `Numerical` where the checker disagrees.
pub fn make(instance: &Instance<'_>, solver: Option<&dyn Search>, run: &Run<'_>) -> Result<Made, Problems> {
    if let Some(then) = &instance.then {
        let goal = Goal::MinEpochs;
        let (first, _) = decide(instance, goal, solver, run)?;
        let (second, _) = decide(&then.instance, goal, solver, run)?;
        let finish = first.finish + second.finish;
        let most = if let Mode::Feasible(epochs) = instance.options.mode { epochs } else { u64::MAX };
        if then.bound.epochs > most {
            return Err(infeasible(most, then.bound.epochs));
        }
        if finish > most {
            return Err(horizon(then.bound.epochs));
        }
        let later = entries(&then.instance, &second).map(|entry| Entry { epoch: first.finish + entry.epoch, ..entry });
        let all = entries(instance, &first).chain(later).collect();
        let bound = then.bound.clone();
        return plan(instance, all, &Outcome { finish, bound, worth: None, late: run.is_late() });
    }
    let mut worth = None;
    let (schedule, found) = match instance.options.mode {
        Mode::Feasible(epochs) => decide(instance, Goal::Feasible(epochs), solver, run)?,
        Mode::MinEpochs => decide(instance, Goal::MinEpochs, solver, run)?,
        Mode::Objective { objective, epochs } => {
            let goal = epochs.map_or(Goal::MinEpochs, Goal::Feasible);
            let (schedule, found) = decide(instance, goal, solver, run)?;
            let epochs = epochs.unwrap_or(schedule.finish);
            let (lanes, demand) = (&instance.lanes, &instance.demand);
            let bound = objective.most(lanes, demand, epochs);
            let mut valued = Valued { schedule, bound };
            if let Some(solver) = solver {
                valued = solver.improve(instance, objective, epochs, valued, run)?;
            }
            let value = objective.of(lanes, demand, &valued.schedule, epochs);
            worth = Some(Worth { objective, epochs, value, bound: valued.bound.max(value) });
            (valued.schedule, found)
        }
    };
    let bound = match found.proved {
        true => instance.bound.clone(),
        false => Bound { epochs: found.bound, kind: CertificateKind::Solver, nodes: Vec::new() },
    };
    let outcome = Outcome { finish: schedule.finish, bound, worth, late: run.is_late() };
    plan(instance, entries(instance, &schedule).collect(), &outcome)
}

/// The sends of a schedule; where time runs backwards, in the time of the plan.
fn entries<'a>(instance: &'a Instance<'_>, schedule: &'a Schedule) -> impl Iterator<Item = Entry<'a>> {
    schedule.sends.iter().map(|send| {
        let lane = &instance.lanes.lanes[send.lane];
        let chunk = &instance.demand.chunks[send.chunk];
        let is_reversed = instance.is_reversed;
        let epoch = if is_reversed { schedule.finish - send.epoch - lane.after } else { send.epoch };
        Entry { epoch, chunk, lane, is_reversed, piece: None }
    })
}

/// A schedule that is what is looked for.
fn decide(
    instance: &Instance<'_>,
    goal: Goal,
    solver: Option<&dyn Search>,
    run: &Run<'_>,
) -> Result<(Schedule, Found), Problems> {
    let Instance { lanes, hops, demand, bound, options, .. } = instance;
    let (most, mut found) = (goal.most(), Found { schedule: None, bound: bound.epochs, proved: true });
    if found.bound <= most {
        if solver.is_none_or(Search::needs_start) {
            let stopped = |stopped: Stopped| Problems::from(stopped.problem());
            let enough = if let Goal::Feasible(epochs) = goal { epochs } else { bound.epochs };
            found.schedule = greedy::best(lanes, hops, demand, enough, options.seed, run).map_err(stopped)?;
        }
        let open = found.schedule.as_ref().is_none_or(|schedule| !goal.is_met(schedule.finish, found.bound));
        if let Some(solver) = solver.filter(|_| open) {
            found = solver.search(instance, goal, found, run)?;
        }
    }
    if found.bound > most {
        return Err(infeasible(most, found.bound));
    }
    match found.schedule.take().filter(|schedule| schedule.finish <= most) {
        Some(schedule) if schedule.finish >= found.bound => Ok((schedule, found)),
        Some(_) => Err(Problem::new(INTERNAL_INVARIANT, "", "a schedule shorter than its bound").into()),
        None if run.is_late() => Err(Stopped::TimeLimit.problem().into()),
        None => Err(horizon(found.bound)),
    }
}

pub(super) fn infeasible(most: u64, bound: u64) -> Problems {
    let error = Problem::new("Infeasible", "epochs", "no schedule has so few epochs");
    let error = error.found(most.to_string()).allowed(format!("{bound} or more"));
    error.detail("N", most).detail("lower_bound", bound).into()
}

pub(super) fn horizon(bound: u64) -> Problems {
    let message = "no schedule was found, and none was proved impossible";
    Problem::new("NoFeasibleHorizon", "epochs", message).detail("lower_bound", bound).into()
}
