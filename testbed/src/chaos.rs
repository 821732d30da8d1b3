//! Chaos: one fault after the other on real processes in namespaces, each with a figure against a bar; load, benefit and
//! exhaustion beside them. `sluice-experiment chaos` runs rows by name.
//!
//! A row is run with a lateness canary beside it. Where timers are late by more than 20 ms (p99), bars in milliseconds are
//! wider by that, once, and the outcome says so; beyond 200 ms it is run again, and the third time the machine is too busy,
//! which is no pass. One that is beyond its bars in times and rates alone, which a machine that is busy elsewhere spoils, is
//! run again as well, at most twice, and its outcome tells of every try; a count that is wrong once is wrong. What a row leaves
//! behind is a failure of its own.

mod back;
mod bare;
mod canary;
mod confined;
pub mod figure;
mod given_back;
pub mod ground;
pub mod halves;
mod inventory;
mod mounts;
mod proxy;
mod record;
pub mod rows;
pub mod soak;
mod streams;
mod wedge;

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Instant;

use serde::Serialize;

use crate::experiment::Bench;
use crate::run::{Binaries, RunError};
use canary::Canary;
use figure::{Figure, Outcome, Unit, Verdict};
use ground::{Ground, Size, Unrun};
use inventory::Inventory;
use rows::{ROWS, Row};

/// Beyond this bars are widened.
const LATE_MS: f64 = 20.0;
/// Beyond this a row is run again.
const TOO_LATE_MS: f64 = 200.0;
const TRIES: usize = 3;
/// A row that takes longer, in seconds, is not run again for what a busy machine may have spoilt.
const AGAIN_SECONDS: u64 = 200;

/// Options of `sluice-experiment chaos`.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Rows to run, as C5; see --list.
    pub rows: Vec<String>,
    /// Show all rows and run none.
    #[arg(long)]
    pub list: bool,
    /// At the size that every verification has time for; without names the core rows, which take some seven minutes.
    #[arg(long, conflicts_with = "all")]
    pub core: bool,
    /// One small case of each kind: whether rows work here, not whether bars hold. Nothing is recorded.
    #[arg(long, conflicts_with = "core")]
    pub small: bool,
    /// Every row C1 to C20.
    #[arg(long, conflicts_with = "rows")]
    pub all: bool,
    /// Only lines of JSON, one a row, on standard output.
    #[arg(long)]
    pub json: bool,
    /// Of the faults that are drawn (C20, soak).
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How long rows without an end of their own take: C20, L1, L4.
    #[arg(long, default_value_t = 10.0)]
    pub minutes: f64,
    /// A directory with `sluiced` and `sluice-switch` of another build, for C11; once for each build.
    #[arg(long, value_name = "DIR")]
    pub old: Vec<PathBuf>,
    /// Cells of B1, as mixed/3/crash-loop, or all.
    #[arg(long, value_delimiter = ',', value_name = "CELL")]
    pub cells: Vec<String>,
    /// Note the figures, with today's date, in this file: benchmarks/chaos.tsv.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
}

/// What came of all rows that were asked for.
#[derive(Debug, Serialize)]
pub struct Report {
    /// In the order in which they ran.
    pub outcomes: Vec<Outcome>,
    /// Did all of them pass? One that was not run did not.
    pub pass: bool,
}

/// The rows that settings name.
///
/// # Errors
/// Names that are none, or none at all.
fn asked(settings: &Settings) -> Result<Vec<&'static Row>, RunError> {
    let all = || ROWS.iter().filter(|row| row.id.starts_with('C'));
    if settings.core && settings.rows.is_empty() {
        return Ok(all().filter(|row| row.core).collect());
    }
    if settings.all {
        return Ok(all().collect());
    }
    let known = || ROWS.iter().map(|row| row.id).collect::<Vec<_>>().join(", ");
    let named = |id: &String| {
        rows::named(id).ok_or_else(|| RunError::Plan(format!("there is no row {id:?}; allowed are {}", known())))
    };
    if settings.rows.is_empty() {
        return Err(RunError::Plan(format!("name rows, or --core, --all or --list; rows are {}", known())));
    }
    settings.rows.iter().map(named).collect()
}

/// How directories of runs begin that were given none; the process id follows.
const DIR: &str = "sluice-chaos-";

