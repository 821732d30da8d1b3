//! Runs a scenario in the simulator under several policies and seeds and prints one line for each policy: what
//! `sluice sim run` shows of one seed, as means over all of them, without the rest of the command.
//!
//! ```text
//! cargo run --release -p sluice-simulate --example sluice_sim -- FILE fair sluice varys --seeds 1-4 --set time.mode=event
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Parser;
use sluice_report::simulated::Figures;
use sluice_scenario::{Axis, Policy, Scenario, Set};
use sluice_simulate::Watch;
use sluice_simulate::runs::{Task, one};

/// Runs a scenario under several policies and seeds.
#[derive(Parser)]
struct Args {
    /// Scenario file, TOML or JSON.
    file: PathBuf,
    /// Schedulers; the others are compared with the first.
    #[arg(required = true)]
    policy: Vec<Policy>,
    /// The first seed and the last; without it that of the file.
    #[arg(long)]
    seeds: Option<String>,
    /// Any key of the scenario, as in `sluice sim sweep`.
    #[arg(long)]
    set: Vec<Axis>,
    /// Also print what the scheduler counted.
    #[arg(long)]
    counters: bool,
    /// Also print for each size of model the mean round, over that of its jobs alone.
    #[arg(long)]
    rounds: bool,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let sets: Vec<Set> =
        args.set.iter().map(|axis| Set { key: axis.key.clone(), value: axis.values.join(",") }).collect();
    let seeds: Vec<Option<u64>> = match &args.seeds {
        None => vec![None],
        Some(text) => {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            (first.parse().context("seeds")?..=last.parse::<u64>().context("seeds")?).map(Some).collect()
        }
    };
    let mut scenarios = Vec::new();
    for seed in seeds {
        let seed = seed.map(|seed| Set { key: "seed".into(), value: seed.to_string() });
        let all: Vec<Set> = sets.iter().cloned().chain(seed).collect();
        scenarios.push(Scenario::load_with(&args.file, &all)?);
    }
    let mut first: Vec<f64> = Vec::new();
    for policy in &args.policy {
        let began = Instant::now();
        let mut figures: Vec<Figures> = Vec::new();
        let (mut p90, mut counters) = (Vec::new(), Vec::new());
        let mut rounds: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
        for scenario in &scenarios {
            let ran = one(&Task { scenario, policy: policy.clone(), profile: false }, &Watch::default())?;
            p90.push(ran.result.machine.decision_us[2]);
            counters.extend(ran.outcome.counters);
            for (job, log) in scenario.jobs.iter().zip(&ran.outcome.jobs) {
                let sums = rounds.entry(job.bytes).or_default();
                sums.0 += log.rounds.iter().map(|r| r.ended.minus(r.began).as_secs_f64()).sum::<f64>();
                sums.1 += log.isolated_round.as_secs_f64() * log.rounds.len() as f64;
            }
            figures.push(ran.result.result.figures);
        }
        let mean = |of: &dyn Fn(&Figures) -> f64| figures.iter().map(of).sum::<f64>() / figures.len() as f64;
        let jct: Vec<f64> = figures.iter().map(|f| f.jct_mean_s).collect();
        if first.is_empty() {
            first.clone_from(&jct);
        }
        let ratios: Vec<f64> = jct.iter().zip(&first).map(|(is, was)| is / was).collect();
        let list: Vec<String> = ratios.iter().map(|r| format!("{r:.3}")).collect();
        println!(
            "{:20} jct {:8.3} p99 {:8.3} max {:8.3} slowdown {:.2}  {:.3} ({})  {} flow ends, {:.1} s, p90 {:.1} µs",
            policy.to_string(),
            mean(&|f| f.jct_mean_s),
            mean(&|f| f.jct.p99),
            mean(&|f| f.jct_max_s),
            mean(&|f| f.slowdown.mean),
            ratios.iter().sum::<f64>() / ratios.len() as f64,
            list.join(" "),
            figures.iter().map(|f| f.flow_ends).sum::<u64>(),
            began.elapsed().as_secs_f64(),
            p90.iter().copied().fold(0.0, f64::max),
        );
        if args.rounds {
            rounds.iter().for_each(|(bytes, (took, alone))| print!("  {} MB {:.3}", bytes / 1_000_000, took / alone));
            println!();
        }
        if args.counters {
            counters.iter().for_each(|(name, value)| print!("  {name} {value}"));
            println!();
        }
    }
    Ok(())
}
