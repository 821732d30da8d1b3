//! The tables of the paper on TE-CCL beside what is planned here without a solver: epochs, what none has fewer than, what was
//! printed or released, and seconds of both.
//!
//! `cargo run --release -p sluice-planners --example teccl`

use std::time::Instant;

use sluice_formats::quantity::{Rational, size};
use sluice_formats::topology::import;
use sluice_plan::plan::Collective;
use sluice_planners::teccl::lane::EpochLength;
use sluice_planners::teccl::{Instance, Options, Volume, make};
use sluice_planners::{Request, Run};

/// A table: its rows are outputs, with the epochs and seconds of the authors; 0: not given.
struct Table {
    fabric: &'static str,
    copying: bool,
    free: bool,
    collective: Collective,
    epoch: EpochLength,
    rows: &'static [(&'static str, u64, f64)],
}

/// Table 8, fast epochs: all-gather.
const GATHER_FAST: [(&str, u64, f64); 11] = [
    ("1GB", 35, 7201.05),
    ("256MB", 35, 7214.16),
    ("64MB", 35, 7209.46),
    ("16MB", 35, 7208.7),
    ("4MB", 38, 152.6),
    ("1MB", 39, 160.1),
    ("256kB", 46, 59.55),
    ("64kB", 76, 27.61),
    ("16kB", 222, 18.8),
    ("4kB", 212, 12.26),
    ("1kB", 827, 50.28),
];
/// The same with slow epochs.
const GATHER_SLOW: [(&str, u64, f64); 11] = [
    ("1GB", 10, 0.94),
    ("256MB", 10, 0.77),
    ("64MB", 10, 0.78),
    ("16MB", 10, 0.77),
    ("4MB", 10, 0.77),
    ("1MB", 14, 1.04),
    ("256kB", 15, 1.09),
    ("64kB", 24, 1.74),
    ("16kB", 60, 3.35),
    ("4kB", 212, 21.56),
    ("1kB", 827, 89.07),
];
/// Table 8, fast epochs: all-to-all, whole epochs.
const EXCHANGE_FAST: [(&str, u64, f64); 11] = [
    ("1GB", 257, 336.5),
    ("256MB", 257, 307.33),
    ("64MB", 257, 339.92),
    ("16MB", 257, 280.82),
    ("4MB", 260, 165.63),
    ("1MB", 261, 189.47),
    ("256kB", 268, 218.5),
    ("64kB", 292, 161.99),
    ("16kB", 364, 182.08),
    ("4kB", 232, 69.58),
    ("1kB", 848, 196.72),
];
/// The same with slow epochs.
const EXCHANGE_SLOW: [(&str, u64, f64); 11] = [
    ("1GB", 65, 14.82),
    ("256MB", 65, 14.36),
    ("64MB", 65, 11.01),
    ("16MB", 65, 9.96),
    ("4MB", 65, 11.81),
    ("1MB", 68, 10.85),
    ("256kB", 69, 9.97),
    ("64kB", 76, 10.46),
    ("16kB", 95, 8.83),
    ("4kB", 225, 20.9),
    ("1kB", 847, 276.47),
];
/// Released runs on four NDv2 chassis; slow epochs.
const FOUR_SLOW: [(&str, u64, f64); 6] =
    [("1GB", 26, 0.0), ("4MB", 28, 0.0), ("1MB", 30, 0.0), ("256kB", 36, 0.0), ("64kB", 57, 0.0), ("16kB", 151, 0.0)];
