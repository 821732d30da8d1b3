//! Bookkeeping, once per slot: counters, the time line, and how long jobs shared a link.

use std::sync::PoisonError;

use sluice_schedule::{Bytes, Event, JobId, Nanos, Now, Rate, Refusal};
use sluice_wire::timeline::{EventKind, EventRecord, FlowRecord, LinkRecord, Timeline, Trigger};

use super::Core;
use crate::clock;
use crate::exchange::book::Tally;
use crate::monitor::EndedRound;

/// A flow that delivers less than this part of its order because it has nothing to send is left out of the error.
const DEMAND_LIMITED: f64 = 0.5;

/// A flow that moves less in a slot uses no link: its acknowledgements, or what its library says.
const MOVES: Bytes = Bytes(16 << 10);

/// What the own flows put on an own link in a slot.
#[derive(Clone, Copy, Debug, Default)]
struct OnLink {
    /// A job that moved something.
    job: Option<JobId>,
    /// Another one did as well.
    shared: bool,
    /// Ordered in all, of flows that have demand.
    scheduled: Rate,
}

/// How long an own link was in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkUse {
    /// One or more jobs sent.
    pub busy: Nanos,
    /// Two or more jobs sent.
    pub overlap: Nanos,
}

impl Core {
    /// Counts the rounds that this turn's events begin and notes them in the time line.
    pub(super) fn note_rounds(&mut self, now: Now, trigger: &mut Trigger) {
        for event in &self.events {
            match event {
                Event::RoundBegan { job, .. } => {
                    *trigger = Trigger::Start;
                    let round = self.monitor.jobs.get(job).map_or(0, |job| job.rounds);
                    let mut timeline = self.timeline.lock().unwrap_or_else(PoisonError::into_inner);
                    if let Some(name) = self.monitor.job_name(*job) {
                        timeline.name_job(*job, name);
                    }
                    let kind = EventKind::RoundBegan(*job, round);
                    timeline.event(EventRecord { slot: now.slot, into_slot: now.into_slot, kind });
                }
                Event::FlowClosed(_) => *trigger = Trigger::End,
                _ => {}
            }
        }
    }

    /// Rounds that ended in this turn.
    pub(super) fn note_ended_rounds(&mut self, now: Now) {
        for EndedRound { job, round, took } in self.monitor.ended_rounds.drain(..) {
            self.counters.round_s.observe(took.as_secs_f64());
            let mut timeline = self.timeline.lock().unwrap_or_else(PoisonError::into_inner);
            timeline.event(EventRecord {
                slot: now.slot,
                into_slot: now.into_slot,
                kind: EventKind::RoundEnded(job, round),
            });
        }
    }

    /// Conditions that began or ended since the slot before.
    pub(super) fn note_conditions(&self, now: Now) {
        let holding = self.conditions.iter().map(|condition| (condition.code, condition.subject.as_str()));
        let mut timeline = self.timeline.lock().unwrap_or_else(PoisonError::into_inner);
        timeline.conditions(now.slot, now.into_slot, holding);
    }

    pub(super) fn count_decision(&mut self, trigger: Trigger) {
        let counter = match trigger {
            Trigger::Slot => &mut self.counters.decisions_slot,
            Trigger::Start => &mut self.counters.decisions_start,
            Trigger::End => &mut self.counters.decisions_end,
            Trigger::Demand => &mut self.counters.decisions_demand,
            Trigger::Feedback => &mut self.counters.decisions_feedback,
        };
        *counter += 1;
    }

    /// Decides, and counts what that takes: as time that passes, and as time of a processor.
    pub(super) fn decide(&mut self, now: Now, edge: bool) {
        let (began, spent) = (clock::monotonic(), clock::thread_cpu());
        self.host.decide(now, &mut self.actions);
        let took = clock::monotonic().minus(began);
        self.counters.decision_s.observe(took.as_secs_f64());
        self.counters.cpu_schedule_ns += clock::thread_cpu().minus(spent).0;
        if edge && now.into_slot.plus(took) > self.config.slot_length() {
            self.counters.slots_late += 1;
        }
    }

    /// A holder answered an announcement, and maybe did not apply it.
    pub(super) fn count_refused(&mut self, refused: Option<Refusal>) {
        let Some(refused) = refused else { return };
        let counter = match refused {
            Refusal::SlotGuard => &mut self.counters.rejects_slot_guard,
            Refusal::Old => &mut self.counters.rejects_old,
            Refusal::Quota => &mut self.counters.rejects_quota,
            Refusal::UnknownLink => &mut self.counters.rejects_unknown_link,
            Refusal::ForeignFlow => &mut self.counters.rejects_foreign_flow,
            Refusal::LinkNotYours => &mut self.counters.rejects_link_not_yours,
            Refusal::UnknownHost => &mut self.counters.rejects_unknown_host,
        };
        *counter += 1;
    }

    pub(super) fn count_datagrams(&mut self, tally: Tally) {
        let Tally { sent, repeated, answered, lost, unexpected, moved, guarded } = tally;
        let counters = &mut self.counters;
        counters.datagrams_sent += sent;
        counters.datagrams_repeated += repeated;
        counters.datagrams_answered += answered;
        counters.datagrams_lost += lost;
        counters.datagrams_unexpected += unexpected;
        counters.paths_moved += moved;
        counters.datagrams_guarded += guarded;
    }

