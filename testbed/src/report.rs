//! From the figures of runs to what people read: one JSON document, a table and a picture in the terminal, and one
//! self-contained HTML page. Makes no measurement of its own.
//!
//! The rules of honesty: both sides of a comparison come from the same invocation, axes begin at 0, every repeat is
//! listed, doubts stand first.

pub mod about;
pub mod page;
pub mod picture;
pub mod simulated;
pub mod stats;
pub mod table;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};

use crate::run::PolicyRun;

pub use about::About;
pub use page::{html, simulated};
pub use picture::picture;
pub use simulated::Simulated;
pub use stats::{Comparison, Summary, compare, summaries};
pub use table::table;

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
    if let ([only], Some(fields)) = (list.as_slice(), document.as_object_mut()) {
        for (key, value) in only.as_object().into_iter().flatten() {
            fields.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    document
}

fn run_json(about: &About, run: &PolicyRun) -> Value {
    let mut value = serde_json::to_value(run).unwrap_or(Value::Null);
    let jobs = value.get_mut("jobs").and_then(Value::as_array_mut);
    for (json, job) in jobs.into_iter().flatten().zip(&run.jobs) {
        if let (Some(fields), Some(slowdown)) = (json.as_object_mut(), about.slowdown(job)) {
            fields.insert("slowdown".into(), json!(slowdown));
        }
    }
    value
}

/// A machine whose timers are later than this at the 99th percentile makes figures doubtful, µs.
const LATE_US: u64 = 5_000;

/// What makes the figures doubtful, in sentences; empty when nothing does.
pub fn warnings(runs: &[PolicyRun]) -> Vec<String> {
    let mut found = Vec::new();
    let mut say = |text: String| {
        if !found.contains(&text) {
            found.push(text);
        }
    };
    for run in runs {
        if run.lateness.p99_us > LATE_US {
            say(format!(
                "The machine was busy during {} (repeat {}): timers were {:.1} ms late at the 99th percentile.",
                run.policy,
                run.repeat + 1,
                run.lateness.p99_us as f64 / 1e3
            ));
        }
        for note in &run.notes {
            let all = runs.iter().all(|r| r.notes.contains(note));
            say(if all { note.clone() } else { format!("{}: {note}", run.policy) });
        }
    }
    let repeats = summaries(runs).iter().map(|s| s.jct_mean_s.len()).min().unwrap_or(0);
    if repeats < 3 && runs.len() > 1 {
        say(format!("Only {repeats} repeat(s) of each policy: differences of a few per cent may be chance."));
    }
    if let Some(why) = stats::unlike(runs) {
        say(why);
    }
    found
}