/// The same with fast epochs, which stopped at 140 to 30,900 seconds.
const FOUR_FAST: [(&str, u64, f64); 7] = [
    ("1GB", 106, 30_900.0),
    ("16MB", 117, 0.0),
    ("4MB", 127, 0.0),
    ("1MB", 111, 0.0),
    ("256kB", 131, 0.0),
    ("64kB", 208, 0.0),
    ("16kB", 581, 0.0),
];
/// Released runs on two DGX2.
const DGX2_SLOW: [(&str, u64, f64); 10] = [
    ("1GB", 4, 11.8),
    ("256MB", 4, 0.0),
    ("64MB", 4, 0.0),
    ("16MB", 4, 0.0),
    ("4MB", 4, 0.0),
    ("1MB", 9, 19.5),
    ("256kB", 12, 0.0),
    ("64kB", 32, 0.0),
    ("16kB", 104, 0.0),
    ("4kB", 403, 0.0),
];
const DGX2_FAST: [(&str, u64, f64); 9] = [
    ("1GB", 31, 0.0),
    ("256MB", 31, 0.0),
    ("64MB", 31, 0.0),
    ("16MB", 31, 0.0),
    ("4MB", 33, 0.0),
    ("1MB", 43, 0.0),
    ("256kB", 84, 0.0),
    ("64kB", 270, 0.0),
    ("16kB", 1021, 0.0),
];
const DGX2_EXCHANGE: [(&str, u64, f64); 10] = [
    ("1GB", 34, 0.0),
    ("256MB", 34, 0.0),
    ("64MB", 34, 0.0),
    ("16MB", 34, 0.0),
    ("4MB", 35, 0.0),
    ("1MB", 38, 0.0),
    ("256kB", 41, 0.0),
    ("64kB", 57, 0.0),
    ("16kB", 122, 0.0),
    ("4kB", 421, 0.0),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let table =
        |fabric, (copying, free), collective, epoch, rows| Table { fabric, copying, free, collective, epoch, rows };
    let (gather, exchange) = (Collective::AllGather, Collective::AllToAll);
    let tables = [
        table("NDv2-2", (false, false), gather, EpochLength::Fast, &GATHER_FAST[..]),
        table("NDv2-2", (false, false), gather, EpochLength::Slow, &GATHER_SLOW),
        table("NDv2-2", (false, false), exchange, EpochLength::Fast, &EXCHANGE_FAST),
        table("NDv2-2", (false, false), exchange, EpochLength::Slow, &EXCHANGE_SLOW),
        table("NDv2-4", (false, true), gather, EpochLength::Slow, &FOUR_SLOW),
        table("NDv2-4", (false, true), gather, EpochLength::Fast, &FOUR_FAST),
        table("DGX2-2", (true, true), gather, EpochLength::Slow, &DGX2_SLOW),
        table("DGX2-2", (true, true), gather, EpochLength::Fast, &DGX2_FAST),
        table("DGX2-2", (false, true), exchange, EpochLength::Slow, &DGX2_EXCHANGE),
    ];
    println!(
        "{:<8} {:<10} {:<6} {:>6} {:>7} {:>6} {:>8} {:>8} {:>9}",
        "fabric", "collective", "epochs", "output", "here", "bound", "theirs", "s", "their s"
    );
    for Table { fabric, copying, free, collective, epoch, rows } in tables {
        let all = include_str!("../tests/teccl/fabrics.jsonl");
        let line = all.lines().find(|line| line.contains(&format!("\"{fabric}\""))).ok_or("no such fabric")?;
        let topology = import::teccl(line.as_bytes(), fabric, copying)?;
        for (output, theirs, seconds) in rows {
            // The table's epochs are four times as long where latencies would take more than 200 of them.
            let long = fabric == "NDv2-2" && epoch == EpochLength::Fast && matches!(*output, "4kB" | "1kB");
            let volume = Volume::Size(size(output).map_err(|_| "a size")?);
            let multiplier = Rational::from(if long { 4_u64 } else { 1 });
            let options = Options { epoch: epoch.clone(), multiplier, free_second_hop: free, ..Options::of(volume) };
            let begin = Instant::now();
            let instance = Instance::new(&topology, &Request::of_all(collective), &options, fabric)?;
            let figures = make(&instance, None, &Run::quiet(1))?.figures;
            let (took, word) =
                (begin.elapsed().as_secs_f64(), if epoch == EpochLength::Fast { "fast" } else { "slow" });
            let their_seconds = if *seconds > 0.0 { seconds.to_string() } else { "-".into() };
            println!(
                "{fabric:<8} {:<10} {word:<6} {output:>6} {:>7} {:>6} {theirs:>8} {took:>8.3} {their_seconds:>9}",
                collective.word(),
                figures.epochs,
                figures.lower_bound,
            );
        }
    }
    Ok(())
}
