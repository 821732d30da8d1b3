//! The integer program as a search: which horizons hold a schedule, and which schedule gains most within one.

use sluice_formats::problem::{INTERNAL_INVARIANT, Problem, Problems};
use sluice_formats::quantity::Rational;
use sluice_planners::teccl::lane::EpochLength;
use sluice_planners::teccl::schedule::Schedule;
use sluice_planners::teccl::{Found, Goal, Instance, Mode, Objective, Search, Valued};
use sluice_planners::{Run, Stage, Stopped};
use sluice_solver::{Answer, Failed, Solution};

use super::model::{Model, Reach};

/// How often a horizon in which nothing was found is doubled.
const MAX_DOUBLINGS: u32 = 6;
/// The lengths that a first guess of the horizon is tried with, as shares of the least time there can be, in eighths.
const GUESSES: [u64; 8] = [8, 10, 12, 16, 24, 32, 48, 64];
/// Epochs into which a guess is cut.
const COARSE: [u64; 3] = [4, 8, 12];

/// Whole chunks, by branch and bound.
#[derive(Clone, Copy, Debug, Default)]
pub struct Milp {
    /// Where the solver's random numbers begin.
    pub seed: u32,
}

/// What a horizon came to.
enum Verdict {
    Found(Schedule),
    Infeasible,
    /// Time ran out, or the program would be too large.
    Unknown,
}

impl Search for Milp {
    /// Narrows what is left between a bound and a schedule: half of it with each program, whose schedule may need fewer
    /// epochs than it was given.
    fn search(&self, instance: &Instance<'_>, goal: Goal, found: Found, run: &Run<'_>) -> Result<Found, Problems> {
        let Found { mut schedule, mut bound, mut proved } = found;
        let reach = Reach::new(&instance.lanes, &instance.demand);
        let mut most = match (goal, &schedule) {
            (Goal::Feasible(epochs), _) => epochs,
            (Goal::MinEpochs, Some(schedule)) => schedule.finish,
            (Goal::MinEpochs, None) => self.guess(instance, run)?.unwrap_or(bound.saturating_mul(2)).max(bound),
        };
        let mut doubled = 0;
        loop {
            let enough = schedule.as_ref().is_some_and(|schedule| goal.is_met(schedule.finish, bound));
            if enough || bound > most {
                break;
            }
            let epochs = match (goal, &schedule) {
                (Goal::Feasible(epochs), _) => epochs,
                (Goal::MinEpochs, Some(schedule)) => bound + (schedule.finish - 1 - bound) / 2,
                (Goal::MinEpochs, None) => most,
            };
            let upper = schedule.as_ref().map_or(most, |schedule| schedule.finish);
            run.tell(Stage::Program, 0, 0, format_args!("{bound} to {upper} epochs: trying {epochs}"));
            match self.feasible(instance, &reach, epochs, run)? {
                Verdict::Found(better) => {
                    most = better.finish;
                    schedule = Some(better);
                }
                Verdict::Infeasible => {
                    (bound, proved) = (epochs + 1, false);
                    if schedule.is_none() && goal == Goal::MinEpochs && doubled < MAX_DOUBLINGS {
                        (most, doubled) = (most.saturating_mul(2), doubled + 1);
                    }
                }
                Verdict::Unknown => break,
            }
        }
        Ok(Found { schedule, bound, proved })
    }

    fn improve(
        &self,
        instance: &Instance<'_>,
        objective: Objective,
        epochs: u64,
        start: Valued,
        run: &Run<'_>,
    ) -> Result<Valued, Problems> {
        let (lanes, demand) = (&instance.lanes, &instance.demand);
        let value = objective.of(lanes, demand, &start.schedule, epochs);
        run.tell(Stage::Program, 0, 0, format_args!("{value:.6} of at most {:.6}", start.bound));
        let reach = Reach::new(lanes, demand);
        let model = Model::new(lanes, demand, &reach, epochs, Some(objective)).map_err(failed)?;
        let Some(mut model) = model else { return Ok(start) };
        let values = model.start(lanes, demand, &start.schedule);
        let solution = match model.program.solve(&self.options(run), values.as_deref()).map_err(failed)? {
            Answer::Optimal(solution) | Answer::TimeLimit(Some(solution)) if solution.feasible => solution,
            Answer::TimeLimit(Some(solution)) => return Ok(Valued { bound: start.bound.min(solution.bound), ..start }),
            Answer::TimeLimit(None) => return Ok(start),
            other => return Err(unusable(other)),
        };
        let schedule = schedule(instance, &model, &solution)?;
        let bound = start.bound.min(solution.bound);
        // The solver may end early with something worse than what it began with.
        let better = objective.of(lanes, demand, &schedule, epochs) >= value;
        Ok(Valued { schedule: if better { schedule } else { start.schedule }, bound })
    }
}

