//! What hosts and table holders tell each other, as plain values; `sluice-wire` turns them into bytes.
//!
//! A *holder* keeps the load tables of some links: a switch, or a host for its own ingress where no switch answers.
//! Every host sends each holder one [`Announcement`] per slot while it has demand, and one more whenever something
//! changed. The first of each slot is answered by one [`Feedback`], others where they ask for more than before, and a holder
//! pushes further feedback when others changed a watched link.
//! An announcement *replaces* the host's earlier one, so repeats and late duplicates change nothing.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::units::{BootId, Bytes, FlowId, HostId, JobId, LinkId, Nanos, Rate, Slot};

/// All that one host promises on the links of one holder, and what it asks to know.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Announcement {
    /// The host that promises.
    pub host: HostId,
    /// Of the sending process.
    pub boot: BootId,
    /// Grows by one with every announcement of this boot to this holder.
    pub seq: u64,
    /// The slot the first rate of every promise is for.
    pub slot: Slot,
    /// One promise per flow with demand.
    pub flows: Vec<FlowPromise>,
    /// The host's own status of each job it takes part in, and what it relays of others'.
    pub jobs: Vec<JobStatus>,
    /// The links whose view the host wants back.
    pub watch: Vec<LinkId>,
    /// What is to be left to the unmanaged traffic that the host measured on links it is attached to (its own ingress);
    /// the holder's `cross` of the link is the larger of this and its own configured background.
    pub measured: Vec<(LinkId, Rate)>,
    /// Flows of the host of which it wants to know by which of its equal links the holder sends them on.
    #[serde(default)]
    pub routes: Vec<RouteQuestion>,
}

/// Questions for routes in one announcement at most, and answers in one feedback.
pub const MAX_ROUTES: usize = 64;

/// A connection as its packets show it to a switch, which chooses among equal links by this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Connection {
    /// The end that sends the flow.
    pub source: SocketAddr,
    /// The end that receives it.
    pub destination: SocketAddr,
    /// The number of the protocol over IP; 6 is TCP.
    pub protocol: u8,
}

/// By which of its links does the holder send this flow on?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteQuestion {
    /// The flow, which the asking host sends.
    pub flow: FlowId,
    /// The connection that it is.
    pub connection: Connection,
}

/// By this of its links a holder sends a flow on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// The flow that was asked for.
    pub flow: FlowId,
    /// A link that leaves the holder.
    pub link: LinkId,
}

/// The place of a round in the total order of rounds; the smaller one goes first. Promoted rounds come first, the oldest
/// of them before the others; then come all other rounds, the one with the least left to send first. Ties go by job id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// True for a round that is not promoted.
    pub ordinary: bool,
    /// Of a promoted round: when it began, on the cluster's clock. Of any other: its remaining bottleneck time.
    pub key: Nanos,
    /// The job of the round, which breaks ties.
    pub job: JobId,
}

impl Rank {
    /// Places in the order of a plan are below this: no round began so soon after 1970.
    const MAX_PLACE: u64 = 1 << 40;

    /// Where only the sum of others' promises is known: nobody can tell whose come before, so all of it does. A link is then
    /// never promised twice, and whoever promised first keeps what he has.
    pub const OF_SUMS: Rank = Rank { ordinary: false, key: Nanos(0), job: JobId(0) };

    /// The rank of a flow to which a plan gives a rate or a place: before all rounds.
    pub fn of_plan(place: u64, job: JobId) -> Rank {
        Rank { ordinary: false, key: Nanos(place.min(Rank::MAX_PLACE - 1)), job }
    }
    /// The same where the round with the least left to send goes first, and places count within a round.
    pub fn of_plan_by_round(left: Nanos, place: u64, job: JobId) -> Rank {
        const PLACES: u64 = 1 << 12;
        let left = left.0.min(Rank::MAX_PLACE - PLACES) & !(PLACES - 1);
        Rank::of_plan(left | (place & (PLACES - 1)), job)
    }
    /// Is it the rank of a flow of a plan? Such flows are ranked one by one, whatever their job.
    pub fn is_of_plan(self) -> bool {
        !self.ordinary && self.key.0 < Rank::MAX_PLACE
    }
}

/// One flow's promise: at most these rates, in this rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowPromise {
    /// Id of the promised flow.
    pub flow: FlowId,
    /// The job it belongs to.
    pub job: JobId,
    /// True: class 0, the round is older than κ(1+D)m and goes first, by `t0`.
    pub promoted: bool,
    /// Remaining bottleneck time of the job's round; smaller goes first.
    pub key: Nanos,
    /// When the round began, on the cluster's clock.
    pub t0: Nanos,
    /// What the flow takes now: its first rate and what the fill adds, which is promised to nobody. Flows of worse rank
    /// leave both alone when they fill.
    pub takes: Rate,
    /// When the last byte of its round, or of the plan's flow that it is at, leaves if the flow goes on as it does now, on
    /// the cluster's clock: nobody need wait to be told. 0: not known.
    pub until: Nanos,
    /// K rates from the announcement's slot on; missing ones repeat the last.
    pub rates: Vec<Rate>,
    /// Bytes of the flow's round.
    pub demand: Bytes,
    /// Bytes of them that were delivered.
    pub delivered: Bytes,
    /// The links of the flow's path that this holder keeps.
    pub links: Vec<LinkId>,
}

