//! Runs many seeds of the fault simulator on several cores, says what broke, cuts it down, and reports what was reached.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use sluice_faults::{Case, Limits, Mode, Mutant, Options, Report, run, shrink};

/// Whole clusters in virtual time, under faults that a seed decides.
///
/// The brains are those of sluiced and sluice-switch, to the byte; the kernel, the network, the clocks and the jobs are models.
/// A seed decides the cluster, its limits, its jobs and its faults, and the same seed gives the same run for ever. Invariants are
/// checked at every step; see schedule/faults/src/checks.rs for their numbers.
///
/// When a seed fails, run it again alone, and let it be cut down:
///
///   fault_sim --mode safety --seeds 4711-4711 --shrink
///
/// That writes a file with the few faults that are needed. It shows the failure without the rest:
///
///   fault_sim --replay safety-4711.json
///
/// Once the cause is mended, move it to schedule/tests/regress/, where it is run with every test.
#[derive(Debug, Parser)]
#[command(verbatim_doc_comment)]
struct Args {
    /// Seeds: first and last, or how many from 0 on.
    #[arg(long, value_name = "A-B|N", default_value = "0-999", value_parser = seeds)]
    seeds: (u64, u64),
    /// What runs are to show.
    #[arg(long, value_enum, default_value = "safety")]
    mode: Which,
    /// Threads.
    #[arg(long, value_name = "N", default_value_t = 2)]
    jobs: usize,
    /// Make the time with faults so many times as long, with so many times the faults.
    #[arg(long, value_name = "N", default_value_t = 1)]
    stretch: u64,
    /// Cut down what fails (the first five seeds), and write it as MODE-SEED.json.
    #[arg(long)]
    shrink: bool,
    /// Fail if any of the situations that runs should come to came up less often in all of them.
    #[arg(long, value_name = "TIMES", default_value_t = 0)]
    least: u64,
    /// Write all figures as JSON.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Run this case instead of seeds.
    #[arg(long, value_name = "FILE", conflicts_with = "seeds")]
    replay: Option<PathBuf>,
    /// Plant each known defect in the brains, one after the other, and say how many seeds it takes to notice it.
    #[arg(long, conflicts_with_all = ["replay"])]
    mutants: bool,
    /// Measure instead how much faster than life eight hosts and three switches run on one core.
    #[arg(long, conflicts_with_all = ["seeds", "replay", "mutants"])]
    speed: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Which {
    /// Whatever happens, no invariant breaks, and in the end the cluster comes to rest.
    Safety,
    /// A core is healed while the rest stays broken, and it gets on.
    Liveness,
    /// One after the other.
    Both,
}

impl Which {
    fn modes(self) -> &'static [Mode] {
        match self {
            Which::Safety => &[Mode::Safety],
            Which::Liveness => &[Mode::Liveness],
            Which::Both => &[Mode::Safety, Mode::Liveness],
        }
    }
}

fn word(mode: Mode) -> &'static str {
    match mode {
        Mode::Safety => "safety",
        Mode::Liveness => "liveness",
    }
}

fn seeds(text: &str) -> Result<(u64, u64), String> {
    let number = |part: &str| part.parse::<u64>().map_err(|why| format!("{part:?} is no seed: {why}"));
    let Some((first, last)) = text.split_once('-') else {
        let count = number(text)?;
        return count.checked_sub(1).map(|last| (0, last)).ok_or_else(|| "no seeds at all".into());
    };
    let (first, last) = (number(first)?, number(last)?);
    if last < first {
        return Err(format!("{first}-{last} is empty; the first seed comes first"));
    }
    Ok((first, last))
}

