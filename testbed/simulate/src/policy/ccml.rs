//! `ccml`: every host shifts its jobs against each other, or treats them unequally until they slide apart.
//!
//! After Rajasekaran, Ghobadi, Kumar and Akella, "Congestion Control in Machine Learning Clusters" (HotNets 2022).
//! `interleave`: a circle per host up-link with the jobs that send through it; a job on several hosts follows the one
//! where it meets most others (the lowest of equals), for hosts do not agree with each other. Its rounds wait for their
//! place on the circle, which is a shift plus the compute time of its period. `unfair`: no waiting, but weights
//! ratio^(place of the job in the order of ids mod 4), everywhere and for ever. Simplified: iteration times are known
//! from the job's isolated run; at most sixteen jobs on a circle.

use std::collections::{BTreeMap, BTreeSet};

use sluice_scenario::{NodeIx, Scenario};

use super::bursts::{Circles, burst, hold_rounds, largest, shift};
use super::circle::Burst;
use super::grid::Grids;
use super::ports::{PortIx, Ports};
use super::under_way::id_ranks;
use crate::scheduler::{Change, Needs, Order, Orders, Scheduler};
use crate::world::{JobIx, World};

/// Jobs with unequal weights.
#[derive(Clone, Debug)]
pub struct Unfair {
    ratio: f64,
    rank: Vec<usize>,
}

impl Unfair {
    /// Weights by the `ratio` of `[scheduler.ccml]`.
    pub fn new(scenario: &Scenario) -> Unfair {
        Unfair { ratio: scenario.schedulers.options.ccml_ratio, rank: id_ranks(scenario) }
    }
}

impl Scheduler for Unfair {
    fn needs(&self) -> Needs {
        Needs::CHANGES
    }

    fn decide(&mut self, world: &World<'_>, changes: &[Change], orders: &mut Orders) {
        for change in changes {
            if let Change::JobStarted(job) = *change {
                let rank = self.rank.get(job.0).copied().unwrap_or(0) % 4;
                let weight = std::iter::repeat_n(self.ratio, rank).product();
                orders.set_job(world, job, Order { weight, ..Order::default() });
            }
        }
    }
}

/// The shifts of jobs, kept per host.
#[derive(Clone, Debug)]
pub struct Interleave {
    ports: Ports,
    rank: Vec<usize>,
    /// Jobs that send from each host, as its up-link sees them.
    on: BTreeMap<NodeIx, BTreeMap<JobIx, Burst>>,
    /// Hosts each job sends from.
    hosts: BTreeMap<JobIx, Vec<NodeIx>>,
    /// The host whose shift a job follows.
    follows: BTreeMap<JobIx, NodeIx>,
    circles: Circles,
    grids: Grids,
}

impl Interleave {
    /// For the hosts and jobs of a scenario.
    pub fn new(scenario: &Scenario) -> Interleave {
        Interleave {
            ports: Ports::of(scenario),
            rank: id_ranks(scenario),
            on: BTreeMap::new(),
            hosts: BTreeMap::new(),
            follows: BTreeMap::new(),
            circles: Circles::default(),
            grids: Grids::default(),
        }
    }

    fn started(&mut self, world: &World<'_>, job: JobIx) -> Vec<NodeIx> {
        let mut bytes: BTreeMap<NodeIx, f64> = BTreeMap::new();
        for (_, flow) in world.flows_of(job) {
            *bytes.entry(flow.src).or_default() += flow.bytes;
        }
        let mut hosts = Vec::new();
        for (host, bytes) in bytes {
            if let Some(burst) = burst(world, job, bytes) {
                self.on.entry(host).or_default().insert(job, burst);
                hosts.push(host);
            }
        }
        self.hosts.insert(job, hosts.clone());
        hosts
    }

    fn ended(&mut self, job: JobIx) -> Vec<NodeIx> {
        let hosts = self.hosts.remove(&job).unwrap_or_default();
        for host in &hosts {
            self.on.entry(*host).or_default().remove(&job);
        }
        self.follows.remove(&job);
        self.grids.forget(job);
        hosts
    }

    /// The host where a job meets most others, the lowest of equals; `None` where it is alone everywhere.
    fn leader(&self, job: JobIx) -> Option<NodeIx> {
        let hosts = self.hosts.get(&job)?.iter().copied();
        let met = |h: &NodeIx| self.on.get(h).map_or(0, BTreeMap::len);
        hosts.filter(|h| met(h) > 1).max_by_key(|h| (met(h), std::cmp::Reverse(*h)))
    }

    fn lay(&mut self, world: &World<'_>, host: NodeIx) {
        self.grids.clear(host.0);
        let Some(on) = self.on.get(&host).filter(|on| on.len() > 1) else { return };
        let mut jobs: Vec<(JobIx, Burst)> = on.iter().map(|(&j, &b)| (j, b)).collect();
        jobs.sort_by_key(|(j, _)| self.rank.get(j.0));
        let jobs = largest(jobs);
        let bursts: Vec<Burst> = jobs.iter().map(|j| j.1).collect();
        let mut circle = self.circles.search(&bursts, self.ports.rate(PortIx::up(host)));
        // Shifts count from the job with the smallest id.
        let zero = circle.shifts_s.first().copied().unwrap_or(0.0);
        for (shift, period) in circle.shifts_s.iter_mut().zip(&circle.periods_s) {
            *shift = (*shift - zero).rem_euclid(*period);
        }
        let Some(&(anchor, _)) = jobs.first() else { return };
        let placed = jobs.iter().enumerate().filter(|(_, (j, _))| self.follows.get(j) == Some(&host));
        let shifts: Vec<_> = placed.filter_map(|(i, (j, b))| Some((*j, shift(b, &circle, i)?))).collect();
        let started = world.jobs.get(anchor.0).and_then(|j| j.started).unwrap_or(world.now);
        self.grids.lay(host.0, anchor, started, &shifts);
    }
}

impl Scheduler for Interleave {
    fn needs(&self) -> Needs {
        Needs::CHANGES
    }

    fn decide(&mut self, world: &World<'_>, changes: &[Change], orders: &mut Orders) {
        let mut hosts = BTreeSet::new();
        for change in changes {
            match *change {
                Change::JobStarted(job) => hosts.extend(self.started(world, job)),
                Change::JobEnded(job) => hosts.extend(self.ended(job)),
                _ => {}
            }
        }
        let met: BTreeSet<JobIx> =
            hosts.iter().filter_map(|h| self.on.get(h)).flat_map(BTreeMap::keys).copied().collect();
        for job in met {
            let leader = self.leader(job);
            let before = match leader {
                Some(host) => self.follows.insert(job, host),
                None => self.follows.remove(&job),
            };
            hosts.extend(leader.into_iter().chain(before));
            if leader.is_none() {
                self.grids.free(job);
            }
        }
        for host in hosts {
            self.lay(world, host);
        }
        hold_rounds(world, changes, &mut self.grids, orders);
    }

    fn counters(&self) -> Vec<(&'static str, f64)> {
        vec![("realigned", self.grids.realigned() as f64)]
    }
}
