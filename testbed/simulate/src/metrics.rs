//! From raw observations to figures: every metric of `simulation.md` section 8.

mod links;
#[cfg(test)]
mod tests;

use sluice_report::JobFigures;
use sluice_report::simulated::{Concurrency, Fairness, Figures, SimJob, Spread};
use sluice_report::stats::mean;
use sluice_scenario::{Job, Scenario};

use self::links::Links;
use super::log::{JobLog, Outcome};

/// The figures of a run.
pub fn figures(scenario: &Scenario, outcome: &Outcome) -> Figures {
    let pairs = || scenario.jobs.iter().zip(&outcome.jobs);
    let ended = || pairs().filter(|(_, log)| log.ended.is_some());
    let jobs: Vec<SimJob> = ended().map(|(job, log)| figures_of(scenario, job, log)).collect();
    let over = |f: fn(&SimJob) -> f64| Spread::of(jobs.iter().map(f).collect());
    let networked = jobs.iter().filter(|j| j.flows > 0).map(|j| j.figures.jct_s).collect();
    let rounds = || outcome.jobs.iter().flat_map(|log| &log.rounds);
    let first = outcome.jobs.iter().map(|j| j.arrival).min().unwrap_or_default();
    let last = outcome.jobs.iter().filter_map(|j| j.ended).max().unwrap_or(outcome.end);
    // With unfinished jobs the run lasted until it was stopped.
    let last = if jobs.len() < scenario.jobs.len() { outcome.end } else { last };
    let makespan_s = last.minus(first).as_secs_f64();
    let Links { links, tiers, overlap } = links::figures(scenario, outcome, makespan_s);
    let weight: f64 = ended().map(|(job, _)| job.weight).sum();
    let weighted: f64 = ended().zip(&jobs).map(|((job, _), figures)| job.weight * figures.figures.jct_s).sum();
    let per_second = |integral: f64| if makespan_s > 0.0 { integral / 1e9 / makespan_s } else { 0.0 };
    let jct = over(|j| j.figures.jct_s);
    Figures {
        unfinished: pairs().filter(|(_, log)| log.ended.is_none()).map(|(job, _)| job.id.clone()).collect(),
        jct_mean_s: jct.mean,
        jct_p50_s: jct.p50,
        jct_p99_s: jct.p99,
        jct_max_s: jct.max,
        jct_weighted_mean_s: if weight > 0.0 { weighted / weight } else { 0.0 },
        makespan_s,
        jct,
        jct_networked: Spread::of(networked),
        run_time: over(|j| j.figures.run_time_s),
        wait: over(|j| j.figures.wait_s),
        slowdown: over(|j| j.slowdown),
        round_s: Spread::of(rounds().map(|r| r.ended.minus(r.began).as_secs_f64()).collect()),
        iteration_s: Spread::of(outcome.jobs.iter().flat_map(iterations).collect()),
        fairness: fairness(&jobs),
        concurrency: Concurrency {
            jobs_mean: per_second(outcome.running.integral),
            jobs_max: outcome.running.most,
            flows_mean: per_second(outcome.active.integral),
            flows_max: outcome.active.most,
        },
        dependency_stall_s: jobs.iter().map(|j| j.dependency_stall_s).sum(),
        overlap,
        cross_link_bytes: outcome.links.iter().map(|l| l.cross_bytes).sum(),
        tiers,
        events: outcome.events,
        flow_ends: outcome.flow_ends,
        end_s: outcome.end.as_secs_f64(),
        jobs,
        links,
    }
}

/// Lengths of a job's iterations, from one begin of compute to the next; the last ends with its round.
fn iterations(log: &JobLog) -> impl Iterator<Item = f64> {
    let ends = log.rounds.iter().skip(1).map(|r| r.compute).chain(log.rounds.last().map(|r| r.ended));
    log.rounds.iter().zip(ends).map(|(r, end)| end.minus(r.compute).as_secs_f64())
}

fn figures_of(scenario: &Scenario, job: &Job, log: &JobLog) -> SimJob {
    let (start, end) = (log.started.unwrap_or_default(), log.ended.unwrap_or_default());
    let run_time_s = end.minus(start).as_secs_f64();
    let isolated_run_s = log.isolated_run.as_secs_f64();
    let iteration_s = mean(&iterations(log).collect::<Vec<_>>());
    let batch = job.batch.as_deref().and_then(|b| b.split_whitespace().next()?.parse::<f64>().ok());
    let samples = batch.filter(|_| iteration_s > 0.0).map(|b| b * f64::from(job.workers) / iteration_s);
    let hosts = log.placement.workers.iter().chain(&log.placement.servers);
    SimJob {
        figures: JobFigures {
            id: job.id.clone(),
            model: job.model.clone().unwrap_or_default(),
            arrival_s: log.arrival.as_secs_f64(),
            start_s: start.as_secs_f64(),
            end_s: end.as_secs_f64(),
            jct_s: end.minus(log.arrival).as_secs_f64(),
            run_time_s,
            wait_s: start.minus(log.arrival).as_secs_f64(),
            round_s: mean(&log.rounds.iter().map(|r| r.ended.minus(r.began).as_secs_f64()).collect::<Vec<_>>()),
            iteration_s,
        },
        isolated_run_s,
        slowdown: if isolated_run_s > 0.0 { run_time_s / isolated_run_s } else { 1.0 },
        speed: samples,
        dependency_stall_s: log.stalled as f64 / 1e9,
        flows: log.flows,
        hosts: hosts.map(|&h| scenario.network.name(h).to_owned()).collect(),
    }
}

fn fairness(jobs: &[SimJob]) -> Fairness {
    let speeds: Vec<f64> = jobs.iter().filter(|j| j.slowdown > 0.0).map(|j| 1.0 / j.slowdown).collect();
    let (sum, squares) = (speeds.iter().sum::<f64>(), speeds.iter().map(|s| s * s).sum::<f64>());
    let (least, most) =
        (speeds.iter().copied().fold(f64::INFINITY, f64::min), speeds.iter().copied().fold(0.0, f64::max));
    if squares <= 0.0 {
        return Fairness { jain: 1.0, max_over_min: 1.0 };
    }
    Fairness { jain: sum * sum / (speeds.len() as f64 * squares), max_over_min: most / least }
}
