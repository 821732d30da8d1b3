//! Every scenario that is shipped runs to its end under every scheduler that it names, shortened so that all of them together
//! take seconds.

use std::path::{Path, PathBuf};

use sluice_scenario::{Scenario, Set};
use sluice_simulate::Watch;
use sluice_simulate::runs::{Task, one};

/// What is kept of each: the first jobs to arrive, and iterations of each.
const JOBS: usize = 8;
const ITERATIONS: u32 = 2;
/// Scenarios whose first jobs each fit into one host.
const PACKED: [&str; 3] = ["philly-week", "sim-1000", "sim-1000-short"];

fn shipped() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "toml" || e == "json"));
    files.sort();
    assert!(files.len() >= 25, "{files:?}");
    files
}

#[test]
fn every_shipped_scenario_runs_to_its_end_under_every_scheduler_it_names() {
    for file in shipped() {
        let name = file.file_stem().and_then(|s| s.to_str()).unwrap_or_default().to_owned();
        // A job that fits into one host sends nothing: there every member gets a host of its own.
        let apart = Set { key: "placement.one_per_host".into(), value: "true".into() };
        let sets = if PACKED.contains(&name.as_str()) { vec![apart] } else { Vec::new() };
        let scenario = Scenario::load_with(&file, &sets).unwrap_or_else(|e| panic!("{name}: {e}"));
        let began = std::time::Instant::now();
        let short = scenario.shortened(JOBS, ITERATIONS);
        let (mut flows, mut runs) = (0, 0);
        for policy in &short.schedulers.policies {
            let task = Task { scenario: &short, policy: policy.clone(), profile: false };
            let ran = one(&task, &Watch::default()).unwrap_or_else(|e| panic!("{name} under {policy}: {e}"));
            for (job, log) in short.jobs.iter().zip(&ran.outcome.jobs) {
                assert_eq!(log.rounds.len(), job.iterations as usize, "{name} under {policy}: {}", job.id);
                assert!(log.ended.is_some(), "{name} under {policy}: {}", job.id);
            }
            flows += ran.result.result.figures.flow_ends;
            runs += 1;
        }
        assert!(runs > 0 && flows > 0, "{name}: no flow ended, so nothing was tried");
        println!(
            "{name}: {runs} schedulers, {} jobs, {flows} flow ends, {:.2} s",
            short.jobs.len(),
            began.elapsed().as_secs_f64()
        );
    }
}