    /// Once per slot: what was ordered and delivered.
    pub(super) fn account(&mut self, now: Now, trigger: Trigger) {
        let slot = self.config.slot_length();
        let timeline = self.timeline.clone();
        let mut timeline = timeline.lock().unwrap_or_else(PoisonError::into_inner);
        let on_links = self.account_flows(now, slot, trigger, &mut timeline);
        self.account_links(now, slot, &on_links, &mut timeline);
        let kernel = self.datapath.counters();
        self.counters.events_lost = kernel.events_lost;
        self.counters.cc_ok = kernel.captured;
        self.counters.cc_error = kernel.refused;
        self.counters.loss_guards = self.counters.loss_guards.max(kernel.loss_trips);
        self.counters.surplus_cuts = kernel.surplus_cuts;
        self.counters.refused_pages = self.monitor.refused_pages;
        self.counters.refused_sockets = self.monitor.refused_sockets;
        self.counters.ignored_pages = self.monitor.ignored_pages;
        let crowd = &self.monitor.crowd;
        (self.counters.crowded_jobs, self.counters.crowded_flows) = (crowd.refused_jobs, crowd.refused_flows);
        (self.counters.given_jobs, self.counters.given_flows) = (crowd.given_jobs, crowd.given_flows);
        (self.counters.given_pages, self.counters.forgotten_pages) = (crowd.given_pages, crowd.forgotten_pages);
    }

    /// Returns what was put on each own link.
    fn account_flows(&mut self, now: Now, slot: Nanos, trigger: Trigger, timeline: &mut Timeline) -> Vec<OnLink> {
        let fabric = self.monitor.fabric.clone();
        let mut on_links = vec![OnLink::default(); fabric.links.len()];
        // Of managed flows, and of others.
        let (mut acked, mut retransmitted) = ([0_u64; 2], [0_u64; 2]);
        let enforces = self.enforces();
        for status in self.host.flows() {
            let active = status.demand > status.delivered;
            if active
                && let Some(egress) = status.spec.path.first()
                && let Some(at) = fabric.links.iter().position(|link| link.egress == egress.link)
            {
                on_links[at].scheduled = on_links[at].scheduled.plus(status.order);
            }
            let Some(socket) = self.monitor.sockets.of_flow(status.spec.flow) else { continue };
            let delivered = socket.moved_in_slot;
            if delivered > MOVES
                && let Some(at) = fabric.link_between(socket.tuple.local_ip(), socket.tuple.remote_ip())
            {
                let job = status.spec.job;
                on_links[at].shared |= *on_links[at].job.get_or_insert(job) != job;
            }
            if let Some(job) = self.monitor.jobs.get_mut(&status.spec.job) {
                job.acked = job.acked.plus(delivered);
            }
            let managed = enforces && socket.row.is_some() && self.may_order(socket);
            acked[usize::from(!managed)] += delivered.0;
            retransmitted[usize::from(!managed)] += socket.retransmitted_in_slot;
            if !active && delivered == Bytes::ZERO {
                continue;
            }
            if managed {
                let rate = Rate::needed(delivered, slot);
                self.counters.ordered_rate.observe(status.order.bytes_per_second() as f64);
                self.counters.delivered_rate.observe(rate.bytes_per_second() as f64);
                let ordered = status.order.over(slot);
                self.counters.ordered_bytes = self.counters.ordered_bytes.saturating_add(ordered.0);
                if status.surplus.is_some() {
                    let beyond = delivered.minus(ordered);
                    self.counters.surplus_bytes = self.counters.surplus_bytes.saturating_add(beyond.0);
                }
                if active && socket.stats.queued > Bytes::ZERO && ordered > Bytes::ZERO {
                    // Beyond the order is no error where the order allows it.
                    let kept = if status.surplus.is_some() { rate.min(status.order) } else { rate };
                    let error = kept.ratio_of(status.order) - 1.0;
                    if error > -DEMAND_LIMITED {
                        self.counters.order_error.observe(error.abs());
                    }
                }
            }
            timeline.flow(FlowRecord {
                flow: status.spec.flow,
                job: status.spec.job,
                ordered: status.order,
                delivered,
                remaining: status.demand.minus(status.delivered),
                slot: now.slot,
                why: status.why,
                trigger,
            });
        }
        let counters = &mut self.counters;
        counters.acked_managed_bytes = counters.acked_managed_bytes.saturating_add(acked[0]);
        counters.acked_other_bytes = counters.acked_other_bytes.saturating_add(acked[1]);
        counters.retransmitted_managed = counters.retransmitted_managed.saturating_add(retransmitted[0]);
        counters.retransmitted_other = counters.retransmitted_other.saturating_add(retransmitted[1]);
        on_links
    }

    fn account_links(&mut self, now: Now, slot: Nanos, on_links: &[OnLink], timeline: &mut Timeline) {
        let fabric = self.monitor.fabric.clone();
        self.link_use.resize(fabric.links.len(), LinkUse::default());
        for (index, (link, on_link)) in fabric.links.iter().zip(on_links).enumerate() {
            let load = self.traffic.loads.get(index).copied().unwrap_or_default();
            let OnLink { job, shared, scheduled } = *on_link;
            let link_use = &mut self.link_use[index];
            if job.is_some() {
                link_use.busy = link_use.busy.plus(slot);
            }
            if shared {
                link_use.overlap = link_use.overlap.plus(slot);
            }
            let known = self.host.links().find(|status| status.link == link.egress);
            if load.sent == Rate::ZERO && scheduled == Rate::ZERO {
                continue;
            }
            timeline.name_link(link.egress, &link.name);
            timeline.link(LinkRecord {
                link: link.egress,
                scheduled,
                managed: load.managed,
                other: load.other,
                capacity: known.map_or(link.capacity.unwrap_or(Rate::ZERO), |status| status.capacity),
                slot: now.slot,
            });
        }
    }
}
