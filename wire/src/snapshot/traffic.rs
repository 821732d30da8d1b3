//! Jobs, flows and links, as this host sees them.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::Label;

words! {
    /// Who moves a flow's rate.
    FlowState {
        /// Sluice paces the flow.
        Managed = "managed",
        /// Ordinary congestion control; Sluice only looks.
        #[default]
        Observed = "observed",
        /// Sluice had it and gave it back.
        Released = "released",
        /// Not a flow of a known job.
        Other = "other",
    }
    /// Who says by which of several equal paths a flow goes.
    PathSource {
        /// There is one path only, or none that is known.
        #[default]
        Only = "only",
        /// The switches that it passes.
        Switch = "switch",
        /// The signature that switches left in the flow's announcement.
        Signature = "signature",
        /// Switches that sent probes back.
        Probe = "probe",
        /// A file of routes.
        File = "file",
        /// Nobody, or not all the way.
        Unknown = "unknown",
    }
    /// How a job's ranks exchange tensors.
    JobPattern {
        /// Every rank sends to the next.
        Ring = "ring",
        /// Workers and parameter servers.
        Ps = "ps",
        /// Reduce up, broadcast down.
        Tree = "tree",
        /// The edges of a plan.
        Plan = "plan",
        /// Nobody has said it yet.
        #[default]
        Unknown = "unknown",
    }
    /// What Sluice does with a job's flows, after asking whether that helps it.
    BenefitState {
        /// Nobody asks: nothing is enforced here, or not in a way that can be left for a moment, or not by configuration.
        #[default]
        Off = "off",
        /// They are paced.
        Managed = "managed",
        /// A window in which nothing is paced, on no host of the cluster.
        Without = "without",
        /// The job was slower with Sluice than without: it is left alone for a while.
        Released = "released",
        /// An operator gave it back.
        Spared = "spared",
    }
}

/// Whether Sluice helps a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Benefit {
    /// What is done with its flows now.
    pub state: BenefitState,
    /// How much longer its iterations take with Sluice than without; negative: less long; `null`: not known.
    pub slower_ratio: Option<f64>,
    /// Windows without Sluice that could be compared.
    pub windows: u64,
    /// Time until it is tried again, if it is released.
    pub retry_ns: Option<u64>,
}

/// The state of one job on this host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Job {
    /// Id of the job.
    pub id: Label,
    /// How its ranks exchange tensors.
    pub pattern: JobPattern,
    /// The plan it follows; empty: none.
    pub plan: String,
    /// `worker`, `server`, `rank`, …; empty: not known.
    pub role: Cow<'static, str>,
    /// Rank of the (first) process here.
    pub rank: Option<u32>,
    /// Ranks of the job.
    pub nranks: Option<u32>,
    /// Flows it sends from this host.
    pub flows: u64,
    /// Rounds that began.
    pub round: u64,
    /// Part of the round that is delivered.
    pub progress_ratio: Option<f64>,
    /// Bytes of the round still to send from this host.
    pub remaining_bytes: Option<u64>,
    /// Bytes of the round.
    pub demand_bytes: Option<u64>,
    /// Sum of its orders.
    pub ordered_bps: Option<u64>,
    /// Sum of what is delivered.
    pub delivered_bps: Option<u64>,
    /// Median duration of its rounds.
    pub round_p50_ns: Option<u64>,
    /// Running mean of the time from round start to round start.
    pub period_ns: Option<u64>,
    /// Its round is old and goes first.
    pub promoted: bool,
    /// What holds it back now; empty: nothing.
    pub stalled_on: Cow<'static, str>,
    /// Who says so: `nccl 2.28.9`, `inferred`, …
    pub source: String,
    /// When it ended, ns since 1970; `null`: it runs.
    pub ended_unix_ns: Option<u64>,
    /// Payload bytes acknowledged since it was seen first.
    pub acked_bytes: u64,
    /// Rounds that were finished.
    pub rounds_finished: u64,
    /// The durations of finished rounds added up, in nanoseconds.
    pub rounds_ns: u64,
    /// Flow-time below demand, by cause.
    pub stalls: Stalls,
    /// Does Sluice help it?
    pub benefit: Benefit,
}

