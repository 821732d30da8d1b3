//! The pictures of the page: distribution of JCT, stagger chart, rates of the busiest seconds, the busiest link.

use std::fmt::Write as _;

use super::svg::{Chart, number};
use super::text;
use crate::measured::{PolicyRun, RatePoint};
use crate::picture::{buckets, busiest_jobs};
use crate::stats::{busiest_window, distribution, policies};
use crate::table::rate;

/// Seconds of the closer look.
const CLOSER_S: f64 = 12.0;
/// Columns of a chart over time.
const COLUMNS: usize = 400;

/// The colour variable of the n-th policy.
pub(super) fn policy_colour(n: usize) -> String {
    format!("--c{}", n % 8)
}

/// A legend: colour variable and name.
pub(super) fn key(entries: &[(String, String)]) -> String {
    let mut out = String::from("<div class=\"key\">");
    for (colour, name) in entries {
        _ = write!(out, "<span><i style=\"background:var({colour})\"></i>{}</span>", text(name));
    }
    out.push_str("</div>");
    out
}

/// Models in order of name, each with its colour variable.
pub(super) fn model_colours(runs: &[PolicyRun]) -> Vec<(String, String)> {
    let mut models: Vec<&str> = runs.iter().flat_map(|r| r.jobs.iter().map(|j| j.figures.model.as_str())).collect();
    models.sort_unstable();
    models.dedup();
    models.iter().enumerate().map(|(i, m)| (format!("--m{}", i % 6), (*m).to_owned())).collect()
}

fn colour_of<'a>(colours: &'a [(String, String)], model: &str) -> &'a str {
    colours.iter().find(|(_, m)| m == model).map_or("--m0", |(c, _)| c)
}

/// First repeat of each policy.
pub(super) fn first_runs(runs: &[PolicyRun]) -> Vec<&PolicyRun> {
    policies(runs).iter().filter_map(|p| runs.iter().find(|r| r.policy == *p)).collect()
}

/// Share of jobs that are done after so many seconds.
pub(super) fn cdf(runs: &[PolicyRun]) -> String {
    let names = policies(runs);
    let longest = runs.iter().map(|r| r.jct_max_s).fold(0.0, f64::max);
    let mut chart = Chart::new("Distribution of job completion times", 300.0, (0.0, longest.max(0.1)), 1.0);
    chart.axes("s", &|v| format!("{:.0} %", v * 100.0));
    for (i, name) in names.iter().enumerate() {
        let points = distribution(runs, name);
        let mut below = 0.0;
        let mut steps = vec![(0.0, 0.0)];
        for (x, share) in points {
            steps.extend([(x, below), (x, share)]);
            below = share;
        }
        steps.push((longest, below));
        chart.line(steps.into_iter(), &policy_colour(i));
    }
    let legend: Vec<_> = names.iter().enumerate().map(|(i, n)| (policy_colour(i), n.clone())).collect();
    key(&legend) + &chart.finish()
}

/// One row per job: pale while it waits, half while it computes, full while it sends.
pub(super) fn stagger(run: &PolicyRun, end: f64, colours: &[(String, String)]) -> String {
    const ROW: f64 = 15.0;
    let height = run.jobs.len() as f64 * ROW + 44.0;
    let mut chart = Chart::new(&format!("Jobs over time under {}", run.policy), height, (0.0, end), 1.0);
    for (i, job) in run.jobs.iter().enumerate() {
        let y = 8.0 + i as f64 * ROW;
        let colour = colour_of(colours, &job.figures.model);
        chart.row_label(y + 11.0, &format!("{} {}", job.figures.id, job.figures.model));
        chart.bar((job.figures.arrival_s, job.figures.start_s), y + 5.0, 3.0, "--soft", 0.35);
        chart.bar((job.figures.start_s, job.figures.end_s), y + 1.0, ROW - 3.0, colour, 0.22);
        for &(from, to) in &job.rounds {
            chart.bar((from, to), y + 1.0, ROW - 3.0, colour, 0.95);
        }
    }
    chart.x_axis("s", height - 34.0);
    chart.finish()
}

