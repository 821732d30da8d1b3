//! Statistics over the jobs of a run, per policy over runs, and each policy against the best ordinary TCP of the same
//! invocation.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::measured::{JobResult, PolicyRun};

/// Arithmetic mean; 0 of nothing.
pub fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// Nearest rank ⌈q·n⌉ of a sorted list; 0 of nothing.
pub fn percentile(sorted: &[f64], q: f64) -> f64 {
    let rank = (q * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(0.0)
}

impl PolicyRun {
    /// Fills the figures that follow from `jobs`.
    pub fn summarise(&mut self, hosts: usize) {
        let mut jct: Vec<f64> = self.jobs.iter().map(|j| j.figures.jct_s).collect();
        jct.sort_by(f64::total_cmp);
        self.jct_mean_s = mean(&jct);
        self.jct_p50_s = percentile(&jct, 0.50);
        self.jct_p99_s = percentile(&jct, 0.99);
        self.jct_max_s = percentile(&jct, 1.0);
        let first = self.jobs.iter().map(|j| j.figures.arrival_s).fold(f64::INFINITY, f64::min);
        let last = self.jobs.iter().map(|j| j.figures.end_s).fold(0.0, f64::max);
        self.makespan_s = if first.is_finite() { last - first } else { 0.0 };
        self.retransmits = self.jobs.iter().map(|j| j.retransmits).sum();
        self.overlap = overlap(&self.jobs, hosts);
    }
}

/// Mean over hosts with any round: shared time over busy time.
fn overlap(jobs: &[JobResult], hosts: usize) -> f64 {
    let shares: Vec<f64> = (0..hosts)
        .filter_map(|host| {
            let mut edges: Vec<(f64, i32)> = jobs
                .iter()
                .filter(|j| j.hosts.contains(&host))
                .flat_map(|j| j.rounds.iter().flat_map(|&(from, to)| [(from, 1), (to, -1)]))
                .collect();
            edges.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let (mut busy, mut shared, mut depth, mut last) = (0.0, 0.0, 0, 0.0);
            for (t, step) in edges {
                busy += if depth > 0 { t - last } else { 0.0 };
                shared += if depth > 1 { t - last } else { 0.0 };
                (depth, last) = (depth + step, t);
            }
            (busy > 0.0).then(|| shared / busy)
        })
        .collect();
    mean(&shares)
}

/// One policy over its repeats.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// The policy, as it was asked for.
    pub policy: String,
    /// Mean JCT of each repeat.
    pub jct_mean_s: Vec<f64>,
    /// Mean over repeats of the mean.
    pub mean_s: f64,
    /// Mean over repeats of the median.
    pub p50_s: f64,
    /// Mean over repeats of the 99th percentile.
    pub p99_s: f64,
    /// Largest JCT of all repeats.
    pub max_s: f64,
    /// Mean over repeats of the makespan.
    pub makespan_s: f64,
    /// Mean over all jobs and repeats of the time spent waiting for GPUs.
    pub wait_s: f64,
    /// Mean over all jobs and repeats of the round time.
    pub round_s: f64,
    /// Segments retransmitted per run.
    pub retransmits: f64,
    /// Mean over repeats of what unmanaged traffic received, bytes a second; `None` where there is none.
    pub unmanaged_bytes_s: Option<f64>,
    /// Mean over repeats of the overlap.
    pub overlap: f64,
    /// CPU seconds per second of jobs, daemons and switches.
    pub cpu: [f64; 3],
    /// Largest 99th percentile of timer lateness, µs.
    pub late_p99_us: u64,
}

/// A policy against a baseline, on the same jobs of the same repeats.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// The policy that is compared.
    pub policy: String,
    /// What it is compared with.
    pub baseline: String,
    /// 1 − mean JCT / mean JCT of the baseline; negative when it is slower.
    pub lower: f64,
    /// The same for each repeat, paired.
    pub lower_each: Vec<f64>,
    /// 1 − p99 / p99 of the baseline, means over repeats.
    pub p99_lower: f64,
    /// The job that lost most: its id.
    pub worst_job: String,
    /// Its mean JCT over repeats, as a multiple of its own under the baseline.
    pub worst_ratio: f64,
    /// Jobs that are more than 5 % slower, of all.
    pub slower_jobs: usize,
    /// Number of jobs that both finished.
    pub jobs: usize,
}

