//! Injects causes into simulated jobs and counts how often `sluice why` names them; prints a table.
//!
//! ```text
//! cargo run --release -p sluice-simulate --example why -- --cases 50
//! ```

use std::collections::BTreeMap;

use anyhow::Result;
use clap::Parser;
use sluice_simulate::why::{Case, Kind, judge, record};

/// Injects causes and asks for them.
#[derive(Parser)]
struct Args {
    /// Cases of each kind.
    #[arg(long, default_value_t = 50)]
    cases: usize,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only this kind.
    #[arg(long)]
    kind: Option<String>,
    /// Also print the cases that are wrong.
    #[arg(long)]
    wrong: bool,
}

#[derive(Default)]
struct Row {
    right: usize,
    alone: usize,
    cases: usize,
    passed: usize,
    slower: f64,
    confidence: f64,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let mut rows: BTreeMap<Kind, Row> = BTreeMap::new();
    let wanted = |kind: &Kind| args.kind.as_ref().is_none_or(|of| kind.as_str().contains(of.as_str()));
    for kind in Kind::ALL.into_iter().filter(wanted) {
        let row = rows.entry(kind).or_default();
        let mut seed = args.seed;
        while row.cases < args.cases && row.passed < 10 * args.cases {
            let case = Case::draw(seed, kind)?;
            seed += 1;
            let (usual, disturbed) = (record(&case, false)?, record(&case, true)?);
            let Some(verdict) = judge(&case, &usual, &disturbed) else {
                row.passed += 1;
                continue;
            };
            row.cases += 1;
            row.right += usize::from(verdict.right);
            row.slower += verdict.took.1.as_secs_f64() / verdict.took.0.as_secs_f64();
            row.confidence += verdict.confidence;
            let host = case.usual.network.name(case.host);
            let alone = judge(&case, &usual.only(host), &disturbed.only(host));
            row.alone += usize::from(alone.is_some_and(|verdict| verdict.right));
            if args.wrong && !verdict.right {
                println!(
                    "{} seed {} {} on {host}: {} then {}",
                    kind.as_str(),
                    case.seed,
                    case.policy,
                    verdict.took.0,
                    verdict.took.1
                );
                println!("   {}", case.cause());
                for (cause, time) in verdict.more.iter().take(4) {
                    println!("   {:>6.0} ms {cause:?}", time / 1e6);
                }
            }
        }
    }
    println!(
        "{:<22} {:>6} {:>6} {:>8} {:>9} {:>12} {:>11}",
        "cause", "cases", "right", "", "slower", "one record", "confidence"
    );
    let mut all = Row::default();
    for (kind, row) in &rows {
        print(kind.as_str(), row);
        all.cases += row.cases;
        all.right += row.right;
        all.alone += row.alone;
        all.slower += row.slower;
        all.confidence += row.confidence;
    }
    print("all", &all);
    Ok(())
}

fn print(name: &str, row: &Row) {
    let of = |part: f64| part / row.cases.max(1) as f64;
    println!(
        "{name:<22} {:>6} {:>6} {:>6.1} % {:>8.1}x {:>10.1} % {:>9.0} %",
        row.cases,
        row.right,
        100.0 * of(row.right as f64),
        of(row.slower),
        100.0 * of(row.alone as f64),
        100.0 * of(row.confidence)
    );
}
