//! A flow's state: its facts, its round, its order.

use std::sync::Arc;

use super::paths::Path;
use super::{FlowStatus, HostConfig, Job};
use crate::event::{Allowance, FlowSpec, Now, ReleaseReason, Term, Terms};
use crate::message::Rank;
use crate::path::{Ceiling, Sample, Uptake};
use crate::policy::Why;
use crate::units::{Bytes, Nanos, Rate};

/// Bytes in a send buffer that may be anything: control messages, the last segments of a round.
pub(super) const STRAY: Bytes = Bytes(64 << 10);

/// A plan's flow of which more has been written than this has begun. Less may be a word between the processes, or what the
/// plan and its job count differently; a slow flow's send buffer may hold little more.
const BEGUN: Bytes = Bytes(4 << 10);

/// A plan's flow in an order counts as over so long before its last byte is sent: a slow flow of the next place hears of its
/// new rate with its next two segments, and news takes its way. The link's queue holds what overlaps.
const LEAD: Nanos = Nanos::from_millis(5);

/// Of a short flow it is this part of the time that it takes.
const LEAD_PART: u64 = 8;

/// A predicted end of a round that moved by less is not announced anew.
const END_HYSTERESIS: Nanos = Nanos::from_millis(2);

/// What had been delivered by the last look of the slot before, and when that was, on the monotonic clock.
#[derive(Clone, Copy, Debug, Default)]
struct SlotStart {
    delivered: Bytes,
    at: Nanos,
}

/// How far a flow was when its end was predicted, and since when it has been there, on the monotonic clock.
#[derive(Clone, Copy, Debug)]
struct Stand {
    demand: Bytes,
    delivered: Bytes,
    since: Nanos,
}

/// One flow this host sends.
#[derive(Debug)]
pub(super) struct Flow {
    pub spec: FlowSpec,
    /// Where it goes.
    pub path: Arc<Path>,
    /// The places of these links in its job's work.
    pub work: Vec<u32>,
    pub demand: Bytes,
    pub delivered: Bytes,
    /// When that was read, on the monotonic clock; zero: not since the round began.
    pub looked: Nanos,
    pub queued: Bytes,
    pub measured: Rate,
    /// So long after it was sent a byte counts as delivered.
    pub rtt: Nanos,
    /// Highest delivery rate seen in the current slot.
    pub best_in_slot: Rate,
    slot_start: SlotStart,
    /// What the last slots' deliveries say about the highest rate worth trying (B_f).
    pub ceiling: Ceiling,
    /// What it takes of what it may.
    pub uptake: Uptake,
    pub arrival: u64,
    pub order: Rate,
    /// The order as last said.
    pub ordered: Rate,
    /// When that was, on the monotonic clock.
    pub ordered_at: Nanos,
    /// What it may send beyond its order, as last said.
    pub surplus: Option<Allowance>,
    pub offer: Rate,
    pub floor: Rate,
    pub rates: Vec<Rate>,
    pub why: Why,
    pub releasing: Option<ReleaseReason>,
    pub released: bool,
    /// The order at the end of the last slot, which steps are measured against.
    step_base: Rate,
    /// When nobody need count on it any more, as told, on the cluster's clock.
    pub until: Nanos,
    /// Where it was when that was last predicted; `None`: not in this round.
    predicted: Option<Stand>,
    /// Of a plan's flow: the last turn that came.
    pub turn: Option<Turn>,
    /// Of a plan's flow: is it its turn, as of the last look?
    pub ready: bool,
}

/// The turn of one of a flow's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    /// The end of the term.
    pub end: Bytes,
    /// When it came, on the monotonic clock.
    pub since: Nanos,
}

