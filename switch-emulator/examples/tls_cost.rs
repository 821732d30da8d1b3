//! What TLS costs a switch process and its hosts: the example `load` with and without it, in turn, and the ratios.
//!
//! Prints one line of JSON: of each run the 90th percentile of the exchange and the server's CPU time per host and slot, and
//! the median of the ratios of the pairs with their bars. It exits 1 where a bar is not met.
//!
//! `cargo build --release -p sluice-switch --examples --bins && cargo run --release -p sluice-switch --example tls_cost -- --hosts 1000`

use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, ensure};
use clap::Parser;
use serde_json::Value;

/// The exchange takes at most so many times as long.
const BAR_P90: f64 = 2.0;
/// The server takes at most so many times the CPU time.
const BAR_CPU: f64 = 1.3;

#[derive(Parser)]
struct Arguments {
    /// Hosts that connect and announce in every slot
    #[arg(long, default_value_t = 1000)]
    hosts: u32,
    /// Measured time of each run
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// Pairs of runs
    #[arg(long, default_value_t = 3)]
    pairs: usize,
}

/// One run's figures.
#[derive(Clone, Copy, serde::Serialize)]
struct Run {
    p90_ms: f64,
    cpu_us_per_host_slot: f64,
    missed_slots: f64,
}

fn run(arguments: &Arguments, tls: bool) -> anyhow::Result<Run> {
    let beside = std::env::current_exe()?.with_file_name("load");
    let mut command = Command::new(&beside);
    command.args(["--hosts", &arguments.hosts.to_string(), "--seconds", &arguments.seconds.to_string(), "--moving"]);
    command.args(tls.then_some("--tls"));
    let output = command.stderr(Stdio::inherit()).output().with_context(|| format!("{}", beside.display()))?;
    ensure!(output.status.success(), "the run with tls = {tls} failed");
    let value: Value = serde_json::from_slice(&output.stdout).context("one line of JSON")?;
    let number = |pointer: &str| value.pointer(pointer).and_then(Value::as_f64).with_context(|| pointer.to_owned());
    ensure!(number("/refused")? == 0.0, "hosts were refused: {value}");
    Ok(Run {
        p90_ms: number("/exchange_ms/p90")?,
        cpu_us_per_host_slot: number("/cpu_us_per_host_slot")?,
        missed_slots: number("/missed_slots")?,
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let (mut plain, mut tls) = (Vec::new(), Vec::new());
    for _ in 0..arguments.pairs.max(1) {
        plain.push(run(&arguments, false)?);
        tls.push(run(&arguments, true)?);
    }
    let ratio = |of: fn(&Run) -> f64| median(tls.iter().zip(&plain).map(|(tls, plain)| of(tls) / of(plain)).collect());
    let (p90, cpu) = (ratio(|run| run.p90_ms), ratio(|run| run.cpu_us_per_host_slot));
    let good = p90 <= BAR_P90 && cpu <= BAR_CPU;
    let result = serde_json::json!({
        "hosts": arguments.hosts, "seconds": arguments.seconds, "plain": plain, "tls": tls,
        "p90_ratio": p90, "p90_bar": BAR_P90, "cpu_ratio": cpu, "cpu_bar": BAR_CPU, "pass": good,
    });
    println!("{result}");
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
