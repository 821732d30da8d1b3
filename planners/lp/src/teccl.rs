//! TE-CCL where bounds and greedy orders do not meet: the solver decides what lies between.

pub mod milp;

use milp::{Model, Objective, Reach};
use sluice_formats::problem::{INTERNAL_INVARIANT, Problem, Problems};
use sluice_planners::teccl::schedule::Schedule;
use sluice_planners::teccl::{Found, Instance, Mode, Search};
use sluice_planners::{Run, Stage, Stopped};
use sluice_solver::{Answer, Failed, Options};

/// The solver behind the planner: whole chunks, by branch and bound.
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
    fn search(&self, instance: &Instance<'_>, found: Found, run: &Run<'_>) -> Result<Found, Problems> {
        let Found { mut schedule, mut bound, mut proved } = found;
        let reach = Reach::new(&instance.lanes, &instance.demand);
        let mut most = match (instance.mode(), &schedule) {
            (Mode::Feasible(epochs), _) => epochs,
            (Mode::MinEpochs, Some(schedule)) => schedule.finish,
            (Mode::MinEpochs, None) => bound.saturating_mul(2),
        };
        let mut doubled = 0;
        loop {
            let enough = match instance.mode() {
                Mode::Feasible(epochs) => schedule.as_ref().is_some_and(|schedule| schedule.finish <= epochs),
                Mode::MinEpochs => schedule.as_ref().is_some_and(|schedule| schedule.finish <= bound),
            };
            if enough || bound > most {
                break;
            }
            let epochs = match (instance.mode(), &schedule) {
                (Mode::Feasible(epochs), _) => epochs,
                (Mode::MinEpochs, Some(schedule)) => bound + (schedule.finish - 1 - bound) / 2,
                (Mode::MinEpochs, None) => most,
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
                    if schedule.is_none() && instance.mode() == Mode::MinEpochs && doubled < MAX_DOUBLINGS {
                        (most, doubled) = (most.saturating_mul(2), doubled + 1);
                    }
                }
                Verdict::Unknown => break,
            }
        }
        Ok(Found { schedule, bound, proved })
    }
}

/// How often a horizon in which nothing was found is doubled.
const MAX_DOUBLINGS: u32 = 6;

impl Milp {
    fn feasible(
        &self,
        instance: &Instance<'_>,
        reach: &Reach,
        epochs: u64,
        run: &Run<'_>,
    ) -> Result<Verdict, Problems> {
        let failed = |failed: Failed| Problems::from(Problem::new("Solver", "", failed.to_string()));
        let model = Model::new(&instance.lanes, &instance.demand, reach, epochs, Objective::Nothing).map_err(failed)?;
        let Some(mut model) = model else { return Ok(Verdict::Unknown) };
        let options = Options { seed: self.seed, deadline: run.deadline, cancel: run.cancel, ..Options::default() };
        let solution = match model.program.solve(&options, None).map_err(failed)? {
            Answer::Optimal(solution) | Answer::TimeLimit(Some(solution)) if solution.feasible => solution,
            Answer::Infeasible => return Ok(Verdict::Infeasible),
            Answer::Cancelled => return Err(Stopped::Cancelled.problem().into()),
            Answer::TimeLimit(_) => return Ok(Verdict::Unknown),
            Answer::Imprecise { status, .. } => return Err(Problem::new("Solver", "", status).into()),
            Answer::Optimal(_) | Answer::Unbounded => {
                return Err(Problem::new("Solver", "", "a bounded program without an optimum").into());
            }
        };
        let sends = model.sends(&solution.values);
        let schedule = sends.and_then(|sends| Schedule::pruned(&instance.lanes, &instance.demand, &sends).ok());
        let fault = || Problem::new(INTERNAL_INVARIANT, "", "the solver's values are no schedule");
        Ok(Verdict::Found(schedule.ok_or_else(fault)?))
    }
}
