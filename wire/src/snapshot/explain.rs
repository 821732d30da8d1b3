//! Why a flow has its rate: what `sluice explain` shows.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{Label, PathSource};

/// The decision behind a flow's order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Explanation {
    /// The flow, 16 hex digits.
    pub flow: String,
    /// Name of the flow's job.
    pub job: Label,
    /// The slot of the decision.
    pub slot: u32,
    /// Nanoseconds since the decision.
    pub decided_ago_ns: Option<u64>,
    /// Bytes of the round.
    pub demand_bytes: u64,
    /// Bytes of it still to send.
    pub remaining_bytes: u64,
    /// The most the flow could use.
    pub cap_bps: Option<u64>,
    /// Remaining bottleneck time of its job's round: smaller goes first.
    pub key_ns: Option<u64>,
    /// The round is old and goes first.
    pub promoted: bool,
    /// The links that it is known to cross, this host's first.
    pub path: Vec<String>,
    /// Who says by which of several equal paths it goes.
    pub path_source: PathSource,
    /// The tightest link of its path.
    pub link: String,
    /// Per slot, from the present one on.
    pub slots: Vec<SlotReason>,
    /// Why the rate is not higher.
    pub why: Cow<'static, str>,
    /// The same as a sentence, see [`sentence`].
    pub sentence: Cow<'static, str>,
    /// What it takes beyond its order; `null`: the order is all that it may.
    pub surplus: Option<SurplusReason>,
}

/// What a flow takes beyond its order, where that is a floor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SurplusReason {
    /// The present order, in bit/s.
    pub ordered_bps: u64,
    /// What it takes beyond that.
    pub extra_bps: u64,
    /// The most that both may be: the least link of its path.
    pub up_to_bps: u64,
    /// It takes only what is idle, and gives way to any queue.
    pub yields: bool,
}

/// One slot of an [`Explanation`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SlotReason {
    /// What other jobs promised on the tightest link.
    pub load_ratio: f64,
    /// What is left there.
    pub headroom_bps: u64,
    /// The ordered rate, in bit/s.
    pub ordered_bps: u64,
}

/// What a word of [`Explanation::why`] means, for people.
pub fn sentence(why: &str) -> &'static str {
    match why {
        "no-demand" => "it has nothing to send",
        "rank" => "rounds of better rank go first",
        "price" => "a later slot is cheaper",
        "headroom" => "the path's headroom is used up",
        "predecessor" => "the flow it waits for has not delivered more",
        "catch-up" => "it lags behind its predecessor and catches up",
        "floor" => "it is held at the floor until its turn",
        "link-cap" => "a link of its path is full with it",
        "plan" => "its plan gives it this rate and no more",
        "uptake" => "it takes no more: something its host does not see holds it back",
        "loss-guard" => "the kernel caps it at what is delivered, because of loss",
        "local-table" => "only the own links' load is known",
        "work-conserving" => "it takes what nobody else uses",
        "job" => "the slowest flow of its job sets the pace",
        "observe" => "the mode is observe: nothing is enforced",
        _ => "see `sluice concepts`",
    }
}