impl Flow {
    pub fn new(spec: FlowSpec, path: Arc<Path>, config: &HostConfig) -> Flow {
        Flow {
            spec,
            path,
            work: Vec::new(),
            demand: Bytes::ZERO,
            delivered: Bytes::ZERO,
            looked: Nanos::ZERO,
            queued: Bytes::ZERO,
            measured: Rate::ZERO,
            rtt: Nanos::ZERO,
            best_in_slot: Rate::ZERO,
            slot_start: SlotStart::default(),
            ceiling: Ceiling::new(config.history_slots, config.probe_gain),
            uptake: Uptake::default(),
            arrival: 0,
            order: Rate::ZERO,
            ordered: Rate::ZERO,
            ordered_at: Nanos::ZERO,
            surplus: None,
            offer: Rate::MAX,
            floor: Rate::ZERO,
            rates: Vec::new(),
            why: Why::NoDemand,
            releasing: None,
            released: false,
            step_base: Rate::ZERO,
            until: Nanos::ZERO,
            predicted: None,
            turn: None,
            ready: false,
        }
    }

    /// The same flow with other facts; its round goes on.
    pub fn renew_facts(&mut self, spec: FlowSpec, path: Arc<Path>) {
        if path[..] != self.path[..] {
            self.uptake.forget();
        }
        self.spec = spec;
        self.path = path;
        self.released = false;
        self.releasing = None;
    }

    pub fn round_began(&mut self, demand: Bytes, arrival: u64) {
        self.demand = demand;
        // It may have begun before it was told of, and then something has been delivered.
        (self.delivered, self.looked) = (Bytes::ZERO, Nanos::ZERO);
        self.arrival = arrival;
        self.uptake.interrupt();
        self.predicted = None;
        (self.turn, self.ready) = (None, false);
    }

    /// What is left of the round, and never less than what waits in the send buffer: the kernel knows of a round that
    /// began unseen, and a flow that has something to send must not wait at the floor for what the job says of it.
    pub fn remaining(&self) -> Bytes {
        let left = self.demand.minus(self.delivered);
        if self.queued > STRAY { left.max(self.queued) } else { left }
    }

    /// The offer as that of a flow with a full share, so that all of a job's flows can be compared.
    pub fn full_offer(&self) -> Rate {
        self.offer.per_share(self.spec.share)
    }

    /// Predicts when the round, or the plan's flow that it is at, will have been sent if it goes on as it does. The
    /// prediction in force stays while it is right within [`END_HYSTERESIS`] or an eighth of the time left, since nobody
    /// needs to know exactly how far away a distant end is. It stays as well when nothing of the flow has moved for a `slot`
    /// and nothing waits: put off with the clock it would be news to everybody every few milliseconds, for as long as a job
    /// rests that has sent less than it was said to, and two such flows, each ordered more while the other is over by its
    /// word, would call each other back for ever. Called with each plan, so at every slot's edge at least.
    pub fn predict_end(&mut self, now: Now, slot: Nanos) {
        let Some(time) = self.time_left() else {
            (self.until, self.predicted) = (Nanos::ZERO, None);
            return;
        };
        if self.stands(now, slot) {
            return;
        }
        let until = now.wall.plus(time).minus(self.lead());
        if until.0.abs_diff(self.until.0) > END_HYSTERESIS.0.max(time.0 / 8) {
            self.until = until;
        }
    }

    /// Has nothing of it moved for a slot in which its end was predicted, and has the application nothing to send?
    fn stands(&mut self, now: Now, slot: Nanos) -> bool {
        let Flow { demand, delivered, .. } = *self;
        let same = self.predicted.filter(|known| (known.demand, known.delivered) == (demand, delivered));
        let since = same.filter(|_| self.queued == Bytes::ZERO).map_or(now.mono, |known| known.since);
        self.predicted = Some(Stand { demand, delivered, since });
        now.mono.minus(since) >= slot
    }

    /// Has the application something to send, and had nothing, though the flow is over by its word?
    pub fn is_back(&self, now: Now, queued: Bytes) -> bool {
        let over = self.until > Nanos::ZERO && self.until <= now.wall && self.delivered < self.demand;
        over && queued > Bytes::ZERO && self.queued == Bytes::ZERO
    }

    /// How long the round, or the plan's flow that it is at, will take if it goes on as it does; `None`: it is longer than
    /// was said, by nobody knows how much.
    fn time_left(&self) -> Option<Nanos> {
        let round = self.demand.minus(self.delivered);
        if round == Bytes::ZERO || self.queued > round.plus(STRAY) {
            return None;
        }
        let left = self.term().map_or(round, |term| term.end.minus(self.delivered).min(round));
        let steady = self.order == self.ordered && self.measured > Rate::ZERO;
        Some(left.at(match steady {
            // Above its order nobody but the path sets its rate.
            true if self.surplus.is_some() => self.measured,
            true => self.order.min(self.measured),
            false => self.order,
        }))
    }

