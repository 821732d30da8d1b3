//! The sections of the page, in order: doubts, answer, table, then the pictures and details behind it.

use std::fmt::Write as _;

use super::charts::{busiest_link, cdf, closer, first_runs, key, model_colours, stagger};
use super::svg::number;
use super::text;
use crate::about::About;
use crate::measured::{JobResult, PolicyRun};
use crate::stats::mean;
use crate::stats::{Comparison, Summary, best_baseline, compare, is_baseline, policies, rounds_by_model, summaries};
use crate::table::{percent, rate};
use crate::warnings::warnings;

pub(super) fn all(about: &About, runs: &[PolicyRun]) -> Vec<String> {
    let colours = model_colours(runs);
    let first = first_runs(runs);
    let end = first.iter().map(|r| r.makespan_s).fold(1.0, f64::max);
    let mut parts = vec![head(about, &warnings(runs)), answer(about, runs), jct_table(runs), what_was_run(about, runs)];
    parts.push(section(
        "Distribution of job completion times",
        "Share of jobs that are done so many seconds after their arrival, waiting for GPUs included; all repeats.",
        &cdf(runs),
    ));
    let rows = key(&colours) + &titled(first.iter().map(|run| (run.policy.clone(), stagger(run, end, &colours))));
    let about_rows = "One row per job, first repeat: grey while it waits for GPUs, pale while it computes, full while it sends. \
        Under equal sharing rounds of different jobs lie on top of each other; where jobs take turns they interleave.";
    parts.push(section("Who sends when", about_rows, &rows));
    let rates = key(&colours) + &titled(closer(&first, &colours));
    let about_rates =
        "Payload rates of the six jobs that send most in the twelve busiest seconds of the first policy, stacked.";
    parts.push(section("Rates over time", about_rates, &rates));
    if let Some((link, charts)) = busiest_link(&first, about.nic) {
        let lead = format!("Load of {link} as a share of its rate, first repeat.");
        parts.push(section("The busiest link", &lead, &titled(charts)));
    }
    parts.push(network_table(runs));
    parts.push(rounds_table(runs));
    parts.push(jobs_table(about, runs));
    parts
}

pub(super) fn section(title: &str, lead: &str, body: &str) -> String {
    format!("<section><h2>{}</h2><p class=\"soft\">{}</p>{body}</section>", text(title), text(lead))
}

/// Charts, each below the name of its policy.
pub(super) fn titled(charts: impl IntoIterator<Item = (String, String)>) -> String {
    charts.into_iter().map(|(policy, chart)| format!("<h3>{}</h3>{chart}", text(&policy))).collect()
}

pub(super) fn facts<const N: usize>(facts: [(&str, String); N]) -> String {
    let facts = facts.map(|(name, fact)| format!("<dt>{name}</dt><dd>{}</dd>", text(&fact)));
    format!("<dl>{}</dl>", facts.concat())
}