impl Milp {
    fn options<'r>(&self, run: &Run<'r>) -> sluice_solver::Options<'r> {
        let (seed, deadline, cancel) = (self.seed, run.deadline, run.cancel);
        sluice_solver::Options { seed, deadline, cancel, ..sluice_solver::Options::default() }
    }

    fn feasible(
        &self,
        instance: &Instance<'_>,
        reach: &Reach,
        epochs: u64,
        run: &Run<'_>,
    ) -> Result<Verdict, Problems> {
        let model = Model::new(&instance.lanes, &instance.demand, reach, epochs, None).map_err(failed)?;
        let Some(mut model) = model else { return Ok(Verdict::Unknown) };
        match model.program.solve(&self.options(run), None).map_err(failed)? {
            Answer::Optimal(solution) | Answer::TimeLimit(Some(solution)) if solution.feasible => {
                Ok(Verdict::Found(schedule(instance, &model, &solution)?))
            }
            Answer::Infeasible => Ok(Verdict::Infeasible),
            Answer::TimeLimit(_) => Ok(Verdict::Unknown),
            other => Err(unusable(other)),
        }
    }

    /// How many epochs may be enough where no order of chunks leads to a schedule: the first of several times in which
    /// chunks get where they are wanted in a few long epochs. Long epochs round differently, so it may be wrong.
    ///
    /// Source: algorithm 1 of the paper, which as printed keeps the last such time instead of the first.
    fn guess(&self, instance: &Instance<'_>, run: &Run<'_>) -> Result<Option<u64>, Problems> {
        let least = &instance.terms.tau * &Rational::from(instance.bound.epochs);
        for eighths in GUESSES {
            let Some(time) = Rational::new(eighths, 8_u64).map(|share| &least * &share) else { continue };
            for epochs in COARSE {
                let Some(tau) = time.checked_div(&Rational::from(epochs)) else { continue };
                let (epoch, multiplier) = (EpochLength::Fixed(tau), Rational::ONE);
                let options = sluice_planners::teccl::Options {
                    epoch,
                    multiplier,
                    mode: Mode::MinEpochs,
                    ..instance.options().clone()
                };
                // What such epochs do not fit is not found with them.
                let Ok(coarse) = instance.with(options) else { continue };
                run.tell(Stage::Program, 0, 0, format_args!("trying {epochs} long epochs"));
                let reach = Reach::new(&coarse.lanes, &coarse.demand);
                if coarse.bound.epochs <= epochs
                    && let Verdict::Found(_) = self.feasible(&coarse, &reach, epochs, run)?
                {
                    let fine = time.checked_div(&instance.terms.tau);
                    return Ok(fine.map(|epochs| epochs.to_f64().ceil() as u64));
                }
                if run.is_late() {
                    return Ok(None);
                }
            }
        }
        Ok(None)
    }
}

fn schedule(instance: &Instance<'_>, model: &Model, solution: &Solution) -> Result<Schedule, Problems> {
    let sends = model.sends(&solution.values);
    let schedule = sends.and_then(|sends| Schedule::pruned(&instance.lanes, &instance.demand, &sends).ok());
    let fault = || Problem::new(INTERNAL_INVARIANT, "", "the solver's values are no schedule");
    schedule.ok_or_else(|| fault().into())
}

pub(super) fn failed(failed: Failed) -> Problems {
    Problem::new("Solver", "", failed.to_string()).into()
}

/// An answer that no program of this planner has.
pub(super) fn unusable(answer: Answer) -> Problems {
    match answer {
        Answer::Cancelled => Stopped::Cancelled.problem().into(),
        Answer::Imprecise { status, .. } => Problem::new("Solver", "", status).into(),
        other => Problem::new("Solver", "", format!("a bounded program ended as {other:?}")).into(),
    }
}
