//! One stage of a program solved to its optimum, or why not.

use sluice_planners::Run;
use sluice_planners::Stopped;
use sluice_planners::fluid::refusal::Refusal;
use sluice_solver::{Answer, Method, Options, Program, Solution};

/// How far rows and reduced costs may be off: bounds are compared within 1e-7.
const TOLERANCE: f64 = 1e-9;

/// The optimum.
///
/// # Errors
/// `Solver` for every other end, `Stopped` where it was called off or time ran out.
pub fn solve(program: &mut Program, method: Method, run: &Run<'_>) -> Result<Solution, Refusal> {
    run.check()?;
    let options = Options {
        method,
        tolerance: Some(TOLERANCE),
        deadline: run.deadline,
        cancel: run.cancel,
        ..Options::default()
    };
    match program.solve(&options, None).map_err(super::failed)? {
        Answer::Optimal(solution) => Ok(solution),
        Answer::Cancelled => Err(Stopped::Cancelled.into()),
        Answer::TimeLimit(_) => Err(Stopped::TimeLimit.into()),
        Answer::Infeasible => Err(Refusal::Solver { status: "a program without a solution".into() }),
        Answer::Unbounded => Err(Refusal::Solver { status: "a program without an end".into() }),
        Answer::Imprecise { status, .. } => Err(Refusal::Solver { status }),
    }
}
