//! The rounds of each job over all hosts: those that overlap in time are one.
//!
//! Hosts number rounds each for itself, and one may have begun to record later, or taken a round with a pause for two. The
//! host that saw most rounds gives the grid; what the others saw belongs to the round of the grid with which it overlaps most.

use std::collections::BTreeMap;

use sluice_formats::recording::{Pattern, Recording, Role};
use sluice_schedule::Nanos;

use super::{SeenJob, id_of};
use crate::model::{MAX_BYTES, MAX_COMPUTE_S};
use crate::quantities::GIGA;

/// Connections of a job between two hosts in one role.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flow {
    /// The host that sends.
    pub from: String,
    /// The host that receives.
    pub to: String,
    /// Their part.
    pub role: Role,
}

/// A job's round over all hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// When the first host began, ns since 1970.
    pub began: u64,
    /// When the last one had ended.
    pub ended: u64,
    /// Bytes of each flow.
    bytes: BTreeMap<Flow, u64>,
}

/// A job over all hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Its name.
    pub name: String,
    /// How its ranks talk.
    pub pattern: Pattern,
    /// Its rounds, by their begin.
    pub rounds: Vec<Span>,
    /// The median of each flow's bytes over all rounds.
    pub flows: BTreeMap<Flow, u64>,
    /// Bytes over all rounds, as seen.
    total: u64,
}

/// No pause is longer, and no arrival later: what a scenario may name. A clock that jumped is no pause.
const LONGEST: Nanos = Nanos(MAX_COMPUTE_S * GIGA);

/// Begin, end and bytes by flow, as one host saw a round.
type Part = (u64, u64, Vec<(Flow, u64)>);

/// All jobs that have a round with bytes.
pub fn merge(recordings: &[(String, Recording)], notes: &mut Vec<String>) -> Vec<Merged> {
    let mut hosts: BTreeMap<&str, &str> = BTreeMap::new();
    for (_, recording) in recordings {
        hosts.extend(recording.host.addresses.iter().map(|address| (address.as_str(), recording.host.name.as_str())));
    }
    let mut jobs: BTreeMap<&str, (Merged, Vec<Vec<Part>>)> = BTreeMap::new();
    for (_, recording) in recordings {
        let own = id_of(&recording.host.name);
        let mut parts: BTreeMap<&str, Vec<Part>> = BTreeMap::new();
        for round in &recording.rounds {
            let flow = |(to, role, bytes): &(String, Role, u64)| {
                let to = id_of(hosts.get(to.as_str()).copied().unwrap_or(to));
                (to != own && *bytes > 0).then(|| (Flow { from: own.clone(), to, role: *role }, *bytes))
            };
            let flows: Vec<(Flow, u64)> = round.flows.iter().filter_map(flow).collect();
            if !flows.is_empty() {
                parts.entry(&round.job).or_default().push((round.began, round.ended, flows));
            }
        }
        for (job, mut parts) in parts {
            parts.sort_by_key(|(began, ended, _)| (*began, *ended));
            let (merged, all) = jobs.entry(job).or_default();
            if let Some((name, pattern)) = recording.jobs.get(job) {
                if merged.name.is_empty() {
                    merged.name.clone_from(name);
                }
                if merged.pattern == Pattern::Unknown {
                    merged.pattern = *pattern;
                }
            }
            all.push(parts);
        }
    }
    let whole = jobs.into_iter().map(|(id, (mut merged, parts))| {
        if merged.name.is_empty() {
            merged.name = id.to_owned();
        }
        let strays = merged.take(parts);
        if strays > 0 {
            notes.push(format!(
                "{}: {strays} rounds of single hosts are no round of the others, and are left out",
                merged.name
            ));
        }
        merged
    });
    whole.filter(|job| !job.rounds.is_empty() && !job.flows.is_empty()).collect()
}

