//! Where a run's time went (`sluice sim run --profile`), and the table of it.

use serde::Serialize;

use super::SimResult;

/// The parts of a run in seconds; together they are its wall time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Parts {
    /// Computing rates: finding what hangs together, filling, planning what happens next.
    pub sharing_s: f64,
    /// In the scheduler under test.
    pub scheduler_s: f64,
    /// Everything else.
    pub events_s: f64,
}

/// The profiles of runs as a table, plain text: time by part, events and ends of flows per second, the 90th percentile
/// of what one decision of one host took, and the most memory that the process ever had, which runs share.
pub fn table(runs: &[SimResult]) -> String {
    let width = runs.iter().map(|r| r.result.policy.len()).max().unwrap_or(0).max("profile".len());
    let mut out = format!(
        "{:width$}  {:>10} {:>10} {:>10} {:>10} {:>11} {:>9} {:>11} {:>12} {:>10}\n",
        "profile",
        "wall",
        "sharing",
        "scheduler",
        "events",
        "events",
        "a second",
        "flow ends",
        "decision p90",
        "memory"
    );
    for run in runs {
        let (m, f) = (&run.machine, &run.result.figures);
        let parts = m.profile.unwrap_or_default();
        let decision = if m.decisions > 0 { format!("{:.1} µs", m.decision_us[2]) } else { "-".to_owned() };
        let memory = m.peak_memory_bytes.map_or("-".to_owned(), |bytes| format!("{} MiB", bytes >> 20));
        out += &format!(
            "{:width$}  {:>8.3} s {:>8.3} s {:>8.3} s {:>8.3} s {:>11} {:>9.0} {:>11} {decision:>12} {memory:>10}\n",
            run.result.policy,
            m.wall_s,
            parts.sharing_s,
            parts.scheduler_s,
            parts.events_s,
            f.events,
            m.events_per_s,
            f.flow_ends,
        );
    }
    out
}