/// A directory for a run that was given none, by the number of this process. Those of runs that were killed are removed.
pub fn own_dir() -> PathBuf {
    let base = std::env::temp_dir();
    for entry in std::fs::read_dir(&base).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(DIR)?.parse::<u32>().ok());
        if pid.is_some_and(|pid| !PathBuf::from(format!("/proc/{pid}")).exists()) {
            // Somebody else may be at it as well.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    base.join(format!("{DIR}{}", std::process::id()))
}

/// The table of rows, for people.
pub fn list() -> String {
    let line = |row: &Row| {
        let core = if row.core { "*" } else { " " };
        format!("{:<4}{core} {:>4} s  {}\n", row.id, row.seconds, row.injected.replace('`', ""))
    };
    let lines: String = ROWS.iter().map(line).collect();
    format!("{lines}* core; seconds are about what a row takes on two quiet cores\n")
}

/// Runs what settings ask for. `told` hears each outcome as soon as it is there.
///
/// # Errors
/// Rows that do not exist, a directory without programs, a record that cannot be written; what goes wrong within a row is its
/// outcome.
pub fn run(bench: &Bench<'_>, settings: &Settings, told: &mut dyn FnMut(&Outcome)) -> Result<Report, RunError> {
    let rows = asked(settings)?;
    let others = settings.old.iter().map(|dir| bench.binaries.in_dir(dir.clone()));
    let others = others.collect::<Result<Vec<Binaries>, _>>()?;
    let size = match (settings.core, settings.small) {
        (true, _) => Size::Core,
        (_, true) => Size::Small,
        _ => Size::Full,
    };
    let ground =
        Ground { bench, seed: settings.seed, size, others: &others, cells: &settings.cells, minutes: settings.minutes };
    let (mut outcomes, wanted) = (Vec::new(), rows.len());
    for row in rows {
        let outcome = one(&ground, row);
        told(&outcome);
        if let (Some(file), Size::Full) = (&settings.record, size) {
            record::note(file, row, &outcome)?;
        }
        outcomes.push(outcome);
        if bench.stop.load(Ordering::Relaxed) {
            break;
        }
    }
    // Of a row that was not reached, since somebody stopped the run, nothing is known.
    let pass = outcomes.len() == wanted && outcomes.iter().all(|outcome| outcome.pass);
    Ok(Report { outcomes, pass })
}

/// Runs one row, again where the machine was too busy.
pub fn one(ground: &Ground<'_>, row: &Row) -> Outcome {
    let (mut tries, mut before) = (0, Vec::new());
    loop {
        tries += 1;
        let (mut outcome, late) = once(ground, row, tries);
        let stopped = ground.bench.stop.load(Ordering::Relaxed);
        let busy = late > TOO_LATE_MS && outcome.verdict != Verdict::NotRun;
        if !(busy || row.seconds <= AGAIN_SECONDS && spoilt(&outcome)) || tries == TRIES || stopped {
            let earlier = before.into_iter().chain((!outcome.why.is_empty()).then_some(outcome.why));
            outcome.why = earlier.collect::<Vec<_>>().join("; ");
            return outcome;
        }
        let beyond = outcome.figures.iter().filter(|figure| !figure.passes(outcome.widened_ms));
        let beyond: Vec<String> = beyond.map(|figure| format!("{} {}", figure.what, figure.seen_text())).collect();
        before.push(format!("try {tries}, load {:.1}: {}", outcome.load, beyond.join(", ")));
    }
}

/// Is it beyond its bars only where a busy machine may be why?
fn spoilt(outcome: &Outcome) -> bool {
    let mut beyond = outcome.figures.iter().filter(|figure| !figure.passes(outcome.widened_ms));
    outcome.verdict == Verdict::Failed && outcome.leaks.is_empty() && beyond.all(|figure| figure.unit != Unit::Count)
}

