//! The scenarios S1 to S4 of the fluid study that came before the product, made anew from a seed: written as files, or run
//! and printed as ratios to ideal equal sharing.
//!
//! ```text
//! cargo run --release -p sluice-simulate --example study -- s1 --gbps 25 --seeds 201-206
//! cargo run --release -p sluice-simulate --example study -- s4 --jobs 2 --set scheduler.sluice.fair_floor=0
//! cargo run --release -p sluice-simulate --example study -- s1 --seeds 201 --write some-directory
//! ```
//!
//! S1 to S3: mean JCT of each policy over that of `fair`, per seed; then over all seeds the mean ratio, the ratio of the
//! p99s, the part of the jobs that are more than 5 % slower than under `fair`, and the worst of them.
//! S4: mean normalised speed (period alone / mean period) of the jobs, and of the slowest job of each mix.

mod make;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail};
use clap::Parser;
use sluice_scenario::{Axis, Notation, Policy, Scenario, Set};
use sluice_simulate::runs::{Observer, Ran, Running, RunsError, Task, all};

use make::Which;

/// Makes the scenarios of the fluid study and runs them.
#[derive(Parser)]
struct Args {
    /// s1: one switch, 6 hosts; s2: 12 hosts; s3: leaf and spine, 128 hosts; s4: two or three rings for ever on one link.
    which: Which,
    /// NIC rate of s1 and s2: 10, 25, 40 or 50 in the study.
    #[arg(long, default_value_t = 25)]
    gbps: u64,
    /// A seed, or the first and the last: 201-206. s4 with two jobs has all 125 mixes and no seed.
    #[arg(long, default_value = "201")]
    seeds: String,
    /// Jobs of s1 to s3 (60, 60, 100 in the study); rings of s4, 2 or 3.
    #[arg(long)]
    jobs: Option<usize>,
    /// Schedulers beside `fair`.
    #[arg(long, default_value = "sluice")]
    policy: Vec<Policy>,
    /// Any key of the scenario, as in `sluice sim sweep`.
    #[arg(long)]
    set: Vec<Axis>,
    /// Write the scenarios into this directory and run nothing.
    #[arg(long)]
    write: Option<PathBuf>,
    /// Runs at the same time.
    #[arg(long, default_value = "1")]
    threads: NonZeroUsize,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let texts = make::texts(args.which, args.gbps, seeds(&args.seeds)?, args.jobs)?;
    if let Some(dir) = &args.write {
        std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
        for (name, text) in &texts {
            let path = dir.join(format!("{name}.toml"));
            std::fs::write(&path, text).with_context(|| path.display().to_string())?;
        }
        println!("{} scenarios in {}", texts.len(), dir.display());
        return Ok(());
    }
    let set = |axis: &Axis| Set { key: axis.key.clone(), value: axis.values.join(",") };
    let sets: Vec<Set> = args.set.iter().map(set).collect();
    let read =
        |(name, text): &(String, String)| Scenario::parse_with(text, Notation::Toml, name, Path::new("."), &sets);
    let scenarios: Vec<Scenario> = texts.iter().map(read).collect::<Result<_, _>>()?;
    let fair: Policy = "fair".parse().map_err(anyhow::Error::msg)?;
    let policies: Vec<Policy> = std::iter::once(fair).chain(args.policy).collect();
    let of = |scenario| policies.iter().map(move |policy| Task { scenario, policy: policy.clone(), profile: false });
    let tasks: Vec<Task<'_>> = scenarios.iter().flat_map(of).collect();
    let mut kept = Kept { ran: tasks.iter().map(|_| None).collect(), error: None };
    all(&tasks, args.threads, &AtomicBool::new(false), &mut kept);
    if let Some(error) = kept.error {
        bail!(error);
    }
    let ran: Vec<Ran> = kept.ran.into_iter().flatten().collect();
    for (p, policy) in policies.iter().enumerate() {
        let runs: Vec<(&Ran, &Ran)> =
            ran.chunks(policies.len()).filter_map(|c| Some((c.first()?, c.get(p)?))).collect();
        match args.which {
            Which::S4 => speeds(policy, &runs),
            _ if p > 0 => ratios(policy, &runs),
            _ => {}
        }
    }
    Ok(())
}

fn seeds(text: &str) -> Result<std::ops::RangeInclusive<u64>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Ok(first.parse().context("seeds: 201 or 201-206")?..=last.parse().context("seeds: 201 or 201-206")?)
}

/// Keeps what the tasks gave.
struct Kept {
    ran: Vec<Option<Ran>>,
    error: Option<RunsError>,
}

impl Observer for Kept {
    fn look(&mut self, _: &[Running]) {}
    fn over(&mut self, task: usize, ran: Result<Ran, RunsError>) -> bool {
        match ran {
            Ok(ran) => self.ran[task] = Some(ran),
            Err(error) => self.error = Some(error),
        }
        self.error.is_none()
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Ratios to `fair`, seed by seed.
fn ratios(policy: &Policy, runs: &[(&Ran, &Ran)]) {
    let of = |ran: &Ran| ran.result.result.figures.jct_mean_s;
    let each: Vec<f64> = runs.iter().map(|(fair, ran)| of(ran) / of(fair)).collect();
    let tail: Vec<f64> =
        runs.iter().map(|(fair, ran)| ran.result.result.figures.jct.p99 / fair.result.result.figures.jct.p99).collect();
    let job = |(fair, ran): &(&Ran, &Ran)| -> Vec<f64> {
        let pairs = fair.result.result.figures.jobs.iter().zip(&ran.result.result.figures.jobs);
        pairs.map(|(was, is)| is.figures.jct_s / was.figures.jct_s).collect()
    };
    let jobs: Vec<f64> = runs.iter().flat_map(job).collect();
    let slower = jobs.iter().filter(|r| **r > 1.05).count() as f64 / jobs.len().max(1) as f64;
    let list: Vec<String> = each.iter().map(|r| format!("{r:.3}")).collect();
    println!(
        "{policy:20} {:.3}  p99 {:.3}  slower {:.1} %  worst {:.2}  ({})",
        mean(&each),
        mean(&tail),
        slower * 100.0,
        jobs.iter().fold(0.0, |a: f64, b| a.max(*b)),
        list.join(" ")
    );
}

/// Normalised speeds, mix by mix.
fn speeds(policy: &Policy, runs: &[(&Ran, &Ran)]) {
    let of = |(_, ran): &(&Ran, &Ran)| -> Vec<f64> {
        let jobs = ran.outcome.jobs.iter().filter(|job| job.flows > 0);
        jobs.map(|job| {
            let (Some(first), Some(last)) = (job.rounds.first(), job.rounds.last()) else { return 0.0 };
            let compute = first.began.minus(first.compute).as_secs_f64();
            let alone = compute + job.isolated_round.as_secs_f64();
            alone * job.rounds.len() as f64 / last.ended.minus(first.compute).as_secs_f64()
        })
        .collect()
    };
    let mixes: Vec<Vec<f64>> = runs.iter().map(of).collect();
    let means: Vec<f64> = mixes.iter().map(|mix| mean(mix)).collect();
    let slowest: Vec<f64> = mixes.iter().map(|mix| mix.iter().fold(f64::MAX, |a, b| a.min(*b))).collect();
    println!(
        "{:20} {:.3}  slowest job {:.3}, worst {:.3}  ({} mixes)",
        policy.to_string(),
        mean(&means),
        mean(&slowest),
        slowest.iter().fold(f64::MAX, |a, b| a.min(*b)),
        mixes.len()
    );
}
