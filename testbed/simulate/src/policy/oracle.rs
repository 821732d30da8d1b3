//! `oracle`: the rule of `sluice`, `srpt-p`, applied by one mind that knows everything at once. The distance between the two
//! is what distribution costs.
//!
//! Least remaining round first; a round older than κ(1 + D)m goes before all that are not, the oldest first, where m is
//! what the round needs on its busiest port and D how full that port is of running jobs. One pace per round, then what is
//! left in the same order. It takes κ and φ from the options of `sluice`. Ports only, as [`super::varys`]; promotion is
//! looked at when a flow begins or ends.

use std::collections::BTreeMap;

use sluice_scenario::Scenario;
use sluice_schedule::host::HostConfig;
use sluice_schedule::{BootId, HostId, Nanos};

use super::madd::madd;
use super::ports::{Load, Ports, Transfer};
use super::under_way::{Heed, UnderWay, released, remaining};
use super::varys::cap;
use crate::scheduler::{Change, Needs, Orders, Scheduler};
use crate::world::{FlowIx, JobIx, World};

/// The load of a running job.
#[derive(Clone, Debug, Default)]
struct RunningJob {
    /// Its whole round on every port, in seconds of that port.
    load: Load,
    /// The largest of them (m).
    round: f64,
    /// m and its compute: its period on empty links.
    period: f64,
}

/// Least remaining round first, promoted when old, decided in one place.
#[derive(Clone, Debug)]
pub struct Oracle {
    ports: Ports,
    under_way: UnderWay,
    running: BTreeMap<JobIx, RunningJob>,
    /// Per port, parts of its time that running jobs would take on empty links.
    density: Vec<f64>,
    kappa: f64,
    floor: f64,
}

impl Oracle {
    /// For the hosts and jobs of a scenario.
    pub fn new(scenario: &Scenario) -> Oracle {
        let defaults = HostConfig::new(HostId(0), BootId(0));
        let options = &scenario.schedulers.options.sluice;
        Oracle {
            ports: Ports::of(scenario),
            under_way: UnderWay::new(scenario),
            running: BTreeMap::new(),
            density: vec![0.0; scenario.network.hosts.len() * 2],
            kappa: options.promote_kappa.unwrap_or(defaults.promote_kappa),
            floor: options.fair_floor_alone.unwrap_or(defaults.fair_floor_alone),
        }
    }

    fn started(&mut self, world: &World<'_>, job: JobIx) {
        let whole = |f: &crate::world::Flow| Transfer { bytes: f.bytes, ..Transfer::of(f) };
        let transfers: Vec<Transfer> = world.flows_of(job).map(|(_, f)| whole(f)).collect();
        let load = self.ports.load(&transfers);
        let round = load.iter().fold(0.0, |most, &(_, s)| s.max(most));
        let compute = world.jobs.get(job.0).map_or(0.0, |j| j.compute_s);
        self.add(&load, 1.0, round + compute);
        self.running.insert(job, RunningJob { load, round, period: round + compute });
    }

    fn ended(&mut self, job: JobIx) {
        if let Some(known) = self.running.remove(&job) {
            self.add(&known.load, -1.0, known.period);
        }
    }

    fn add(&mut self, load: &Load, sign: f64, period: f64) {
        for &(port, seconds) in load {
            if let Some(density) = self.density.get_mut(port.0).filter(|_| period > 0.0) {
                *density += sign * seconds / period;
            }
        }
    }

    /// How long this job's round may take before it is promoted.
    fn patience(&self, job: JobIx) -> Nanos {
        let Some(known) = self.running.get(&job) else { return Nanos::MAX };
        let density = known.load.iter().filter_map(|&(port, _)| self.density.get(port.0));
        let density = density.fold(0.0, |most: f64, d| most.max(*d));
        Nanos((known.round * self.kappa * (1.0 + density) * 1e9) as u64)
    }

    /// Promoted rounds by age, then least remaining first; equals stay as they stand.
    fn order(&self, world: &World<'_>, group: &mut [JobIx]) {
        group.sort_by_cached_key(|&job| {
            let began = world.jobs.get(job.0).and_then(|j| j.round_began).unwrap_or(world.now);
            let promoted = world.now.minus(began) > self.patience(job);
            // Positive floats order like their bits.
            let left = if promoted { began.0 } else { self.ports.gamma(&remaining(world, job)).to_bits() };
            (!promoted, left)
        });
    }

    /// A part φ of an equal share for every flow that may send, the rest by order.
    fn rates(&mut self, world: &World<'_>, order: &[JobIx]) -> Vec<(FlowIx, f64)> {
        let flows: Vec<Vec<(FlowIx, Transfer)>> = order.iter().map(|&j| released(world, j)).collect();
        let mut active: BTreeMap<_, f64> = BTreeMap::new();
        for (_, t) in flows.iter().flatten().filter(|_| self.floor > 0.0) {
            *active.entry(t.up).or_default() += 1.0;
            *active.entry(t.down).or_default() += 1.0;
        }
        let share = |port| active.get(&port).map_or(0.0, |n| self.floor * self.ports.rate(port) / n);
        let floors: Vec<f64> = flows.iter().flatten().map(|(_, t)| share(t.up).min(share(t.down))).collect();
        for ((_, t), floor) in flows.iter().flatten().zip(&floors) {
            self.ports.take(t, *floor);
        }
        let transfers: Vec<Vec<Transfer>> = flows.iter().map(|c| c.iter().map(|f| f.1).collect()).collect();
        let more = madd(&transfers, &mut self.ports);
        let flows = flows.iter().flatten().map(|f| f.0);
        flows.zip(more.into_iter().flatten().zip(floors).map(|(more, floor)| more + floor)).collect()
    }
}

impl Scheduler for Oracle {
    fn needs(&self) -> Needs {
        Needs::PROGRESS
    }

    fn decide(&mut self, world: &World<'_>, changes: &[Change], orders: &mut Orders) {
        for change in changes {
            match *change {
                Change::JobStarted(job) => self.started(world, job),
                Change::JobEnded(job) => self.ended(job),
                _ => {}
            }
        }
        for mut group in self.under_way.touched(world, changes, Heed::Flows) {
            self.order(world, &mut group);
            cap(&self.rates(world, &group), orders);
        }
    }
}
