//! `bound` as a row beside the schedulers: lower bounds of the same figures, for the same jobs on the same hosts.

use sluice_report::JobFigures;
use sluice_report::simulated::{Concurrency, Figures, SimJob, Spread};
use sluice_scenario::Scenario;

use super::log::Outcome;
use super::policy::bound::{JobWork, bounds};

/// Lower bounds where jobs stand as in `outcome`, whose figures are `seen`. Each job's times are those it needs alone, the
/// mean is the bound on the mean of all; figures that have no bound are empty.
pub(super) fn figures(scenario: &Scenario, outcome: &Outcome, seen: Figures) -> Figures {
    let ended = outcome.jobs.iter().enumerate().filter(|(_, log)| log.ended.is_some());
    let works: Vec<Option<JobWork>> = ended.map(|(at, log)| JobWork::of(scenario, at, &log.placement)).collect();
    let jobs: Vec<SimJob> =
        seen.jobs.into_iter().zip(&works).filter_map(|(job, work)| Some(alone(job, work.as_ref()?))).collect();
    let over = |f: fn(&SimJob) -> f64| Spread::of(jobs.iter().map(f).collect());
    let works: Vec<JobWork> = works.into_iter().flatten().collect();
    let least = bounds(&works);
    let first = works.iter().map(|w| w.arrival_s).fold(f64::INFINITY, f64::min);
    let jct = Spread { mean: least.mean_jct_s, ..over(|j| j.figures.jct_s) };
    Figures {
        unfinished: seen.unfinished,
        jct_mean_s: jct.mean,
        jct_p50_s: jct.p50,
        jct_p99_s: jct.p99,
        jct_max_s: jct.max,
        makespan_s: if first.is_finite() { least.last_end_s - first } else { 0.0 },
        jct,
        run_time: over(|j| j.figures.run_time_s),
        slowdown: over(|j| j.slowdown),
        concurrency: Concurrency::default(),
        end_s: least.last_end_s,
        jobs,
        ..Figures::default()
    }
}

fn alone(seen: SimJob, work: &JobWork) -> SimJob {
    let run_time_s = work.run_time_s();
    let round_s = work.iteration_s - work.before_s;
    let figures =
        JobFigures::new(&seen.figures.id, &seen.figures.model, seen.figures.arrival_s, work.arrival_s, work.end_s());
    SimJob {
        // A bound knows no waiting: every job would start when it arrives.
        figures: JobFigures {
            jct_s: run_time_s,
            run_time_s,
            wait_s: 0.0,
            round_s,
            iteration_s: work.iteration_s,
            ..figures
        },
        slowdown: if seen.isolated_run_s > 0.0 { run_time_s / seen.isolated_run_s } else { 1.0 },
        speed: None,
        dependency_stall_s: 0.0,
        ..seen
    }
}
