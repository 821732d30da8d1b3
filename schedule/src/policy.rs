//! The rules that turn demand into rates, behind one trait.
//!
//! A policy sees a [`Scene`]: this host's flows with demand, the jobs they belong to, the links they cross, and what
//! other hosts promised on those links. It fills in one [`Planned`] per flow. It keeps no state: what has to be
//! remembered (arrival order, ceilings, published keys) is the host's and comes in with the scene.

mod fair;
mod paper;
mod srpt_p;

pub mod primal_dual;

use crate::event::Now;
use crate::message::Rank;
use crate::units::{Bytes, FlowId, JobId, Nanos, Rate, Share};

pub use fair::Fair;
pub use paper::PrimalDual;
pub use srpt_p::SrptP;

/// Why a flow has the rate it has; the words of `sluice flows` and `sluice explain`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Why {
    /// It has nothing to send.
    #[default]
    NoDemand,
    /// Rounds of better rank go first.
    Rank,
    /// A later slot is cheaper.
    Price,
    /// The path's headroom is used up.
    Headroom,
    /// Its predecessor has not delivered more.
    Predecessor,
    /// It lags behind its predecessor and catches up.
    CatchUp,
    /// Held at the floor.
    Floor,
    /// A link of its path is full with it.
    LinkCap,
    /// The kernel caps it at what is delivered.
    LossGuard,
    /// Only the own links' table is known.
    LocalTable,
    /// It takes what nobody else uses.
    WorkConserving,
    /// The slowest flow of its job sets the pace.
    Job,
    /// Something that its host does not see lets no more through.
    Uptake,
    /// Its plan gives it this rate and no more.
    Plan,
}

impl Why {
    /// The word for people and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Why::NoDemand => "no-demand",
            Why::Rank => "rank",
            Why::Price => "price",
            Why::Headroom => "headroom",
            Why::Predecessor => "predecessor",
            Why::CatchUp => "catch-up",
            Why::Floor => "floor",
            Why::LinkCap => "link-cap",
            Why::LossGuard => "loss-guard",
            Why::LocalTable => "local-table",
            Why::WorkConserving => "work-conserving",
            Why::Job => "job",
            Why::Uptake => "uptake",
            Why::Plan => "plan",
        }
    }
}

/// Another host's promise on a link, as far as a plan needs it; or many of them in sum, which count as the best of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Other {
    /// How many promises beyond this one it stands for.
    pub more: u32,
    /// The round's place in the order.
    pub rank: Rank,
    /// The rate promised for the current slot.
    pub rate: Rate,
    /// What the fill gave it beyond that.
    pub filled: Rate,
    /// Bytes of the flow's round.
    pub demand: Bytes,
    /// When it will have sent them, on the cluster's clock; 0: not known.
    pub until: Nanos,
}

impl LinkScene {
    /// Is the round that goes first there over within this time, as far as its rank says?
    pub fn is_brief(&self, time: Nanos) -> bool {
        let first = self.first.into_iter().chain(self.others.first().map(|other| other.rank)).min();
        first.is_some_and(|first| first.ordinary && first.key <= time)
    }
}

impl Other {
    /// Has it sent all it had, as far as it could tell?
    pub fn over(&self, now: Nanos) -> bool {
        self.until > Nanos::ZERO && self.until <= now
    }
    /// How many flows it is.
    pub fn flows(&self) -> u64 {
        u64::from(self.more) + 1
    }
    /// What is promised beyond each flow's floor.
    pub fn above(&self, floor: Rate) -> Rate {
        self.rate.minus(Rate(floor.0.saturating_mul(self.flows())))
    }
}

/// What other hosts' flows of one job promised on a link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobLoad {
    /// The job.
    pub job: JobId,
    /// How many of its flows have a rate there.
    pub flows: u64,
    /// Their sums, from the current slot on; missing slots are idle.
    pub load: Vec<Rate>,
}

