//! The rate-over-time picture for the terminal: one strip per policy over the whole run, then the busiest seconds job
//! by job, in Unicode blocks.

use super::stats::busiest_window;
use super::table::rate;
use crate::measured::{JobResult, PolicyRun, RatePoint};

/// Heights of a cell, from empty to full.
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Jobs shown one by one.
const JOBS: usize = 6;
/// Seconds of the closer look.
const CLOSER_S: f64 = 12.0;
/// ANSI colours of jobs: blue, yellow, green, magenta, cyan, red.
const COLOURS: [u8; 6] = [34, 33, 32, 35, 36, 31];

/// The picture of the first repeat of every policy, `width` columns wide. `nic` is the rate of a host, bit/s, which the
/// closer look names beside its scale.
pub fn picture(runs: &[PolicyRun], width: usize, nic: f64, colour: bool) -> String {
    let first: Vec<&PolicyRun> = runs.iter().filter(|r| r.repeat == 0).collect();
    let Some(reference) = first.first() else { return String::new() };
    let label = first.iter().map(|r| r.policy.chars().count()).max().unwrap_or(6).max(12);
    let columns = width.saturating_sub(label + 3).clamp(20, 400);
    let end = first.iter().map(|r| r.makespan_s).fold(1.0, f64::max);
    let peak = first.iter().map(|r| top(&sampled(r, (0.0, end), columns))).fold(1.0, f64::max);
    let mut out = format!("All jobs together, 0 to {end:.0} s (full height: {})\n", rate(peak));
    for run in &first {
        let strip = cells(&sampled(run, (0.0, end), columns), peak);
        out.push_str(&format!("{:label$} │{strip}\n", run.policy));
    }
    let window = busiest_window(reference, CLOSER_S);
    let shown = first.iter().flat_map(|r| busiest_jobs(r, window));
    let full = shown.map(|(_, rates)| top(&buckets(rates, window, columns))).fold(1.0, f64::max);
    out.push_str(&format!(
        "\nJob by job, {:.0} to {:.0} s: the {JOBS} that send most (full height: {}; a NIC has {})\n",
        window.0,
        window.1,
        rate(full),
        rate(nic)
    ));
    for run in &first {
        out.push_str(&format!("\n{}\n", run.policy));
        for (n, (job, rates)) in busiest_jobs(run, window).into_iter().enumerate() {
            let name = format!("{} {}", job.figures.id, job.figures.model);
            let name: String = name.chars().take(label).collect();
            let strip = cells(&buckets(rates, window, columns), full);
            let code = COLOURS.get(n % COLOURS.len()).copied().unwrap_or(0);
            let strip = if colour { format!("\u{1b}[{code}m{strip}\u{1b}[0m") } else { strip };
            out.push_str(&format!("{name:label$} │{strip}\n"));
        }
    }
    out
}

/// The jobs that send most in a span of time, by id, with their rates.
pub(crate) fn busiest_jobs(run: &PolicyRun, window: (f64, f64)) -> Vec<(&JobResult, &[RatePoint])> {
    let sent = |rates: &[RatePoint]| -> f64 {
        rates.iter().filter(|p| p.t_s > window.0 && p.t_s <= window.1).map(|p| p.rate).sum()
    };
    let mut jobs: Vec<_> = run.jobs.iter().zip(&run.rates).map(|(j, r)| (sent(r), j, r.as_slice())).collect();
    jobs.retain(|(sum, _, _)| *sum > 0.0);
    jobs.sort_by(|a, b| b.0.total_cmp(&a.0));
    jobs.truncate(JOBS);
    jobs.sort_by(|a, b| sluice_scenario::network::by_id(&a.1.figures.id, &b.1.figures.id));
    jobs.into_iter().map(|(_, j, r)| (j, r)).collect()
}

fn sampled(run: &PolicyRun, window: (f64, f64), columns: usize) -> Vec<f64> {
    let mut sum = vec![0.0; columns];
    for rates in &run.rates {
        for (cell, value) in sum.iter_mut().zip(buckets(rates, window, columns)) {
            *cell += value;
        }
    }
    sum
}

/// Mean rate in each of `columns` equal parts of a span of time.
pub(crate) fn buckets(points: &[RatePoint], (from, to): (f64, f64), columns: usize) -> Vec<f64> {
    let part = ((to - from) / columns.max(1) as f64).max(1e-9);
    let mut amount = vec![0.0; columns];
    let mut begin: Option<f64> = None;
    for point in points {
        // A point ends its interval; the first one's length is that of the second.
        let start = begin.unwrap_or_else(|| {
            let step = points.get(1).map_or(part, |next| next.t_s - point.t_s);
            point.t_s - step
        });
        begin = Some(point.t_s);
        let (a, b) = (start.max(from), point.t_s.min(to));
        let mut at = a;
        while at < b {
            let cell = ((at - from) / part).floor().max(0.0);
            let edge = (from + (cell + 1.0) * part).min(b).max(at + part * 1e-6);
            if let Some(slot) = amount.get_mut(cell as usize) {
                *slot += point.rate * (edge - at) / part;
            }
            at = edge;
        }
    }
    amount
}

fn top(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

fn cells(values: &[f64], full: f64) -> String {
    let cell = |v: &f64| {
        let height = (v / full.max(1.0) * 8.0).clamp(0.0, 8.0);
        // Something is never drawn as nothing.
        let height = if *v > full * 0.01 { height.max(1.0) } else { height };
        BLOCKS.get(height.round() as usize).copied().unwrap_or('█')
    };
    values.iter().map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_keep_the_bytes() {
        let points: Vec<RatePoint> = (1..=10).map(|i| RatePoint { t_s: f64::from(i) * 0.1, rate: 80.0 }).collect();
        let sum: f64 = buckets(&points, (0.0, 1.0), 7).iter().sum::<f64>() / 7.0;
        assert!((sum - 80.0).abs() < 1e-6, "{sum}");
        assert_eq!(cells(&[0.0, 0.02, 0.5, 1.0, 9.0].map(|v| v * 100.0), 100.0), " ▁▄██");
    }
}
