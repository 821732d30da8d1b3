//! `sluice sim sweep`: a grid of runs over all cores, one table; interrupted, it goes on where it was.

use std::fs;
use std::num::NonZeroUsize;
use std::process::ExitCode;

use serde_json::{Map, Value, json};
use sluice_scenario::{Policy, Set};
use sluice_simulate::runs::{self, Observer, Ran, Running, RunsError, Task};
use sluice_simulate::sweep::{self, Cell, Figures};

use super::args::SimSweepArgs;
use super::bar::Bar;
use super::{failed, load};
use crate::failure::Failure;
use crate::global::{Format, Global};
use crate::interrupt::{self, INTERRUPTED};
use crate::output;
use crate::plan::files;
use crate::table::Table;

pub fn run(global: &Global, args: &SimSweepArgs) -> Result<ExitCode, Failure> {
    let points = args.sets.iter().fold(usize::from(args.seeds), |n, axis| n.saturating_mul(axis.values.len()));
    if points > sweep::MAX_RUNS {
        return Err(Failure::input(format!("the grid has {points} points, at most {}: fewer values", sweep::MAX_RUNS)));
    }
    let cells = cells(args)?;
    let all: Vec<(&Cell, Policy)> = cells
        .iter()
        .flat_map(|cell| {
            let own = &cell.scenario.schedulers.policies;
            let policies = if args.policies.is_empty() { own } else { &args.policies };
            policies.iter().map(move |policy| (cell, policy.clone()))
        })
        .collect();
    runs::check(&all.iter().map(as_task).collect::<Vec<_>>()).map_err(|error| failed(&error))?;
    fs::create_dir_all(&args.out)
        .map_err(|error| Failure::failed(format!("{} cannot be made: {error}", args.out.display())))?;
    if !args.merge.is_empty() {
        gather(args, &all)?;
    }
    let mut figures: Vec<Option<Figures>> =
        all.iter().map(|(cell, policy)| sweep::finished(&args.out, cell, policy)).collect();
    let ours = |at: usize| args.shard.is_none_or(|shard| shard.takes(at));
    let missing: Vec<usize> =
        (0..all.len()).filter(|&at| ours(at) && figures.get(at).is_some_and(Option::is_none)).collect();
    let share = (0..all.len()).filter(|&at| ours(at)).count();
    let kept = share - missing.len();
    if kept > 0 && !global.quiet && args.merge.is_empty() {
        eprintln!("{kept} of {share} runs are there already");
    }
    let tasks: Vec<Task<'_>> = missing.iter().filter_map(|&at| all.get(at)).map(as_task).collect();
    let cores = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let bar = Bar::new(&tasks, !global.quiet);
    let stop = interrupt::flag();
    let mut keeper = Keeper {
        all: &all,
        missing: &missing,
        figures: &mut figures,
        dir: &args.out,
        errors: Vec::new(),
        lost: None,
        bar,
    };
    runs::all(&tasks, args.threads.unwrap_or(cores), stop, &mut keeper);
    let Keeper { errors, lost, bar, .. } = keeper;
    drop(bar);
    if let Some(lost) = lost {
        return Err(lost);
    }
    let (all, figures): (Vec<_>, Vec<_>) =
        all.into_iter().zip(figures).enumerate().filter(|(at, _)| ours(*at)).map(|(_, run)| run).unzip();
    if errors.is_empty() && figures.iter().any(Option::is_none) {
        let done = figures.iter().flatten().count();
        eprintln!("interrupted; {done} of {} runs are in {}: the same command goes on", all.len(), args.out.display());
        return Ok(ExitCode::from(INTERRUPTED));
    }
    let rows: Vec<Value> = all.iter().zip(&figures).filter_map(|(run, f)| Some(row(run, f.as_ref()?))).collect();
    let keys: Vec<String> = rows.first().and_then(Value::as_object).into_iter().flat_map(Map::keys).cloned().collect();
    if args.shard.is_none() {
        files::write(&args.out.join("table.csv"), &output::csv(&rows, &keys))?;
    }
    match global.format() {
        Format::Table => output::print(&table(&all, &figures).render(output::width()))?,
        _ => output::list(global, "runs", &rows, String::new)?,
    }
    match errors.first() {
        None => Ok(ExitCode::SUCCESS),
        Some(first) => Err(Failure::with(
            first.exit_status(),
            format!("{} of {} runs failed; the first: {first}", errors.len(), all.len()),
        )),
    }
}