/// A seed that failed.
struct Failure {
    seed: u64,
    mode: Mode,
    why: String,
}

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    if args.speed {
        return speed();
    }
    if let Some(path) = &args.replay {
        return replay(path);
    }
    if args.mutants {
        return mutants();
    }
    let begun = Instant::now();
    let (mut total, mut failures) = (Report::default(), Vec::new());
    for &mode in args.mode.modes() {
        run_all(&args, mode, &mut total, &mut failures)?;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let count = (args.seeds.1 - args.seeds.0 + 1) * args.mode.modes().len() as u64;
    let virtual_seconds = total.virtual_time.as_secs_f64();
    println!("{} rounds, {} announcements, {} tables compared", total.rounds, total.announcements, total.tables);
    for (kind, promised) in &total.promised {
        println!("promised, {kind}: {promised:?}");
    }
    let orders = (total.over_5, total.over_25, total.samples, total.worst);
    println!("orders and fill: {} over 5 %, {} over 25 % of {}, worst {:.2}", orders.0, orders.1, orders.2, orders.3);
    println!("least parts of max-min shares: {:?}", total.least_part);
    println!("cores: {}, with a round finished in twenty slots: {}", total.cores, total.cores_in_time);
    let seldom: Vec<_> = total.seen.all().filter(|(_, times)| *times < args.least.max(1)).collect();
    println!("situations: {} in all, seldom or never: {seldom:?}", total.seen.all().count());
    failures.sort_by_key(|failure| (failure.mode == Mode::Liveness, failure.seed));
    for failure in failures.iter().take(20) {
        println!("{} seed {}: {}", word(failure.mode), failure.seed, failure.why);
    }
    if let Some(failure) = failures.first() {
        let options = Options::from_seed(failure.seed, failure.mode, args.stretch);
        println!("{options:#?}");
        println!(
            "replay: fault_sim --mode {} --seeds {2}-{2} --stretch {1}",
            word(failure.mode),
            args.stretch,
            failure.seed
        );
    }
    if args.shrink {
        for failure in failures.iter().take(5) {
            cut_down(failure, args.stretch)?;
        }
    }
    if let Some(path) = &args.report {
        let situations: serde_json::Map<String, _> =
            total.seen.all().map(|(what, times)| (what.to_owned(), json!(times))).collect();
        let promised: serde_json::Map<String, _> = total
            .promised
            .iter()
            .map(|(kind, p)| {
                let facts = json!({"samples": p.samples, "over_5": p.over_5, "over_25": p.over_25, "longest": p.longest, "worst": p.worst});
                (kind.clone(), facts)
            })
            .collect();
        let failed: Vec<_> = failures
            .iter()
            .map(|failure| json!({"mode": word(failure.mode), "seed": failure.seed, "why": failure.why}))
            .collect();
        let report = json!({
            "runs": count, "seconds": seconds, "virtual_seconds": virtual_seconds, "hash": format!("{:016x}", total.hash),
            "failed": failed, "rounds": total.rounds, "announcements": total.announcements, "tables": total.tables,
            "promised": promised, "least_part": total.least_part, "cores": total.cores,
            "cores_in_time": total.cores_in_time, "situations": situations,
        });
        let text = serde_json::to_string_pretty(&report).context("the report")?;
        std::fs::write(path, text + "\n").with_context(|| format!("write {}", path.display()))?;
    }
    println!("{count} runs in {seconds:.0} s, {virtual_seconds:.0} s of virtual time, {} failed", failures.len());
    let reached = args.least == 0 || seldom.is_empty();
    Ok(if failures.is_empty() && reached { ExitCode::SUCCESS } else { ExitCode::from(3) })
}

fn run_all(args: &Args, mode: Mode, total: &mut Report, failures: &mut Vec<Failure>) -> Result<()> {
    let (first, last) = args.seeds;
    let bar = ProgressBar::new(last - first + 1);
    let style = "{msg} {wide_bar} {pos}/{len} seeds, {eta} left";
    bar.set_style(ProgressStyle::with_template(style).context("a progress bar")?);
    bar.set_message(word(mode));
    let next = AtomicU64::new(first);
    let results = Mutex::new((std::mem::take(total), std::mem::take(failures)));
    std::thread::scope(|scope| {
        for _ in 0..args.jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > last {
                        break;
                    }
                    let outcome = run(&Options::from_seed(seed, mode, args.stretch), None);
                    let mut results = results.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    results.0.add(&outcome.report);
                    if let Some(wrong) = outcome.violation {
                        results.1.push(Failure { seed, mode, why: wrong.to_string() });
                    }
                    drop(results);
                    bar.inc(1);
                }
            });
        }
    });
    bar.finish_and_clear();
    (*total, *failures) = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok(())
}