/// What one host knows of one job; relayed from host to host, newest (boot, seq) of each origin wins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobStatus {
    /// The job that the status is about.
    pub job: JobId,
    /// The host that this is the status of.
    pub origin: HostId,
    /// Of the origin's process.
    pub boot: BootId,
    /// Grows with every status of this boot.
    pub seq: u64,
    /// Counts the origin's rounds of this job.
    pub round: u64,
    /// When the origin saw the round begin, on the cluster's clock.
    pub t0: Nanos,
    /// Remaining bottleneck time of the round over the links the origin knows; 0: the origin has nothing left to send.
    pub key: Nanos,
    /// Bottleneck time of the whole round over the links the origin knows (m).
    pub round_time: Nanos,
    /// Running average of the time from round start to round start (p); 0 unknown.
    pub period: Nanos,
    /// Least offer over the origin's active flows of the job; [`Rate::MAX`] if none is active.
    pub offer: Rate,
    /// The origin has promoted the round.
    pub promoted: bool,
}

/// A holder's answer to an announcement, or what it pushes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Feedback {
    /// Of the holder's process.
    pub boot: BootId,
    /// The last sequence number of the host that was applied; 0 before the first.
    pub seq: u64,
    /// The holder's own slot.
    pub slot: Slot,
    /// False in the first two slots after the holder's start: the table is not full yet, zero means unknown.
    pub warm: bool,
    /// Why the last announcement was not applied.
    pub refused: Option<Refusal>,
    /// One view per watched link that this holder keeps.
    pub links: Vec<LinkView>,
    /// Other hosts' statuses of the jobs this host takes part in: of each job all of them, or those that decide.
    pub jobs: Vec<JobStatus>,
    /// The jobs of which only the statuses that decide are told.
    pub crowds: Vec<Crowd>,
    /// The routes that the host asked for and the holder has come to know since the last feedback.
    #[serde(default)]
    pub routes: Vec<Route>,
}

/// A job with more hosts than a holder tells of one by one. What it tells instead are the statuses from which all that
/// matters follows, [`crate::deciding`], and they replace what it told before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crowd {
    /// The job.
    pub job: JobId,
    /// How many other hosts told the holder of it.
    pub hosts: u32,
}

/// What a holder knows of one link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkView {
    /// The link that this is the view of.
    pub link: LinkId,
    /// Payload rate of the link as its holder has it.
    pub capacity: Rate,
    /// What is left of it to unmanaged traffic.
    pub cross: Rate,
    /// K sums of the rates other hosts promised there, from the feedback's slot on.
    pub load: Vec<Rate>,
    /// Other hosts' promises there, best rank first, `links` empty; `rates` are K for jobs that the asker has a part in, the
    /// current slot's only for others. Cut at [`LinkView::MAX_FLOWS`]; the sums of the others are in `rest`.
    pub flows: Vec<FlowPromise>,
    /// The promises that are not listed, summed: one sum for each job that the asker has a part in, and sums of all other
    /// jobs by rank, so that nobody thinks the link emptier than it is.
    pub rest: Vec<PromiseSum>,
}

impl LinkView {
    /// How many promises a view lists at most.
    pub const MAX_FLOWS: usize = 64;
    /// How many sums of the others it has at most.
    pub const MAX_SUMS: usize = 64;
}

/// Promises on one link in sum.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PromiseSum {
    /// How many of them have a rate in the current slot.
    pub flows: u32,
    /// They are all that is not listed of this one job, in which the asker has a part.
    pub of_job: bool,
    /// What they have together, with the rank and the job of the best of them; `flow`, `until` and `links` are empty.
    pub sum: FlowPromise,
}

/// Why a holder did not apply an announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Refusal {
    /// The announced slot is more than one away from the holder's.
    SlotGuard,
    /// An older (boot, sequence) than the last applied.
    Old,
    /// More promises than [`crate::switch::Limits`] allows.
    Quota,
    /// A link this holder does not keep.
    UnknownLink,
    /// A flow of another host.
    ForeignFlow,
    /// A link that nothing the host sends can cross.
    LinkNotYours,
    /// A host that the topology does not have.
    UnknownHost,
}

impl FlowPromise {
    /// The rate for the slot `ahead` slots after the announcement's.
    pub fn rate(&self, ahead: usize) -> Rate {
        self.rates.get(ahead).or(self.rates.last()).copied().unwrap_or(Rate::ZERO)
    }
    /// The place of the flow's round in the order of rounds.
    pub fn rank(&self) -> Rank {
        let key = if self.promoted { self.t0 } else { self.key };
        Rank { ordinary: !self.promoted, key, job: self.job }
    }
}
