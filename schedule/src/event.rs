//! What enters a host's brain ([`Event`]) and what leaves it ([`Action`]).

use serde::{Deserialize, Serialize};

use crate::message::{Announcement, Connection, Feedback};
use crate::units::{Bytes, FlowId, HolderId, HostId, JobId, LinkId, Nanos, Rate, Share, Slot};

/// The time of an event, read once by the shell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Now {
    /// CLOCK_MONOTONIC: leases, deadlines, ages.
    pub mono: Nanos,
    /// The cluster's clock: round starts that travel.
    pub wall: Nanos,
    /// The slot of `wall`.
    pub slot: Slot,
    /// How much of that slot is over.
    pub into_slot: Nanos,
}

/// How a job's ranks exchange tensors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Pattern {
    /// Nobody has said it yet.
    #[default]
    Unknown,
    /// Every rank sends to the next.
    Ring,
    /// Workers send to servers, servers send back.
    ParameterServer,
    /// Reduce up, broadcast down.
    Tree,
    /// The edges of a plan.
    Plan,
}

/// The part a flow plays in its job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Role {
    /// Not known: no dependencies.
    #[default]
    Plain,
    /// Rank n to rank n+1 of a ring.
    RingNext,
    /// Worker to parameter server.
    Aggregate,
    /// Parameter server to worker.
    Broadcast,
    /// From a child to its parent.
    Reduce,
    /// From a parent to its child.
    Spread,
}

/// How a predecessor bounds a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PredKind {
    /// At every moment F ≤ lead + F_pred · G / G_pred.
    #[default]
    Pipelined,
    /// Nothing before the predecessor has finished.
    FinishToStart,
}

/// One predecessor of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Predecessor {
    /// The flow that must deliver first; usually one that another host sends to this one.
    pub flow: FlowId,
    /// Whether it bounds at every moment or only until it ends.
    pub kind: PredKind,
    /// Bytes the successor may be ahead (a ring's own first chunk; else 0).
    pub lead: Bytes,
}

/// Bytes of another flow that must have been delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// The flow that must deliver first; usually one that another host sends to this one.
    pub flow: FlowId,
    /// Bytes of its round.
    pub bytes: Bytes,
}

/// What a plan gives a flow while it has delivered less than `end` bytes of its round.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Term {
    /// Bytes of the round up to which it holds.
    pub end: Bytes,
    /// The rate that the flow has for itself, where links carry what the plan counted on; zero: none.
    pub rate: Rate,
    /// Its place in the order of the plan's flows, the lower first; `None`: the plan has no order.
    pub place: Option<u64>,
    /// None of these bytes is sent before all of this has come.
    pub after: Vec<Arrival>,
}

/// What a plan of rates, weights or an order gives a flow, part by part of its round.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// By their ends, ascending; the last holds for whatever comes after it. Empty: no such plan.
    pub terms: Vec<Term>,
    /// May the flow take more than its own rate where others leave it?
    pub fills: bool,
    /// Does its job's round decide before its place does: the one with the least left to send first?
    #[serde(default)]
    pub by_round: bool,
}

impl Terms {
    /// What holds for a flow that has delivered so much of its round; `None`: no such plan.
    pub fn at(&self, delivered: Bytes) -> Option<&Term> {
        self.terms.get(self.place_at(delivered))
    }

    /// The bytes of the round after which the flow begins that this holds for.
    pub fn begins_at(&self, delivered: Bytes) -> Bytes {
        let before = self.place_at(delivered).checked_sub(1);
        before.and_then(|before| self.terms.get(before)).map_or(Bytes::ZERO, |term| term.end)
    }

    fn place_at(&self, delivered: Bytes) -> usize {
        let last = self.terms.len().saturating_sub(1);
        self.terms.iter().position(|term| term.end > delivered).unwrap_or(last)
    }
}

/// A job as far as this host knows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobSpec {
    /// Hash of the job id's text.
    pub job: JobId,
    /// How its ranks talk.
    pub pattern: Pattern,
}

/// One link of a flow's path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hop {
    /// The directed link that the flow crosses.
    pub link: LinkId,
    /// Its payload rate as configured; a fresher value comes with feedback.
    pub capacity: Rate,
    /// Who keeps its table; `None`: only this host uses it (the own egress).
    pub holder: Option<HolderId>,
}