fn cut_down(failure: &Failure, stretch: u64) -> Result<()> {
    let options = Options::from_seed(failure.seed, failure.mode, stretch);
    let case = run(&options, None).case(options);
    let shrunk = shrink(&case, None, 2000);
    let path = PathBuf::from(format!("{}-{}.json", word(failure.mode), failure.seed));
    shrunk.case.write(&path)?;
    let why = shrunk.case.run(None).violation.map_or_else(|| "nothing".to_owned(), |wrong| wrong.to_string());
    println!(
        "{}: jobs, faults, messages {:?} became {:?} in {} runs",
        path.display(),
        case.size(),
        shrunk.case.size(),
        shrunk.runs
    );
    println!("  {why}");
    Ok(())
}

fn replay(path: &std::path::Path) -> Result<ExitCode> {
    let case = Case::read(path)?;
    println!("{:#?}", case.options());
    let outcome = case.run(None);
    match outcome.violation {
        Some(wrong) => {
            println!("{wrong}");
            Ok(ExitCode::from(3))
        }
        None => {
            println!("no invariant breaks; {:?}", outcome.report);
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// How many seeds it takes to notice each planted defect; both modes in turn.
fn mutants() -> Result<ExitCode> {
    const MOST: u64 = 400;
    let mut counts = Vec::new();
    let mut missed = 0;
    for mutant in Mutant::ALL {
        let runs = (0..MOST).map(|n| (n / 2, if n % 2 == 0 { Mode::Safety } else { Mode::Liveness }));
        let found = runs.enumerate().find_map(|(n, (seed, mode))| {
            let options = Options::from_seed(seed, mode, 1);
            let wrong = run(&options, Some(mutant)).violation?;
            // It is the defect that is noticed, and nothing else.
            run(&options, None).violation.is_none().then_some((n + 1, seed, mode, wrong))
        });
        match found {
            Some((n, seed, mode, wrong)) if mutant.breaks().contains(&wrong.invariant) => {
                println!("{mutant:?}: noticed in run {n} ({} seed {seed}): {wrong}", word(mode));
                counts.push(n);
            }
            Some((n, seed, mode, wrong)) => {
                let breaks = mutant.breaks();
                println!("{mutant:?}: run {n} ({} seed {seed}) ended, but not by {breaks:?}: {wrong}", word(mode));
                missed += 1;
            }
            None => {
                println!("{mutant:?}: not noticed in {MOST} runs");
                missed += 1;
            }
        }
    }
    counts.sort_unstable();
    let median = counts.get(counts.len() / 2).copied().unwrap_or(0);
    println!("{} of {} noticed, after {median} runs in the median", counts.len(), Mutant::ALL.len());
    Ok(if missed == 0 { ExitCode::SUCCESS } else { ExitCode::from(3) })
}

/// Eight hosts, three switches, four jobs, all kinds of faults but none that stops a run early.
fn speed() -> Result<ExitCode> {
    let (mut passed, mut virtual_seconds, mut runs) = (0.0, 0.0, 0);
    for seed in 0..20 {
        let mut options = Options::from_seed(seed, Mode::Safety, 4);
        (options.hosts, options.leaves, options.limits, options.slot_ms) = (8, 3, Limits::WIDE, 60);
        let begun = Instant::now();
        let outcome = run(&options, None);
        passed += begun.elapsed().as_secs_f64();
        virtual_seconds += outcome.report.virtual_time.as_secs_f64();
        runs += 1;
    }
    if runs == 0 {
        bail!("nothing was run");
    }
    println!(
        "{virtual_seconds:.0} s of virtual time in {passed:.2} s: {:.0} times as fast as life",
        virtual_seconds / passed
    );
    Ok(ExitCode::SUCCESS)
}