/// Policies in order of first appearance.
pub(crate) fn policies(runs: &[PolicyRun]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for run in runs {
        if !names.contains(&run.policy) {
            names.push(run.policy.clone());
        }
    }
    names
}

/// One summary per policy, in order of first appearance.
pub fn summaries(runs: &[PolicyRun]) -> Vec<Summary> {
    policies(runs).into_iter().map(|p| summary(runs, p)).collect()
}

fn unmanaged(runs: &[&PolicyRun]) -> Option<f64> {
    let received = runs.iter().filter(|run| run.cross_bytes > 0 && run.cross_interval_s > 0.0);
    let rates: Vec<f64> = received.map(|run| run.cross_bytes as f64 / run.cross_interval_s).collect();
    (!rates.is_empty()).then(|| mean(&rates))
}

fn summary(runs: &[PolicyRun], policy: String) -> Summary {
    let mine: Vec<&PolicyRun> = runs.iter().filter(|r| r.policy == policy).collect();
    let over = |f: &dyn Fn(&PolicyRun) -> f64| mean(&mine.iter().map(|r| f(r)).collect::<Vec<_>>());
    let jobs =
        |f: &dyn Fn(&JobResult) -> f64| mean(&mine.iter().flat_map(|r| r.jobs.iter().map(f)).collect::<Vec<_>>());
    let cores = |f: &dyn Fn(&PolicyRun) -> f64| over(&|r| if r.makespan_s > 0.0 { f(r) / r.makespan_s } else { 0.0 });
    Summary {
        jct_mean_s: mine.iter().map(|r| r.jct_mean_s).collect(),
        mean_s: over(&|r| r.jct_mean_s),
        p50_s: over(&|r| r.jct_p50_s),
        p99_s: over(&|r| r.jct_p99_s),
        max_s: mine.iter().map(|r| r.jct_max_s).fold(0.0, f64::max),
        makespan_s: over(&|r| r.makespan_s),
        wait_s: jobs(&|j| j.figures.wait_s),
        round_s: jobs(&|j| j.figures.round_s),
        retransmits: over(&|r| r.retransmits as f64),
        unmanaged_bytes_s: unmanaged(&mine),
        overlap: over(&|r| r.overlap),
        cpu: [cores(&|r| r.cpu.jobs), cores(&|r| r.cpu.daemons), cores(&|r| r.cpu.switches)],
        late_p99_us: mine.iter().map(|r| r.lateness.p99_us).max().unwrap_or(0),
        policy,
    }
}

/// True for ordinary TCP; MLTCP's rule, which only the testbed registers, is none that a machine has.
pub(crate) fn is_baseline(policy: &str) -> bool {
    policy == "fair" || policy.starts_with("fair:") && policy != "fair:mltcp"
}

/// The baseline with the smallest mean JCT.
pub(crate) fn best_baseline(summaries: &[Summary]) -> Option<&Summary> {
    summaries.iter().filter(|s| is_baseline(&s.policy)).min_by(|a, b| a.mean_s.total_cmp(&b.mean_s))
}

/// Every policy against the best ordinary TCP; nothing when there is none, or when the runs had different jobs.
pub fn compare(runs: &[PolicyRun]) -> Vec<Comparison> {
    if unlike(runs).is_some() {
        return Vec::new();
    }
    let all = summaries(runs);
    let Some(base) = best_baseline(&all) else { return Vec::new() };
    all.iter().filter(|s| s.policy != base.policy).map(|s| against(runs, s, base)).collect()
}

fn against(runs: &[PolicyRun], mine: &Summary, base: &Summary) -> Comparison {
    let (ours, theirs) = (by_job(runs, &mine.policy), by_job(runs, &base.policy));
    let ratio = |a: f64, b: f64| if b > 0.0 { a / b } else { 1.0 };
    let ratios: Vec<(f64, &String)> =
        ours.iter().filter_map(|(id, a)| theirs.get(id).map(|b| (ratio(*a, *b), id))).collect();
    let worst = ratios.iter().max_by(|a, b| a.0.total_cmp(&b.0));
    Comparison {
        policy: mine.policy.clone(),
        baseline: base.policy.clone(),
        lower: 1.0 - ratio(mine.mean_s, base.mean_s),
        lower_each: mine.jct_mean_s.iter().zip(&base.jct_mean_s).map(|(a, b)| 1.0 - ratio(*a, *b)).collect(),
        p99_lower: 1.0 - ratio(mine.p99_s, base.p99_s),
        worst_job: worst.map(|(_, id)| (*id).clone()).unwrap_or_default(),
        worst_ratio: worst.map_or(1.0, |(r, _)| *r),
        slower_jobs: ratios.iter().filter(|(r, _)| *r > 1.05).count(),
        jobs: ratios.len(),
    }
}

