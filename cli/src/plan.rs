//! `sluice plan`: which trees or steps a collective should use on a fabric. The library plans and checks; here are the flags,
//! the files, the exit status and what is shown.

pub mod args;
mod bfb;
mod check;
mod command;
mod compare;
mod export;
pub mod files;
mod find_topology;
mod fluid_lp;
mod forestcoll;
pub mod form;
pub mod made;
pub mod shown;
mod te_ccl;
pub mod wan;
pub mod watch;

use std::process::ExitCode;

use sluice_formats::problem::{Code, INTERNAL_INVARIANT};
use sluice_plan::export::PLAN_REFUSED;
use sluice_planners::{CANCELLED, TIME_LIMIT};

use crate::failure::Failure;
use crate::global::{Format, Global};
use crate::interrupt::INTERRUPTED;
use crate::output;
use args::PlanCmd;

/// The program or its solver failed.
const FAILED: u8 = 1;
/// A file, a parameter or a fabric was refused.
const REFUSED: u8 = 2;
/// The answer is no.
const NO: u8 = 3;
/// A limit was reached, and the best plan until then was written.
const LIMIT: u8 = 5;

pub fn run(global: &Global, command: &PlanCmd) -> Result<ExitCode, Failure> {
    let done = match command {
        PlanCmd::Forestcoll(args) => forestcoll::run(global, args),
        PlanCmd::FindTopology(args) => find_topology::run(global, args),
        PlanCmd::Bfb(args) => bfb::run(global, args),
        PlanCmd::TeCcl(args) => te_ccl::run(global, args),
        PlanCmd::FluidLp(args) => fluid_lp::run(global, args),
        PlanCmd::Wan(args) => wan::run(global, args),
        PlanCmd::Check(args) => check::run(global, args),
        PlanCmd::Compare(args) => compare::run(global, args),
        PlanCmd::Export(args) => export::run(global, args),
    };
    finish(global, done)
}

/// How many threads plan: as many as were asked for, or one per processor.
fn threads(asked: Option<u16>) -> usize {
    match asked {
        Some(threads) => usize::from(threads),
        None => std::thread::available_parallelism().map_or(1, usize::from),
    }
}

/// Problems as text on stderr, or as the one JSON document; the first decides the exit status.
pub fn finish(global: &Global, done: Result<ExitCode, Failure>) -> Result<ExitCode, Failure> {
    let Err(mut failure) = done else { return done };
    let Some(errors) = &failure.problems else { return Err(failure) };
    let status = status(errors.code());
    if status == INTERRUPTED {
        eprintln!("interrupted; nothing was written");
        return Ok(ExitCode::from(INTERRUPTED));
    }
    if matches!(global.format(), Format::Json | Format::Jsonl) {
        output::print(&format!("{}\n", errors.to_json()))?;
        return Ok(ExitCode::from(status));
    }
    failure.code = status;
    Err(failure)
}

/// The exit status of a refusal: nothing was written. A limit that was reached with a plan in hand is no refusal.
fn status(code: Code) -> u8 {
    match code {
        CANCELLED => INTERRUPTED,
        INTERNAL_INVARIANT | "Solver" | "Numerical" => FAILED,
        PLAN_REFUSED | TIME_LIMIT | "HorizonTooShort" | "Infeasible" | "NoFeasibleHorizon" | "NoProgress" => NO,
        _ => REFUSED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_what_was_refused_and_what_is_a_no_have_their_own_status() {
        let codes =
            ["CANCELLED", "INTERNAL_INVARIANT", "Solver", "TimeLimit", "PLAN_REFUSED", "E_RANGE", "Unreachable"];
        assert_eq!(codes.map(status), [130, 1, 1, 3, 3, 2, 2]);
    }
}
