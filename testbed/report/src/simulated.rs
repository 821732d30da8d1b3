//! What a simulation hands over, as plain data: `result`, the same to the byte for the same scenario, and `machine`,
//! which is not; its JSON and CSV.

pub mod compare;
mod figures;
pub mod profile;
pub mod table;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use crate::json::lift_only;
use sluice_scenario::{Policy, Scenario};

pub use figures::{Concurrency, Fairness, Figures, LinkFigures, SimJob, Spread, Tier};
pub use profile::Parts;

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
    /// All metrics, as fields of this object.
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
    /// The same to the byte for the same scenario.
    pub result: RunResult,
    /// Time and memory: another one each time.
    pub machine: MachineResult,
}

impl SimResult {
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
            let f = &j.figures;
            let times = [
                f.arrival_s,
                f.start_s,
                f.end_s,
                f.jct_s,
                f.run_time_s,
                f.wait_s,
                j.slowdown,
                f.round_s,
                f.iteration_s,
            ];
            let times: Vec<String> = times.iter().map(f64::to_string).collect();
            text.push_str(&format!("{},{},{}\n", f.id, quoted(&f.model), times.join(",")));
        }
        text
    }
}

/// The document of `--json`: schema 1, one entry per run; with one run its fields stand at the top level too.
pub fn document(scenario: &Scenario, runs: &[SimResult]) -> Value {
    let list: Vec<Value> = runs.iter().map(|r| serde_json::to_value(&r.result).unwrap_or(Value::Null)).collect();
    let mut document = json!({ "schema": 1, "scenario": scenario.name, "seed": scenario.seed, "runs": list });
    lift_only(&mut document);
    document
}

/// A text as a field of CSV.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}
