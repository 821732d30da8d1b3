//! From raw observations to figures: every metric of `simulation.md` section 8.

mod links;
#[cfg(test)]
mod tests;

use serde::Serialize;

pub use links::{LinkFigures, Tier};

use super::log::{JobLog, Outcome};
use crate::run::result::{mean, percentile};
use crate::scenario::{Job, Scenario};

/// A distribution in six numbers; percentiles are nearest ranks. All 0 where there is nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
}

impl Spread {
    /// Of these values, in any order.
    pub fn of(mut values: Vec<f64>) -> Spread {
        // Summed in the order given, which is that of the file, before sorting.
        let mean = mean(&values);
        values.sort_by(f64::total_cmp);
        let at = |q| percentile(&values, q);
        Spread { mean, p50: at(0.5), p95: at(0.95), p99: at(0.99), min: at(0.0), max: at(1.0) }
    }
}

/// One job. Times in seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct JobFigures {
    /// Its id.
    pub id: String,
    /// Its model; empty where it has none.
    pub model: String,
    /// When it entered the queue.
    pub arrival_s: f64,
    /// When it got its GPUs.
    pub start_s: f64,
    /// When its last round ended.
    pub end_s: f64,
    /// End minus arrival.
    pub jct_s: f64,
    /// End minus start.
    pub run_time_s: f64,
    /// Start minus arrival.
    pub wait_s: f64,
    /// Run time alone on its hosts under equal sharing.
    pub isolated_run_s: f64,
    /// Run time over that.
    pub slowdown: f64,
    /// Mean length of a round.
    pub round_s: f64,
    /// Mean length of an iteration.
    pub iteration_s: f64,
    /// Samples per second, where the batch is a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed: Option<f64>,
    /// Flow-seconds in which a flow was at the bound its predecessor set.
    pub dependency_stall_s: f64,
    /// Network flows in a round.
    pub flows: usize,
    /// Names of its hosts, workers by rank, then servers.
    pub hosts: Vec<String>,
}

/// Means over time and largest values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Concurrency {
    /// Running jobs, mean over the makespan.
    pub jobs_mean: f64,
    /// Most running jobs.
    pub jobs_max: u64,
    /// Active flows of jobs, mean over the makespan.
    pub flows_mean: f64,
    /// Most active flows.
    pub flows_max: u64,
}

/// How evenly jobs were slowed down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Fairness {
    /// Jain's index of 1/slowdown: 1 is even.
    pub jain: f64,
    /// Largest over smallest slowdown.
    pub max_over_min: f64,
}

/// Everything about one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Ids of jobs without an end at `end_s`; they are in no mean.
    pub unfinished: Vec<String>,
    /// Mean JCT.
    pub jct_mean_s: f64,
    /// Median.
    pub jct_p50_s: f64,
    /// 99th percentile.
    pub jct_p99_s: f64,
    /// Largest.
    pub jct_max_s: f64,
    /// Mean JCT with the jobs' weights.
    pub jct_weighted_mean_s: f64,
    /// Last end minus first arrival.
    pub makespan_s: f64,
    /// JCT.
    pub jct: Spread,
    /// JCT of jobs with at least one network flow.
    pub jct_networked: Spread,
    /// End minus start.
    pub run_time: Spread,
    /// Start minus arrival.
    pub wait: Spread,
    /// Run time over isolated run time.
    pub slowdown: Spread,
    /// Rounds of all jobs.
    pub round_s: Spread,
    /// Iterations of all jobs.
    pub iteration_s: Spread,
    /// Evenness of slowdowns.
    pub fairness: Fairness,
    /// Running jobs and active flows.
    pub concurrency: Concurrency,
    /// Flow-seconds at a bound, all jobs.
    pub dependency_stall_s: f64,
    /// Mean over links with any job's flow: part of that time in which two or more jobs had flows there.
    pub overlap: f64,
    /// Bytes of cross traffic delivered, counted once per link.
    pub cross_link_bytes: f64,
    /// Links by tier.
    pub tiers: Vec<Tier>,
    /// Events of the simulation.
    pub events: u64,
    /// Flows that ended.
    pub flow_ends: u64,
    /// Virtual time at the end.
    pub end_s: f64,
    /// Every job that ended, in file order.
    pub jobs: Vec<JobFigures>,
    /// Every link that carried anything.
    pub links: Vec<LinkFigures>,
}

