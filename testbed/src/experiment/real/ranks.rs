//! What the ranks of stock jobs say and do, from their first line to the end of all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::fault::Striker;
use super::{Bench, Settings};
use crate::job;
use crate::run::daemons::Daemons;
use crate::run::{RunError, launch};

/// A line of the script.
#[derive(Debug, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(super) enum Line {
    Begin { gradient_bytes: u64 },
    Iteration { rank: usize, begin_ns: u64, sync_ns: u64, end_ns: u64 },
    End { rank: usize, losses: String, weights: String },
}

/// What a rank put out.
pub(super) type Output = launch::Output<Line>;

/// One iteration of one rank, CLOCK_MONOTONIC ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) begin: u64,
    pub(super) sync: u64,
    pub(super) end: u64,
}

/// What all ranks of a run came to.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) gradient_bytes: u64,
    /// By job and rank.
    pub(super) times: BTreeMap<(usize, usize), Vec<Times>>,
    pub(super) hashes: BTreeSet<String>,
    /// When a daemon first managed a flow.
    pub(super) managed: Option<u64>,
}

/// Listens until all ranks of all `jobs` have ended.
///
/// # Errors
/// A rank that fails, or hangs; an interruption.
pub(super) fn watch(
    bench: &Bench<'_>,
    settings: &Settings,
    jobs: usize,
    daemons: Option<&Daemons>,
    from: &Receiver<(usize, Output)>,
    striker: &mut Striker<'_>,
) -> Result<Outcome, RunError> {
    let mut outcome = Outcome::default();
    let mut left = jobs * settings.ranks;
    // Far beyond what any link needs: a rank that hangs must end the run.
    let deadline = Instant::now() + Duration::from_secs(60 + 10 * settings.iterations as u64);
    while left > 0 {
        let of_first = outcome.times.iter().filter(|((job, _), _)| *job == 0);
        striker.look(of_first.map(|(_, times)| times.len()).max());
        if outcome.managed.is_none()
            && let Some(daemons) = daemons
            && daemons.get(0, "/api/v1/snapshot").is_some_and(|text| text.contains("\"managed\""))
        {
            outcome.managed = Some(job::now());
        }
        if bench.stop.load(Ordering::Relaxed) {
            return Err(RunError::Interrupted);
        }
        let (job, output) = match from.recv_timeout(Duration::from_millis(50)) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => continue,
            Err(_) => return Err(RunError::Plan("the ranks did not end in time".into())),
        };
        match output {
            Output::Line(Line::Begin { gradient_bytes }) => outcome.gradient_bytes = gradient_bytes,
            Output::Line(Line::Iteration { rank, begin_ns, sync_ns, end_ns }) => {
                outcome.times.entry((job, rank)).or_default().push(Times {
                    begin: begin_ns,
                    sync: sync_ns,
                    end: end_ns,
                });
            }
            Output::Line(Line::End { rank, losses, weights }) => {
                left -= 1;
                outcome.hashes.insert(format!("{job} {rank} {losses} {weights}"));
            }
            Output::Ended(status) if !outcome.hashes.iter().any(|hash| hash.starts_with(&format!("{job} "))) => {
                let what = status.lines().last().unwrap_or("it said nothing").to_owned();
                return Err(RunError::Job { job: format!("real-{job}"), rank: 0, host: String::new(), what });
            }
            Output::Ended(_) => {}
        }
    }
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_scripts_are_read() {
        let line =
            r#"{"event": "iteration", "rank": 1, "i": 3, "begin_ns": 1, "sync_ns": 2, "end_ns": 9, "loss": 0.5}"#;
        let read = |text: &str| launch::values_in(text.as_bytes()).collect::<Vec<Line>>();
        assert!(matches!(read(line)[..], [Line::Iteration { rank: 1, begin_ns: 1, .. }]));
        let end = r#"{"event": "end", "rank": 0, "losses": "a", "weights": ""}"#;
        assert!(matches!(read(&format!("{end}{line}\n"))[..], [Line::End { .. }, Line::Iteration { .. }]));
        assert!(read("warning: something").is_empty());
    }
}