/// One try, and how late timers were.
fn once(ground: &Ground<'_>, row: &Row, tries: usize) -> (Outcome, f64) {
    let before = Inventory::take();
    let began = Instant::now();
    let canary = Canary::start();
    let result = (row.run)(ground);
    let late = canary.map_or(f64::INFINITY, Canary::p99_ms);
    let seconds = began.elapsed().as_secs_f64();
    let leaks = before.left_over();
    let widened_ms = if late > LATE_MS { late } else { 0.0 };
    let (verdict, figures, why) = match result {
        Err(Unrun::Lacks(why)) => (Verdict::NotRun, Vec::new(), why),
        Err(Unrun::Broken(why)) => (Verdict::Broken, Vec::new(), why.to_string()),
        Ok(figures) if late > TOO_LATE_MS => {
            (Verdict::TooBusy, figures, format!("timers were late by {late:.0} ms (p99)"))
        }
        Ok(figures) => (judged(&figures, &leaks, widened_ms), figures, String::new()),
    };
    let outcome = Outcome {
        suite: "chaos",
        row: row.id,
        verdict,
        pass: verdict == Verdict::Passed,
        figures,
        leaks,
        why,
        seconds,
        tries,
        seed: ground.seed,
        lateness_p99_ms: late,
        widened_ms,
        load: canary::load(),
    };
    (outcome, late)
}

fn judged(figures: &[Figure], leaks: &[String], slack_ms: f64) -> Verdict {
    let good = !figures.is_empty() && leaks.is_empty() && figures.iter().all(|figure| figure.passes(slack_ms));
    if good { Verdict::Passed } else { Verdict::Failed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_figure_and_anything_left_are_failures() {
        let good = [Figure::at_most("time", 10.0, Unit::Ms, 20.0)];
        assert_eq!(judged(&good, &[], 0.0), Verdict::Passed);
        assert_eq!(judged(&good, &["pin x".into()], 0.0), Verdict::Failed);
        assert_eq!(judged(&[], &[], 0.0), Verdict::Failed);
        let late = [Figure::at_most("time", 30.0, Unit::Ms, 20.0)];
        assert_eq!((judged(&late, &[], 0.0), judged(&late, &[], 15.0)), (Verdict::Failed, Verdict::Passed));
    }

    #[test]
    fn times_may_be_spoilt_and_counts_and_leaks_are_as_they_are() {
        let outcome = |figures: Vec<Figure>, leaks: Vec<String>| Outcome {
            suite: "chaos",
            row: "C1",
            verdict: judged(&figures, &leaks, 0.0),
            pass: false,
            figures,
            leaks,
            why: String::new(),
            seconds: 1.0,
            tries: 1,
            seed: 1,
            lateness_p99_ms: 0.0,
            widened_ms: 0.0,
            load: 0.0,
        };
        let late = || Figure::at_most("time", 30.0, Unit::Ms, 20.0);
        assert!(spoilt(&outcome(vec![late()], Vec::new())));
        assert!(!spoilt(&outcome(vec![late()], vec!["pin x".into()])));
        assert!(!spoilt(&outcome(vec![late(), Figure::exactly("lost", 1, 0)], Vec::new())));
        assert!(!spoilt(&outcome(vec![Figure::exactly("lost", 0, 0)], Vec::new())));
    }

    #[test]
    fn what_is_asked_for_is_found_and_nothing_else() {
        #[derive(clap::Parser)]
        struct Alone {
            #[command(flatten)]
            settings: Settings,
        }
        let parsed = |words: &[&str]| {
            let all = std::iter::once("chaos").chain(words.iter().copied());
            <Alone as clap::Parser>::try_parse_from(all).map(|alone| alone.settings)
        };
        let ids = |words: &[&str]| {
            let settings = parsed(words).unwrap_or_else(|e| panic!("{e}"));
            asked(&settings).map(|rows| rows.iter().map(|row| row.id).collect::<Vec<_>>())
        };
        assert_eq!(ids(&["c5", "L1"]).ok(), Some(vec!["C5", "L1"]));
        assert_eq!(ids(&["--all"]).map(|rows| rows.len()).ok(), Some(20));
        assert_eq!(ids(&["--core"]).map(|rows| rows.len()).ok(), Some(10));
        assert!(ids(&["C99"]).is_err_and(|why| why.to_string().contains("C20")));
        assert!(ids(&[]).is_err_and(|why| why.to_string().contains("--core")));
        assert_eq!(ids(&["--core", "L1"]).ok(), Some(vec!["L1"]));
        assert!(parsed(&["--core", "--all"]).is_err());
        assert!(list().lines().count() == ROWS.len() + 1);
    }
}
