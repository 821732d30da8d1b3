//! `sluice sim run`: every scheduler once on the same jobs; files, a table or a document, a page.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use sluice_report::simulated::{SimResult, document, profile, table};
use sluice_report::{self as report, About, PolicyRun};
use sluice_scenario::{Scenario, Set};
use sluice_simulate::runs::{self, Observer, Ran, Running, RunsError, Task};
use sluice_simulate::{page, trace};

use super::args::SimRunArgs;
use super::bar::Bar;
use super::{failed, load, tasks};
use crate::failure::Failure;
use crate::global::{Format, Global};
use crate::interrupt::{self, INTERRUPTED};
use crate::output;
use crate::plan::files;

pub fn run(global: &Global, args: &SimRunArgs) -> Result<ExitCode, Failure> {
    let seed = args.seed.map(|seed| Set { key: "seed".into(), value: seed.to_string() });
    let sets: Vec<Set> = args.sets.iter().cloned().chain(seed).collect();
    let scenario = load(&args.scenario, &sets)?;
    let tasks = tasks(&scenario, &args.policies, args.profile)?;
    let stop = interrupt::flag();
    let mut gathered = Gathered {
        scenario: &scenario,
        runs: tasks.iter().map(|_| None).collect(),
        error: None,
        pages: args.report.is_some(),
        bar: Bar::new(&tasks, !global.quiet),
    };
    runs::all(&tasks, args.threads, stop, &mut gathered);
    let Gathered { runs, error, bar, .. } = gathered;
    drop(bar);
    match error {
        Some(error) if error.is_cancelled() => {
            eprintln!("interrupted: {error}; nothing was written");
            return Ok(ExitCode::from(INTERRUPTED));
        }
        Some(error) => return Err(failed(&error)),
        // A signal before the first task began.
        None if runs.iter().any(Option::is_none) => {
            eprintln!("interrupted; nothing was written");
            return Ok(ExitCode::from(INTERRUPTED));
        }
        None => {}
    }
    let (results, pages): (Vec<SimResult>, Vec<Extra>) = runs.into_iter().flatten().unzip();
    match args.out.clone().or_else(|| scenario.output.dir.as_ref().map(PathBuf::from)) {
        Some(out) => {
            write(&scenario, &tasks, &results, &pages, &out)?;
            if !global.quiet {
                eprintln!("results are in {}", out.display());
            }
        }
        None if scenario.output.csv || scenario.output.timeline && args.report.is_none() => {
            eprintln!(
                "output.csv and output.timeline have nowhere to go: give --out DIR, or output.dir in the scenario"
            );
        }
        None => {}
    }
    if let Some(path) = &args.report {
        let command: Vec<String> = std::env::args().collect();
        let about = About::gather(&scenario, &command.join(" "));
        let pages: Vec<PolicyRun> = pages.into_iter().filter_map(|e| e.page).collect();
        files::write(path, &report::simulated(&about, &scenario, &results, &pages))?;
        eprintln!("wrote {}", path.display());
    }
    if args.profile {
        eprint!("{}", profile::table(&results));
    }
    match global.format() {
        Format::Table => output::print(&table::table(&scenario, &results))?,
        Format::Json => output::print(&format!("{:#}\n", document(&scenario, &results)))?,
        Format::Jsonl => output::print(&format!("{}\n", document(&scenario, &results)))?,
        Format::Csv => output::list(global, "runs", &table::rows(&results), String::new)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What is kept of a run beside its figures.
struct Extra {
    /// For Perfetto, where the scenario wants an event log.
    trace: Option<String>,
    page: Option<PolicyRun>,
}

struct Gathered<'a> {
    scenario: &'a Scenario,
    runs: Vec<Option<(SimResult, Extra)>>,
    error: Option<RunsError>,
    pages: bool,
    bar: Bar,
}

impl Observer for Gathered<'_> {
    fn look(&mut self, running: &[Running]) {
        self.bar.look(running);
    }

    fn over(&mut self, task: usize, ran: Result<Ran, RunsError>) -> bool {
        self.bar.over(task);
        let Ran { result, outcome } = match ran {
            Ok(ran) => ran,
            Err(error) => {
                // What was stopped because of another failure says nothing.
                if self.error.as_ref().is_none_or(|first| first.is_cancelled() && !error.is_cancelled()) {
                    self.error = Some(error);
                }
                return false;
            }
        };
        let trace = self.scenario.output.timeline.then(|| {
            let mut text = Vec::new();
            // Writing into memory cannot fail.
            let _ = trace::perfetto(self.scenario, &outcome, &mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        let page = self.pages.then(|| page::charted(&result, &outcome));
        if let Some(slot) = self.runs.get_mut(task) {
            *slot = Some((result, Extra { trace, page }));
        }
        true
    }
}

fn write(
    scenario: &Scenario,
    tasks: &[Task<'_>],
    results: &[SimResult],
    extras: &[Extra],
    out: &Path,
) -> Result<(), Failure> {
    fs::create_dir_all(out)
        .map_err(|error| Failure::failed(format!("{} cannot be made: {error}; give --out DIR", out.display())))?;
    for ((task, result), extra) in tasks.iter().zip(results).zip(extras) {
        let file = out.join(SimResult::file_name(scenario, &task.policy));
        files::write(&file, &format!("{:#}\n", result.file(scenario)))?;
        if scenario.output.csv {
            files::write(&file.with_extension("csv"), &result.csv())?;
        }
        if let Some(trace) = &extra.trace {
            files::write(&file.with_extension("trace.json"), trace)?;
        }
    }
    Ok(())
}