/// One link that this host's flows cross.
#[derive(Clone, Debug, Default)]
pub struct LinkScene {
    /// What managed flows may use of it: capacity less cross traffic and reserve.
    pub usable: Rate,
    /// What it carries as configured, which plans count on.
    pub configured: Rate,
    /// Only this host sends there.
    pub own: bool,
    /// Other hosts' promises there, best rank first.
    pub others: Vec<Other>,
    /// Other hosts' load per slot, from the current slot on.
    pub load: Vec<Rate>,
    /// What of it each job has, by job; only where the policy follows predecessors.
    pub jobs: Vec<JobLoad>,
    /// 1: the view counts in full; 0: nothing is known of others. Between: the view decays.
    pub trust: f64,
    /// Heard at most a slot ago: rates may be raised at once.
    pub fresh: bool,
    /// Flows with demand there, this host's included.
    pub active: u64,
    /// The floor of each flow there.
    pub floor: Rate,
    /// The best place of this host's own rounds there.
    pub first: Option<Rank>,
}

/// One job with demand on this host.
#[derive(Clone, Debug, Default)]
pub struct JobScene {
    /// Hash of the job id's text.
    pub job: JobId,
    /// Its place in the order of rounds.
    pub rank: Rank,
    /// Least offer its other hosts have for their flows of it, as of a flow with a full share.
    pub peer_offer: Rate,
    /// Of a plan: bytes that a flow with a full share has in this round; 0: all its flows carry the same.
    pub full: Bytes,
}

/// What a plan gives a flow now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// The rate it has for itself where links carry what the plan counted on.
    pub rate: Rate,
    /// Does it take what better places leave, as the plan's order says?
    pub ordered: bool,
    /// May it take more than its own rate where nobody else uses that?
    pub fills: bool,
    /// Has its turn come: has all that it waits for been delivered, or does it have something to send?
    pub ready: bool,
    /// Is it over so soon that the next may begin?
    pub ending: bool,
}

impl Grant {
    /// Has its turn not come, and has it no rate of its own until then? It is promised nothing.
    pub fn waits(self) -> bool {
        !self.ready && self.rate == Rate::ZERO
    }
    /// Does what it is given count, here and for others?
    pub fn counts(self) -> bool {
        !self.waits() && !self.ending
    }
}

/// One flow with demand.
#[derive(Clone, Debug, Default)]
pub struct FlowScene {
    /// Id of the flow.
    pub flow: FlowId,
    /// The flow's job, as an index into [`Scene::jobs`].
    pub job: usize,
    /// Indices into [`Scene::links`], the own egress first.
    pub links: Vec<usize>,
    /// Bytes of the round.
    pub demand: Bytes,
    /// Bytes of the round that were delivered.
    pub delivered: Bytes,
    /// Bytes that wait to be sent beyond what is left of the round as it was told.
    pub untold: Bytes,
    /// Bytes that its predecessors allow it to have sent by now.
    pub allowed: Bytes,
    /// Bytes by which what it delivered lags behind what it depends on: Δ before anything is planned for the current slot.
    pub behind: Bytes,
    /// B_f: highest rate worth trying.
    pub ceiling: Rate,
    /// The most that it would take, judged by what it took lately; `None` where no limit is known.
    pub worth: Option<Rate>,
    /// It takes nothing, judged by the same: that says nothing of its job's pace, and what it waits for may be a flow that
    /// would wait for it.
    pub stands: bool,
    /// The most that the fill may give it without putting it further ahead of what feeds it than its lead; `None`: no
    /// limit is known.
    pub fed: Option<Rate>,
    /// Grows with every round that began: who came first.
    pub arrival: u64,
    /// What it would keep if nothing else were granted.
    pub floor: Rate,
    /// What it carries against the other flows of its job.
    pub share: Share,
    /// What its plan gives it; `None`: it goes by the rank of its job's round.
    pub grant: Option<Grant>,
}

