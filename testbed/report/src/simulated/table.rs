//! The table of simulated runs for the terminal: doubts first, then one line per scheduler, each against the first.

use serde::Serialize;
use sluice_scenario::Scenario;

use super::SimResult;
use crate::table::percent;

/// The table; plain text.
pub fn table(scenario: &Scenario, runs: &[SimResult]) -> String {
    let mut out = String::new();
    for note in notes(runs) {
        out += &format!("! {note}\n");
    }
    let same = like(runs);
    if !same {
        out += "! other jobs ended under one scheduler than under another: no comparison is made\n";
    }
    out += &format!(
        "{}: {} jobs, {} hosts, compute × {}, seed {}\n\n",
        scenario.name,
        scenario.jobs.len(),
        scenario.network.hosts.len(),
        scenario.defaults.compute_scale.to_f64(),
        scenario.seed
    );
    let width = runs.iter().map(|r| r.result.policy.len()).max().unwrap_or(0).max("scheduler".len());
    let first = runs.first().map(|r| &r.result);
    let against = first.map(|f| format!("against {}", f.policy)).unwrap_or_default();
    out += &format!(
        "{:width$}  {:>11} {:>11} {:>11} {:>11} {:>9} {:>13}  {}\n",
        "scheduler", "mean JCT", "median", "p99", "max", "slowdown", "control", against
    );
    for run in runs {
        let (r, f) = (&run.result, &run.result.figures);
        let difference = match first {
            Some(first) if same && first.policy != r.policy && first.figures.jct_mean_s > 0.0 => {
                percent(1.0 - f.jct_mean_s / first.figures.jct_mean_s)
            }
            _ => String::new(),
        };
        let control = r.counters.get("control_bps_per_switch_mean").map_or("-".to_owned(), |bps| bits(*bps));
        let line = format!(
            "{:width$}  {:>9.3} s {:>9.3} s {:>9.3} s {:>9.3} s {:>8.2}x {control:>13}  {difference}",
            r.policy, f.jct_mean_s, f.jct_p50_s, f.jct_p99_s, f.jct_max_s, f.slowdown.mean
        );
        out += line.trim_end();
        out.push('\n');
    }
    out
}

/// One line of the table as a record.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The scheduler, as it was asked for.
    pub policy: String,
    /// Mean completion time of its jobs, seconds.
    pub jct_mean_s: f64,
    /// Median of them (nearest rank), seconds.
    pub jct_p50_s: f64,
    /// 99th percentile of them (nearest rank), seconds.
    pub jct_p99_s: f64,
    /// The longest of them, seconds.
    pub jct_max_s: f64,
    /// Mean of run time over isolated run time.
    pub slowdown_mean: f64,
    /// Control traffic of a switch, bit/s; nothing where there is none.
    pub control_bps_per_switch: Option<f64>,
}

/// The lines of the table as records, in the same order.
pub fn rows(runs: &[SimResult]) -> Vec<Row> {
    let row = |run: &SimResult| Row {
        policy: run.result.policy.clone(),
        jct_mean_s: run.result.figures.jct_mean_s,
        jct_p50_s: run.result.figures.jct_p50_s,
        jct_p99_s: run.result.figures.jct_p99_s,
        jct_max_s: run.result.figures.jct_max_s,
        slowdown_mean: run.result.figures.slowdown.mean,
        control_bps_per_switch: run.result.counters.get("control_bps_per_switch_mean").copied(),
    };
    runs.iter().map(row).collect()
}

/// What makes figures doubtful or special, each once: of all runs, or with the name of the run.
pub(crate) fn notes(runs: &[SimResult]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for run in runs {
        for note in &run.result.notes {
            let all = runs.iter().all(|r| r.result.notes.contains(note));
            let text = if all { note.clone() } else { format!("{}: {note}", run.result.policy) };
            if !found.contains(&text) {
                found.push(text);
            }
        }
    }
    found
}

/// Did the same jobs end in all runs?
pub(crate) fn like(runs: &[SimResult]) -> bool {
    runs.windows(2).all(|pair| match pair {
        [a, b] => a.result.figures.unfinished == b.result.figures.unfinished,
        _ => true,
    })
}

/// Bits per second, per switch or host that keeps a table.
fn bits(bps: f64) -> String {
    match bps {
        b if b >= 1e6 => format!("{:.2} Mbit/s", b / 1e6),
        b => format!("{:.1} kbit/s", b / 1e3),
    }
}