impl Figures {
    /// The figures of a run.
    pub fn of(scenario: &Scenario, outcome: &Outcome) -> Figures {
        let pairs = || scenario.jobs.iter().zip(&outcome.jobs);
        let ended = || pairs().filter(|(_, log)| log.ended.is_some());
        let jobs: Vec<JobFigures> = ended().map(|(job, log)| figures_of(scenario, job, log)).collect();
        let over = |f: fn(&JobFigures) -> f64| Spread::of(jobs.iter().map(f).collect());
        let networked = jobs.iter().filter(|j| j.flows > 0).map(|j| j.jct_s).collect();
        let rounds = || outcome.jobs.iter().flat_map(|log| &log.rounds);
        let first = outcome.jobs.iter().map(|j| j.arrival).min().unwrap_or_default();
        let last = outcome.jobs.iter().filter_map(|j| j.ended).max().unwrap_or(outcome.end);
        // With unfinished jobs the run lasted until it was stopped.
        let last = if jobs.len() < scenario.jobs.len() { outcome.end } else { last };
        let makespan_s = last.minus(first).as_secs_f64();
        let (links, tiers, overlap) = links::figures(scenario, outcome, makespan_s);
        let weight: f64 = ended().map(|(job, _)| job.weight).sum();
        let weighted: f64 = ended().zip(&jobs).map(|((job, _), figures)| job.weight * figures.jct_s).sum();
        let per_second = |integral: f64| if makespan_s > 0.0 { integral / 1e9 / makespan_s } else { 0.0 };
        let jct = over(|j| j.jct_s);
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
            run_time: over(|j| j.run_time_s),
            wait: over(|j| j.wait_s),
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
}

/// Lengths of a job's iterations, from one begin of compute to the next; the last ends with its round.
fn iterations(log: &JobLog) -> impl Iterator<Item = f64> {
    let ends = log.rounds.iter().skip(1).map(|r| r.compute).chain(log.rounds.last().map(|r| r.ended));
    log.rounds.iter().zip(ends).map(|(r, end)| end.minus(r.compute).as_secs_f64())
}

fn figures_of(scenario: &Scenario, job: &Job, log: &JobLog) -> JobFigures {
    let (start, end) = (log.started.unwrap_or_default(), log.ended.unwrap_or_default());
    let run_time_s = end.minus(start).as_secs_f64();
    let isolated_run_s = log.isolated_run.as_secs_f64();
    let iteration_s = mean(&iterations(log).collect::<Vec<_>>());
    let batch = job.batch.as_deref().and_then(|b| b.split_whitespace().next()?.parse::<f64>().ok());
    let samples = batch.filter(|_| iteration_s > 0.0).map(|b| b * f64::from(job.workers) / iteration_s);
    let hosts = log.seats.workers.iter().chain(&log.seats.servers);
    JobFigures {
        id: job.id.clone(),
        model: job.model.clone().unwrap_or_default(),
        arrival_s: log.arrival.as_secs_f64(),
        start_s: start.as_secs_f64(),
        end_s: end.as_secs_f64(),
        jct_s: end.minus(log.arrival).as_secs_f64(),
        run_time_s,
        wait_s: start.minus(log.arrival).as_secs_f64(),
        isolated_run_s,
        slowdown: if isolated_run_s > 0.0 { run_time_s / isolated_run_s } else { 1.0 },
        round_s: mean(&log.rounds.iter().map(|r| r.ended.minus(r.began).as_secs_f64()).collect::<Vec<_>>()),
        iteration_s,
        speed: samples,
        dependency_stall_s: log.stalled as f64 / 1e9,
        flows: log.flows,
        hosts: hosts.map(|&h| scenario.network.name(h).to_owned()).collect(),
    }
}

fn fairness(jobs: &[JobFigures]) -> Fairness {
    let speeds: Vec<f64> = jobs.iter().filter(|j| j.slowdown > 0.0).map(|j| 1.0 / j.slowdown).collect();
    let (sum, squares) = (speeds.iter().sum::<f64>(), speeds.iter().map(|s| s * s).sum::<f64>());
    let (least, most) =
        (speeds.iter().copied().fold(f64::INFINITY, f64::min), speeds.iter().copied().fold(0.0, f64::max));
    if squares <= 0.0 {
        return Fairness { jain: 1.0, max_over_min: 1.0 };
    }
    Fairness { jain: sum * sum / (speeds.len() as f64 * squares), max_over_min: most / least }
}
