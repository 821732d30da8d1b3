//! From what was observed to what is handed over: [`SimResult`].

use std::time::Duration;

use sluice_report::simulated::{Figures, MachineResult, RunResult, SimResult};
use sluice_report::stats::{mean, percentile};
use sluice_scenario::{Policy, Scenario};

use super::log::Outcome;
use super::metrics::figures;

/// From what was observed, and how long that took.
pub fn result(scenario: &Scenario, policy: &Policy, outcome: &Outcome, wall: Duration) -> SimResult {
    let figures = figures(scenario, outcome);
    let result = RunResult {
        policy: policy.to_string(),
        notes: notes(scenario, &figures),
        compute_scale: scenario.defaults.compute_scale.to_f64(),
        counters: outcome.counters.iter().copied().collect(),
        figures,
    };
    let wall_s = wall.as_secs_f64();
    let per_s = |n: u64| if wall_s > 0.0 { n as f64 / wall_s } else { 0.0 };
    let mut us: Vec<f64> = outcome.decisions.iter().map(|s| s * 1e6).collect();
    us.sort_by(f64::total_cmp);
    let at = |q| percentile(&us, q);
    let machine = MachineResult {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        wall_s,
        events_per_s: per_s(outcome.events),
        flow_ends_per_s: per_s(outcome.flow_ends),
        peak_memory_bytes: peak_memory(),
        decisions: us.len(),
        decision_us: [mean(&us), at(0.5), at(0.9), at(0.99), at(1.0)],
        profile: outcome.profile.map(|profile| profile.parts(wall)),
    };
    SimResult { result, machine }
}

fn notes(scenario: &Scenario, figures: &Figures) -> Vec<String> {
    let mut notes = Vec::new();
    if !figures.unfinished.is_empty() {
        let (n, all) = (figures.unfinished.len(), scenario.jobs.len());
        notes.push(format!("{n} of {all} jobs had not ended when the run was stopped; they are in no mean"));
    }
    if scenario.dropped_jobs > 0 {
        notes.push(format!("{} jobs of the trace were larger than max_gpus and left out", scenario.dropped_jobs));
    }
    if scenario.placement.freeze {
        notes.push("hosts were assigned as if every job ended at its isolated run time".to_owned());
    }
    notes
}

fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().ok().map(|kb| kb * 1024)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;
    use sluice_report::simulated::document;

    use super::*;
    use crate::{Change, Orders, Scheduler, Watch, World};
    use sluice_scenario::Notation;

    struct Equal;

    impl Scheduler for Equal {
        fn decide(&mut self, _: &World<'_>, _: &[Change], _: &mut Orders) {}
        fn counters(&self) -> Vec<(&'static str, f64)> {
            vec![("asked", 1.0)]
        }
        fn decision_times(&self) -> &[f64] {
            &[3e-6, 1e-6]
        }
    }

    #[test]
    fn the_result_is_the_same_to_the_byte_and_has_the_shape_of_the_format() {
        let text = "version = 1\nname = \"t\"\nseed = 4\n[network]\nkind = \"star\"\nhosts = 3\ngpus = 2\ngbps = 8\n[placement]\npolicy = \"random\"\n[cross_traffic]\nevery_s = 1\n[defaults]\ncompute_jitter = 0.1\n[[jobs]]\nid = \"a\"\nmodel = \"vgg16\"\narch = \"ring\"\nworkers = 3\niterations = 5\n";
        let s = Scenario::parse(text, Notation::Toml, "t", Path::new(".")).unwrap_or_else(|e| panic!("{e}"));
        let policy: Policy = "fair:cubic".parse().unwrap_or_else(|e| panic!("{e}"));
        let run = |ms| {
            let outcome = crate::run(&s, &mut Equal, &Watch::default()).unwrap_or_else(|e| panic!("{e}"));
            result(&s, &policy, &outcome, Duration::from_millis(ms))
        };
        let (a, b) = (run(10), run(20));
        let text = |r: &SimResult| document(&s, std::slice::from_ref(r)).to_string();
        assert_eq!(text(&a), text(&b));
        let d = document(&s, std::slice::from_ref(&a));
        for key in ["policy", "jct_mean_s", "jct_p50_s", "jct_p99_s", "jct_max_s", "jobs"] {
            assert_eq!(d[key], d["runs"][0][key], "{key}");
            assert!(!d[key].is_null(), "{key}");
        }
        for key in ["id", "jct_s", "run_time_s", "wait_s", "slowdown", "round_s"] {
            assert!(!d["jobs"][0][key].is_null(), "{key}");
        }
        assert_eq!((&d["schema"], &d["scenario"], &d["seed"]), (&json!(1), &json!("t"), &json!(4)));
        assert!(document(&s, &[a.clone(), b]).get("policy").is_none());
        assert_eq!(SimResult::file_name(&s, &policy), "t.fair-cubic.json");
        let file = a.file(&s);
        assert_eq!((&file["result"]["counters"]["asked"], &file["machine"]["decisions"]), (&json!(1.0), &json!(2)));
        assert_eq!(a.machine.decision_us[4].round(), 3.0);
        assert_eq!(a.csv().lines().count(), 2);
    }
}