/// Takes the runs that shares left elsewhere; all have to be there.
fn gather(args: &SimSweepArgs, all: &[(&Cell, Policy)]) -> Result<(), Failure> {
    let mut absent = Vec::new();
    for (at, (cell, policy)) in all.iter().enumerate() {
        if sweep::finished(&args.out, cell, policy).is_some() {
            continue;
        }
        match args.merge.iter().find(|dir| sweep::finished(dir, cell, policy).is_some()) {
            Some(dir) => sweep::take(dir, &args.out, cell, policy).map_err(|error| {
                Failure::failed(format!(
                    "a run of {} cannot be taken to {}: {error}",
                    dir.display(),
                    args.out.display()
                ))
            })?,
            None => absent.push(at + 1),
        }
    }
    if absent.is_empty() {
        return Ok(());
    }
    let first: Vec<String> = absent.iter().take(10).map(ToString::to_string).collect();
    let more = if absent.len() > 10 { ", …" } else { "" };
    Err(Failure::no(format!(
        "{} of {} runs are in none of the directories: numbers {}{more}\n  help: with --shard I/N, number k is of the share (k - 1) mod N + 1; run that share again, with the same words otherwise",
        absent.len(),
        all.len(),
        first.join(", ")
    )))
}

fn as_task<'a>(run: &(&'a Cell, Policy)) -> Task<'a> {
    Task { scenario: &run.0.scenario, policy: run.1.clone(), profile: false }
}

/// Every point of the grid, read and checked.
fn cells(args: &SimSweepArgs) -> Result<Vec<Cell>, Failure> {
    let mut cells = Vec::new();
    for sets in sweep::grid(&args.sets) {
        let scenario = load(&args.scenario, &sets)?;
        let first = scenario.seed;
        cells.push(Cell { sets: sets.clone(), scenario });
        for more in 1..u64::from(args.seeds) {
            let seed = Set { key: "seed".into(), value: first.wrapping_add(more).to_string() };
            let with: Vec<Set> = sets.iter().cloned().chain([seed]).collect();
            cells.push(Cell { sets: sets.clone(), scenario: load(&args.scenario, &with)? });
        }
    }
    Ok(cells)
}

struct Keeper<'a> {
    all: &'a [(&'a Cell, Policy)],
    missing: &'a [usize],
    figures: &'a mut Vec<Option<Figures>>,
    dir: &'a std::path::Path,
    errors: Vec<RunsError>,
    lost: Option<Failure>,
    bar: Bar,
}

impl Observer for Keeper<'_> {
    fn look(&mut self, running: &[Running]) {
        self.bar.look(running);
    }

    fn over(&mut self, task: usize, ran: Result<Ran, RunsError>) -> bool {
        self.bar.over(task);
        let Some((at, (cell, policy))) = self.missing.get(task).and_then(|&at| Some((at, self.all.get(at)?))) else {
            return true;
        };
        match ran {
            Ok(ran) => match sweep::keep(self.dir, cell, policy, &ran.result) {
                Ok(kept) => {
                    if let Some(slot) = self.figures.get_mut(at) {
                        *slot = Some(kept);
                    }
                }
                Err(error) => {
                    self.lost = Some(Failure::failed(format!("{} cannot be written: {error}", self.dir.display())));
                    return false;
                }
            },
            Err(error) if error.is_cancelled() => return false,
            // The others may well end.
            Err(error) => self.errors.push(error),
        }
        true
    }
}

fn row((cell, policy): &(&Cell, Policy), f: &Figures) -> Value {
    let mut fields: Map<String, Value> = cell.sets.iter().map(|s| (s.key.clone(), json!(s.value))).collect();
    let rest = json!({
        "seed": cell.scenario.seed, "policy": policy.to_string(), "jct_mean_s": f.jct_mean_s, "jct_p50_s": f.jct_p50_s,
        "jct_p99_s": f.jct_p99_s, "jct_max_s": f.jct_max_s, "unfinished": f.unfinished.len(),
    });
    fields.extend(rest.as_object().cloned().into_iter().flatten());
    fields.into()
}

/// A line per run; each against the first scheduler of its cell.
fn table(all: &[(&Cell, Policy)], figures: &[Option<Figures>]) -> Table {
    let keys = all.first().map(|(cell, _)| cell.sets.iter().map(|s| s.key.as_str())).into_iter().flatten();
    let heads = ["seed", "scheduler", ">mean JCT", ">median", ">p99", ">max", ">against", "first"];
    let mut table = Table::new(keys.chain(heads));
    for ((cell, policy), f) in all.iter().zip(figures) {
        let first = all.iter().zip(figures).find(|((c, _), _)| std::ptr::eq(*c, *cell));
        let mut cells: Vec<String> = cell.sets.iter().map(|s| s.value.clone()).collect();
        cells.extend([cell.scenario.seed.to_string(), policy.to_string()]);
        let Some(f) = f else {
            cells.push("failed".into());
            table.row(cells);
            continue;
        };
        cells.extend([f.jct_mean_s, f.jct_p50_s, f.jct_p99_s, f.jct_max_s].map(|s| format!("{s:.3} s")));
        if let Some(((_, other), Some(base))) = first
            && other != policy
            && base.unfinished == f.unfinished
        {
            cells.extend([format!("{:+.1} %", (f.jct_mean_s / base.jct_mean_s - 1.0) * 100.0), other.to_string()]);
        }
        table.row(cells);
    }
    table
}
