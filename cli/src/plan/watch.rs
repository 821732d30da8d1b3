//! Watching a planner, whichever it is: a progress bar on a terminal, and how long each stage took.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sluice_planners::{Progress, Stage};

/// With a total and the time that is left, and without.
const KNOWN: &str = "{msg} {wide_bar} {pos}/{len} {elapsed} left {eta}";
const UNKNOWN: &str = "{msg} {spinner} {pos} {elapsed}";

pub struct Watch {
    began: Instant,
    bar: Option<ProgressBar>,
    state: Mutex<State>,
}

struct State {
    stage: Option<Stage>,
    since: Instant,
    spent: BTreeMap<Stage, Duration>,
}

impl Watch {
    /// A bar on stderr if that is a terminal and `shown`.
    pub fn new(shown: bool) -> Watch {
        let bar = (shown && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(4));
            bar.set_style(style(UNKNOWN));
            bar.set_message("reading");
            bar.enable_steady_tick(Duration::from_millis(500));
            bar
        });
        let now = Instant::now();
        Watch { began: now, bar, state: Mutex::new(State { stage: None, since: now, spent: BTreeMap::new() }) }
    }

    /// How long it took so far.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// What a planner tells of its progress.
    pub fn progress(&self, progress: Progress<'_>) {
        let began = match self.state.lock() {
            Ok(mut state) => state.turn(Some(progress.stage), Instant::now()),
            Err(_) => false,
        };
        let Some(bar) = &self.bar else { return };
        if began {
            bar.set_style(style(if progress.total > 0 { KNOWN } else { UNKNOWN }));
            bar.reset();
        }
        bar.set_message(format!("{:20} {}", words(progress.stage), progress.about));
        bar.set_length(progress.total);
        bar.set_position(progress.done);
    }

    /// Takes the bar away and adds up: how long each stage took, and all of it.
    pub fn finish(self) -> Spent {
        let total = self.began.elapsed();
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        let mut state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.turn(None, Instant::now());
        Spent { stages: state.spent, total }
    }
}

/// How long a planning took.
pub struct Spent {
    stages: BTreeMap<Stage, Duration>,
    /// From reading the topology to the checked plan.
    pub total: Duration,
}

impl Spent {
    /// Seconds in these stages; `None` where none of them occurred.
    pub fn on(&self, stages: &[Stage]) -> Option<f64> {
        let spent: Vec<Duration> = stages.iter().filter_map(|stage| self.stages.get(stage).copied()).collect();
        (!spent.is_empty()).then(|| spent.iter().sum::<Duration>().as_secs_f64())
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

impl State {
    /// What has passed belongs to the stage that was; says whether another one begins.
    fn turn(&mut self, stage: Option<Stage>, now: Instant) -> bool {
        if let Some(before) = self.stage {
            *self.spent.entry(before).or_default() += now - self.since;
        }
        self.since = now;
        std::mem::replace(&mut self.stage, stage) != stage
    }
}

/// What a stage is called beside the bar.
fn words(stage: Stage) -> &'static str {
    match stage {
        Stage::Optimum => "best rate",
        Stage::FixedK => "best rounding",
        Stage::Symmetry => "symmetry",
        Stage::SwitchRemoval => "removing switches",
        Stage::TreeConstruction => "packing trees",
        Stage::PathRecovery => "finding paths",
        Stage::Verification => "verifying",
        Stage::AllReduceProgram => "all-reduce program",
        Stage::Schedule => "steps",
        Stage::Finder => "finding graphs",
        Stage::Search => "searching at random",
        Stage::FluidMaster => "routes and prices",
        Stage::AllToAll => "all-to-all",
        Stage::Greedy => "trying orders",
        Stage::Program => "integer program",
        Stage::Methods => "methods",
        Stage::Sweep => "sweeping",
    }
}
