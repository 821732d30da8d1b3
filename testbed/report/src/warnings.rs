//! Why figures of runs on the testbed are doubtful, in sentences.

use crate::measured::PolicyRun;
use crate::stats::{self, summaries};

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
