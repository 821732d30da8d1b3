//! What a simulation hands over: `result`, the same to the byte for the same scenario, and `machine`, which is not.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use super::log::Outcome;
use super::metrics::Figures;
use super::profile::Parts;
use crate::run::result::{mean, percentile};
use crate::scenario::{Policy, Scenario};

/// The deterministic part of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RunResult {
    /// The scheduler, as it was asked for.
    pub policy: String,
    /// What every reader must know first: jobs without an end, jobs left out, settings that decide outcomes.
    pub notes: Vec<String>,
    /// Factor on every compute time.
    pub compute_scale: f64,
    /// The scheduler's own counters.
    pub counters: BTreeMap<&'static str, f64>,
    /// All metrics.
    #[serde(flatten)]
    pub figures: Figures,
}

/// The part that depends on the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MachineResult {
    /// Version of this program.
    pub version: String,
    /// Seconds the simulation took.
    pub wall_s: f64,
    /// Events per second of that.
    pub events_per_s: f64,
    /// Ends of flows per second of that.
    pub flow_ends_per_s: f64,
    /// Most memory this process ever had, bytes; nothing where the system does not say.
    pub peak_memory_bytes: Option<u64>,
    /// Decisions of the scheduler that were measured.
    pub decisions: usize,
    /// Microseconds of a decision: mean, 50th, 90th and 99th percentile, largest.
    pub decision_us: [f64; 5],
    /// Where the time went, if that was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Parts>,
}

/// One run: both parts.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SimResult {
    /// Deterministic.
    pub result: RunResult,
    /// Not.
    pub machine: MachineResult,
}

impl SimResult {
    /// From what was observed, and how long that took.
    pub fn of(scenario: &Scenario, policy: &Policy, outcome: &Outcome, wall: Duration) -> SimResult {
        let figures = Figures::of(scenario, outcome);
        let result = RunResult {
            policy: policy.to_string(),
            notes: notes(scenario, &figures),
            compute_scale: scenario.defaults.compute_scale.as_f64(),
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
            profile: outcome.profile.map(|profile| Parts::of(profile, wall)),
        };
        SimResult { result, machine }
    }

    /// The file of one run: `{"scenario", "seed", "result": …, "machine": …}`.
    pub fn file(&self, scenario: &Scenario) -> Value {
        json!({
            "schema": 1,
            "scenario": scenario.name,
            "seed": scenario.seed,
            "result": self.result,
            "machine": self.machine,
        })
    }

    /// The name of that file.
    pub fn file_name(scenario: &Scenario, policy: &Policy) -> String {
        format!("{}.{}.json", scenario.name, policy.file_part())
    }

    /// The jobs as CSV, one line each.
    pub fn csv(&self) -> String {
        let mut text =
            String::from("id,model,arrival_s,start_s,end_s,jct_s,run_time_s,wait_s,slowdown,round_s,iteration_s\n");
        for j in &self.result.figures.jobs {
            let times = [
                j.arrival_s,
                j.start_s,
                j.end_s,
                j.jct_s,
                j.run_time_s,
                j.wait_s,
                j.slowdown,
                j.round_s,
                j.iteration_s,
            ];
            let times: Vec<String> = times.iter().map(f64::to_string).collect();
            text.push_str(&format!("{},{},{}\n", j.id, quoted(&j.model), times.join(",")));
        }
        text
    }
}

/// The document of `--json`: schema 1, one entry per run; with one run its fields stand at the top level too.
pub fn document(scenario: &Scenario, runs: &[SimResult]) -> Value {
    let list: Vec<Value> = runs.iter().map(|r| serde_json::to_value(&r.result).unwrap_or(Value::Null)).collect();
    let mut document = json!({ "schema": 1, "scenario": scenario.name, "seed": scenario.seed, "runs": list });
    if let ([only], Some(fields)) = (list.as_slice(), document.as_object_mut()) {
        for (key, value) in only.as_object().into_iter().flatten() {
            fields.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    document
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

/// A text as a field of CSV.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().ok().map(|kb| kb * 1024)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::scenario::Notation;
    use crate::sim::{Change, Orders, Scheduler, Watch, World};

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
            let outcome = crate::sim::run(&s, &mut Equal, &Watch::default()).unwrap_or_else(|e| panic!("{e}"));
            SimResult::of(&s, &policy, &outcome, Duration::from_millis(ms))
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
