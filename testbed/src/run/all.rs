//! Every policy of a scenario, several times, policy by policy within each repeat so that drift of the machine hits
//! all alike.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sluice_report::PolicyRun;
use sluice_scenario::Scenario;

use super::convert::ScenarioQueue;
use super::{Binaries, Observer, Policy, RunError, RunPlan, Session, run_once};

/// Which policies run, how often, and what is kept.
#[derive(Clone, Debug)]
pub struct Options {
    /// The policies, in the order in which they take turns.
    pub policies: Vec<Policy>,
    /// How often each runs, 1 or more.
    pub repeats: usize,
    /// Where files go: one directory per run with job files, configurations and logs.
    pub out: PathBuf,
    /// Keep those files; without it they are removed after a run that went well.
    pub keep: bool,
    /// Daemons record their jobs' work, for `sluice sim replay`, in files that are kept with the others.
    pub record: bool,
    /// Cables delay as the scenario says, in user space, where that is long enough to matter.
    pub delays: bool,
}

/// Runs a scenario that [`Scenario::for_testbed`] accepted. Runs come back in the order they were made.
///
/// # Errors
/// The first run that fails ends everything; its directory stays.
pub fn run(
    scenario: &Scenario,
    options: &Options,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<Vec<PolicyRun>, RunError> {
    let mut plan = RunPlan { record: options.record, ..RunPlan::of(scenario)? };
    plan.fabric.relays = plan.fabric.relays.filter(|_| options.delays);
    let binaries = Binaries::find()?;
    let mut runs = Vec::new();
    let all = options.repeats.max(1) * options.policies.len();
    for repeat in 0..options.repeats.max(1) {
        for policy in &options.policies {
            observer.begins(&policy.to_string(), runs.len(), all);
            let name = format!("{}-{repeat}", policy.file_part());
            let dir = options.out.join(name);
            std::fs::create_dir_all(&dir).map_err(RunError::io(format!("creating {}", dir.display())))?;
            let session = Session { binaries: &binaries, dir: dir.clone(), stop };
            let mut run = run_once(&plan, &mut ScenarioQueue::new(scenario), policy, &session, observer)?;
            run.repeat = repeat;
            run.notes.extend(scenario.testbed_notes());
            runs.push(run);
            if !options.keep {
                // Files for looking into; the figures are in the result.
                drop(std::fs::remove_dir_all(&dir));
            }
        }
    }
    Ok(runs)
}

/// A progress bar with the time that is left, on a terminal; silent elsewhere.
#[derive(Debug)]
pub struct Bar {
    bar: ProgressBar,
    runs: u64,
    run: u64,
}

/// Steps of the bar per run.
const STEPS: u64 = 1000;

impl Bar {
    /// On standard error.
    pub fn new() -> Bar {
        let bar = ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::stderr_with_hz(4));
        if let Ok(style) = ProgressStyle::with_template("{msg:32} {wide_bar} {percent:>3}% {elapsed} left {eta}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(500));
        Bar { bar, runs: 1, run: 0 }
    }
}

impl Default for Bar {
    fn default() -> Bar {
        Bar::new()
    }
}

impl Observer for Bar {
    fn begins(&mut self, policy: &str, run: usize, runs: usize) {
        (self.run, self.runs) = (run as u64, runs.max(1) as u64);
        self.bar.set_length(self.runs * STEPS);
        self.bar.set_message(format!("{policy} ({} of {runs})", run + 1));
    }
    fn progress(&mut self, part: f64, _ended: usize, _jobs: usize) {
        self.bar.set_position(self.run * STEPS + (part * STEPS as f64) as u64);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
