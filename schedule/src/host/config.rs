//! What a host's brain is told at start; the daemon fills it from `sluiced.toml`, whose names it keeps.

use serde::{Deserialize, Serialize};

use crate::event::Hop;
use crate::units::{BootId, HolderId, HostId, LinkId, Nanos, Rate};

/// The largest number of jobs that a host keeps.
pub(crate) const MAX_JOBS: usize = 256;
/// The largest number of flows that a host keeps.
pub(crate) const MAX_FLOWS: usize = 65_536;
/// The largest number of links of a path.
pub(crate) const MAX_HOPS: usize = 16;
/// The largest number of links that a host keeps, of all paths together.
pub(crate) const MAX_LINKS: usize = 65_536;

/// The default of φ beside unmanaged traffic, in the daemon, in the simulator and in [`HostConfig::new`].
pub const FAIR_FLOOR: f64 = 0.5;
/// The default of φ on links without unmanaged traffic.
pub const FAIR_FLOOR_ALONE: f64 = 0.0;
/// The default of φ behind brief rounds, in the daemon: connections that were held at next to nothing take as long to come
/// back as such a round takes. In the simulator, which has no connections, and in [`HostConfig::new`] it is none.
pub const FAIR_FLOOR_BRIEF: f64 = 0.5;
/// The default of the part of a full link that unmanaged traffic is left as soon as it comes. More of it costs jobs far
/// more than unmanaged traffic gains, less of it the other way round.
pub const NEWCOMER_SHARE: f64 = 0.14;
/// Part of every link left free: pacing is about so exact, and what it misses must not fill a queue.
pub const RESERVE: f64 = 0.01;
/// The default of the slots that an order lives.
const DEADLINE_SLOTS: u32 = 3;

/// What a host's brain is told at start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostConfig {
    /// Id of this host.
    pub host: HostId,
    /// Drawn at the start of this process.
    pub boot: BootId,
    /// Length of a slot, the same in the whole cluster.
    pub slot: Nanos,
    /// How many slots ahead rates are planned (K).
    pub horizon: usize,
    /// How far into the slot this host repeats its announcements: hosts are spread so that holders are not stormed.
    pub phase: Nanos,
    /// Least time between two announcements to one holder.
    pub announce_gap: Nanos,
    /// Whether to relay other hosts' job statuses. It is needed where hosts keep the tables, since each of them hears only
    /// the hosts that send to it.
    pub relay: bool,
    /// Every switch that answers, in any order: the hosts of a job meet at one of them, also where their flows do not.
    /// The same on all hosts. With one or none there is nothing to choose.
    #[serde(default)]
    pub switches: Vec<HolderId>,
    /// The links by which this host receives, one for each card; watched for the progress of predecessors.
    #[serde(default)]
    pub ingress: Vec<Hop>,
    /// The rule by which demand becomes rates.
    pub policy: PolicyName,
    /// κ: a round older than κ(1+D)m is promoted.
    pub promote_kappa: f64,
    /// φ: part of the equal share every flow keeps on links where unmanaged traffic was seen of late: it eats what a
    /// held-back round leaves idle.
    pub fair_floor: f64,
    /// φ on all other links, for `srpt-p`; `fair` has the above everywhere, and the paper's forms have none.
    pub fair_floor_alone: f64,
    /// φ on those other links at least, while the round that goes first there has no more than two slots left.
    pub fair_floor_brief: f64,
    /// The part of a full own link, 0 to 0.5, that unmanaged traffic is left as soon as it comes; it grows from there.
    pub newcomer_share: f64,
    /// w: slots one unit of price is worth (`primal-dual`).
    pub delay_weight: f64,
    /// μ of the exponential price.
    pub price_mu: f64,
    /// What a flow may try, as a multiple of what it was seen to take.
    pub probe_gain: f64,
    /// Slots of history behind it.
    pub history_slots: usize,
    /// Whether to decide and announce inside a slot, not only at its edge.
    pub events: bool,
    /// Whether flows may take what nobody else uses.
    pub work_conserving: bool,
    /// Whether the fill stops where a flow would be further ahead of what feeds it than its lead (`srpt-p`).
    #[serde(default)]
    pub chunk_lead: bool,
    /// Floor of every flow with demand.
    pub floor: Rate,
    /// Floor as part of the path's bottleneck.
    pub floor_ratio: f64,
    /// Largest step up per slot after adoption and while a view is not fresh.
    pub max_step_up: f64,
    /// A round is never held at the floor longer than this.
    pub max_wait: Nanos,
    /// Slots a view is held before it decays.
    pub stale_slots: u32,
    /// Slots that an order lives: the kernel gives a flow back whose order is older.
    #[serde(default = "deadline_slots")]
    pub deadline_slots: u32,
    /// Part of every link left free.
    pub reserve: f64,
    /// Own links of which another part is left free.
    #[serde(default)]
    pub reserves: Vec<Reserve>,
    /// What a flow may take beyond its order, and where.
    #[serde(default)]
    pub surplus: SurplusRule,
}

