//! Runs one small measured experiment and prints one JSON document.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use clap::Parser as _;
use signal_hook::consts::{SIGINT, SIGTERM};
use sluice_scenario::Scenario;
use sluice_testbed::chaos::{self, soak};
use sluice_testbed::experiment::args::{Arguments, What};
use sluice_testbed::experiment::{
    Bench, adversary, beside, capacity, cost, direct, epochs, fail_open, fleet, fluid, forest, mix, others, pair, real,
    scoreboard, wan, why,
};
use sluice_testbed::run::{self, Bar, Binaries, Options};

fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    match carry_out(&Arguments::parse()) {
        Ok((document, code)) => {
            if let Some(document) = document {
                println!("{document}");
            }
            code
        }
        Err(e) => {
            eprintln!("sluice-experiment: {e:#}");
            ExitCode::FAILURE
        }
    }
}

/// Rows of chaos: a line of JSON for each as soon as it is over, and a table for people beside it. `passing`: the
/// directory is only for this run, and goes where all is well.
fn chaos_rows(bench: &Bench<'_>, settings: &chaos::Settings, passing: bool) -> anyhow::Result<Told> {
    let report = chaos::run(bench, settings, &mut |outcome| {
        if let Ok(line) = serde_json::to_string(outcome) {
            println!("{line}");
        }
        if !settings.json {
            eprint!("{}", outcome.table());
        }
    })?;
    if passing && report.pass {
        // Files for looking into; the figures are told.
        let _ = std::fs::remove_dir_all(&bench.dir);
    } else {
        eprintln!("files of the rows: {}", bench.dir.display());
    }
    Ok((None, if report.pass { ExitCode::SUCCESS } else { ExitCode::FAILURE }))
}

/// A document, and how to end.
type Told = (Option<serde_json::Value>, ExitCode);

fn carry_out(arguments: &Arguments) -> anyhow::Result<Told> {
    if let What::Chaos(settings) = &arguments.what
        && settings.list
    {
        print!("{}", chaos::list());
        return Ok((None, ExitCode::SUCCESS));
    }
    let binaries = Binaries::find()?;
    let other = || match arguments.what {
        What::Chaos(_) => chaos::own_dir(),
        _ => std::env::temp_dir().join(format!("sluice-experiment-{}", std::process::id())),
    };
    let dir = arguments.dir.clone().unwrap_or_else(other);
    std::fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("watching for signals")?;
    }
    let bench = Bench { binaries: &binaries, dir, stop: &stop };
    let document = match &arguments.what {
        What::Capacity(settings) => serde_json::to_value(capacity::capacity(&bench, settings)?)?,
        What::Pair(settings) => serde_json::to_value(pair::pair(&bench, settings)?)?,
        What::Beside(settings) => serde_json::to_value(beside::beside(&bench, settings)?)?,
        What::Others(settings) => {
            let result = others::others(&bench, settings)?;
            eprint!("{}", result.table());
            serde_json::to_value(result)?
        }
        What::Adversary(settings) => {
            let result = adversary::adversary(&bench, settings)?;
            eprint!("{}", result.table());
            let code = if result.pass { ExitCode::SUCCESS } else { ExitCode::FAILURE };
            return Ok((Some(serde_json::to_value(result)?), code));
        }
        What::Cost(settings) => serde_json::to_value(cost::cost(&bench, settings)?)?,
        What::Forest(settings) => {
            let result = forest::forest(&bench, settings)?;
            eprint!("{}", result.table());
            serde_json::to_value(result)?
        }
        What::Real(settings) => {
            let result = real::real(&bench, settings)?;
            eprint!("{}", result.table());
            if settings.fault != real::fault::Fault::None {
                eprint!("{}", result.second_half_table());
            }
            serde_json::to_value(result)?
        }
        What::Direct(settings) => {
            let result = direct::direct(&bench, settings)?;
            eprint!("{}", result.table());
            serde_json::to_value(result)?
        }
        What::Epochs(settings) => {
            let result = epochs::epochs(&bench, settings)?;
            eprint!("{}", result.table());
            serde_json::to_value(result)?
        }
        What::Fluid(settings) => {
            let result = fluid::fluid(&bench, settings)?;
            eprint!("{}", result.table());
            serde_json::to_value(result)?
        }
        What::Wan(settings) => {
            let result = wan::wan(&bench, settings)?;
            eprint!("{}", result.table());
            serde_json::to_value(result)?
        }
        What::Chaos(settings) => return chaos_rows(&bench, settings, arguments.dir.is_none()),
        What::Soak(settings) => {
            let report = soak::soak(&bench, settings)?;
            eprintln!("{}", report.page.display());
            let code = if report.pass { ExitCode::SUCCESS } else { ExitCode::FAILURE };
            return Ok((Some(serde_json::to_value(report)?), code));
        }
        What::Fleet(settings) => serde_json::to_value(fleet::fleet(&bench, settings)?)?,
        What::FailOpen(settings) => serde_json::to_value(fail_open::fail_open(&bench, settings)?)?,
        What::Scenario { file, policy, repeats, sets, jobs, iterations, record, no_delays, queue } => {
            let mut scenario = Scenario::load_with(file, sets)?.for_testbed(&[])?;
            if jobs.is_some() || iterations.is_some() {
                scenario = scenario.shortened(jobs.unwrap_or(usize::MAX), iterations.unwrap_or(u32::MAX));
            }
            scenario.testbed.queue_bytes = queue.unwrap_or(scenario.testbed.queue_bytes);
            let (policies, out) = (policy.clone(), bench.dir.clone());
            let options = Options { policies, repeats: *repeats, out, keep: true, record: *record, delays: !no_delays };
            serde_json::to_value(run::run(&scenario, &options, bench.stop, &mut Bar::new())?)?
        }
        What::Scoreboard(settings) => serde_json::to_value(scoreboard::scoreboard(&bench, settings)?)?,
        What::Why(settings) => {
            let result = why::why(&bench, settings)?;
            eprint!("{}", result.table());
            serde_json::to_value(result)?
        }
        What::Mix(settings) => serde_json::to_value(mix::run_mix(&bench, settings)?)?,
    };
    Ok((Some(document), ExitCode::SUCCESS))
}
