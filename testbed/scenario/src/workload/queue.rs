//! The queue for GPUs: first in, first out, with head-of-line blocking unless the scenario says `backfill`.

use std::collections::{BTreeMap, VecDeque};

use super::place::place;
use crate::jobs::Placement;
use crate::random::Stream;
use crate::scenario::Scenario;

/// A job that gets its GPUs now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// Its index in [`Scenario::jobs`].
    pub job: usize,
    /// The hosts its members run on.
    pub placement: Placement,
}

/// Who waits, who runs, which GPUs are free.
///
/// At one instant call [`Queue::release`] for every job that ends, [`Queue::enter`] for every job that arrives, then
/// [`Queue::serve`]: that is the order of `simulation.md` section 3.1.
#[derive(Clone, Debug)]
pub struct Queue<'a> {
    scenario: &'a Scenario,
    free: Vec<u32>,
    waiting: VecDeque<usize>,
    running: BTreeMap<usize, Placement>,
    rng: Stream,
}

impl<'a> Queue<'a> {
    /// All GPUs free, nobody waiting.
    pub fn new(scenario: &'a Scenario) -> Queue<'a> {
        Queue {
            scenario,
            free: scenario.network.hosts.iter().map(|h| h.gpus).collect(),
            waiting: VecDeque::new(),
            running: BTreeMap::new(),
            rng: Stream::new(scenario.seed, "placement"),
        }
    }

    /// A job arrives; an index that does not exist is nobody.
    pub fn enter(&mut self, job: usize) {
        if job < self.scenario.jobs.len() {
            self.waiting.push_back(job);
        }
    }

    /// A job has ended (or failed): its GPUs are free, or its place in the queue.
    pub fn release(&mut self, job: usize) {
        self.waiting.retain(|&w| w != job);
        let Some(placement) = self.running.remove(&job) else { return };
        for host in placement.gpus(&self.scenario.placement) {
            if let Some(gpus) = self.free.get_mut(host.0) {
                *gpus += 1;
            }
        }
    }

    /// The jobs that start now, in order.
    pub fn serve(&mut self) -> Vec<Started> {
        let mut started = Vec::new();
        let mut at = 0;
        while let Some(&job) = self.waiting.get(at) {
            let spec = self.scenario.jobs.get(job);
            let rules = &self.scenario.placement;
            let placement = spec.and_then(|j| place(&self.scenario.network, rules, j, &self.free, &mut self.rng));
            let Some(placement) = placement else {
                if !rules.backfill {
                    break;
                }
                at += 1;
                continue;
            };
            for host in placement.gpus(rules) {
                if let Some(gpus) = self.free.get_mut(host.0) {
                    *gpus = gpus.saturating_sub(1);
                }
            }
            self.waiting.remove(at);
            self.running.insert(job, placement.clone());
            started.push(Started { job, placement });
        }
        started
    }

    /// A job arrives and the queue is served.
    pub fn arrive(&mut self, job: usize) -> Vec<Started> {
        self.enter(job);
        self.serve()
    }

    /// A job ends and the queue is served.
    pub fn finish(&mut self, job: usize) -> Vec<Started> {
        self.release(job);
        self.serve()
    }

    /// True when nobody waits and nobody runs.
    pub fn idle(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }

    /// Free GPUs per host.
    pub fn free(&self) -> &[u32] {
        &self.free
    }
}
