//! One stage of a program solved to its optimum, or why not.

use sluice_planners::Run;
use sluice_planners::Stopped;
use sluice_planners::fluid::refusal::Refusal;
use sluice_solver::{Answer, Method, Options, Program, Solution};

/// How far rows and reduced costs may be off: bounds are compared within 1e-7.
const TOLERANCE: f64 = 1e-9;

/// What a program came to.
#[derive(Clone, Debug)]
pub enum Ended {
    /// The optimum, with prices that prove it.
    Best(Solution),
    /// Time ran out; this was found until then.
    Late(Solution),
    /// No values meet all rows.
    Nothing,
}

/// The optimum.
///
/// # Errors
/// `Solver` for every other end, `Stopped` where it was called off or time ran out.
pub fn solve(program: &mut Program, method: Method, run: &Run<'_>) -> Result<Solution, Refusal> {
    match ended(program, method, run)? {
        Ended::Best(solution) => Ok(solution),
        Ended::Late(_) => Err(Stopped::TimeLimit.into()),
        Ended::Nothing => Err(Refusal::Solver { status: "a program without a solution".into() }),
    }
}

/// What there is, of a program that may have no solution, or whose solution may take too long to prove.
///
/// # Errors
/// `Solver` where it ends otherwise, `Stopped` where it was called off or time ran out before there was anything.
pub fn ended(program: &mut Program, method: Method, run: &Run<'_>) -> Result<Ended, Refusal> {
    run.check()?;
    let options = Options {
        method,
        tolerance: Some(TOLERANCE),
        deadline: run.deadline,
        cancel: run.cancel,
        ..Options::default()
    };
    match program.solve(&options, None).map_err(super::failed)? {
        Answer::Optimal(solution) => Ok(Ended::Best(solution)),
        Answer::Cancelled => Err(Stopped::Cancelled.into()),
        Answer::TimeLimit(Some(solution)) if solution.feasible => Ok(Ended::Late(solution)),
        Answer::TimeLimit(_) => Err(Stopped::TimeLimit.into()),
        Answer::Infeasible => Ok(Ended::Nothing),
        Answer::Unbounded => Err(Refusal::Solver { status: "a program without an end".into() }),
        Answer::Imprecise { status, .. } => Err(Refusal::Solver { status }),
    }
}
