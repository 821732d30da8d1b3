//! What feeds this host's flows: how far their predecessors are, as heard, carried on at the rate that they take.

use super::{Flow, Host};
use crate::event::{Now, Pattern};
use crate::graph::{self, Feeding, Progress};
use crate::units::{Bytes, FlowId, Nanos, Rate};
use std::collections::BTreeMap;

/// How far a flow of another host was, and what it took, when that was news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Heard {
    delivered: Bytes,
    demand: Bytes,
    takes: Rate,
    at: Nanos,
}

/// The flows that come to this host, as its holders tell of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Incoming(BTreeMap<FlowId, Heard>);

impl Host {
    /// Takes down how far the flows are that come to this host. A holder repeats what it was told, which is then no news
    /// and as old as it was.
    pub(super) fn hear_incoming(&mut self, now: Now) {
        if !self.config.chunk_lead {
            return;
        }
        let before = std::mem::take(&mut self.incoming.0);
        for promise in self.links.ingress().flat_map(|link| &link.view().flows) {
            let (delivered, demand, takes) = (promise.delivered, promise.demand, promise.takes);
            let same = |old: &&Heard| (old.delivered, old.demand, old.takes) == (delivered, demand, takes);
            let at = before.get(&promise.flow).filter(same).map_or(now.mono, |old| old.at);
            self.incoming.0.insert(promise.flow, Heard { delivered, demand, takes, at });
        }
    }

    /// Does the policy follow what feeds flows, or has a flow something to send that others feed? What it can use then changes
    /// with every byte.
    pub(super) fn is_fed(&self) -> bool {
        let fed = |flow: &Flow| !flow.spec.preds.is_empty() && flow.sends();
        let heeded = self.config.chunk_lead && self.layout.fed;
        self.policy.follows_predecessors() || heeded && self.flows.values().any(|flow| fed(flow))
    }

    /// The most that a flow can use without being further ahead of what feeds it than its lead;
    /// `None`: nothing that is known bounds it. A predecessor that nobody promises has ended, or not begun. Flows of plans
    /// may feed each other in circles without a lead between any two of them.
    pub(super) fn fed(&self, now: Now, flow: &Flow) -> Option<Rate> {
        if !self.config.chunk_lead || flow.spec.preds.is_empty() {
            return None;
        }
        if self.jobs.get(&flow.spec.job).is_some_and(|job| job.pattern == Pattern::Plan) {
            return None;
        }
        let path = flow.path.iter().map(|&link| self.links.get(link).capacity()).min().unwrap_or(Rate::MAX);
        let feeding = flow.spec.preds.iter().filter_map(|by| {
            let (progress, rate) = self.feeding(now, by.flow)?;
            Some(Feeding { by: *by, progress, rate })
        });
        graph::fed(flow.demand, flow.delivered, path, feeding)
    }

    /// How far a flow is that sends, and what it takes.
    fn feeding(&self, now: Now, id: FlowId) -> Option<(Progress, Rate)> {
        if let Some(own) = self.flows.get(&id) {
            let progress = Progress::with_plan(own.delivered, own.demand, Rate::ZERO, Nanos::ZERO);
            return Some((progress, own.order));
        }
        let heard = self.incoming.0.get(&id).filter(|_| self.links.knows_ingress())?;
        let since = now.mono.minus(heard.at);
        Some((Progress::with_plan(heard.delivered, heard.demand, heard.takes, since), heard.takes))
    }
}