/// A flow this host sends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowSpec {
    /// Id of the flow, whose sender is this host.
    pub flow: FlowId,
    /// The job it belongs to.
    pub job: JobId,
    /// The host that receives it.
    pub to: HostId,
    /// Its part in the job.
    pub role: Role,
    /// Its path, the own egress first.
    pub path: Vec<Hop>,
    /// What bounds it, 64 at most.
    pub preds: Vec<Predecessor>,
    /// Flows that it catches up with, though they do not bound it, 64 at most: those that a server broadcasts, for a flow
    /// that it aggregates.
    #[serde(default)]
    pub watches: Vec<FlowId>,
    /// What it carries against the other flows of its job.
    pub share: Share,
    /// What a plan of rates, weights or an order gives it.
    #[serde(default)]
    pub terms: Terms,
    /// The connection that it is, where switches may be asked by which of several equal links it goes.
    #[serde(default)]
    pub connection: Option<Connection>,
    /// The switches on its way from which several equal links lead on, those whose answer is known included.
    #[serde(default)]
    pub forks: Vec<HolderId>,
}

/// What the kernel measured of one flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowProgress {
    /// The flow of this host that was measured.
    pub flow: FlowId,
    /// Payload bytes acknowledged since the round began.
    pub delivered: Bytes,
    /// Present delivery rate of payload.
    pub rate: Rate,
    /// Bytes written by the application that are not yet acknowledged: what the kernel knows of demand.
    pub queued: Bytes,
    /// Least round-trip time lately: so long after it was sent a byte counts as delivered. 0: not known.
    #[serde(default)]
    pub rtt: Nanos,
}

/// May slot numbers be trusted?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClockTrust {
    /// Slot numbers may be used with other hosts.
    #[default]
    Trusted,
    /// They may, though somebody is in another slot: holders to whom there is nothing else to say are asked for theirs now and
    /// then, since most of them decide.
    Contradicted,
    /// No: schedule by the own links only, announce nothing.
    Untrusted,
}

impl ClockTrust {
    /// May slot numbers be used with other hosts?
    pub const fn is_trusted(self) -> bool {
        !matches!(self, ClockTrust::Untrusted)
    }
}

/// What enters a host's brain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// A slot began. The only event that renews every order.
    SlotEdge,
    /// A job takes part on this host (again: its facts changed).
    JobSeen(JobSpec),
    /// No process of the job is left here.
    JobGone(JobId),
    /// A flow of a known job exists (again: its facts changed).
    FlowOpened(FlowSpec),
    /// The connection is gone.
    FlowClosed(FlowId),
    /// The job's next round began: bytes each flow has to send.
    RoundBegan {
        /// The job whose round began.
        job: JobId,
        /// Bytes of the round by flow; a flow that is not named has none.
        flows: Vec<(FlowId, Bytes)>,
    },
    /// The round's demand of one flow is now this (it grew while the job enqueued, or a claim was corrected).
    DemandChanged {
        /// The flow whose demand changed.
        flow: FlowId,
        /// Bytes of the round.
        demand: Bytes,
    },
    /// Measurements of the kernel.
    Progress(Vec<FlowProgress>),
    /// A holder answered or pushed.
    Feedback {
        /// The holder that answered.
        holder: HolderId,
        /// Its answer, as it came in.
        feedback: Feedback,
    },
    /// The connection to a holder broke; its view ages from here.
    HolderLost(HolderId),
    /// A holder can be reached (again).
    HolderBack(HolderId),
    /// What all and what managed traffic took of an own link (egress or ingress) in the slot that ended; once per slot.
    Measured {
        /// The own link that was measured.
        link: LinkId,
        /// All traffic, as payload.
        total: Rate,
        /// The part of it that managed flows sent.
        managed: Rate,
    },
    /// The clock became trusted or lost trust.
    Clock(ClockTrust),
}

/// What a flow may send beyond its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allowance {
    /// With the order, at most: the least link of its path.
    pub up_to: Rate,
    /// Only what is idle: it gives way to any queue. Otherwise it competes for what is left as ordinary TCP does.
    pub yields: bool,
}

/// What leaves a host's brain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Action {
    /// Hold this flow to this rate until its order expires. Repeated in every slot: only that renews an order.
    Order {
        /// The flow to pace.
        flow: FlowId,
        /// The rate, at least the floor.
        rate: Rate,
        /// What it may send beyond the rate, which is a floor then. `None`: the rate and no more.
        surplus: Option<Allowance>,
    },
    /// Give this flow back to ordinary congestion control.
    Release {
        /// The flow to hand back.
        flow: FlowId,
        /// Why, for logs and metrics.
        why: ReleaseReason,
    },
    /// A switch says by which of several equal links a flow goes, or has not said so for long. What the flow's path is now
    /// is for the shell to find, which tells it with [`Event::FlowOpened`].
    Routed {
        /// The flow.
        flow: FlowId,
        /// The switch.
        holder: HolderId,
        /// Its link by which the flow leaves it; `None`: not known any more.
        link: Option<LinkId>,
    },
    /// Send this announcement to this holder.
    Announce {
        /// The holder that is to hear it.
        holder: HolderId,
        /// Everything this host promises on the holder's links.
        announcement: Announcement,
    },
}

/// Why a flow was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ReleaseReason {
    /// The job or the flow is gone.
    Gone,
}
