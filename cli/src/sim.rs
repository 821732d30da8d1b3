//! `sluice sim`: scenarios, and flows between sites, in virtual time. All the work is the library's; here are the flags, the exit status, and where
//! results go.

pub mod args;
mod bar;
mod compare;
mod list;
mod replay;
mod run;
mod sweep;
mod wan;

use std::path::Path;
use std::process::ExitCode;

use sluice_scenario::{Policy, Scenario, Set};
use sluice_simulate::runs::{self, RunsError, Task};

use crate::failure::Failure;
use crate::global::Global;
use crate::output;
use args::SimCmd;
pub use compare::sides;

pub fn run(global: &Global, command: &SimCmd) -> Result<ExitCode, Failure> {
    match command {
        SimCmd::Run(args) => run::run(global, args),
        SimCmd::Validate { scenario, policies } => {
            let scenario = load(scenario, &[])?;
            let tasks = tasks(&scenario, policies, false)?;
            if !global.quiet {
                let names: Vec<String> = tasks.iter().map(|t| t.policy.to_string()).collect();
                let (jobs, hosts) = (scenario.jobs.len(), scenario.network.hosts.len());
                let names = names.join(", ");
                output::print(&format!("{}: valid; {jobs} jobs on {hosts} hosts under {names}\n", scenario.name))?;
            }
            Ok(ExitCode::SUCCESS)
        }
        SimCmd::List { dir } => list::run(global, dir.as_deref()),
        SimCmd::Compare { results } => compare::run(global, results),
        SimCmd::Replay(args) => replay::run(global, args),
        SimCmd::Sweep(args) => sweep::run(global, args),
        SimCmd::Wan(args) => wan::run(global, args),
    }
}

fn load(path: &Path, sets: &[Set]) -> Result<Scenario, Failure> {
    Ok(Scenario::load_with(path, sets)?)
}

/// The schedulers asked for, else those of the scenario, each once; all of them can be run.
fn tasks<'a>(scenario: &'a Scenario, asked: &[Policy], profile: bool) -> Result<Vec<Task<'a>>, Failure> {
    let wanted = if asked.is_empty() { &scenario.schedulers.policies } else { asked };
    let mut tasks: Vec<Task<'a>> = Vec::new();
    for policy in wanted {
        if !tasks.iter().any(|t| t.policy == *policy) {
            tasks.push(Task { scenario, policy: policy.clone(), profile });
        }
    }
    runs::check(&tasks).map_err(|error| failed(&error))?;
    Ok(tasks)
}

/// The exit status is the error's own.
fn failed(error: &RunsError) -> Failure {
    Failure::with(error.exit_status(), error)
}
