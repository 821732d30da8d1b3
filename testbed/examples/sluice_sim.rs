//! Runs a scenario in the simulator under policies of the product and prints what came out, one line each.
//!
//! `cargo run --release -p sluice-testbed --example sluice_sim -- FILE POLICY…`; the policy `plain` orders nothing.
//! `PHI=0.3` and `KAPPA=4` in the environment replace the daemon's defaults.

use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use sluice_testbed::scenario::{Policy, Scenario};
use sluice_testbed::sim::{Change, Orders, Scheduler, SluiceScheduler, Watch, World, run};

struct Plain;

impl Scheduler for Plain {
    fn decide(&mut self, _: &World<'_>, _: &[Change], _: &mut Orders) {}
    fn reads_progress(&self) -> bool {
        false
    }
    fn wants_edges(&self) -> bool {
        false
    }
}

fn number(name: &str) -> Option<f64> {
    std::env::var(name).ok()?.parse().ok()
}

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let file = args.next().context("name a scenario file")?;
    let scenario = Scenario::load(Path::new(&file))?;
    for name in args {
        let began = Instant::now();
        let mut plain = Plain;
        let mut product;
        let scheduler: &mut dyn Scheduler = if name == "plain" {
            &mut plain
        } else {
            let policy: Policy = name.parse().map_err(anyhow::Error::msg)?;
            product = SluiceScheduler::new(&scenario, &policy);
            product.tune(|config| {
                config.fair_floor = number("PHI").unwrap_or(config.fair_floor);
                config.promote_kappa = number("KAPPA").unwrap_or(config.promote_kappa);
            });
            &mut product
        };
        let outcome = run(&scenario, scheduler, &Watch::default())?;
        let mut jct: Vec<f64> =
            outcome.jobs.iter().filter_map(|j| Some(j.ended?.minus(j.arrival).as_secs_f64())).collect();
        jct.sort_by(f64::total_cmp);
        let mean = jct.iter().sum::<f64>() / jct.len().max(1) as f64;
        let last = jct.last().copied().unwrap_or_default();
        let seconds = outcome.end.as_secs_f64().max(1e-9);
        let mut times = outcome.decisions.clone();
        times.sort_by(f64::total_cmp);
        let at = |part: f64| times.get((times.len() as f64 * part) as usize).copied().unwrap_or_default() * 1e6;
        println!(
            "{file} {name}: mean {mean:.3} s, last {last:.3} s, {} of {} jobs, {:.1} running; {} flow ends, {:.1} s virtual in \
             {:.2} s; decisions p50 {:.1} p90 {:.1} p99 {:.1} µs",
            jct.len(),
            scenario.jobs.len(),
            outcome.running.integral / seconds / 1e9,
            outcome.flow_ends,
            seconds,
            began.elapsed().as_secs_f64(),
            at(0.5),
            at(0.9),
            at(0.99),
        );
        for (name, value) in &outcome.counters {
            print!("  {name} {value}");
        }
        println!();
    }
    Ok(())
}