impl FlowScene {
    /// The highest rate that is worth ordering, at least the floor.
    pub fn max_rate(&self) -> Rate {
        self.worth.map_or(Rate::MAX, |worth| worth.max(self.floor))
    }
    /// Bytes of the round still to deliver.
    pub fn remaining(&self) -> Bytes {
        self.demand.minus(self.delivered)
    }
}

/// What a policy sees.
#[derive(Clone, Debug, Default)]
pub struct Scene {
    /// The time of the decision.
    pub now: Now,
    /// Length of a slot, the same in the whole cluster.
    pub slot: Nanos,
    /// How many slots ahead are planned (K).
    pub horizon: usize,
    /// Whether flows may take what nobody else uses.
    pub work_conserving: bool,
    /// The links that the flows cross, in any order.
    pub links: Vec<LinkScene>,
    /// Jobs, best rank first.
    pub jobs: Vec<JobScene>,
    /// Flows, by (rank of the job, flow id).
    pub flows: Vec<FlowScene>,
}

/// What a policy says about one flow; same index as in [`Scene::flows`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Planned {
    /// The rate for the current slot, with what the fill adds.
    pub rate: Rate,
    /// What the flow's own links would give it, whatever its job's other flows do.
    pub offer: Rate,
    /// K rates from the current slot on, as others may plan by them; the first is `rate` without what the fill added.
    pub rates: Vec<Rate>,
    /// Why the rate is not higher.
    pub why: Why,
}

/// A rule that turns demand into rates.
pub trait Policy: std::fmt::Debug + Send {
    /// Does it read what predecessors allow a flow, how far that lags, and its ceiling? If not, the scene leaves them out.
    fn follows_predecessors(&self) -> bool {
        false
    }

    /// Fills `out` with one entry per flow of the scene; entries of an earlier call may be reused.
    fn plan(&mut self, scene: &Scene, out: &mut Vec<Planned>);
}

/// The K rates of a flow that goes on at `rate` until it is done: what others may expect of it.
pub(crate) fn forecast(scene: &Scene, rate: Rate, remaining: Bytes, rates: &mut Vec<Rate>) {
    rates.clear();
    rates.resize(scene.horizon.max(1), Rate::ZERO);
    rates[0] = rate;
    let mut left = remaining.minus(rate.over(scene.slot.minus(scene.now.into_slot)));
    let per_slot = rate.over(scene.slot);
    for ahead in &mut rates[1..] {
        if left >= per_slot {
            *ahead = rate;
        } else if left > Bytes::ZERO {
            *ahead = Rate::needed(left, scene.slot).min(rate);
        } else {
            break; // It is over.
        }
        left = left.minus(per_slot);
    }
}

/// Makes `out` as long as the scene has flows, keeping what is allocated.
pub(crate) fn resize(out: &mut Vec<Planned>, flows: usize) {
    out.resize_with(flows, Planned::default);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Slot by slot, without an end: what is left goes at the rate, and nothing follows.
        #[test]
        fn a_forecast_is_what_each_slot_takes_of_the_rest(
            bits: [u32; 2], rate: u64, remaining: u64, into in 0_u64..=60, horizon in 0_usize..12,
        ) {
            let (rate, remaining) = (Rate(rate >> (bits[0] % 64)), Bytes(remaining >> (bits[1] % 64)));
            let slot = Nanos::from_millis(60);
            let now = Now { into_slot: Nanos::from_millis(into), ..Now::default() };
            let mut rates = vec![Rate::MAX; 3];
            forecast(&Scene { now, slot, horizon, ..Scene::default() }, rate, remaining, &mut rates);
            let mut expected = vec![rate];
            let mut left = remaining.minus(rate.over(Nanos::from_millis(60 - into)));
            while expected.len() < horizon {
                expected.push(if left >= rate.over(slot) { rate } else { Rate::needed(left, slot).min(rate) });
                left = left.minus(rate.over(slot));
            }
            prop_assert_eq!(rates, expected);
        }
    }
}
