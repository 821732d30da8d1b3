//! Runs on the testbed as one JSON document.

use serde_json::{Value, json};

use crate::about::About;
use crate::measured::PolicyRun;
use crate::stats::{compare, summaries};
use crate::warnings::warnings;

/// The document of `--json`: schema 1, one entry per run, comparisons where there is something to compare. With one
/// run its fields stand at the top level too.
pub fn json(about: &About, runs: &[PolicyRun]) -> Value {
    let list: Vec<Value> = runs.iter().map(|r| run_json(about, r)).collect();
    let mut document = json!({
        "schema": 1,
        "scenario": about.scenario,
        "seed": about.seed,
        "compute_scale": about.compute_scale,
        "scale": about.scale,
        "command": about.command,
        "version": about.version,
        "machine": about.machine,
        "date": about.date,
        "warnings": warnings(runs),
        "policies": summaries(runs),
        "comparisons": compare(runs),
        "runs": list,
    });
    lift_only(&mut document);
    document
}

/// With one run its fields stand at the top level too.
pub(crate) fn lift_only(document: &mut Value) {
    let only = document["runs"].as_array().filter(|runs| runs.len() == 1).and_then(|runs| runs[0].as_object().cloned());
    if let Some(fields) = document.as_object_mut() {
        for (key, value) in only.into_iter().flatten() {
            fields.entry(key).or_insert(value);
        }
    }
}

fn run_json(about: &About, run: &PolicyRun) -> Value {
    let mut value = serde_json::to_value(run).unwrap_or(Value::Null);
    let jobs = value.get_mut("jobs").and_then(Value::as_array_mut);
    for (json, job) in jobs.into_iter().flatten().zip(&run.jobs) {
        if let (Some(fields), Some(slowdown)) = (json.as_object_mut(), about.slowdown(&job.figures)) {
            fields.insert("slowdown".into(), json!(slowdown));
        }
    }
    value
}
