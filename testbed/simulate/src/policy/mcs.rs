//! `mcs`: rounds as chains of stages, each stage after the one before, ordered and paced by one central scheduler.
//!
//! After Tian, Tian, Dai and Wang, "Scheduling Coflows of Multi-stage Jobs to Minimize the Total Weighted Job Completion
//! Time" (INFOCOM 2018): jobs in the order of a relaxed linear program on one big switch. Here the order is taken anew at
//! every round start and stage end, by the primal–dual method, which solves the same relaxation without a solver; the
//! rates are those of `varys`. Stages are strict whatever the job's library could do. Simplified: online, so the order
//! knows the rounds under way and nothing of later ones; an order holds among rounds that share links, directly or
//! through others, which is where it matters.

use std::collections::VecDeque;

use sluice_scenario::Scenario;
use sluice_schedule::Nanos;

use super::ports::Ports;
use super::primal_dual::{self, Coflow};
use super::sincronia::coflow;
use super::under_way::{Heed, UnderWay};
use super::varys::{cap, madd_rates};
use crate::scheduler::{Change, Needs, Order, Orders, Rounds, Scheduler};
use crate::world::{FlowIx, JobIx, World};

/// Multi-stage coflows under one central order.
#[derive(Clone, Debug)]
pub struct Mcs {
    rounds: Rounds,
    delay: Nanos,
    ports: Ports,
    /// Touched by stages: the order is taken anew.
    ordered: UnderWay,
    /// Touched by flows: the rates are.
    paced: UnderWay,
    /// Place of each job in the order of its group.
    place: Vec<usize>,
    /// Decisions that do not apply yet.
    later: VecDeque<Decision>,
}

/// Rates that apply from a time on.
#[derive(Clone, Debug)]
struct Decision {
    at: Nanos,
    /// Flow, the job and the round (by number) it was for, bytes per second.
    rates: Vec<(FlowIx, JobIx, u64, f64)>,
}

impl Mcs {
    /// With the options of `[scheduler.mcs]`.
    pub fn new(scenario: &Scenario) -> Mcs {
        let o = &scenario.schedulers.options;
        Mcs {
            rounds: Rounds::Staged { ring_chain: !o.mcs_ring_chunks, per_server: o.mcs_per_server },
            delay: o.mcs_delay,
            ports: Ports::of(scenario),
            ordered: UnderWay::new(scenario),
            paced: UnderWay::new(scenario),
            place: vec![0; scenario.jobs.len()],
            later: VecDeque::new(),
        }
    }

    fn take_order(&mut self, world: &World<'_>, changes: &[Change]) {
        for group in self.ordered.touched(world, changes, Heed::Stages) {
            let coflows: Vec<Coflow> = group.iter().map(|&j| coflow(world, &self.ports, j)).collect();
            for (at, c) in primal_dual::order(&coflows).into_iter().enumerate() {
                self.place[group[c].0] = at;
            }
        }
    }

    fn apply_due(&mut self, world: &World<'_>, orders: &mut Orders) {
        while let Some(decision) = self.later.pop_front_if(|d| d.at <= world.now) {
            for (flow, job, round, rate) in decision.rates {
                // The round it was meant for may be over, and the flow's place somebody else's.
                let same = world.flows.get(flow.0).is_some_and(|f| f.job == Some(job) && f.active())
                    && world.jobs.get(job.0).is_some_and(|j| j.rounds == round);
                if same {
                    cap(&[(flow, rate)], orders);
                }
            }
        }
    }

    fn postpone(&mut self, world: &World<'_>, rates: &[(FlowIx, f64)]) {
        let stamped = |&(flow, rate): &(FlowIx, f64)| {
            let job = world.flows.get(flow.0)?.job?;
            Some((flow, job, world.jobs.get(job.0)?.rounds, rate))
        };
        let rates = rates.iter().filter_map(stamped).collect();
        self.later.push_back(Decision { at: world.now.plus(self.delay), rates });
    }
}

impl Scheduler for Mcs {
    fn rounds(&self) -> Rounds {
        self.rounds
    }

    fn needs(&self) -> Needs {
        Needs::PROGRESS
    }

    fn decide(&mut self, world: &World<'_>, changes: &[Change], orders: &mut Orders) {
        self.apply_due(world, orders);
        if self.delay > Nanos::ZERO {
            for change in changes {
                if let Change::FlowActive(flow) = *change
                    && world.flows.get(flow.0).is_some_and(|f| f.job.is_some())
                {
                    orders.set(flow, Order { cap: 0.0, ..Order::default() });
                }
            }
        }
        self.take_order(world, changes);
        for mut group in self.paced.touched(world, changes, Heed::Flows) {
            group.sort_by_key(|j| self.place.get(j.0));
            let rates = madd_rates(world, &mut self.ports, &group);
            if self.delay > Nanos::ZERO {
                self.postpone(world, &rates);
            } else {
                cap(&rates, orders);
            }
        }
    }

    fn wake(&self) -> Option<Nanos> {
        self.later.front().map(|d| d.at)
    }
}
