//! `sluice sim replay`: what daemons recorded becomes a scenario, which is then run as any other.

use std::fs;
use std::process::ExitCode;

use sluice_formats::recording;
use sluice_scenario::replay::{Replay, SeenJob, replay};

use super::args::{SimReplayArgs, SimRunArgs};
use super::run::run as run_scenario;
use crate::failure::Failure;
use crate::global::{Format, Global};
use crate::output;
use crate::plan::files;

pub fn run(global: &Global, args: &SimReplayArgs) -> Result<ExitCode, Failure> {
    let mut recordings = Vec::new();
    for path in &args.recordings {
        recordings.push((path.display().to_string(), recording::load(path)?));
    }
    let topology = args.topology.as_ref().map(|path| {
        // The scenario may stand elsewhere.
        fs::canonicalize(path).map_err(|error| Failure::input(format!("{}: {error}", path.display())))
    });
    let topology = topology.transpose()?.map(|path| path.display().to_string());
    let Replay { scenario, jobs, notes } = replay(&recordings, topology.as_deref())?;
    files::write(&args.scenario, &format!("{scenario:#}\n"))?;
    if !global.quiet {
        notes.iter().for_each(|note| eprintln!("! {note}"));
        eprintln!("the scenario is in {}", args.scenario.display());
        if global.format() == Format::Table {
            output::print(&table(&jobs))?;
        }
    }
    let again = SimRunArgs {
        scenario: args.scenario.clone(),
        policies: args.policies.clone(),
        sets: Vec::new(),
        seed: None,
        out: args.out.clone(),
        report: args.report.clone(),
        threads: args.threads,
        profile: false,
    };
    run_scenario(global, &again)
}

/// The jobs as they were seen: what the figures of schedulers stand beside.
fn table(jobs: &[SeenJob]) -> String {
    let width = jobs.iter().map(|job| job.id.len()).max().unwrap_or(0).max(8);
    let mut text = format!("{:width$}  hosts  rounds    bytes a round  mean round   run time  sizes\n", "recorded");
    for job in jobs {
        let SeenJob { id, hosts, rounds, round_s, time_s, bytes, bytes_ratio } = job;
        text += &format!(
            "{id:width$}  {hosts:5}  {rounds:6}  {bytes:15}  {round_s:8.3} s  {time_s:7.3} s  ×{bytes_ratio:.2}\n"
        );
    }
    let mean = jobs.iter().map(|job| job.time_s).sum::<f64>() / jobs.len().max(1) as f64;
    text + &format!("mean run time as recorded: {mean:.3} s\n\n")
}