/// A table; the first row is the heading. Cells are HTML already.
pub(super) fn html_table(heading: &[String], rows: &[Vec<String>]) -> String {
    let mut out = String::from("<div class=\"scroll\"><table><thead><tr>");
    heading.iter().for_each(|h| _ = write!(out, "<th>{h}</th>"));
    out.push_str("</tr></thead><tbody>");
    for row in rows {
        out.push_str("<tr>");
        row.iter().for_each(|c| _ = write!(out, "<td>{c}</td>"));
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
    out
}

pub(super) fn heading(words: &[&str]) -> Vec<String> {
    words.iter().map(|w| text(w)).collect()
}

/// The title, and what must be known before anything is believed.
pub(super) fn head(about: &About, doubts: &[String]) -> String {
    let mut out = format!("<h1>{}</h1>", text(&about.scenario));
    if !doubts.is_empty() {
        out.push_str("<div class=\"warn\"><strong>Read this first</strong><ul>");
        doubts.iter().for_each(|d| _ = write!(out, "<li>{}</li>", text(d)));
        out.push_str("</ul></div>");
    }
    out
}

fn answer(about: &About, runs: &[PolicyRun]) -> String {
    let compared = compare(runs);
    let sentence = match compared.iter().find(|c| !is_baseline(&c.policy)) {
        Some(c) => format!(
            "Under {} the mean job completion time is {} than under {}, the best ordinary TCP of this run ({}).",
            c.policy,
            percent(c.lower),
            c.baseline,
            interval(c)
        ),
        None => format!("{} jobs ran under {}.", about.jobs, policies(runs).join(", ")),
    };
    format!("<p class=\"answer\">{}</p>", text(&sentence))
}

/// Every repeat, or that there was only one.
fn interval(c: &Comparison) -> String {
    match c.lower_each.as_slice() {
        [] | [_] => "one repeat".to_owned(),
        each => {
            let low = each.iter().copied().fold(f64::INFINITY, f64::min);
            let high = each.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            format!("{} repeats, from {:.1} to {:.1} %", each.len(), low * 100.0, high * 100.0)
        }
    }
}

fn jct_table(runs: &[PolicyRun]) -> String {
    let all = summaries(runs);
    let compared = compare(runs);
    let best = best_baseline(&all).map(|s| s.policy.clone()).unwrap_or_default();
    let coloured = |lower: f64| {
        let class = if lower >= 0.0 { "good" } else { "bad" };
        format!("<span class=\"{class}\">{}</span>", percent(lower))
    };
    let row = |s: &Summary| {
        let vs = compared.iter().find(|c| c.policy == s.policy);
        let lower = match vs {
            Some(c) => coloured(c.lower),
            None if s.policy == best => "best TCP".to_owned(),
            None => String::new(),
        };
        let each = vs.map(|c| c.lower_each.iter().map(|l| format!("{:+.1}", -l * 100.0)).collect::<Vec<_>>().join(" "));
        vec![
            text(&s.policy),
            format!("{:.2} s", s.mean_s),
            lower,
            each.unwrap_or_default(),
            format!("{:.2} s", s.p50_s),
            format!("{:.2} s", s.p99_s),
            format!("{:.2} s", s.max_s),
            format!("{:.2} s", s.wait_s),
            vs.map(|c| format!("{:.2}× ({})", c.worst_ratio, text(&c.worst_job))).unwrap_or_default(),
            vs.map(|c| format!("{} of {}", c.slower_jobs, c.jobs)).unwrap_or_default(),
        ]
    };
    let rows: Vec<_> = all.iter().map(row).collect();
    let titles = heading(&[
        "policy",
        "mean JCT",
        "against best TCP",
        "each repeat, %",
        "median",
        "p99",
        "max",
        "waiting",
        "worst job",
        "slower by > 5 %",
    ]);
    let jobs = runs.first().map_or(0, |r| r.jobs.len());
    let lead = format!(
        "Arrival to last byte, {jobs} jobs per run, means over {} repeat(s). Worst job: its mean JCT over its own under the best TCP.",
        all.iter().map(|s| s.jct_mean_s.len()).max().unwrap_or(0)
    );
    section("Job completion time", &lead, &html_table(&titles, &rows))
}

fn what_was_run(about: &About, runs: &[PolicyRun]) -> String {
    let (compute, scale, nic) = (about.compute_scale, about.scale, rate(about.nic));
    let known = [
        ("command", about.command.clone()),
        ("scenario", format!("{}, seed {}", about.scenario, about.seed)),
        ("scaled", format!("compute × {compute}, rates and bytes ÷ {scale}: {nic} per NIC on the wire")),
        ("runs", format!("{} in all: {}", runs.len(), policies(runs).join(", "))),
        ("machine", about.machine.clone()),
        ("version", about.version.clone()),
        ("date", about.date.clone()),
    ];
    let lead = "All policies took turns on the same machine, with the same jobs, arrivals and cross traffic.";
    section("What was run", lead, &facts(known))
}

fn network_table(runs: &[PolicyRun]) -> String {
    let row = |s: Summary| {
        let mine = || runs.iter().filter(|r| r.policy == s.policy);
        let links: Vec<f64> = mine().flat_map(|r| r.links.iter().map(|l| l.utilisation)).collect();
        let drops: Vec<f64> = mine().map(|r| r.links.iter().map(|l| l.drops as f64).sum()).collect();
        let [jobs, daemons, switches] = s.cpu;
        vec![
            text(&s.policy),
            format!("{:.0} %", mean(&links) * 100.0),
            format!("{:.0} %", links.iter().copied().fold(0.0, f64::max) * 100.0),
            format!("{:.0} %", s.overlap * 100.0),
            format!("{:.0}", mean(&drops)),
            format!("{:.0}", s.retransmits),
            format!("{:.2}", jobs),
            format!("{:.3}", daemons),
            format!("{:.3}", switches),
            format!("{:.2} ms", s.late_p99_us as f64 / 1e3),
        ]
    };
    let rows: Vec<_> = summaries(runs).into_iter().map(row).collect();
    let titles = heading(&[
        "policy",
        "mean link load",
        "busiest link",
        "overlap",
        "drops",
        "retransmits",
        "CPU jobs",
        "CPU daemons",
        "CPU switches",
        "timer lateness p99",
    ]);
    let lead = "Overlap: share of the time in which a host's jobs send during which two or more do. CPU in cores. Drops and \
        retransmits per run. Timer lateness: how late this machine woke a sleeping thread; above 5 ms the figures are doubtful.";
    section("Network and machine", lead, &html_table(&titles, &rows))
}

fn rounds_table(runs: &[PolicyRun]) -> String {
    let names = policies(runs);
    let mut titles = heading(&["model"]);
    titles.extend(names.iter().map(|n| text(n)));
    let rows: Vec<_> = rounds_by_model(runs)
        .into_iter()
        .map(|(model, cells)| {
            let cells = cells.into_iter().map(|s| format!("{} ms", number((s * 1e4).round() / 10.0)));
            std::iter::once(text(&model)).chain(cells).collect()
        })
        .collect();
    section(
        "Round times",
        "Mean time from the begin of a communication phase to its end, without warm-up.",
        &html_table(&titles, &rows),
    )
}

fn jobs_table(about: &About, runs: &[PolicyRun]) -> String {
    let first = first_runs(runs);
    let mut titles = heading(&["job", "model", "arrival"]);
    for run in &first {
        titles.push(format!("{} JCT", text(&run.policy)));
        titles.push("slowdown".to_owned());
    }
    let jobs = first.first().map_or(&[][..], |r| r.jobs.as_slice());
    let row = |job: &JobResult| {
        let mut cells =
            vec![text(&job.figures.id), text(&job.figures.model), format!("{:.1} s", job.figures.arrival_s)];
        for run in &first {
            let same = run.jobs.iter().find(|j| j.figures.id == job.figures.id);
            cells.push(same.map(|j| format!("{:.2} s", j.figures.jct_s)).unwrap_or_default());
            let slowdown = same.and_then(|j| about.slowdown(&j.figures));
            cells.push(slowdown.map(|s| format!("{s:.2}×")).unwrap_or_default());
        }
        cells
    };
    let rows: Vec<_> = jobs.iter().map(row).collect();
    let lead = "First repeat of each policy. Slowdown: run time over the run time worked out for an empty network.";
    let body = format!("<details><summary>{} jobs</summary>{}</details>", rows.len(), html_table(&titles, &rows));
    section("Job by job", lead, &body)
}