/// Rates of the jobs that send most in the busiest seconds, stacked.
pub(super) fn closer(runs: &[&PolicyRun], colours: &[(String, String)]) -> Vec<(String, String)> {
    let Some(reference) = runs.first() else { return Vec::new() };
    let window = busiest_window(reference, CLOSER_S);
    let part = (window.1 - window.0) / COLUMNS as f64;
    let x: Vec<f64> = (0..COLUMNS).map(|i| window.0 + (i as f64 + 0.5) * part).collect();
    let stacks: Vec<Stack<'_>> = runs.iter().map(|run| stack(run, window, colours)).collect();
    let peak = stacks.iter().flat_map(|s| &s.top).copied().fold(1.0, f64::max);
    let draw = |stack: Stack<'_>| {
        let mut chart = Chart::new(&format!("Rates under {}", stack.policy), 190.0, window, peak);
        chart.axes("s", &rate);
        for (i, band) in stack.bands.iter().enumerate() {
            // Neighbours of one model stay apart by their strength.
            let opacity = if i % 2 == 0 { 0.9 } else { 0.6 };
            chart.band(&x, &band.low, &band.high, band.colour, opacity, &band.name);
        }
        (stack.policy, chart.finish())
    };
    stacks.into_iter().map(draw).collect()
}

/// One job's part of a stack.
struct Band<'a> {
    name: String,
    colour: &'a str,
    low: Vec<f64>,
    high: Vec<f64>,
}

/// The jobs of a policy on top of each other.
struct Stack<'a> {
    policy: String,
    bands: Vec<Band<'a>>,
    top: Vec<f64>,
}

fn stack<'a>(run: &PolicyRun, window: (f64, f64), colours: &'a [(String, String)]) -> Stack<'a> {
    let mut top = vec![0.0; COLUMNS];
    let mut bands = Vec::new();
    for (job, rates) in busiest_jobs(run, window) {
        let values = buckets(rates, window, COLUMNS);
        let high: Vec<f64> = top.iter().zip(values).map(|(l, v)| l + v).collect();
        let low = std::mem::replace(&mut top, high.clone());
        bands.push(Band {
            name: format!("{} {}", job.figures.id, job.figures.model),
            colour: colour_of(colours, &job.figures.model),
            low,
            high,
        });
    }
    Stack { policy: run.policy.clone(), bands, top }
}

/// Load of the link that is busiest in the first run, under every policy.
pub(super) fn busiest_link(runs: &[&PolicyRun], capacity: f64) -> Option<(String, Vec<(String, String)>)> {
    let reference = runs.first()?;
    let order = |a: &(usize, f64), b: &(usize, f64)| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0));
    let loads = reference.links.iter().enumerate().map(|(i, l)| (i, l.utilisation));
    let (at, _) = loads.max_by(order)?;
    let name = reference.links.get(at)?.link.clone();
    let end = runs.iter().map(|r| r.makespan_s).fold(1.0, f64::max);
    let draw = |run: &&PolicyRun| {
        let points: &[RatePoint] = run.link_rates.get(at).map_or(&[], Vec::as_slice);
        let values = buckets(points, (0.0, end), COLUMNS);
        let x: Vec<f64> = (0..COLUMNS).map(|i| (i as f64 + 0.5) * end / COLUMNS as f64).collect();
        let mut chart = Chart::new(&format!("{name} under {}", run.policy), 120.0, (0.0, end), capacity.max(1.0));
        chart.axes("s", &|v| format!("{} %", number(v / capacity.max(1.0) * 100.0)));
        let clipped: Vec<f64> = values.iter().map(|v| v.min(capacity)).collect();
        chart.band(&x, &vec![0.0; COLUMNS], &clipped, "--c3", 0.55, &name);
        (run.policy.clone(), chart.finish())
    };
    Some((name.clone(), runs.iter().map(draw).collect()))
}
