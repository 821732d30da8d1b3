//! The page of runs that were written earlier: schedulers on the same jobs, each against one of them.

use serde_json::json;

use super::charts::{key, policy_colour};
use super::sections::{heading, html_table, section};
use super::svg::Chart;
use super::{text, wrapped};
use crate::simulated::compare::{Comparison, Side};
use crate::stats::percentile;
use crate::table::percent;

/// Jobs in the table, those that differ most.
const MAX_JOBS: usize = 40;

/// The page: `rows` of the comparison belong to `sides`, one by one; `baseline` is the index of what others are held against.
pub fn compared(title: &str, sides: &[Side], comparison: &Comparison, baseline: usize) -> String {
    let from = sides.first().and_then(|side| side.from.as_ref());
    let from = from.map_or(String::new(), |(name, seed)| format!("{name}, seed {seed}"));
    let jobs = sides.first().map_or(0, |side| side.jct_s.len());
    let head = format!("<h1>{}</h1><p class=\"soft\">{} jobs of {}</p>", text(title), jobs, text(&from));
    let lead = "Seconds from a job's arrival to its end, waiting for GPUs included.";
    let sections = [
        head,
        section("Job completion time", lead, &table(sides, comparison, baseline)),
        section(
            "Distribution of job completion times",
            "Share of jobs that are done so many seconds after their arrival.",
            &distribution(sides),
        ),
        section(
            "Job by job",
            &format!("Those with the largest difference to the baseline, {MAX_JOBS} at most; in seconds."),
            &by_job(sides, baseline),
        ),
    ];
    let data = json!({
        "schema": 1,
        "scenario": from,
        "baseline": sides.get(baseline).map(|side| side.policy.as_str()),
        "runs": sides.iter().map(|side| json!({ "policy": side.policy, "jct_s": side.jct_s })).collect::<Vec<_>>(),
    });
    wrapped(title, &sections, &data.to_string())
}

fn sorted(side: &Side) -> Vec<f64> {
    let mut all: Vec<f64> = side.jct_s.values().copied().collect();
    all.sort_by(f64::total_cmp);
    all
}

fn table(sides: &[Side], comparison: &Comparison, baseline: usize) -> String {
    let against = comparison.rows.get(baseline);
    let name = against.map_or("", |row| row.policy.as_str());
    let rows: Vec<Vec<String>> = sides
        .iter()
        .zip(&comparison.rows)
        .enumerate()
        .map(|(at, (side, row))| {
            let all = sorted(side);
            let lower = against.filter(|other| at != baseline && other.mean_s > 0.0);
            vec![
                text(&row.policy),
                format!("{:.3} s", row.mean_s),
                lower.map(|other| percent(row.lower_than(other))).unwrap_or_default(),
                format!("{:.3} s", percentile(&all, 0.5)),
                format!("{:.3} s", row.p99_s),
                format!("{:.3} s", percentile(&all, 1.0)),
            ]
        })
        .collect();
    let lower = format!("lower than {name}");
    html_table(&heading(&["scheduler", "mean", &lower, "median", "p99", "max"]), &rows)
}

fn distribution(sides: &[Side]) -> String {
    let longest = sides.iter().flat_map(|side| side.jct_s.values()).copied().fold(0.0, f64::max);
    let mut chart = Chart::new("Distribution of job completion times", 300.0, (0.0, longest.max(0.1)), 1.0);
    chart.axes("s", &|share| format!("{:.0} %", share * 100.0));
    for (n, side) in sides.iter().enumerate() {
        let all = sorted(side);
        let (mut below, mut steps) = (0.0, vec![(0.0, 0.0)]);
        for (i, time) in all.iter().enumerate() {
            let share = (i + 1) as f64 / all.len() as f64;
            steps.extend([(*time, below), (*time, share)]);
            below = share;
        }
        steps.push((longest, below));
        chart.line(steps.into_iter(), &policy_colour(n));
    }
    let legend: Vec<_> = sides.iter().enumerate().map(|(n, side)| (policy_colour(n), side.policy.clone())).collect();
    key(&legend) + &chart.finish()
}

fn by_job(sides: &[Side], baseline: usize) -> String {
    let Some(base) = sides.get(baseline) else { return String::new() };
    let of = |side: &Side, id: &str| side.jct_s.get(id).copied().unwrap_or(f64::NAN);
    let farthest = |id: &str| {
        let away = |side: &Side| (of(side, id) - of(base, id)).abs();
        sides.iter().map(away).fold(0.0, f64::max)
    };
    let mut ids: Vec<(&String, f64)> = base.jct_s.keys().map(|id| (id, farthest(id))).collect();
    ids.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
    let rows: Vec<Vec<String>> = ids
        .into_iter()
        .take(MAX_JOBS)
        .map(|(id, _)| {
            std::iter::once(text(id)).chain(sides.iter().map(|side| format!("{:.3}", of(side, id)))).collect()
        })
        .collect();
    let heads: Vec<&str> = std::iter::once("job").chain(sides.iter().map(|side| side.policy.as_str())).collect();
    html_table(&heading(&heads), &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::compare::compare;

    #[test]
    fn schedulers_stand_side_by_side_and_names_are_no_markup() {
        let side = |policy: &str, a: f64, b: f64| Side {
            policy: policy.into(),
            jct_s: [("j<1>".to_owned(), a), ("j2".to_owned(), b)].into(),
            from: Some(("mix".into(), 7)),
        };
        let sides = [side("fair", 10.0, 20.0), side("sluice", 5.0, 10.0)];
        let page = compared("A & B", &sides, &compare(&sides).expect("the same jobs"), 0);
        for piece in ["<h1>A &amp; B</h1>", "2 jobs of mix, seed 7", "lower than fair", "50.0 %", "j&lt;1&gt;", "<svg"]
        {
            assert!(page.contains(piece), "{piece} in\n{page}");
        }
        assert!(!page.contains("j<1>") && page.ends_with("</main></body></html>\n"));
        assert!(!page.contains("http://") && !page.contains("https://"), "nothing is asked of anybody");
    }
}
