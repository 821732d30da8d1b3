//! Tests of the report on made-up runs: arithmetic, size, and that nothing from outside becomes markup.

use super::*;
use crate::measured::{JobResult, LinkResult, RatePoint};

/// A run in which every job takes `factor` times as long.
pub(super) fn run(policy: &str, repeat: usize, factor: f64) -> PolicyRun {
    let models = ["vgg19", "vgg16", "resnet50", "gpt2"];
    let mut run = PolicyRun { policy: policy.into(), repeat, ..PolicyRun::default() };
    for i in 0..24_u32 {
        let (arrival, round) = (f64::from(i) * 1.3, 0.3 * factor);
        let start = arrival + 0.4 * factor;
        let rounds: Vec<(f64, f64)> =
            (0..12).map(|k| start + f64::from(k) * (round + 0.2) + 0.2).map(|t| (t, t + round)).collect();
        let end = rounds.last().map_or(start, |r| r.1);
        let rates = (0..900)
            .map(|k| {
                let t = f64::from(k) * 0.05;
                let sends = rounds.iter().any(|r| r.0 < t + 0.05 && t < r.1);
                RatePoint { t_s: t + 0.05, rate: if sends { 2.0e8 / factor } else { 0.0 } }
            })
            .collect();
        let model = models.get(i as usize % 4).copied().unwrap_or_default();
        let figures = JobFigures::new(&format!("t{i}"), model, arrival, start, end);
        run.jobs.push(JobResult {
            figures: JobFigures { round_s: round, iteration_s: round + 0.2, ..figures },
            rounds,
            hosts: vec![i as usize % 6],
            ..JobResult::default()
        });
        run.rates.push(rates);
    }
    for i in 0..12 {
        run.links.push(LinkResult { link: format!("h{i}->s0"), utilisation: 0.5 / factor, drops: 3 });
        run.link_rates.push(run.rates.first().cloned().unwrap_or_default());
    }
    run.summarise(6);
    run
}

fn runs() -> Vec<PolicyRun> {
    let policies = [("fair:cubic", 1.3), ("fair:reno", 1.25), ("fair:bbr", 1.4), ("sluice", 1.0)];
    (0..3).flat_map(|r| policies.map(|(p, f)| run(p, r, f + 0.01 * r as f64))).collect()
}

fn about() -> About {
    About {
        scenario: "demo".into(),
        jobs: 24,
        nic: 5e8,
        scale: 50.0,
        compute_scale: 0.25,
        command: "sluice testbed run demo.toml".into(),
        ..About::default()
    }
}

#[test]
fn the_best_tcp_is_the_baseline_and_repeats_are_paired() {
    let compared = compare(&runs());
    let sluice = compared.iter().find(|c| c.policy == "sluice").cloned().unwrap_or_default();
    assert_eq!((sluice.baseline.as_str(), sluice.lower_each.len(), sluice.jobs), ("fair:reno", 3, 24));
    assert!(sluice.lower > 0.0 && sluice.worst_ratio < 1.0 && sluice.slower_jobs == 0, "{sluice:?}");
}

#[test]
fn runs_with_different_jobs_are_not_compared() {
    let mut runs = runs();
    runs.last_mut().into_iter().for_each(|r| r.jobs.truncate(5));
    assert!(compare(&runs).is_empty());
    assert!(warnings(&runs).iter().any(|w| w.contains("different jobs")));
}

#[test]
fn one_run_has_its_fields_at_the_top() {
    let one = [run("sluice", 0, 1.0)];
    let v = json(&about(), &one);
    assert_eq!(v.get("policy").and_then(|p| p.as_str()), Some("sluice"));
    assert_eq!(v.get("runs").and_then(|r| r.as_array()).map(Vec::len), Some(1));
    assert!(v.get("jct_mean_s").is_some());
}

#[test]
fn the_page_is_one_file_and_small() {
    let page = html(&about(), &runs());
    assert!(page.len() < 3 << 20, "{} bytes", page.len());
    for outside in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.find("Read this first").is_none() || page.find("Read this first") < page.find("class=\"answer\""));
    if let Some(path) = std::env::var_os("SLUICE_SAMPLE_PAGE") {
        drop(std::fs::write(path, &page));
    }
}

#[test]
fn nothing_from_outside_is_markup() {
    let mut evil = run("sluice", 0, 1.0);
    let bad = "</script><script>alert(1)</script>\"'&";
    evil.jobs.iter_mut().for_each(|j| (j.figures.id, j.figures.model) = (bad.into(), bad.into()));
    evil.policy = bad.into();
    evil.notes.push(bad.into());
    let about = About { scenario: bad.into(), command: bad.into(), ..about() };
    let page = html(&about, &[evil]);
    assert!(!page.contains("<script>alert"));
}

#[test]
fn table_and_picture_fit_a_terminal() {
    let table = table(&about(), &runs());
    assert!(table.contains("sluice") && table.contains("lower") && table.contains("best TCP"), "{table}");
    assert!(
        table.lines().filter(|l| !l.contains("each repeat") && !l.starts_with('!')).all(|l| l.chars().count() <= 120),
        "{table}"
    );
    let picture = picture(&runs(), 100, 5e8, false);
    assert!(picture.lines().all(|l| l.chars().count() <= 110), "{picture}");
    println!("{table}\n{picture}");
}

#[test]
fn what_unmanaged_traffic_got_stands_beside() {
    assert!(!table(&about(), &runs()).contains("nmanaged"), "there is none");
    let mut beside = runs();
    for run in &mut beside {
        let received = if run.policy == "sluice" { 120_000_000 } else { 160_000_000 };
        (run.cross_bytes, run.cross_interval_s) = (received, 2.0);
    }
    let table = table(&about(), &beside);
    assert!(table.contains("60.0 MB/s") && table.contains("80.0 MB/s"), "{table}");
    assert!(table.contains("Unmanaged traffic received 75 % of what it received beside fair:reno."), "{table}");
    let rows = table.lines().filter(|line| line.contains("MB/s") && !line.starts_with("Unmanaged"));
    assert!(rows.clone().count() == 4 && rows.clone().all(|row| row.chars().count() <= 120), "{table}");
}

#[test]
fn no_runs_are_no_crash() {
    assert!(compare(&[]).is_empty());
    assert!(html(&about(), &[]).contains("</html>"));
    assert_eq!(picture(&[], 80, 1.0, true), "");
    drop(table(&about(), &[PolicyRun::default()]));
    drop(html(&about(), &[PolicyRun::default()]));
}
