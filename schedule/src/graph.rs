//! The one dependency graph: what a flow may usefully have sent, given what its predecessors delivered.
//!
//! Every flow has up to 64 predecessors. A *pipelined* one bounds it at every moment, F ≤ lead + ρ·F_pred with
//! ρ = G/G_pred; a *finish-to-start* one holds it back until it has ended. Rings, parameter servers, trees and flow
//! groups are fillings of this graph ([`fill()`], per process; [`PlanFlows`] where a plan names every tree). On top of the
//! bound stand the paper's two adjustments: the catch-up Δ of a flow that lags behind what it depends on, and the excess
//! of a successor that runs ahead of what its predecessors delivered. [`adjust()`] turns Δ into the current slot's rate
//! (Algorithm 2).
//!
//! The lead matters on a ring. Without it every flow of the ring waits for the one before, and nobody starts. With a
//! lead of one chunk, at most n−1 of the n bounds can be tight at once: summed around the ring, n tight ones would say
//! 0 = n chunks.
//!
//! Who measures progress and tells it to other hosts is left to [`crate::host`].

mod adjust;
mod fill;
mod lead;
mod plan;

pub use adjust::{Adjusted, Step, adjust};
pub use fill::{Leg, fill, ring_lead, watches};
pub use lead::{Feeding, fed};
pub use plan::{PlanFlow, PlanFlows, PlanTree};

use crate::event::{PredKind, Predecessor, Role};
use crate::units::{Bytes, Nanos, Rate};

/// Predecessors of one flow at most.
pub(crate) const MAX_PREDECESSORS: usize = 64;

/// How far a flow is in its round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// F: bytes delivered, plus what the schedule gives in the current slot where that is known.
    pub bytes: Bytes,
    /// G: bytes of the round; 0 while it is unknown, which counts as equal to the other flow's.
    pub demand: Bytes,
    /// True once the round of this flow is over, or if it needs no transfer at all.
    pub ended: bool,
}

impl Progress {
    /// Delivered bytes of a round, and what `rate` adds in `rest` of the current slot.
    pub fn with_plan(delivered: Bytes, demand: Bytes, rate: Rate, rest: Nanos) -> Progress {
        let ended = demand > Bytes::ZERO && delivered >= demand;
        Progress { bytes: delivered.plus(rate.over(rest)).min(demand.max(delivered)), demand, ended }
    }

    /// Bytes of the round still to come.
    pub fn remaining(self) -> Bytes {
        self.demand.minus(self.bytes)
    }

    /// The bytes of a round of `demand` that correspond to this progress: ρ·F, rounded down.
    fn scaled_to(self, demand: Bytes) -> Bytes {
        if self.ended {
            demand
        } else if self.demand == Bytes::ZERO || demand == Bytes::ZERO || self.demand == demand {
            self.bytes
        } else {
            let scaled = u128::from(self.bytes.0) * u128::from(demand.0) / u128::from(self.demand.0);
            Bytes(u64::try_from(scaled).unwrap_or(u64::MAX))
        }
    }
}

/// A predecessor and how far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PredecessorProgress {
    /// The predecessor, and how it bounds.
    pub by: Predecessor,
    /// How far it is.
    pub progress: Progress,
}

/// Bytes of a round of `demand` that a flow with these predecessors may usefully have sent; all of them without any.
///
/// With `demand` zero (unknown) the bound is in the predecessors' own bytes, and [`Bytes`]`(u64::MAX)` without any.
pub fn bound(demand: Bytes, preds: impl IntoIterator<Item = PredecessorProgress>) -> Bytes {
    let all = if demand == Bytes::ZERO { Bytes(u64::MAX) } else { demand };
    let allowed = |pred: PredecessorProgress| match pred.by.kind {
        _ if pred.progress.ended => all,
        PredKind::Pipelined => pred.by.lead.plus(pred.progress.scaled_to(demand)).min(all),
        PredKind::FinishToStart => Bytes::ZERO,
    };
    preds.into_iter().map(allowed).min().unwrap_or(all)
}

/// Δ: the bytes by which a flow lags behind what it depends on, at most what it still has to send.
///
/// `looks_at` are, by role: the predecessors of a ring, broadcast, reduce or spread flow (the slowest counts); the
/// server's broadcast flows of an aggregation flow (the fastest counts); ignored for a plain flow. A ring's lead is not
/// part of Δ: being level with the predecessor is what is caught up to. Whoever plans `flow` after this gives its progress
/// without the current slot, and takes what it plans there off Δ.
pub(crate) fn catch_up(role: Role, flow: Progress, looks_at: impl IntoIterator<Item = Progress>) -> Bytes {
    let scaled = looks_at.into_iter().map(|other| other.scaled_to(flow.demand));
    let level = match role {
        Role::Plain => None,
        Role::Aggregate => scaled.max(),
        Role::RingNext | Role::Broadcast | Role::Reduce | Role::Spread => scaled.min(),
    };
    level.unwrap_or(Bytes::ZERO).minus(flow.bytes).min(flow.remaining())
}

/// The bytes by which a successor runs ahead of what its predecessors delivered: (F_succ − F_f)₊ on a ring without a
/// lead, (F_b − F_a^min)₊ at a server. Its current slot is cut by so much, and others get the bandwidth.
pub fn excess(successor: Progress, preds: impl IntoIterator<Item = PredecessorProgress>) -> Bytes {
    successor.bytes.minus(bound(successor.demand, preds))
}

#[cfg(test)]
mod tests;
