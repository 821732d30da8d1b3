//! The scoreboard: cases under policies by turns, over as many invocations as it takes. Each run is a file, so that a
//! second call with the same directory does only what is missing; tables and the picture are of whatever is there.

mod busy;
mod cases;
mod order;
mod store;
mod turns;

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde::Serialize;
use sluice_formats::problem::Problems;
use sluice_report::About;
use sluice_report::scoreboard::words::sentences;
use sluice_report::scoreboard::{Board, Bound, Load, Record, Source, markdown, svg, tsv};
use sluice_scenario::{Scenario, Tables};
use sluice_schedule::units::fnv1a64;
use thiserror::Error;

pub use busy::Busy;
use cases::Case;
use store::Store;
use turns::{Key, Spent, left, turns};

use super::Bench;
use crate::run::convert::ScenarioQueue;
use crate::run::{Policy, RunError, RunPlan};

/// After so many failures in a row the rest would hardly go better.
const FAILURES: usize = 3;

/// Options of `sluice-experiment scoreboard`.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Cases by name (--list shows them), or scenario files of your own; default: all.
    #[arg(long, value_delimiter = ',')]
    pub cases: Vec<String>,
    /// Policies, which take turns; who begins changes from turn to turn.
    #[arg(long, value_delimiter = ',', default_value = "fair:cubic,fair:reno,fair:bbr,fair:mltcp,sluice,sluice:fair")]
    pub policies: Vec<Policy>,
    /// How many turns: runs of one turn are a pair.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub pairs: u16,
    /// quiet, busy (a loop that keeps one core busy runs beside) or both; default: what each case wants.
    #[arg(long, value_delimiter = ',')]
    pub load: Vec<Load>,
    /// Where runs, tables and the picture go. What is there already is not run again.
    #[arg(long, default_value = "target/scoreboard", value_name = "DIR")]
    pub out: PathBuf,
    /// Where the scenarios of the cases are.
    #[arg(long, default_value = "testbed/scenarios", value_name = "DIR")]
    pub scenarios: PathBuf,
    /// Run nothing: only write tables and picture of what is there.
    #[arg(long)]
    pub tables: bool,
    /// Run nothing: only name the cases.
    #[arg(long)]
    pub list: bool,
}

/// What a call did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Outcome {
    /// Cases, where only their names were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cases: Vec<String>,
    /// Runs that this call made.
    pub made: usize,
    /// Runs that were there before.
    pub there: usize,
    /// What was written of them all.
    pub files: Vec<PathBuf>,
}

/// Why a call ended without all that it was to do.
#[derive(Debug, Error)]
pub enum ScoreboardError {
    /// Something failed that a later call would meet again.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A case's scenario cannot be read or run.
    #[error(transparent)]
    Scenario(#[from] Problems),
    /// No such case.
    #[error("{seen:?} is neither a case nor a scenario file that ends in .toml or .json; cases are {allowed}")]
    Case {
        /// What was asked for.
        seen: String,
        /// All names.
        allowed: String,
    },
    /// The directory has runs of another scenario under this case's name.
    #[error("{} is of another scenario than {file} is now; give another --out, or remove it", path.display())]
    Other {
        /// The file of the run.
        path: PathBuf,
        /// The case's scenario.
        file: String,
    },
    /// Somebody asked to stop.
    #[error("interrupted with {left} runs to go; the same command goes on")]
    Interrupted {
        /// How many are missing.
        left: usize,
    },
    /// Some runs failed.
    #[error("{} runs failed, which the same command tries again: {}", what.len(), what.join("; "))]
    Failed {
        /// Which, and why.
        what: Vec<String>,
    },
}

/// A case as it runs here.
struct Ready {
    case: Case,
    scenario: Scenario,
    source: Source,
    plan: RunPlan,
}

impl Ready {
    fn of(case: Case) -> Result<Ready, ScoreboardError> {
        let text = std::fs::read(&case.file).map_err(RunError::io(format!("reading {}", case.file.display())))?;
        let scenario = Scenario::load_with(&case.file, &case.sets)?.for_testbed(&[])?;
        let file = case.file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let sets = case.sets.iter().map(|set| format!("{}={}", set.key, set.value)).collect();
        let source = Source { file, sets, digest: format!("{:016x}", fnv1a64(&text)) };
        let plan = RunPlan::of(&scenario)?;
        Ok(Ready { case, scenario, source, plan })
    }

