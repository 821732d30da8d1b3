//! `bound`: what no scheduler can beat, given where jobs stand and which paths they take (`simulation.md` section 7.11).
//!
//! A job cannot be faster than its compute and its busiest link together; a link is one machine that has to carry the
//! work of all its jobs; and the smallest sum of completion times of one preemptive machine is that of shortest remaining
//! time first. Not a schedule: nothing here can be run. Waiting for GPUs is not bounded.

mod srpt;

use std::collections::BTreeMap;

pub use srpt::{last_end, srpt};

use sluice_scenario::workload::{RoundFlow, channels, round_flows};
use sluice_scenario::{LinkIx, Placement, Scenario};

/// The smallest factor that jitter leaves of a compute time.
const MIN_JITTER: f64 = 0.5;

/// What a job has to do, where it stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobWork {
    /// Seconds from time 0.
    pub arrival_s: f64,
    /// Seconds of compute before a round at least.
    pub before_s: f64,
    /// Seconds of an iteration at least.
    pub iteration_s: f64,
    /// How many iterations the job has.
    pub iterations: f64,
    /// Seconds of one round on each link that it uses.
    pub links: BTreeMap<LinkIx, f64>,
}

impl JobWork {
    /// The work of job `job` of a scenario on these placement; `None` for an index or a path that does not exist.
    ///
    /// With compute jitter each compute time counts by the smallest factor that jitter can have.
    pub fn of(scenario: &Scenario, job: usize, placement: &Placement) -> Option<JobWork> {
        let spec = scenario.jobs.get(job)?;
        let flows = channels(round_flows(spec, placement), scenario.network.rails);
        let mut links: BTreeMap<LinkIx, f64> = BTreeMap::new();
        let mut alone = Vec::with_capacity(flows.len());
        for flow in &flows {
            let path = scenario.path_of(&spec.id, flow)?;
            let mut longest = 0.0f64;
            for link in path {
                let seconds = flow.bytes as f64 * 8.0 / scenario.network.link(link)?.rate.0 as f64;
                *links.entry(link).or_default() += seconds;
                longest = longest.max(seconds);
            }
            alone.push(longest);
        }
        let round_s = links.values().copied().fold(chain(&flows, &alone), f64::max);
        // The times given one by one count by the smallest.
        let shortest = spec.computes.iter().min().copied().unwrap_or(spec.compute);
        let compute_s = shortest.as_secs_f64() * if spec.jitter > 0.0 { MIN_JITTER } else { 1.0 };
        let before_s = compute_s * (1.0 - spec.overlap);
        Some(JobWork {
            arrival_s: spec.arrival.as_secs_f64(),
            before_s,
            iteration_s: compute_s.max(before_s + round_s),
            iterations: f64::from(spec.iterations),
            links,
        })
    }

    /// Seconds from start to end at least.
    pub fn run_time_s(&self) -> f64 {
        self.iterations * self.iteration_s
    }

    /// When it can have ended at the earliest, seconds from time 0.
    pub fn end_s(&self) -> f64 {
        self.arrival_s + self.run_time_s()
    }

    /// (release, work) on a link, seconds; `None` where it does not use it.
    fn on(&self, link: LinkIx) -> Option<(f64, f64)> {
        self.links.get(&link).map(|round| (self.arrival_s + self.before_s, round * self.iterations))
    }
}

/// Seconds of the longest chain of flows that each start after the one before.
fn chain(flows: &[RoundFlow], alone: &[f64]) -> f64 {
    // The dependencies have no circle, so after as many rounds as flows nothing grows any more.
    let mut end = alone.to_vec();
    for _ in 0..flows.len() {
        let mut grew = false;
        for (i, flow) in flows.iter().enumerate() {
            let before = flow.preds.iter().filter(|p| p.after).filter_map(|p| end.get(p.flow)).copied();
            let begin = before.fold(0.0, f64::max);
            if begin + alone[i] > end[i] {
                end[i] = begin + alone[i];
                grew = true;
            }
        }
        if !grew {
            break;
        }
    }
    end.into_iter().fold(0.0, f64::max)
}

/// Lower bounds over all jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bounds {
    /// Seconds from time 0 to the last end.
    pub last_end_s: f64,
    /// Sum of the jobs' completion times, seconds from arrival.
    pub sum_jct_s: f64,
    /// Mean of the completion times, in seconds.
    pub mean_jct_s: f64,
}

/// Bounds that hold for every scheduler that leaves jobs on their placement and paths.
pub fn bounds(jobs: &[JobWork]) -> Bounds {
    let mut on: BTreeMap<LinkIx, Vec<usize>> = BTreeMap::new();
    let mut own: BTreeMap<Option<LinkIx>, Vec<usize>> = BTreeMap::new();
    for (i, job) in jobs.iter().enumerate() {
        job.links.keys().for_each(|&l| on.entry(l).or_default().push(i));
        // The first of equals.
        let most = job.links.iter().rev().max_by(|a, b| a.1.total_cmp(b.1)).map(|(&l, _)| l);
        own.entry(most).or_default().push(i);
    }
    let work = |link: LinkIx, list: &[usize]| -> Vec<(f64, f64)> {
        list.iter().filter_map(|&i| jobs.get(i)?.on(link)).collect()
    };
    let ends = |list: &[usize]| -> f64 { list.iter().filter_map(|&i| jobs.get(i)).map(JobWork::end_s).sum() };
    let all: f64 = jobs.iter().map(JobWork::end_s).sum();
    let mut sum = all;
    let mut last = jobs.iter().map(JobWork::end_s).fold(0.0, f64::max);
    for (&link, list) in &on {
        let machine = work(link, list);
        last = last.max(last_end(&machine));
        sum = sum.max(srpt(&machine) + all - ends(list));
    }
    let group = |(link, list): (&Option<LinkIx>, &Vec<usize>)| match link {
        Some(link) => srpt(&work(*link, list)).max(ends(list)),
        None => ends(list),
    };
    sum = sum.max(own.iter().map(group).sum());
    let arrivals: f64 = jobs.iter().map(|j| j.arrival_s).sum();
    let sum_jct_s = sum - arrivals;
    let mean_jct_s = if jobs.is_empty() { 0.0 } else { sum_jct_s / jobs.len() as f64 };
    Bounds { last_end_s: last, sum_jct_s, mean_jct_s }
}

#[cfg(test)]
mod tests;
