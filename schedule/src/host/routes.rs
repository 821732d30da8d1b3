//! By which of several equal links each flow goes, as the switches on its way say: whom to ask when, and what was said.
//!
//! A flow is asked for where its way forks, at first at once and then about once a second, so that a redrawn path is
//! noticed. What nobody answers is asked again ever more rarely, and what was answered before is forgotten when it was
//! asked for in vain several times: it may have changed.

use std::collections::{BTreeMap, BTreeSet};

use super::config::MAX_HOPS;
use crate::event::{Action, FlowSpec};
use crate::message::{Connection, MAX_ROUTES, Route, RouteQuestion};
use crate::units::{FlowId, HolderId, LinkId, Nanos};

/// Slots until a route that was answered is asked for again.
const REPEAT_SLOTS: u64 = 16;
/// Slots until a question is asked again that nobody answered; twice as long after each.
const RETRY_SLOTS: u64 = 2;
/// So often the pause is doubled.
const DOUBLINGS: u32 = 5;
/// After so many questions in vain an answer does not count any more.
const FORGET_AFTER: u32 = 4;

/// One flow at one switch.
#[derive(Debug)]
struct Question {
    connection: Connection,
    /// When it is asked next, on the monotonic clock; zero: at once.
    due: Nanos,
    /// Questions without an answer since the last one.
    open: u32,
    said: Option<LinkId>,
}

/// All flows that are asked for at one switch.
#[derive(Debug, Default)]
struct Asked {
    flows: BTreeMap<FlowId, Question>,
    queue: BTreeSet<(Nanos, FlowId)>,
}

/// How many questions for routes there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouteCounts {
    /// Asked, each time anew.
    pub asked: u64,
    /// Answered.
    pub answered: u64,
    /// Asked again because no answer came.
    pub unanswered: u64,
}

/// What is asked and was said of the routes of all flows.
#[derive(Debug, Default)]
pub(super) struct Routes {
    holders: BTreeMap<HolderId, Asked>,
    counts: RouteCounts,
    /// What the shell is to hear with the next decision.
    news: Vec<Action>,
}

/// Where a flow's way forks, each switch once.
fn forks(spec: &FlowSpec) -> impl Iterator<Item = (HolderId, Connection)> {
    let forks = spec.forks.iter().take(MAX_HOPS);
    spec.connection.into_iter().flat_map(move |connection| forks.clone().map(move |fork| (*fork, connection)))
}

impl Routes {
    /// A flow exists, or its facts changed from what they were `before`.
    pub fn opened(&mut self, before: Option<&FlowSpec>, spec: &FlowSpec) {
        for (holder, connection) in before.into_iter().flat_map(forks) {
            if !forks(spec).any(|now| now == (holder, connection)) {
                self.drop_question(holder, spec.flow);
            }
        }
        for (holder, connection) in forks(spec) {
            let asked = self.holders.entry(holder).or_default();
            let Some(known) = asked.flows.get(&spec.flow) else {
                asked.flows.insert(spec.flow, Question { connection, due: Nanos::ZERO, open: 0, said: None });
                asked.queue.insert((Nanos::ZERO, spec.flow));
                continue;
            };
            // The shell may have forgotten it, with a topology that it read again.
            if let Some(link) = known.said
                && spec.path.iter().all(|hop| hop.link != link)
            {
                self.news.push(Action::Routed { flow: spec.flow, holder, link: Some(link) });
            }
        }
    }

    /// A flow is gone.
    pub fn closed(&mut self, spec: &FlowSpec) {
        forks(spec).for_each(|(holder, _)| self.drop_question(holder, spec.flow));
    }

    fn drop_question(&mut self, holder: HolderId, flow: FlowId) {
        let Some(asked) = self.holders.get_mut(&holder) else { return };
        if let Some(question) = asked.flows.remove(&flow) {
            asked.queue.remove(&(question.due, flow));
        }
        if asked.flows.is_empty() {
            self.holders.remove(&holder);
        }
    }

    /// The switches that are asked.
    pub fn holders(&self) -> impl Iterator<Item = HolderId> {
        self.holders.keys().copied()
    }

    fn next(&self, holder: HolderId) -> Option<Nanos> {
        Some(self.holders.get(&holder)?.queue.first()?.0)
    }

    /// Is there a question for it now?
    pub fn asks(&self, holder: HolderId, now: Nanos) -> bool {
        self.next(holder).is_some_and(|due| due <= now)
    }

    /// Is there one that was never asked, and must not wait for the next slot?
    pub fn is_urgent(&self, holder: HolderId) -> bool {
        self.next(holder) == Some(Nanos::ZERO)
    }

    /// The questions of an announcement that is made now: those that have waited longest.
    pub fn ask(&mut self, holder: HolderId, now: Nanos, slot: Nanos) -> Vec<RouteQuestion> {
        let Some(asked) = self.holders.get_mut(&holder) else { return Vec::new() };
        let mut questions = Vec::new();
        while questions.len() < MAX_ROUTES
            && let Some(&(due, flow)) = asked.queue.first()
            && due <= now
        {
            asked.queue.pop_first();
            let Some(question) = asked.flows.get_mut(&flow) else { continue };
            if question.open >= FORGET_AFTER && question.said.take().is_some() {
                self.news.push(Action::Routed { flow, holder, link: None });
            }
            self.counts.asked += 1;
            self.counts.unanswered += u64::from(question.open > 0);
            question.due = now.plus(slot.times(RETRY_SLOTS << question.open.min(DOUBLINGS)));
            question.open = question.open.saturating_add(1);
            asked.queue.insert((question.due, flow));
            questions.push(RouteQuestion { flow, connection: question.connection });
        }
        questions
    }

    /// A switch answered. What it was not asked for does not count, nor what it says of other switches' links.
    pub fn heard(&mut self, holder: HolderId, routes: &[Route], now: Nanos, slot: Nanos) {
        let Some(asked) = self.holders.get_mut(&holder) else { return };
        for &Route { flow, link } in routes.iter().take(MAX_ROUTES) {
            let open = asked.flows.get_mut(&flow).filter(|question| question.open > 0);
            let Some(question) = open.filter(|_| link.node() == holder.0) else { continue };
            self.counts.answered += 1;
            asked.queue.remove(&(question.due, flow));
            (question.due, question.open) = (now.plus(slot.times(REPEAT_SLOTS)), 0);
            asked.queue.insert((question.due, flow));
            if question.said.replace(link) != Some(link) {
                self.news.push(Action::Routed { flow, holder, link: Some(link) });
            }
        }
    }

    /// What was asked and answered since the last call.
    pub fn take_counts(&mut self) -> RouteCounts {
        std::mem::take(&mut self.counts)
    }

    /// Is anything new since then?
    pub fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    /// What is new since the last call.
    pub fn take_news(&mut self) -> std::vec::Drain<'_, Action> {
        self.news.drain(..)
    }
}

#[cfg(test)]
mod tests;
