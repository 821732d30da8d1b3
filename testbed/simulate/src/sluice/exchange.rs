//! What daemons and keepers of tables say to each other, and when: announcements, answers, pushes.

use sluice_schedule::{Announcement, Event, Feedback, Nanos, Route};

use super::agenda::Due;
use super::fabric::{flow_ix, holder_id, node_of};
use super::{Rhythm, SluiceScheduler};
use crate::world::World;

impl SluiceScheduler {
    pub(super) fn announce(
        &mut self,
        at: Nanos,
        host: usize,
        holder: usize,
        announcement: Announcement,
        world: &World<'_>,
    ) {
        self.tally.announced(&announcement);
        if holder == host {
            // The own ingress is kept here: no wire in between.
            let feedback = self.holder(world.scenario, holder, at).announce_own(at, &announcement);
            self.after_change(at, holder);
            if let (Some(feedback), Some(daemon)) = (feedback, self.daemons.get_mut(host)) {
                daemon.answer(at, Event::Feedback { holder: holder_id(holder), feedback });
            }
            return;
        }
        let bytes = self.post.weigh_announcement(holder, &announcement);
        if let Some(arrives) = self.post.send(at, host, holder, holder, bytes) {
            self.agenda.add(arrives, Due::ToHolder { holder, announcement: Box::new(announcement) });
        }
    }

    pub(super) fn holder_hears(&mut self, at: Nanos, node: usize, announcement: &Announcement, world: &World<'_>) {
        let holder = self.holder(world.scenario, node, at);
        let first = holder.waiting() == 0;
        if holder.take(at, announcement) {
            for question in &announcement.routes {
                let flow = world.flows.get(flow_ix(question.flow).0);
                let link = flow.and_then(|flow| self.fabric.route(world.scenario, node, flow));
                if let (Some(link), Some(holder)) = (link, self.holders.get_mut(&node)) {
                    holder.route_known(announcement.host, Route { flow: question.flow, link });
                }
            }
            if first {
                self.agenda.add(at, Due::Answer(node));
            }
            self.after_change(at, node);
        }
    }

    pub(super) fn answer(&mut self, at: Nanos, node: usize) {
        let answers = self.holders.get_mut(&node).map(|holder| holder.answers(at)).unwrap_or_default();
        for (host, feedback) in answers {
            self.send_feedback(at, node, node_of(host.0), feedback);
        }
    }

    /// Something changed at a holder: others are told soon, and it looks at its next slot edge.
    fn after_change(&mut self, at: Nanos, node: usize) {
        let Some(holder) = self.holders.get_mut(&node) else { return };
        if !std::mem::replace(&mut holder.push_due, true) {
            self.agenda.add(at.plus(holder.push_gap()), Due::Push(node));
        }
        if !std::mem::replace(&mut holder.edge_due, true) {
            let edge = at.plus(holder.until_edge(at));
            self.agenda.add(edge, Due::HolderEdge { holder: node, life: holder.life });
        }
    }

    pub(super) fn push(&mut self, at: Nanos, node: usize) {
        let Some(holder) = self.holders.get_mut(&node) else { return };
        holder.push_due = false;
        for (host, feedback) in holder.push(at) {
            let host = node_of(host.0);
            if host == node {
                self.host_hears(at, host, node, feedback);
            } else {
                self.send_feedback(at, node, host, feedback);
            }
        }
    }

    pub(super) fn holder_edge(&mut self, at: Nanos, node: usize, life: u64) {
        let Some(holder) = self.holders.get_mut(&node).filter(|holder| holder.life == life) else { return };
        holder.edge_due = false;
        if holder.edge(at) {
            self.after_change(at, node);
        } else if !std::mem::replace(&mut holder.push_due, true) {
            self.agenda.add(at.plus(holder.push_gap()), Due::Push(node));
        }
    }

    fn send_feedback(&mut self, at: Nanos, holder: usize, host: usize, feedback: Feedback) {
        let bytes = self.post.weigh_feedback(holder, &feedback);
        if let Some(arrives) = self.post.send(at, holder, host, holder, bytes) {
            self.agenda.add(arrives, Due::ToHost { host, holder, feedback: Box::new(feedback) });
        }
    }

    pub(super) fn host_hears(&mut self, at: Nanos, host: usize, holder: usize, feedback: Feedback) {
        // The connection on which a dead process answered is gone with it.
        if self.holders.get(&holder).is_none_or(|known| known.brain().is_none() || known.boot() != feedback.boot) {
            return;
        }
        let at_once = self.rhythm == Rhythm::Edges;
        let Some(daemon) = self.daemons.get_mut(host) else { return };
        daemon.hear(at, holder_id(holder), feedback, at_once);
        if !at_once {
            self.wake_soon(at, host);
        }
    }

    /// A daemon looks at what it heard, a little after its last turn at the earliest.
    pub(super) fn wake_soon(&mut self, at: Nanos, host: usize) {
        let gather = self.gather();
        let Some(daemon) = self.daemons.get_mut(host).filter(|daemon| daemon.awake()) else { return };
        let soon = daemon.turned.map_or(at, |turned| turned.plus(gather).max(at));
        if daemon.look_at.is_none_or(|look| look > soon) {
            daemon.stamp += 1;
            daemon.look_at = Some(soon);
            self.agenda.add(soon, Due::Tick { host, stamp: daemon.stamp });
        }
    }
}