    /// How long before its last byte is acknowledged a flow with a place in an order counts as over.
    fn lead(&self) -> Nanos {
        let Some(term) = self.term().filter(|term| term.place.is_some()) else { return Nanos::ZERO };
        let whole = term.end.minus(self.spec.terms.begins_at(self.delivered)).at(self.order);
        LEAD.min(Nanos(whole.0 / LEAD_PART)).plus(self.rtt.min(whole))
    }

    /// Does a flow in an order end so soon that its successor may begin?
    pub fn is_ending(&self) -> bool {
        let lead = self.lead();
        self.ready && lead > Nanos::ZERO && self.time_left().is_some_and(|time| time <= lead.plus(END_HYSTERESIS))
    }

    /// What its plan gives it now.
    pub fn term(&self) -> Option<&Term> {
        self.spec.terms.at(self.delivered)
    }

    /// Has the application written something of the plan's flow that it is at, and not all of it has been delivered?
    pub fn has_begun(&self) -> bool {
        let written = self.delivered.plus(self.queued);
        self.queued > Bytes::ZERO && written > self.spec.terms.begins_at(self.delivered).plus(BEGUN)
    }

    /// Does it wait for its turn in its plan, with its rate in hand?
    pub fn waits(&self) -> bool {
        self.why == Why::Predecessor && self.term().is_some()
    }

    /// What it is given at least and at most while it has nothing to send: of a plan the rate it begins with, and no more
    /// where rates stay as they are.
    pub fn planned_idle(&self) -> (Rate, Rate) {
        let Terms { terms, fills, .. } = &self.spec.terms;
        let first = terms.first().map_or(Rate::ZERO, |term| term.rate);
        (first, if *fills || first == Rate::ZERO { Rate::MAX } else { first })
    }

    /// Its place in the order of a plan that has a rate or a place for it.
    pub fn planned_rank(&self, job: &Job) -> Option<Rank> {
        let term = self.term().filter(|term| term.place.is_some() || term.rate > Rate::ZERO)?;
        let place = term.place.unwrap_or(0);
        let by_round = self.spec.terms.by_round;
        Some(if by_round { Rank::of_plan_by_round(job.key(), place, job.id) } else { Rank::of_plan(place, job.id) })
    }

    /// Does it take part in the plan?
    pub fn sends(&self) -> bool {
        self.remaining() > Bytes::ZERO && !self.released && self.releasing.is_none()
    }

    pub fn slot_edge(&mut self) {
        let began = SlotStart { delivered: self.delivered, at: self.looked };
        let SlotStart { delivered: bytes, at: since } = std::mem::replace(&mut self.slot_start, began);
        // From look to look: a host that comes late to an edge has not looked since long before it. Of a new flow nobody knows
        // in what time it delivered what it had before the first.
        let delivered = Rate::needed(self.delivered.minus(bytes), self.looked.minus(since));
        // Busy all through the slot: it began and ended with demand, in one round.
        let busy = self.remaining() > Bytes::ZERO && self.delivered >= bytes && bytes > Bytes::ZERO;
        if self.looked > since && since > Nanos::ZERO && delivered < Rate::MAX {
            self.ceiling.record(Sample { ordered: self.ordered, delivered, busy });
        }
        self.best_in_slot = Rate::ZERO;
        self.step_base = self.order;
    }

    /// Its order ran out, and the kernel gave it back: nothing that it had before says what it may have now.
    pub fn given_back(&mut self) {
        self.step_base = Rate::ZERO;
        self.slot_start = SlotStart { delivered: self.delivered, at: self.looked };
        self.best_in_slot = self.measured;
        self.ceiling.reset();
        self.uptake.forget();
    }

    /// Highest delivery rate of the remembered slots and the current one.
    pub fn best(&self) -> Rate {
        self.ceiling.best().max(self.best_in_slot)
    }

