//! What there is in a simulated cluster: jobs, flows and links, in arrays by index.
//!
//! Only the engine writes here; a scheduler reads. A job's flows are made once, when the job starts, and stand next to
//! each other; every round uses the same ones again with `sent` set back to zero, so a [`FlowIx`] names one transfer for
//! the whole life of its job.

use std::ops::Range;

use sluice_scenario::workload::Member;
use sluice_scenario::{LinkIx, NodeIx, Placement, Scenario};
use sluice_schedule::Nanos;

use super::fluid::{Dep, Fluid, Moving};

/// Place of a job in [`World::jobs`], the same as in [`Scenario::jobs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobIx(pub usize);

/// Place of a flow in [`World::flows`]; used again only after the flow's job (or the cross flow) has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowIx(pub usize);

/// Where a flow is in its round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlowPhase {
    /// The job computes, or is not there.
    #[default]
    Idle,
    /// The round has begun; flows that come `after` others wait for those to end.
    Waiting,
    /// Its predecessors have ended, so that it may send.
    Active,
    /// Its last byte of this round was delivered.
    Done,
}

/// What must have happened before a flow may go on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Predecessor {
    /// The flow it waits for, of the same job.
    pub flow: FlowIx,
    /// True: its last byte first. False: sent ≤ lead + ratio · sent of the predecessor.
    pub after: bool,
    /// Bytes it may be ahead.
    pub lead: f64,
    /// Own bytes over the predecessor's.
    pub ratio: f64,
}

impl Predecessor {
    pub(super) fn of(dep: &Dep) -> Predecessor {
        Predecessor { flow: FlowIx(dep.pred as usize), after: dep.after, lead: dep.lead, ratio: dep.ratio }
    }
}

/// One directed transfer between two hosts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flow {
    /// Its job; `None`: unmanaged cross traffic.
    pub job: Option<JobIx>,
    /// `ring0`, `agg0-1`, … as in [`sluice_scenario::workload::RoundFlow`]; cross flows: `cross17`.
    pub name: String,
    /// Its ends as members of the job; `None` for cross traffic.
    pub ends: Option<(Member, Member)>,
    /// The host that sends.
    pub src: NodeIx,
    /// The host that receives.
    pub dst: NodeIx,
    /// The links it takes, in order.
    pub path: Vec<LinkIx>,
    /// Bytes of a round; infinite for cross traffic that ends by time.
    pub bytes: f64,
    /// Bytes of this round delivered when it was last brought up to date; [`World::sent`] is now.
    pub sent: f64,
    /// Bytes per second at that time; [`World::rate`] is now.
    pub rate: f64,
    /// Where it is in its round.
    pub phase: FlowPhase,
    /// What it depends on.
    pub preds: Vec<Predecessor>,
    /// Which stage of the round it belongs to, for schedulers that order stages: 0 for the first. With
    /// [`Rounds::AsTheJobSays`](super::scheduler::Rounds) a parameter server's aggregations and a tree's reduces are
    /// stage 0, its broadcasts stage 1, every other flow stage 0.
    pub stage: u32,
    /// Ideal end after the round's ideal end (`flows` jobs).
    pub ideal_offset: Nanos,
    /// Probability that a byte is lost on its path.
    pub loss: f64,
}

impl Flow {
    /// Bytes of this round not delivered yet.
    pub fn remaining(&self) -> f64 {
        (self.bytes - self.sent).max(0.0)
    }
    /// True while it may send.
    pub fn active(&self) -> bool {
        self.phase == FlowPhase::Active
    }
}

/// Where a job is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JobPhase {
    /// It has not arrived, or waits for GPUs.
    #[default]
    Waiting,
    /// It computes until this time.
    Computing(Nanos),
    /// Its round is under way.
    Communicating,
    /// Its last round has ended.
    Ended,
}

/// The state of one job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobState {
    /// The part of its life that it is in.
    pub phase: JobPhase,
    /// Its hosts; empty before it starts.
    pub placement: Placement,
    /// When it got its GPUs.
    pub started: Option<Nanos>,
    /// When it ended; `None` before.
    pub ended: Option<Nanos>,
    /// How many rounds have ended.
    pub rounds: u64,
    /// When the round that is under way began.
    pub round_began: Option<Nanos>,
    /// Its flows in [`World::flows`], local ones left out.
    pub flows: Range<usize>,
    /// Seconds of compute of one iteration, before jitter and overlap.
    pub compute_s: f64,
    /// Seconds of one round when the job is alone on its placement under equal sharing ("profiled in advance").
    pub isolated_round_s: f64,
}

impl JobState {
    /// Seconds of one iteration when the job is alone.
    pub fn isolated_period_s(&self) -> f64 {
        self.compute_s + self.isolated_round_s
    }
}

/// Everything a scheduler may look at.
#[derive(Debug)]
pub struct World<'a> {
    /// The scenario: network, job descriptions, options.
    pub scenario: &'a Scenario,
    /// The present virtual time.
    pub now: Nanos,
    /// Bytes per second of each link, by [`LinkIx`].
    pub capacity: Vec<f64>,
    /// State of every job, as in [`Scenario::jobs`].
    pub jobs: Vec<JobState>,
    /// Flows of running jobs and cross traffic; places of ended ones are [`FlowPhase::Idle`] with `job` `None`.
    pub flows: Vec<Flow>,
    /// Jobs that run, in order of (arrival, file position).
    pub running: Vec<JobIx>,
    /// Flows in motion: the engine's.
    pub(super) fluid: Fluid,
}

impl World<'_> {
    /// Bytes of this round that a flow has delivered by now.
    pub fn sent(&self, flow: FlowIx) -> f64 {
        match self.moving(flow) {
            Some(moving) => moving.sent_at(self.now.0),
            None => self.flows.get(flow.0).map_or(0.0, |f| f.sent),
        }
    }

    /// Bytes per second that a flow puts on its links now.
    pub fn rate(&self, flow: FlowIx) -> f64 {
        match self.moving(flow) {
            Some(moving) => moving.rate,
            None => self.flows.get(flow.0).map_or(0.0, |f| f.rate),
        }
    }

    fn moving(&self, flow: FlowIx) -> Option<&Moving> {
        self.fluid.flows.get(flow.0).filter(|moving| moving.on)
    }

    /// A job's flows with their indices; empty for one that does not run.
    pub fn flows_of(&self, job: JobIx) -> impl Iterator<Item = (FlowIx, &Flow)> {
        let range = self.jobs.get(job.0).map_or(0..0, |j| j.flows.clone());
        range.clone().zip(self.flows.get(range).unwrap_or_default()).map(|(i, f)| (FlowIx(i), f))
    }
}
