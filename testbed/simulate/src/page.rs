//! Simulated runs as the page wants them: what the charts need, kept while the rest of a run is forgotten.

use sluice_report::simulated::SimResult;
use sluice_report::{JobResult, PolicyRun, RatePoint};

use crate::log::Outcome;

/// Rounds that are drawn; a page with more would be megabytes of bars.
const MAX_ROUNDS: usize = 20_000;

/// One run as the charts want it, from its figures and what they were made of.
pub fn charted(result: &SimResult, outcome: &Outcome) -> PolicyRun {
    let figures = &result.result.figures;
    let ended = || outcome.jobs.iter().enumerate().filter(|(_, log)| log.ended.is_some());
    let drawn = outcome.jobs.iter().map(|log| log.rounds.len()).sum::<usize>() <= MAX_ROUNDS;
    let jobs = figures.jobs.iter().zip(ended()).map(|(f, (_, log))| JobResult {
        figures: f.figures.clone(),
        rounds: if drawn {
            log.rounds.iter().map(|r| (r.began.as_secs_f64(), r.ended.as_secs_f64())).collect()
        } else {
            Vec::new()
        },
        ..JobResult::default()
    });
    let jobs: Vec<JobResult> = jobs.collect();
    let mut rates = rates(outcome).into_iter().map(Some).collect::<Vec<_>>();
    let rates = ended().filter_map(|(at, _)| rates.get_mut(at)?.take()).collect();
    PolicyRun {
        policy: result.result.policy.clone(),
        jct_mean_s: figures.jct_mean_s,
        jct_p50_s: figures.jct_p50_s,
        jct_p99_s: figures.jct_p99_s,
        jct_max_s: figures.jct_max_s,
        makespan_s: figures.makespan_s,
        jobs,
        rates,
        ..PolicyRun::default()
    }
}

/// Each job's sending rate over time, by place; nothing without an event log.
fn rates(outcome: &Outcome) -> Vec<Vec<RatePoint>> {
    let Some(timeline) = &outcome.timeline else { return Vec::new() };
    let mut points: Vec<Vec<RatePoint>> = vec![Vec::new(); outcome.jobs.len()];
    let mut flows: Vec<Vec<f64>> = vec![Vec::new(); outcome.jobs.len()];
    for change in &timeline.changes {
        let (Some(list), Some(mine)) = (points.get_mut(change.job.0), flows.get_mut(change.job.0)) else { continue };
        let t_s = change.at.as_secs_f64();
        // A point ends its interval: what was sent until now.
        let rate = mine.iter().sum::<f64>() * 8.0;
        if list.last().is_none_or(|last| last.t_s < t_s) {
            list.push(RatePoint { t_s, rate });
        }
        let flow = change.flow as usize;
        if mine.len() <= flow {
            mine.resize(flow + 1, 0.0);
        }
        mine[flow] = change.rate;
    }
    points
}