/// Records of earlier versions do not say it.
fn deadline_slots() -> u32 {
    DEADLINE_SLOTS
}

/// The part of one own link that is left free, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reserve {
    /// The link.
    pub link: LinkId,
    /// What is left free of it.
    pub part: f64,
}

impl HostConfig {
    /// The defaults of `sluiced.toml` for this host.
    pub fn new(host: HostId, boot: BootId) -> HostConfig {
        HostConfig {
            host,
            boot,
            slot: Nanos::from_millis(60),
            horizon: 10,
            phase: Nanos::ZERO,
            announce_gap: Nanos::from_millis(2),
            relay: false,
            switches: Vec::new(),
            ingress: Vec::new(),
            policy: PolicyName::SrptP,
            promote_kappa: 4.0,
            fair_floor: FAIR_FLOOR,
            fair_floor_alone: FAIR_FLOOR_ALONE,
            fair_floor_brief: 0.0,
            newcomer_share: NEWCOMER_SHARE,
            delay_weight: 1.0,
            price_mu: 100.0,
            probe_gain: 1.25,
            history_slots: 4,
            events: true,
            work_conserving: true,
            chunk_lead: false,
            floor: Rate::mbps(10),
            floor_ratio: 0.01,
            max_step_up: 2.0,
            max_wait: Nanos::from_millis(1200),
            stale_slots: 2,
            deadline_slots: DEADLINE_SLOTS,
            reserve: RESERVE,
            reserves: Vec::new(),
            surplus: SurplusRule::Idle,
        }
    }

    /// How long an order lives.
    pub fn order_life(&self) -> Nanos {
        self.slot.times(u64::from(self.deadline_slots))
    }
}

/// What a flow may take beyond its order. Under the paper's policies orders are all, unless it is [`SurplusRule::Always`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SurplusRule {
    /// What is idle, and it gives way to any queue: what nobody is ordered to use for a moment is used, and nobody has less.
    #[default]
    Idle,
    /// On paths on all of whose links unmanaged traffic was seen of late, as the fair floor holds there, its part of what is
    /// left, as ordinary TCP: such traffic keeps what a late decision leaves idle for a moment. Elsewhere what is idle.
    Greedy,
    /// Nothing: an order is what a flow sends.
    Never,
    /// Its part of what is left, as ordinary TCP, everywhere.
    Always,
}

/// The rules there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PolicyName {
    /// Least remaining round first, promoted when old.
    #[default]
    SrptP,
    /// The paper's Algorithms 1 and 2, with our repairs (event-driven, work-conserving, own-flow cut).
    PrimalDual,
    /// The paper's Algorithms 1 and 2 to the letter.
    PrimalDualLiteral,
    /// Equal share per link.
    Fair,
}

impl PolicyName {
    /// Does it plan a rate for each slot, so that rates change at slots' edges? The others have no use for an edge.
    pub const fn is_by_slots(self) -> bool {
        matches!(self, PolicyName::PrimalDual | PolicyName::PrimalDualLiteral)
    }
}
