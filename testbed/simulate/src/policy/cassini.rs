//! `cassini`: one time shift per job, agreed for the whole network.
//!
//! After Rajasekaran, Ghobadi and Akella, "CASSINI: Network-Aware Job Scheduling in Machine Learning Clusters" (NSDI
//! 2024): a circle for every link that two jobs can overfill, an affinity graph of jobs and such links, shifts read off
//! the graph. Laid anew when a job starts or ends, for the jobs that share links with it, directly or through others.
//! Jobs stay where the queue put them: several placements to choose from (`placement.candidates`) are refused.
//! Simplified: bursts are flat and known from the job's isolated run; a graph with cycles loses links instead of being
//! discarded (see [`super::affinity`]); at most sixteen jobs on a circle.

use std::collections::BTreeMap;

use sluice_scenario::{LinkIx, Scenario};

use super::affinity::{Crowd, unify};
use super::bursts::{Circles, burst, hold_rounds, largest};
use super::circle::Burst;
use super::grid::{Grids, Shift};
use super::meeting::Meeting;
use super::under_way::id_ranks;
use crate::scheduler::{Change, Needs, Orders, Scheduler};
use crate::world::{JobIx, World};

/// Shifts for the whole network.
#[derive(Clone, Debug)]
pub struct Cassini {
    rank: Vec<usize>,
    meeting: Meeting,
    /// Bytes per round of each running job on each link.
    bytes: BTreeMap<JobIx, BTreeMap<LinkIx, f64>>,
    circles: Circles,
    grids: Grids,
}

impl Cassini {
    /// For the jobs of a scenario.
    pub fn new(scenario: &Scenario) -> Cassini {
        Cassini {
            rank: id_ranks(scenario),
            meeting: Meeting::default(),
            bytes: BTreeMap::new(),
            circles: Circles::default(),
            grids: Grids::default(),
        }
    }

    fn started(&mut self, world: &World<'_>, job: JobIx) {
        let mut bytes: BTreeMap<LinkIx, f64> = BTreeMap::new();
        for (_, flow) in world.flows_of(job) {
            for &link in &flow.path {
                *bytes.entry(link).or_default() += flow.bytes;
            }
        }
        self.meeting.enter(job, bytes.keys().copied().collect());
        self.bytes.insert(job, bytes);
    }

    /// The links that two of these jobs (in order of id) can overfill, each with its circle.
    fn crowds(&mut self, world: &World<'_>, jobs: &[JobIx]) -> Vec<Crowd> {
        let mut on: BTreeMap<LinkIx, Vec<(usize, Burst)>> = BTreeMap::new();
        for (i, &job) in jobs.iter().enumerate() {
            for (&link, &bytes) in self.bytes.get(&job).into_iter().flatten() {
                on.entry(link).or_default().extend(burst(world, job, bytes).map(|b| (i, b)));
            }
        }
        let mut crowds = Vec::new();
        for (link, on) in on {
            let capacity = world.capacity.get(link.0).copied().unwrap_or(0.0);
            let mut rates: Vec<f64> = on.iter().map(|j| j.1.rate).collect();
            rates.sort_by(|a, b| b.total_cmp(a));
            // The two largest demands; a billionth above is rounding.
            if !matches!(rates.as_slice(), [a, b, ..] if a + b > capacity * (1.0 + 1e-9)) {
                continue;
            }
            let on = largest(on);
            let bursts: Vec<Burst> = on.iter().map(|j| j.1).collect();
            let circle = self.circles.search(&bursts, capacity);
            crowds.push(Crowd { jobs: on.iter().map(|j| j.0).collect(), circle });
        }
        crowds
    }

    fn lay(&mut self, world: &World<'_>, mut jobs: Vec<JobIx>) {
        jobs.sort_by_key(|j| self.rank.get(j.0));
        let crowds = self.crowds(world, &jobs);
        jobs.iter().for_each(|j| self.grids.clear(j.0));
        let mut groups: BTreeMap<usize, Vec<(JobIx, Shift)>> = BTreeMap::new();
        for (&job, placed) in jobs.iter().zip(unify(jobs.len(), &crowds)) {
            let Some(placed) = placed else {
                self.grids.free(job);
                continue;
            };
            let round_s = world.jobs.get(job.0).map_or(0.0, |j| j.isolated_round_s);
            let lead_s = (placed.period_s - round_s).max(0.0);
            let shift = Shift { shift_s: placed.shift_s, period_s: placed.period_s, lead_s };
            groups.entry(placed.anchor).or_default().push((job, shift));
        }
        for (anchor, shifts) in groups {
            let Some(&anchor) = jobs.get(anchor) else { continue };
            let started = world.jobs.get(anchor.0).and_then(|j| j.started).unwrap_or(world.now);
            self.grids.lay(anchor.0, anchor, started, &shifts);
        }
    }
}

impl Scheduler for Cassini {
    fn needs(&self) -> Needs {
        Needs::CHANGES
    }

    fn decide(&mut self, world: &World<'_>, changes: &[Change], orders: &mut Orders) {
        for change in changes {
            match *change {
                Change::JobStarted(job) => self.started(world, job),
                Change::JobEnded(job) => {
                    self.meeting.leave(job);
                    self.bytes.remove(&job);
                    self.grids.clear(job.0);
                    self.grids.forget(job);
                }
                _ => {}
            }
        }
        for group in self.meeting.take_touched() {
            self.lay(world, group);
        }
        hold_rounds(world, changes, &mut self.grids, orders);
    }

    fn counters(&self) -> Vec<(&'static str, f64)> {
        vec![("realigned", self.grids.realigned() as f64)]
    }
}