impl Merged {
    /// Takes what each host saw; returns how many rounds of hosts belong to none of the grid.
    fn take(&mut self, mut hosts: Vec<Vec<Part>>) -> usize {
        // The first of those with most rounds gives the grid.
        let most = hosts.iter().map(Vec::len).max().unwrap_or(0);
        let Some(grid) = hosts.iter().position(|host| host.len() == most) else { return 0 };
        let grid = hosts.swap_remove(grid);
        let spans: Vec<(u64, u64)> = grid.iter().map(|(began, ended, _)| (*began, *ended)).collect();
        // Nothing is later than half the way to the next round.
        let mut steps: Vec<u64> = spans.windows(2).map(|pair| pair[1].0.saturating_sub(pair[0].0)).collect();
        steps.sort_unstable();
        let reach = steps.get(steps.len() / 2).map_or(u64::MAX, |step| step / 2);
        self.rounds = spans.iter().map(|&(began, ended)| Span { began, ended, bytes: BTreeMap::new() }).collect();
        for (at, (_, _, flows)) in grid.into_iter().enumerate() {
            self.rounds[at].add(flows);
        }
        let mut strays = 0;
        for (began, ended, flows) in hosts.into_iter().flatten() {
            let Some(at) = place(&spans, (began, ended), reach) else {
                strays += 1;
                continue;
            };
            let round = &mut self.rounds[at];
            (round.began, round.ended) = (round.began.min(began), round.ended.max(ended));
            round.add(flows);
        }
        self.rounds.sort_by_key(|round| round.began);
        let mut flows: BTreeMap<Flow, Vec<u64>> = BTreeMap::new();
        for (flow, bytes) in self.rounds.iter().flat_map(|round| &round.bytes) {
            flows.entry(flow.clone()).or_default().push(*bytes);
            self.total = self.total.saturating_add(*bytes);
        }
        let rounds = self.rounds.len();
        let median = |(flow, mut bytes): (Flow, Vec<u64>)| {
            // In the rounds that it is not in, it has none.
            bytes.resize(rounds, 0);
            bytes.sort_unstable();
            Some((flow, bytes.get(rounds / 2).copied()?.min(MAX_BYTES))).filter(|(_, bytes)| *bytes > 0)
        };
        self.flows = flows.into_iter().filter_map(median).collect();
        strays
    }

    /// When its first round began, ns since 1970.
    pub fn began(&self) -> u64 {
        self.rounds.first().map_or(0, |round| round.began)
    }

    /// When it arrives, from `start`, and how long it computes before each round. Before the first it computes as it usually
    /// does, if there was time for that.
    pub fn computes(&self, start: u64) -> (Nanos, Vec<Nanos>) {
        let mut last = self.rounds.first().map_or(0, |round| round.ended);
        let mut gaps = Vec::with_capacity(self.rounds.len());
        for round in self.rounds.iter().skip(1) {
            gaps.push(Nanos(round.began.saturating_sub(last)).min(LONGEST));
            last = last.max(round.ended);
        }
        let mut sorted = gaps.clone();
        sorted.sort_unstable();
        let usual = sorted.get(sorted.len() / 2).copied().unwrap_or_default();
        let first = Nanos(self.began().saturating_sub(start)).min(LONGEST);
        let before = usual.min(first);
        gaps.insert(0, before);
        (first.minus(before), gaps)
    }

    /// What was seen of it.
    pub fn seen(&self, id: String, start: u64, arrival: Nanos) -> SeenJob {
        let took = |round: &Span| round.ended.saturating_sub(round.began) as f64 / 1e9;
        let rounds = self.rounds.len();
        let bytes = self.flows.values().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
        let hosts = self.flows.keys().map(|flow| &flow.from).collect::<std::collections::BTreeSet<_>>().len();
        let end = self.rounds.iter().map(|round| round.ended).max().unwrap_or(start);
        SeenJob {
            id,
            hosts,
            rounds,
            round_s: self.rounds.iter().map(took).sum::<f64>() / rounds.max(1) as f64,
            time_s: Nanos(end.saturating_sub(start)).minus(arrival).as_secs_f64(),
            bytes,
            bytes_ratio: self.total as f64 / (bytes as f64 * rounds as f64).max(1.0),
        }
    }
}

impl Span {
    fn add(&mut self, flows: Vec<(Flow, u64)>) {
        for (flow, bytes) in flows {
            let sum = self.bytes.entry(flow).or_default();
            *sum = sum.saturating_add(bytes);
        }
    }
}

/// The round of the grid that overlaps most with this one, else the one that begins next to it within `reach`.
fn place(grid: &[(u64, u64)], (began, ended): (u64, u64), reach: u64) -> Option<usize> {
    let after = grid.partition_point(|(begins, _)| *begins <= began);
    // A round that overlaps begins before the other's end; of those before, few still last.
    let near = after.saturating_sub(2)..grid.len().min(after + 2);
    let overlap = |at: &usize| grid[*at].1.min(ended).saturating_sub(grid[*at].0.max(began));
    let best = near.clone().max_by_key(|at| (overlap(at), std::cmp::Reverse(grid[*at].0.abs_diff(began))))?;
    (overlap(&best) > 0 || grid[best].0.abs_diff(began) <= reach).then_some(best)
}