    fn unmanaged(&self) -> bool {
        !self.plan.cross.is_empty()
    }

    /// The policy as this case runs it: where hosts keep the tables, they do under every variant.
    fn policy(&self, asked: &Policy) -> Policy {
        let nic = self.scenario.schedulers.options.sluice.tables == Tables::Nic;
        match asked {
            Policy::Sluice { policy, .. } if nic => Policy::Sluice { policy: policy.clone(), nic },
            other => other.clone(),
        }
    }
}

/// Runs what is missing, then writes tables and picture of all that is there.
///
/// # Errors
/// A case that cannot run at all before the first run; a run that failed or an interruption after the tables.
pub fn scoreboard(bench: &Bench<'_>, settings: &Settings) -> Result<Outcome, ScoreboardError> {
    if settings.list {
        return Ok(Outcome { cases: cases::names(), ..Outcome::default() });
    }
    let chosen = cases::chosen(&settings.cases, &settings.scenarios)?;
    let ready = chosen.into_iter().map(Ready::of).collect::<Result<Vec<_>, _>>()?;
    let store = Store::open(&settings.out)?;
    let mut outcome = Outcome::default();
    let ran = if settings.tables { Ok(()) } else { run_missing(bench, settings, &store, &ready, &mut outcome) };
    if let Err(ScoreboardError::Other { .. }) = &ran {
        ran?;
        return Ok(outcome);
    }
    outcome.files = write(&store, &ready)?;
    ran.map(|()| outcome)
}

fn run_missing(
    bench: &Bench<'_>,
    settings: &Settings,
    store: &Store,
    ready: &[Ready],
    outcome: &mut Outcome,
) -> Result<(), ScoreboardError> {
    let policies: Vec<String> = settings.policies.iter().map(Policy::to_string).collect();
    let loads: Vec<Vec<Load>> = ready.iter().map(|r| r.case.loads(&settings.load)).collect();
    let cases: Vec<(&str, &[Load])> = ready.iter().zip(&loads).map(|(r, l)| (r.case.name.as_str(), &l[..])).collect();
    let wanted = turns(&cases, &policies, usize::from(settings.pairs));
    let (mut missing, mut spent): (Vec<Key>, Vec<Spent>) = (Vec::new(), Vec::new());
    for key in wanted {
        let case = ready.iter().find(|r| r.case.name == key.case);
        match store.record(&key) {
            Some(record) if case.is_none_or(|r| r.source == record.scenario) => spent.push(Spent::of(&record)),
            Some(record) => return Err(ScoreboardError::Other { path: store.path(&key), file: record.scenario.file }),
            None => missing.push(key),
        }
    }
    outcome.there = spent.len();
    let all = spent.len() + missing.len();
    let build = if missing.is_empty() { String::new() } else { build(bench, &settings.policies)? };
    let (mut failed, mut in_a_row): (Vec<String>, usize) = (Vec::new(), 0);
    for (at, key) in missing.iter().enumerate() {
        let time = left(&spent, &missing[at..]).map_or_else(String::new, |time| format!(", {} left", minutes(time)));
        eprintln!("[{} of {all}] {key}{time}", outcome.there + at + 1);
        let of = |case: &&Ready| case.case.name == key.case;
        let asked = settings.policies.iter().find(|policy| policy.to_string() == key.policy);
        let (Some(case), Some(asked)) = (ready.iter().find(of), asked) else { continue };
        match once(bench, case, key, asked, &build) {
            Ok(record) => {
                store.save(&store.path(key), &record)?;
                eprintln!("  mean JCT {:.2} s, in {:.0} s", record.run.jct_mean_s, record.seconds);
                spent.push(Spent::of(&record));
                (outcome.made, in_a_row) = (outcome.made + 1, 0);
            }
            // A terminal's Ctrl-C ends the members of jobs too, which may be told first.
            Err(_) if bench.stop.load(Ordering::Relaxed) => {
                return Err(ScoreboardError::Interrupted { left: missing.len() - at });
            }
            Err(why) => {
                eprintln!("  failed: {why}");
                failed.push(format!("{key}: {why}"));
                in_a_row += 1;
                if in_a_row == FAILURES {
                    break;
                }
            }
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(ScoreboardError::Failed { what: failed }) }
}

fn once(bench: &Bench<'_>, case: &Ready, key: &Key, asked: &Policy, build: &str) -> Result<Record, RunError> {
    let began = Instant::now();
    // Anew for each run, so that none has an older one beside it.
    let busy = (key.load == Load::Busy).then(Busy::start).transpose()?;
    let policy = case.policy(asked);
    let name = key.file_stem();
    let run = bench.run(&case.plan, &mut ScenarioQueue::new(&case.scenario), &policy, &name)?;
    drop(busy);
    // Files for looking into; the figures are in the record.
    drop(std::fs::remove_dir_all(bench.dir.join(&name)));
    let about = About::gather(&case.scenario, "");
    Ok(Record {
        case: key.case.clone(),
        load: key.load,
        policy: key.policy.clone(),
        turn: key.turn,
        scenario: case.source.clone(),
        build: build.to_owned(),
        machine: about.machine,
        date: about.date,
        seconds: began.elapsed().as_secs_f64(),
        unmanaged: case.unmanaged(),
        run,
    })
}

/// What the programs are, in few digits: runs of different ones are no pairs.
fn build(bench: &Bench<'_>, policies: &[Policy]) -> Result<String, RunError> {
    let mut programs = vec![bench.binaries.job.clone()];
    if policies.iter().any(|policy| matches!(policy, Policy::Sluice { .. })) {
        programs.extend([bench.binaries.daemon()?, bench.binaries.switch()?]);
    }
    let mut digests = String::new();
    for program in programs {
        let bytes = std::fs::read(&program).map_err(RunError::io(format!("reading {}", program.display())))?;
        digests.push_str(&format!("{:016x}", fnv1a64(&bytes)));
    }
    Ok(format!("{:016x}", fnv1a64(digests.as_bytes())))
}

/// Tables and picture of everything in the directory.
fn write(store: &Store, ready: &[Ready]) -> Result<Vec<PathBuf>, ScoreboardError> {
    let mut records = store.records()?;
    let place = |record: &Record| ready.iter().position(|r| r.case.name == record.case).unwrap_or(ready.len());
    records.sort_by(|a, b| {
        let key = |r: &Record| (place(r), r.case.clone(), r.load, r.turn, r.policy.clone());
        key(a).cmp(&key(b))
    });
    let named = |case: &str| ready.iter().any(|r| r.case.name == case);
    let mut others: Vec<&str> = records.iter().map(|r| r.case.as_str()).filter(|case| !named(case)).collect();
    others.dedup();
    let mut bounds: Vec<Bound> = others.into_iter().filter_map(|case| store.bound(case)).collect();
    for case in ready.iter().filter(|r| !r.unmanaged() && records.iter().any(|record| record.case == r.case.name)) {
        match store.bound(&case.case.name).filter(|bound| bound.scenario == case.source) {
            Some(bound) => bounds.push(bound),
            None => match order::bound(&case.case, &case.source) {
                Ok(bound) => {
                    store.save(&store.bound_path(&case.case.name), &bound)?;
                    bounds.push(bound);
                }
                Err(why) => eprintln!("{}: no order of the simulator: {why}", case.case.name),
            },
        }
    }
    let board = Board::of(&records, &bounds);
    board.rows.iter().flat_map(sentences).for_each(|said| eprintln!("{said}"));
    let texts = [("scoreboard.md", markdown(&board)), ("scoreboard.tsv", tsv(&board)), ("scoreboard.svg", svg(&board))];
    texts.into_iter().map(|(name, text)| Ok(store.put(name, text.as_bytes())?)).collect()
}

fn minutes(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..=99 => format!("{seconds} s"),
        100..=5_999 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_left_are_read_at_a_glance() {
        let said = [0, 99, 100, 5_999, 6_000, 90_000].map(|s| minutes(Duration::from_secs(s)));
        assert_eq!(said, ["0 s", "99 s", "2 min", "100 min", "1 h 40 min", "25 h 00 min"]);
    }
}
