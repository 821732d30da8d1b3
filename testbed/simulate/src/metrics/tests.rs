//! Figures of runs that can be worked out by hand.

use std::path::Path;

use sluice_scenario::{Notation, Scenario};

use super::*;
use crate::{Change, Orders, Scheduler, Watch, World};

struct Equal;

impl Scheduler for Equal {
    fn decide(&mut self, _: &World<'_>, _: &[Change], _: &mut Orders) {}
}

fn figures(text: &str) -> Figures {
    let s = Scenario::parse(text, Notation::Toml, "t", Path::new(".")).unwrap_or_else(|e| panic!("{e}"));
    let outcome = crate::run(&s, &mut Equal, &Watch::default()).unwrap_or_else(|e| panic!("{e}"));
    super::figures(&s, &outcome)
}

const TWO: &str = "version = 1\nname = \"t\"\n[network]\nkind = \"star\"\nhosts = 2\ngpus = 2\ngbps = 8\n[placement]\npolicy = \"spread\"\n";

fn ring(id: &str, gb: u64, compute: u32, more: &str) -> String {
    format!(
        "[[jobs]]\nid = \"{id}\"\nbytes = {gb}000000000\ncompute_s = {compute}\narch = \"ring\"\nworkers = 2\niterations = 1\n{more}\n"
    )
}

#[test]
fn a_long_and_a_short_job() {
    // Worked example 5: both begin at 1; short ends at 3, long at 6.
    let f = figures(&format!("{TWO}{}{}", ring("long", 4, 1, "weight = 3"), ring("short", 1, 1, "")));
    assert_eq!((f.jct_mean_s, f.jct_p50_s, f.jct_p99_s, f.jct_max_s, f.makespan_s), (4.5, 3.0, 6.0, 6.0, 6.0));
    assert_eq!(f.jct_weighted_mean_s, 5.25);
    let slow: Vec<f64> = f.jobs.iter().map(|j| j.slowdown).collect();
    assert_eq!(slow, [6.0 / 5.0, 1.5]);
    assert!((f.fairness.max_over_min - 1.25).abs() < 1e-12);
    let (a, b): (f64, f64) = (5.0 / 6.0, 1.0 / 1.5);
    assert!((f.fairness.jain - (a + b).powi(2) / (2.0 * (a * a + b * b))).abs() < 1e-12);
    let up = f.links.iter().find(|l| l.link == "h0->s0").cloned().unwrap_or_default();
    assert_eq!((up.bytes, up.overlap), (5e9, 0.4));
    assert!((up.utilisation - 5.0 / 6.0).abs() < 1e-12 && (up.busy - 5.0 / 6.0).abs() < 1e-12);
    assert_eq!(f.overlap, 0.4);
    assert_eq!((f.concurrency.jobs_max, f.concurrency.flows_max), (2, 4));
    assert!((f.concurrency.jobs_mean - 1.5).abs() < 1e-12);
    assert!((f.concurrency.flows_mean - (2.0 * 4.0 + 3.0 * 2.0) / 6.0).abs() < 1e-12);
    assert_eq!(
        f.tiers.iter().map(|t| (t.tier.as_str(), t.links)).collect::<Vec<_>>(),
        [("host-down", 2), ("host-up", 2)]
    );
    assert!(f.unfinished.is_empty());
}

#[test]
fn jobs_without_an_end_are_named_and_in_no_mean() {
    let f = figures(&format!("{TWO}{}{}[time]\nend_s = 4\n", ring("long", 4, 1, ""), ring("short", 1, 1, "")));
    assert_eq!((f.unfinished.as_slice(), f.jct_mean_s, f.end_s), (&["long".to_owned()][..], 3.0, 4.0));
    // One second at half rate for both from 1 to 3, then long alone until 4.
    let up = f.links.iter().find(|l| l.link == "h0->s0").cloned().unwrap_or_default();
    assert_eq!((up.bytes, up.utilisation), (3e9, 0.75));
}

#[test]
fn waiting_speed_and_bounds() {
    let text =
        format!("{TWO}{}{}", ring("a", 1, 1, ""), ring("b", 1, 1, "arrival_s = 0.5")).replace("gpus = 2", "gpus = 1");
    let f = figures(&text);
    assert_eq!(
        f.jobs.iter().map(|j| (j.figures.wait_s, j.figures.run_time_s, j.figures.jct_s)).collect::<Vec<_>>(),
        [(0.0, 2.0, 2.0), (1.5, 2.0, 3.5)]
    );
    assert_eq!((f.wait.max, f.makespan_s, f.jct_networked.mean), (1.5, 4.0, 2.75));
    // A broadcast can never be ahead of what it broadcasts: at its bound for the whole second.
    let ps = "[[jobs]]\nid = \"p\"\nmodel = \"vgg16\"\nbytes = 1000000000\ncompute_s = 1\narch = \"ps\"\niterations = 2\nplacement = {workers = [\"h0\"], servers = [\"h1\"]}\n";
    let f = figures(&format!("{TWO}{ps}"));
    assert!((f.jobs[0].dependency_stall_s - 2.0).abs() < 1e-8, "{}", f.jobs[0].dependency_stall_s);
    assert_eq!((f.jobs[0].figures.iteration_s, f.jobs[0].figures.round_s, f.jobs[0].speed), (2.0, 1.0, Some(32.0)));
}
