//! The sections of the page about simulated runs: doubts, table, distribution, slowdowns, links, who sends when.

use super::charts::{cdf, closer, key, model_colours, policy_colour, stagger};
use super::sections::{facts, head, heading, html_table, section, titled};
use super::svg::Chart;
use super::text;
use crate::about::About;
use crate::measured::PolicyRun;
use crate::simulated::SimResult;
use crate::simulated::table::{like, notes};
use crate::table::{percent, rate};

/// Jobs that are drawn row by row.
const MAX_ROWS: usize = 60;

pub(super) fn all(about: &About, results: &[SimResult], runs: &[PolicyRun]) -> Vec<String> {
    let timed: Vec<&PolicyRun> = runs.iter().filter(|run| run.policy != "bound").collect();
    let colours = model_colours(runs);
    let mut parts = vec![head(about, &notes(results)), jct_table(results), what_was_run(about)];
    parts.push(section(
        "Distribution of job completion times",
        "Share of jobs that are done so many seconds after their arrival, waiting for GPUs included.",
        &cdf(runs),
    ));
    parts.push(section(
        "Slowdown, job by job",
        "Run time over the run time alone on the same hosts; jobs in order of slowdown, each scheduler in its own order.",
        &ranked("slowdown", results, &|r| r.result.figures.jobs.iter().map(|j| j.slowdown).collect(), &|v| {
            format!("{v:.1}×")
        }),
    ));
    parts.push(section(
        "Link utilisation",
        "Bytes carried over what the link could have carried until the last job ended; links in order of utilisation.",
        &format!(
            "{}{}",
            ranked("utilisation", results, &|r| r.result.figures.links.iter().map(|l| l.utilisation).collect(), &|v| {
                format!("{:.0} %", v * 100.0)
            }),
            tiers(results)
        ),
    ));
    if timed.iter().all(|r| r.jobs.len() <= MAX_ROWS && r.jobs.iter().all(|j| !j.rounds.is_empty())) {
        let end = timed.iter().flat_map(|r| r.jobs.iter().map(|j| j.figures.end_s)).fold(1.0, f64::max);
        let rows = key(&colours) + &titled(timed.iter().map(|run| (run.policy.clone(), stagger(run, end, &colours))));
        let lead = "One row per job: grey while it waits for GPUs, pale while it computes, full while it sends.";
        parts.push(section("Who sends when", lead, &rows));
    }
    let logged: Vec<&PolicyRun> = timed.iter().copied().filter(|r| !r.rates.is_empty()).collect();
    if !logged.is_empty() {
        let rates = key(&colours) + &titled(closer(&logged, &colours));
        let lead =
            "Rates of the six jobs that send most in the twelve busiest seconds of the first scheduler, stacked.";
        parts.push(section("Rates over time", lead, &rates));
    }
    parts
}

fn jct_table(results: &[SimResult]) -> String {
    let first = results.first().map(|r| &r.result);
    let same = like(results);
    let row = |run: &SimResult| {
        let (r, f) = (&run.result, &run.result.figures);
        let lower = first.filter(|first| same && first.policy != r.policy && first.figures.jct_mean_s > 0.0);
        vec![
            text(&r.policy),
            format!("{:.3} s", f.jct_mean_s),
            lower.map(|first| percent(1.0 - f.jct_mean_s / first.figures.jct_mean_s)).unwrap_or_default(),
            format!("{:.3} s", f.jct_p50_s),
            format!("{:.3} s", f.jct_p99_s),
            format!("{:.3} s", f.jct_max_s),
            format!("{:.2}×", f.slowdown.mean),
            format!("{:.0} %", f.overlap * 100.0),
            r.counters.get("control_bps_per_switch_mean").map(|bps| rate(*bps)).unwrap_or_default(),
        ]
    };
    let rows: Vec<_> = results.iter().map(row).collect();
    let against = format!("against {}", first.map_or("", |r| r.policy.as_str()));
    let titles = heading(&[
        "scheduler",
        "mean JCT",
        &against,
        "median",
        "p99",
        "max",
        "slowdown",
        "overlap",
        "control per switch",
    ]);
    section("Job completion time", "Arrival to last byte, in virtual time.", &html_table(&titles, &rows))
}

fn what_was_run(about: &About) -> String {
    let known = [
        ("command", about.command.clone()),
        ("scenario", format!("{}, seed {}, {} jobs", about.scenario, about.seed, about.jobs)),
        ("compute", format!("times × {}", about.compute_scale)),
        ("NIC", rate(about.nic)),
        ("version", about.version.clone()),
        ("date", about.date.clone()),
    ];
    section("What was run", "Simulated: ideal links, no packets, queues or losses of TCP.", &facts(known))
}

/// One falling line per scheduler: its values, largest first.
fn ranked(
    label: &str,
    results: &[SimResult],
    values: &dyn Fn(&SimResult) -> Vec<f64>,
    name: &dyn Fn(f64) -> String,
) -> String {
    let lines: Vec<Vec<f64>> = results
        .iter()
        .map(|r| {
            let mut values = values(r);
            values.sort_by(|a, b| b.total_cmp(a));
            values
        })
        .collect();
    let longest = lines.iter().map(Vec::len).max().unwrap_or(0).max(1);
    let top = lines.iter().flatten().copied().fold(0.0, f64::max);
    let mut chart = Chart::new(label, 240.0, (0.0, longest as f64), top);
    chart.axes("", name);
    for (n, line) in lines.iter().enumerate() {
        let steps = line.iter().enumerate().flat_map(|(i, &v)| [(i as f64, v), (i as f64 + 1.0, v)]);
        chart.line(steps, &policy_colour(n));
    }
    let legend: Vec<_> = results.iter().enumerate().map(|(n, r)| (policy_colour(n), r.result.policy.clone())).collect();
    key(&legend) + &chart.finish()
}

fn tiers(results: &[SimResult]) -> String {
    let rows: Vec<Vec<String>> = results
        .iter()
        .flat_map(|r| {
            r.result.figures.tiers.iter().map(|t| {
                vec![
                    text(&r.result.policy),
                    text(&t.tier),
                    t.links.to_string(),
                    format!("{:.0} %", t.mean * 100.0),
                    format!("{:.0} %", t.max * 100.0),
                ]
            })
        })
        .collect();
    html_table(&heading(&["scheduler", "tier", "links", "mean", "largest"]), &rows)
}
