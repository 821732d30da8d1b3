//! `sluice testbed`: the scenario's jobs on network namespaces of this host, under one or several policies. All the work
//! is the library's; here are the flags, the exit status, and where results go.

pub mod args;
mod standing;

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::slice;

use sluice_report::{self as report, About};
use sluice_scenario::Scenario;
use sluice_testbed::run::{self, Bar, Observer, Options, Policy, RunError, Silent, convert};

use crate::failure::Failure;
use crate::global::{Format, Global};
use crate::interrupt::{self, INTERRUPTED};
use crate::output;
use args::{Asked, TestbedCmd, TestbedRunArgs};

/// Width of the picture where stdout is no terminal.
const WIDTH: usize = 100;

pub fn run(global: &Global, command: &TestbedCmd) -> Result<ExitCode, Failure> {
    match command {
        TestbedCmd::Run(args) => run_scenario(global, args),
        TestbedCmd::Up(args) => standing::up(global, args),
        TestbedCmd::Down(args) => standing::down(global, args),
        TestbedCmd::Exec(args) => standing::exec(args),
        TestbedCmd::Keep(args) => standing::keep(args),
        TestbedCmd::Validate { scenario, policies } => {
            let (scaled, chosen) = load(scenario, policies)?;
            if !global.quiet {
                let names: Vec<String> = chosen.iter().map(Policy::to_string).collect();
                let (jobs, hosts) = (scaled.jobs.len(), scaled.network.hosts.len());
                output::print(&format!(
                    "{}: valid; {jobs} jobs on {hosts} hosts under {}\n",
                    scaled.name,
                    names.join(", ")
                ))?;
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn run_scenario(global: &Global, args: &TestbedRunArgs) -> Result<ExitCode, Failure> {
    let (scaled, policies) = load(&args.scenario, &args.policies)?;
    needs_root()?;
    let command: Vec<String> = std::env::args().collect();
    let about = About::gather(&scaled, &command.join(" "));
    let out =
        args.out.clone().unwrap_or_else(|| std::env::temp_dir().join(format!("sluice-testbed-{}", std::process::id())));
    let options = Options {
        policies,
        repeats: usize::from(args.repeats),
        out: out.clone(),
        keep: args.keep,
        record: args.record,
        delays: !args.no_delays,
    };
    let stop = interrupt::flag();
    let mut bar = Bar::new();
    let mut silent = Silent;
    let observer: &mut dyn Observer = if global.quiet { &mut silent } else { &mut bar };
    let runs = run::run(&scaled, &options, stop, observer);
    drop(bar);
    let runs = match runs {
        Ok(runs) => runs,
        Err(RunError::Interrupted) => {
            eprintln!("interrupted; files of the unfinished run are in {}", out.display());
            return Ok(ExitCode::from(INTERRUPTED));
        }
        Err(error) => {
            return Err(Failure::failed(format!("{error}\n  files of the failed run are in {}", out.display())));
        }
    };
    if !args.keep && args.out.is_none() {
        // Made by this command, and empty by now.
        let _ = std::fs::remove_dir(&out);
    }
    if let Some(path) = &args.report {
        std::fs::write(path, report::html(&about, &runs))
            .map_err(|error| Failure::failed(format!("{}: {error}", path.display())))?;
        eprintln!("wrote {}", path.display());
    }
    match global.format() {
        Format::Table => {
            let width = output::width().unwrap_or(WIDTH);
            let picture =
                report::picture(&runs, width, about.nic, output::colors(global) && std::io::stdout().is_terminal());
            output::print(&format!("{}\n{picture}", report::table(&about, &runs)))?;
        }
        Format::Json => output::print(&format!("{:#}\n", report::json(&about, &runs)))?,
        Format::Jsonl => output::print(&format!("{}\n", report::json(&about, &runs)))?,
        Format::Csv => output::list(global, "policies", &report::summaries(&runs), String::new)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Said before anything begins.
fn needs_root() -> Result<(), Failure> {
    if nix::unistd::geteuid().is_root() {
        return Ok(());
    }
    let shown: Vec<String> = std::env::args().skip(1).collect();
    Err(Failure::daemon(format!(
        "the testbed makes network namespaces and links, which needs root\n  help: sudo sluice {}",
        shown.join(" ")
    )))
}

/// The scenario as one machine runs it, and the policies: those asked for, else those of the scenario.
fn load(path: &Path, asked: &[Asked]) -> Result<(Scenario, Vec<Policy>), Failure> {
    let scenario = Scenario::load(path)?;
    let own: Vec<Asked> = scenario.schedulers.policies.iter().cloned().map(Asked::Scenario).collect();
    let asked = if asked.is_empty() { &own } else { asked };
    let of_scenario = |asked: &Asked| match asked {
        Asked::Scenario(policy) => Some(policy.clone()),
        Asked::Nic(_) => None,
    };
    // This refuses what exists only in the simulator, with all other problems.
    let scaled = scenario.for_testbed(&asked.iter().filter_map(of_scenario).collect::<Vec<_>>())?;
    let mut policies = Vec::new();
    for asked in asked {
        match asked {
            Asked::Nic(policy) => policies.push(policy.clone()),
            Asked::Scenario(policy) => {
                policies.extend(convert::policies(&scenario, slice::from_ref(policy)).map_err(Failure::input)?);
            }
        }
    }
    Ok((scaled, policies))
}
