//! The rounds that are under way: what the schedulers that order coflows look at, a coflow being a job's round.

use sluice_scenario::Scenario;
use sluice_scenario::network::by_id;

use super::meeting::Meeting;
use super::ports::{Ports, Transfer};
use crate::scheduler::{Change, Needs, Orders, Scheduler};
use crate::world::{FlowIx, JobIx, JobPhase, World};

/// Place of every job in the order of ids, which settles ties.
pub fn id_ranks(scenario: &Scenario) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scenario.jobs.len()).collect();
    order.sort_by(|&a, &b| by_id(&scenario.jobs[a].id, &scenario.jobs[b].id));
    let mut ranks = vec![0; order.len()];
    for (rank, job) in order.into_iter().enumerate() {
        ranks[job] = rank;
    }
    ranks
}

/// Which changes make a scheduler think again, beside rounds that begin and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heed {
    /// No others.
    Rounds,
    /// Also stages: flows that begin.
    Stages,
    /// Also flows that begin and end.
    Flows,
}

/// The rounds under way, in groups that share links.
#[derive(Clone, Debug, Default)]
pub struct UnderWay {
    meeting: Meeting,
    rank: Vec<usize>,
}

impl UnderWay {
    /// Nothing is under way yet.
    pub fn new(scenario: &Scenario) -> UnderWay {
        UnderWay { meeting: Meeting::default(), rank: id_ranks(scenario) }
    }

    /// Place of a job in the order of ids.
    pub fn rank(&self, job: JobIx) -> usize {
        self.rank.get(job.0).copied().unwrap_or(usize::MAX)
    }

    /// The groups of jobs in a round that these changes touch, each in order of (round start, id).
    ///
    /// What counts is where a job stands now, so it does not matter in which order a round's end and the next one's
    /// beginning are told.
    pub fn touched(&mut self, world: &World<'_>, changes: &[Change], heed: Heed) -> Vec<Vec<JobIx>> {
        for change in changes {
            let job = match *change {
                Change::JobStarted(j) | Change::JobEnded(j) | Change::RoundBegan(j) | Change::RoundEnded(j) => Some(j),
                Change::JobPassed(j) => Some(j),
                Change::FlowActive(f) if heed != Heed::Rounds => world.flows.get(f.0).and_then(|f| f.job),
                Change::FlowEnded(f) if heed == Heed::Flows => world.flows.get(f.0).and_then(|f| f.job),
                _ => None,
            };
            if let Some(job) = job {
                self.look(world, job);
            }
        }
        let mut groups = self.meeting.take_touched();
        for group in &mut groups {
            group.sort_by_key(|&j| (world.jobs.get(j.0).and_then(|s| s.round_began), self.rank(j)));
        }
        groups
    }

    fn look(&mut self, world: &World<'_>, job: JobIx) {
        let inside = world.jobs.get(job.0).is_some_and(|s| s.phase == JobPhase::Communicating);
        match (inside, self.meeting.has(job)) {
            (true, true) => self.meeting.touch(job),
            (true, false) => {
                let links = world.flows_of(job).flat_map(|(_, f)| f.path.iter().copied()).collect();
                self.meeting.enter(job, links);
            }
            (false, _) => self.meeting.leave(job),
        }
    }
}

/// A scheduler that orders the rounds of a group anew whenever something about the group changes.
pub struct ByGroup<F> {
    ports: Ports,
    under_way: UnderWay,
    heed: Heed,
    order: F,
}

impl<F: Fn(&World<'_>, &mut Ports, Vec<JobIx>, &mut Orders)> ByGroup<F> {
    /// `order` gives orders to the flows of a group, whose jobs come in order of (round start, id).
    pub fn new(scenario: &Scenario, heed: Heed, order: F) -> ByGroup<F> {
        ByGroup { ports: Ports::of(scenario), under_way: UnderWay::new(scenario), heed, order }
    }
}

impl<F: Fn(&World<'_>, &mut Ports, Vec<JobIx>, &mut Orders)> Scheduler for ByGroup<F> {
    fn needs(&self) -> Needs {
        Needs::PROGRESS
    }

    fn decide(&mut self, world: &World<'_>, changes: &[Change], orders: &mut Orders) {
        for group in self.under_way.touched(world, changes, self.heed) {
            (self.order)(world, &mut self.ports, group, orders);
        }
    }
}

/// What remains of a job's round, waiting flows included.
pub fn remaining(world: &World<'_>, job: JobIx) -> Vec<Transfer> {
    world.flows_of(job).map(|(_, f)| Transfer::of(f)).collect()
}

/// The flows of a job that may send now, with what remains of each.
pub fn released(world: &World<'_>, job: JobIx) -> Vec<(FlowIx, Transfer)> {
    world.flows_of(job).filter(|(_, f)| f.active()).map(|(i, f)| (i, Transfer::of(f))).collect()
}