/// Flow-time below demand, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stalls {
    /// A predecessor has not delivered.
    pub predecessor_ns: u64,
    /// Rounds of better rank have the links.
    pub headroom_ns: u64,
    /// The sender itself wrote too little, or the slowest flow of its job sets the pace.
    pub sender_ns: u64,
}

/// One flow this host sends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Flow {
    /// Its id, 16 hex digits.
    pub id: String,
    /// Name of the flow's job.
    pub job: Label,
    /// Its number among the flows of its job on this host, free again when it is gone; `null`: flows are not numbered
    /// (`metrics.flows`).
    pub number: Option<u32>,
    /// Own address and port.
    pub local: String,
    /// The other end's address and port.
    pub to: String,
    /// Who moves its rate.
    pub state: FlowState,
    /// Who says by which of several equal paths it goes.
    pub path: PathSource,
    /// Congestion control that is in force, as the kernel names it.
    pub cc: String,
    /// The present order; `null`: none.
    pub ordered_bps: Option<u64>,
    /// What it takes beyond the order at present; `null`: the order is all that it may.
    pub surplus_bps: Option<u64>,
    /// Present delivery rate, in bit/s.
    pub delivered_bps: Option<u64>,
    /// |delivered − ordered| / ordered, below the order only where it may take more; `null` where demand, not the order,
    /// limits it.
    pub error_ratio: Option<f64>,
    /// Bytes of the round.
    pub demand_bytes: Option<u64>,
    /// Bytes of the round delivered.
    pub delivered_bytes: u64,
    /// Smoothed round-trip time, in nanoseconds.
    pub srtt_ns: Option<u64>,
    /// Least round-trip time, in nanoseconds.
    pub rtt_min_ns: Option<u64>,
    /// Segments that were sent again.
    pub retransmitted: u64,
    /// The kernel's loss guard caps it.
    pub loss_guard: bool,
    /// Planned rates, from the present slot on.
    pub next_bps: Vec<u64>,
    /// Why not more: `rank`, `price`, `headroom`, `predecessor`, `catch-up`, `floor`, `link-cap`,
    /// `loss-guard`, `uptake`, `plan`, `local-table`, `work-conserving`, `job`, `observe`, `no-demand`.
    pub why: Cow<'static, str>,
    /// Since it was seen first.
    pub age_ns: u64,
    /// Owner of the socket.
    pub uid: u32,
}

/// The state of one link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Link {
    /// Name: the interface, or `leaf-1:7`.
    pub name: String,
    /// Its id, 16 hex digits.
    pub id: String,
    /// The switch or peer that keeps its table; empty: this host.
    pub holder: String,
    /// True: a link this host sends on.
    pub own: bool,
    /// Payload rate, in bit/s.
    pub capacity_bps: u64,
    /// What managed flows take; for links of others: what this host's flows take.
    pub managed_bps: Option<u64>,
    /// Unmanaged traffic, in bit/s.
    pub other_bps: Option<u64>,
    /// Promised by other hosts and by this one, from the present slot on.
    pub next_bps: Vec<u64>,
    /// Bytes managed flows sent.
    pub managed_bytes: u64,
    /// Bytes of other traffic.
    pub other_bytes: u64,
    /// Time with two or more jobs sending.
    pub overlap_ns: u64,
    /// Time with one or more jobs sending.
    pub busy_ns: u64,
}

impl From<sluice_schedule::Pattern> for JobPattern {
    fn from(pattern: sluice_schedule::Pattern) -> Self {
        match pattern {
            sluice_schedule::Pattern::Ring => JobPattern::Ring,
            sluice_schedule::Pattern::ParameterServer => JobPattern::Ps,
            sluice_schedule::Pattern::Tree => JobPattern::Tree,
            sluice_schedule::Pattern::Plan => JobPattern::Plan,
            sluice_schedule::Pattern::Unknown => JobPattern::Unknown,
        }
    }
}

impl Link {
    /// Part of the link that is planned per slot, from the present slot on.
    pub fn load_ratios(&self) -> impl Iterator<Item = f64> + '_ {
        let capacity = self.capacity_bps;
        self.next_bps.iter().map(move |&bps| if capacity == 0 { 0.0 } else { bps as f64 / capacity as f64 })
    }
}