    /// How high the order may go now. A fresh view may raise it at once; otherwise `max_step_up` per slot from what the
    /// flow had or delivered, but never less than an equal `share` of its path: a missing switch must not cost more.
    pub fn step_limit(&self, fresh: bool, max_step_up: f64, share: impl FnOnce() -> Rate) -> Rate {
        if fresh {
            return Rate::MAX;
        }
        self.step_base.max(self.best()).times(max_step_up).max(share())
    }

    pub fn status(&self) -> FlowStatus<'_> {
        FlowStatus {
            spec: &self.spec,
            demand: self.demand,
            delivered: self.delivered.min(self.demand),
            order: self.order,
            surplus: self.surplus,
            offer: self.offer,
            rates: &self.rates,
            why: self.why,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{BootId, HostId};

    #[test]
    fn a_slot_is_no_faster_for_a_host_that_comes_late_to_its_edge() {
        let config = HostConfig::new(HostId(1), BootId(1));
        let mut flow = Flow::new(FlowSpec::default(), Arc::default(), &config);
        (flow.demand, flow.ordered) = (Bytes(1 << 40), Rate::mbps(100));
        // At a steady rate; the third look is a slot late, and the next edge follows at once.
        for ms in [60, 120, 239, 241] {
            flow.slot_edge();
            let looked = Nanos::from_millis(ms);
            (flow.delivered, flow.looked) = (Rate::mbps(100).over(looked), looked);
        }
        flow.slot_edge();
        let best = flow.best();
        assert!(best >= Rate::mbps(99) && best <= Rate::mbps(101), "{best}");
    }

    #[test]
    fn what_was_delivered_before_the_first_look_is_no_rate_of_a_slot() {
        let config = HostConfig::new(HostId(1), BootId(1));
        let mut flow = Flow::new(FlowSpec::default(), Arc::default(), &config);
        flow.demand = Bytes(1 << 40);
        // A new daemon finds a flow in mid-round, two seconds after the machine began.
        for ms in [2000, 2060] {
            let looked = Nanos::from_millis(ms);
            (flow.delivered, flow.looked) =
                (Bytes(50_000_000).plus(Rate::mbps(10).over(looked.minus(Nanos::from_millis(2000)))), looked);
            flow.slot_edge();
        }
        assert_eq!(flow.best(), Rate::mbps(10));
    }

    #[test]
    fn the_end_of_a_flow_that_takes_nothing_is_not_put_off() {
        let config = HostConfig::new(HostId(1), BootId(1));
        let mut flow = Flow::new(FlowSpec::default(), Arc::default(), &config);
        let at = |ms| Now { mono: Nanos::from_millis(ms), wall: Nanos::from_millis(1000 + ms), ..Now::default() };
        flow.round_began(Bytes(1_000_000), 1);
        let mut end = |delivered: u64, mbps: u64, ms: u64| {
            (flow.delivered, flow.order, flow.ordered) = (Bytes(delivered), Rate::mbps(mbps), Rate::mbps(mbps));
            flow.predict_end(at(ms), config.slot);
            flow.until.minus(Nanos::from_millis(1000))
        };
        let ms = Nanos::from_millis;
        assert_eq!((end(0, 100, 0), end(0, 100, 50)), (ms(80), ms(50 + 80)), "it may be about to begin");
        let stands = [end(0, 100, 60), end(0, 25, 61), end(0, 100, 500)];
        assert_eq!(stands, [ms(50 + 80); 3], "for a slot nothing has moved");
        assert_eq!(end(300_000, 50, 501), ms(501 + 112), "it moves");
        assert_eq!(end(300_000, 25, 502), ms(502 + 224), "and may have less now");
        assert_eq!(end(300_000, 25, 562), ms(502 + 224));
        assert!(!flow.is_back(at(725), Bytes(1)) && !flow.is_back(at(726), Bytes::ZERO));
        assert!(flow.is_back(at(726), Bytes(1)), "it was over by its word");
        flow.queued = Bytes(1);
        flow.predict_end(at(726), config.slot);
        assert_eq!(flow.until, at(726 + 224).wall, "it has something to send");
    }
}
