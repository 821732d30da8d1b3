//! A scoreboard as Markdown for people and as TSV for programs.

use std::fmt::Write as _;

use super::board::{Against, Board, PolicyFigures, Row};
use super::words::sentences;

/// Columns of the TSV.
const COLUMNS: [&str; 25] = [
    "case",
    "load",
    "policy",
    "runs",
    "jct_mean_s",
    "jct_sd_s",
    "jct_p99_s",
    "unmanaged_bytes_s",
    "retransmits",
    "daemons_cpu_s",
    "switches_cpu_s",
    "best_tcp",
    "pairs",
    "ratio_mean",
    "ratio_sd",
    "ratio_low_90",
    "ratio_high_90",
    "worst_pair",
    "p99_ratio",
    "worst_job",
    "worst_job_ratio",
    "unmanaged_ratio",
    "way",
    "way_low_90",
    "way_high_90",
];

/// Doubts, tables, and the rows in words.
pub fn markdown(board: &Board) -> String {
    let mut out = String::from("# Scoreboard\n\n");
    board.doubts.iter().for_each(|doubt| _ = writeln!(out, "* {doubt}"));
    if !board.doubts.is_empty() {
        out.push('\n');
    }
    out.push_str("## In words\n\n");
    board.rows.iter().flat_map(sentences).for_each(|said| _ = writeln!(out, "* {said}"));
    out.push_str("\n## Mean job completion time, s\n\nMean over runs ± their deviation (runs). The best TCP is the lowest of CUBIC, Reno and BBR over the turns that all of them have.\n\n");
    times(board, &mut out);
    out.push_str("\n## Against each other\n\nRatios of mean completion times of the same turn: mean ± deviation (pairs), the worst pair with its turn; then ratios of means.\n\n");
    line(
        &mut out,
        &["case", "load", "policy", "against", "ratio", "worst pair", "p99", "worst job", "unmanaged", "way, 90 %"]
            .map(str::to_owned),
    );
    rule(&mut out, 10);
    for row in &board.rows {
        row.against.iter().for_each(|against| line(&mut out, &compared(row, against)));
    }
    out.push_str("\n## Beside completion times\n\nMeans a run. Unmanaged: payload that its receivers got between the first arrival and the last end. Processor time is of all daemons and of all switches.\n\n");
    line(
        &mut out,
        &["case", "load", "policy", "runs", "p99, s", "unmanaged, MB/s", "retransmits", "daemons, s", "switches, s"]
            .map(str::to_owned),
    );
    rule(&mut out, 9);
    for row in &board.rows {
        row.policies.iter().for_each(|policy| line(&mut out, &beside(row, policy)));
    }
    out
}

fn times(board: &Board, out: &mut String) {
    let policies = board.policies();
    let head = ["case", "load"].into_iter().chain(policies.iter().copied()).chain(["best TCP"]);
    line(out, &head.map(str::to_owned).collect::<Vec<_>>());
    rule(out, policies.len() + 3);
    for row in &board.rows {
        let cell = |policy: &&str| match row.of(policy) {
            Some(PolicyFigures { jct_mean_s, jct_sd_s: Some(sd), runs, .. }) => {
                format!("{jct_mean_s:.2} ± {sd:.2} ({runs})")
            }
            Some(PolicyFigures { jct_mean_s, runs, .. }) => format!("{jct_mean_s:.2} ({runs})"),
            None => String::new(),
        };
        let mut cells = vec![row.case.clone(), row.load.to_string()];
        cells.extend(policies.iter().map(cell));
        cells.push(row.best_tcp.clone().unwrap_or_default());
        line(out, &cells);
    }
}

fn compared(row: &Row, against: &Against) -> Vec<String> {
    let paired = &against.paired;
    let sd = paired.sd.map(|sd| format!(" ± {sd:.3}")).unwrap_or_default();
    let way = against.way.as_ref().map(|way| {
        let interval = way.interval.map(|i| format!(", {:.2} to {:.2}", i.low, i.high)).unwrap_or_default();
        format!("{:.2}{interval}", way.part)
    });
    vec![
        row.case.clone(),
        row.load.to_string(),
        against.policy.clone(),
        against.baseline.clone(),
        format!("{:.3}{sd} ({})", paired.mean, paired.ratios.len()),
        format!("{:.3} (turn {})", paired.worst, against.worst_turn),
        format!("{:.3}", against.p99_ratio),
        format!("{:.2} ({})", against.worst_job_ratio, against.worst_job),
        against.unmanaged_ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default(),
        way.unwrap_or_default(),
    ]
}

fn beside(row: &Row, policy: &PolicyFigures) -> Vec<String> {
    let seconds = |spent: Option<f64>| spent.map(|s| format!("{s:.1}")).unwrap_or_default();
    vec![
        row.case.clone(),
        row.load.to_string(),
        policy.policy.clone(),
        policy.runs.to_string(),
        format!("{:.2}", policy.jct_p99_s),
        policy.unmanaged_bytes_s.map(|rate| format!("{:.2}", rate / 1e6)).unwrap_or_default(),
        format!("{:.0}", policy.retransmits),
        seconds(policy.daemons_s),
        seconds(policy.switches_s),
    ]
}

fn line(out: &mut String, cells: &[String]) {
    // A bar would end its cell.
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    _ = writeln!(out, "| {} |", cells.join(" | "));
}

fn rule(out: &mut String, columns: usize) {
    _ = writeln!(out, "|{}", " --- |".repeat(columns));
}

/// A line a case, load and policy, with the comparison with the best TCP where there is one; empty where nothing is known.
pub fn tsv(board: &Board) -> String {
    let mut out = COLUMNS.join("\t") + "\n";
    for row in &board.rows {
        for policy in &row.policies {
            out.push_str(&(values(row, policy).map(|value| value.replace(['\t', '\n'], " ")).join("\t") + "\n"));
        }
    }
    out
}

fn values(row: &Row, policy: &PolicyFigures) -> [String; COLUMNS.len()] {
    let against = row.against_best(&policy.policy);
    let number = |value: Option<f64>| value.map(|v| format!("{v:.6}")).unwrap_or_default();
    let of = |f: fn(&Against) -> f64| number(against.map(f));
    let interval = against.and_then(|a| a.paired.interval);
    let way = against.and_then(|a| a.way.as_ref());
    let way_interval = way.and_then(|w| w.interval);
    [
        row.case.clone(),
        row.load.to_string(),
        policy.policy.clone(),
        policy.runs.to_string(),
        number(Some(policy.jct_mean_s)),
        number(policy.jct_sd_s),
        number(Some(policy.jct_p99_s)),
        policy.unmanaged_bytes_s.map(|rate| format!("{rate:.0}")).unwrap_or_default(),
        format!("{:.1}", policy.retransmits),
        number(policy.daemons_s),
        number(policy.switches_s),
        row.best_tcp.clone().unwrap_or_default(),
        against.map(|a| a.paired.ratios.len().to_string()).unwrap_or_default(),
        of(|a| a.paired.mean),
        number(against.and_then(|a| a.paired.sd)),
        number(interval.map(|i| i.low)),
        number(interval.map(|i| i.high)),
        of(|a| a.paired.worst),
        of(|a| a.p99_ratio),
        against.map(|a| a.worst_job.clone()).unwrap_or_default(),
        of(|a| a.worst_job_ratio),
        number(against.and_then(|a| a.unmanaged_ratio)),
        number(way.map(|w| w.part)),
        number(way_interval.map(|i| i.low)),
        number(way_interval.map(|i| i.high)),
    ]
}
