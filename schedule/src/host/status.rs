//! What the brain holds of flows, jobs and links, as status and metrics show it.

use crate::event::{Allowance, FlowSpec};
use crate::policy::Why;
use crate::units::{Bytes, JobId, LinkId, Nanos, Rate};

/// What the brain holds of one flow, for status and metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowStatus<'a> {
    /// The flow and its facts.
    pub spec: &'a FlowSpec,
    /// Bytes of the round.
    pub demand: Bytes,
    /// Bytes of it delivered.
    pub delivered: Bytes,
    /// The rate that is ordered now.
    pub order: Rate,
    /// What it may send beyond its order.
    pub surplus: Option<Allowance>,
    /// What its links would give it.
    pub offer: Rate,
    /// K rates from the current slot on.
    pub rates: &'a [Rate],
    /// Why the order is not higher.
    pub why: Why,
}

/// What the brain holds of one job, for status and metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct JobReport {
    /// Hash of the job id's text.
    pub job: JobId,
    /// Rounds begun on this host.
    pub rounds: u64,
    /// Remaining bottleneck time of the round, as published.
    pub key: Nanos,
    /// True: promoted because the round is old.
    pub promoted: bool,
    /// Other hosts of the job that were heard of lately.
    pub peers: usize,
    /// Running average of the time between round starts.
    pub period: Nanos,
    /// Duration of the last finished round.
    pub last_round: Nanos,
    /// How long flows were held back, by three reasons.
    pub stalls: [Stall; 3],
}

/// How long flows of a job had demand but less than their offer on empty links, for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// What held the flows back.
    pub why: Why,
    /// Summed over the job's flows.
    pub time: Nanos,
}

/// What the brain holds of one link, for status and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkStatus<'a> {
    /// The link this is about.
    pub link: LinkId,
    /// Payload rate: the lower of what is configured and what the holder says.
    pub capacity: Rate,
    /// K sums of the rates other hosts promised there, from the slot of the holder's last feedback on; empty if there
    /// was none.
    pub load: &'a [Rate],
    /// What is left to unmanaged traffic.
    pub cross: Rate,
}
