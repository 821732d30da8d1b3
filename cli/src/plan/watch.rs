//! Watching a planner: a progress bar on a terminal, and how long each stage took.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use sluice_planners::forestcoll::{Progress, Stage};

/// With a total and the time that is left, and without.
const KNOWN: &str = "{msg:20} {wide_bar} {pos}/{len} {elapsed} left {eta}";
const UNKNOWN: &str = "{msg:20} {spinner} {pos} {elapsed}";

/// Seconds by stage, under the fixed names of the results.
#[derive(Clone, Debug, Serialize)]
pub struct Seconds {
    /// The best rate and its cut; with a fixed k the search for the best rounding too.
    pub optimum: f64,
    /// Switches replaced by direct links.
    pub switch_removal: f64,
    /// Trees packed, also those found by symmetry.
    pub tree_construction: f64,
    /// Paths found and the forest verified.
    pub path_recovery: f64,
    /// The all-reduce program, where it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<f64>,
    /// From reading the topology to the checked plan.
    pub total: f64,
}

/// Watches one planning.
pub struct Watch {
    began: Instant,
    bar: Option<ProgressBar>,
    state: Mutex<State>,
}

struct State {
    stage: Option<Stage>,
    since: Instant,
    spent: BTreeMap<&'static str, Duration>,
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

    /// Takes the bar away and adds up.
    pub fn finish(self) -> Seconds {
        let total = self.began.elapsed().as_secs_f64();
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        let mut state = self.state.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        state.turn(None, Instant::now());
        let of = |name: &str| state.spent.get(name).copied().unwrap_or_default().as_secs_f64();
        Seconds {
            optimum: of("optimum"),
            switch_removal: of("switch_removal"),
            tree_construction: of("tree_construction"),
            path_recovery: of("path_recovery"),
            program: state.spent.contains_key("program").then(|| of("program")),
            total,
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

impl State {
    /// What has passed belongs to the stage that was; says whether another one begins.
    fn turn(&mut self, stage: Option<Stage>, now: Instant) -> bool {
        if let Some(before) = self.stage {
            *self.spent.entry(field(before)).or_default() += now - self.since;
        }
        self.since = now;
        std::mem::replace(&mut self.stage, stage) != stage
    }
}

/// The name of a stage among the results.
fn field(stage: Stage) -> &'static str {
    match stage {
        Stage::Optimum | Stage::FixedK => "optimum",
        Stage::SwitchRemoval => "switch_removal",
        Stage::Symmetry | Stage::TreeConstruction => "tree_construction",
        Stage::PathRecovery | Stage::Verification => "path_recovery",
        Stage::AllReduceProgram => "program",
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
    }
}

impl Progress for Watch {
    fn progress(&self, stage: Stage, done: u64, total: u64) {
        let began = match self.state.lock() {
            Ok(mut state) => state.turn(Some(stage), Instant::now()),
            Err(_) => false,
        };
        let Some(bar) = &self.bar else { return };
        if began {
            bar.set_style(style(if total > 0 { KNOWN } else { UNKNOWN }));
            bar.reset();
            bar.set_message(words(stage));
        }
        bar.set_length(total);
        bar.set_position(done);
    }
}