/// Mean JCT of each job over the repeats of a policy.
fn by_job(runs: &[PolicyRun], policy: &str) -> BTreeMap<String, f64> {
    let mut sums: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for job in runs.iter().filter(|r| r.policy == policy).flat_map(|r| &r.jobs) {
        let entry = sums.entry(job.figures.id.clone()).or_default();
        *entry = (entry.0 + job.figures.jct_s, entry.1 + 1.0);
    }
    sums.into_iter().map(|(id, (sum, n))| (id, sum / n)).collect()
}

/// Why these runs must not be compared: different jobs.
pub(crate) fn unlike(runs: &[PolicyRun]) -> Option<String> {
    let ids = |r: &PolicyRun| {
        let mut ids: Vec<String> = r.jobs.iter().map(|j| j.figures.id.clone()).collect();
        ids.sort_unstable();
        ids
    };
    let first = runs.first()?;
    let want = ids(first);
    let other = runs.iter().find(|r| ids(r) != want)?;
    Some(format!("{} and {} finished different jobs: no comparison is made.", first.policy, other.policy))
}

/// The means of round time per model: (model, seconds per policy in order of [`policies`]).
pub(crate) fn rounds_by_model(runs: &[PolicyRun]) -> Vec<(String, Vec<f64>)> {
    let mut models: Vec<String> = runs.iter().flat_map(|r| r.jobs.iter().map(|j| j.figures.model.clone())).collect();
    models.sort_unstable();
    models.dedup();
    let names = policies(runs);
    let cell = |model: &str, policy: &str| {
        let jobs =
            runs.iter().filter(|r| r.policy == policy).flat_map(|r| &r.jobs).filter(|j| j.figures.model == model);
        mean(&jobs.map(|j| j.figures.round_s).collect::<Vec<_>>())
    };
    models.into_iter().map(|m| (m.clone(), names.iter().map(|p| cell(&m, p)).collect())).collect()
}

/// Points of the distribution of JCT over all repeats: (seconds, share of jobs), rising.
pub(crate) fn distribution(runs: &[PolicyRun], policy: &str) -> Vec<(f64, f64)> {
    let mut all: Vec<f64> =
        runs.iter().filter(|r| r.policy == policy).flat_map(|r| r.jobs.iter().map(|j| j.figures.jct_s)).collect();
    all.sort_by(f64::total_cmp);
    let n = all.len() as f64;
    all.into_iter().enumerate().map(|(i, s)| (s, (i + 1) as f64 / n)).collect()
}

/// A span of time that is worth a closer look: `length` seconds in which the first run sent most.
pub(crate) fn busiest_window(run: &PolicyRun, length: f64) -> (f64, f64) {
    let mut sums: BTreeMap<u64, f64> = BTreeMap::new();
    for point in run.rates.iter().flatten() {
        *sums.entry(point.t_s.max(0.0) as u64).or_default() += point.rate;
    }
    let span = length.max(1.0) as u64;
    let last = sums.keys().next_back().copied().unwrap_or(0);
    let total = |from: u64| sums.range(from..from.saturating_add(span)).map(|(_, v)| v).sum::<f64>();
    let from =
        (0..=last.saturating_sub(span)).max_by(|a, b| total(*a).total_cmp(&total(*b)).then(b.cmp(a))).unwrap_or(0);
    (from as f64, from as f64 + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let v = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(percentile(&v, 0.5), 2.0);
        assert_eq!(percentile(&v, 0.99), 4.0);
        assert_eq!(percentile(&[], 0.5), 0.0);
    }

    #[test]
    fn overlap_is_shared_over_busy() {
        let job = |rounds| JobResult { hosts: vec![0], rounds, ..JobResult::default() };
        let jobs = [job(vec![(0.0, 2.0)]), job(vec![(1.0, 3.0), (5.0, 6.0)])];
        assert!((overlap(&jobs, 2) - 0.25).abs() < 1e-9);
    }
}
