//! What a socket has moved, and where it stands in its round.

use sluice_schedule::{Bytes, FlowProgress, Nanos, Rate};

use super::Socket;
use crate::monitor::ProcessKey;
use crate::monitor::tuple::Place;

/// A rate sample older than this says nothing of the present.
const STALE_SAMPLE: Nanos = Nanos::from_millis(120);

impl Socket {
    /// Should it be captured now? A flow that the brain knows and that the kernel holds to nothing.
    pub fn is_wanted(&self, now: Nanos) -> bool {
        self.row.is_none() && self.told.is_some() && self.pid > 0 && now >= self.plain_until.max(self.row_comes)
    }
    pub fn place(&self) -> Place {
        Place { netns: self.netns, tuple: self.tuple }
    }
    /// The process that uses it, once that is known.
    pub fn process(&self) -> Option<ProcessKey> {
        self.process
    }
    /// Acknowledged since the round began.
    pub fn delivered(&self) -> Bytes {
        self.stats.acked.minus(self.base)
    }
    pub fn rate(&self, now: Nanos) -> Rate {
        if now.minus(self.stats.updated) > STALE_SAMPLE { Rate::ZERO } else { self.stats.delivery_rate }
    }
    /// A round begins. What the last one left in the send buffer is none of it, even if that is still on its way: else
    /// so many bytes of this round would count as delivered before they are, and the flow be thought done too early.
    pub fn begin(&mut self, demand: Bytes) {
        self.base = self.next_base;
        self.demand = demand;
    }
    /// The round is over; what is still queued belongs to it.
    pub fn end(&mut self) {
        self.last_round = self.stats.acked.plus(self.stats.queued).minus(self.base);
        self.rounds += 1;
        self.demand = self.last_round;
        self.next_base = self.stats.acked.plus(self.stats.queued);
    }
    /// The round is over, and all that is queued belongs to the next one.
    pub fn end_exactly(&mut self) {
        self.last_round = self.delivered();
        self.rounds += 1;
        self.demand = self.last_round;
        self.next_base = self.stats.acked;
    }
    /// Acknowledged since the last call.
    pub fn take_moved(&mut self) -> Bytes {
        let before = std::mem::replace(&mut self.counted, self.stats.acked);
        self.stats.acked.minus(before)
    }
    /// Between rounds: stray bytes belong to no round.
    pub fn idle(&mut self) {
        self.next_base = self.next_base.max(self.stats.acked);
    }
    /// The end of the round, or of the plan's flow that it is at, as bytes acknowledged, if the kernel has not been asked
    /// to tell of it.
    pub fn take_mark(&mut self) -> Option<Bytes> {
        let term = self.told.as_ref().and_then(|spec| spec.terms.at(self.delivered()));
        let end = term.map(|term| term.end).filter(|end| *end > self.delivered());
        let mark = self.base.plus(end.unwrap_or(Bytes(u64::MAX)).min(self.demand));
        let fresh = self.demand > Bytes::ZERO && mark > self.stats.acked && mark != self.marked;
        fresh.then(|| {
            self.marked = mark;
            mark
        })
    }
    /// Payload sent again in the last slot.
    pub fn sent_again_in_slot(&self) -> Bytes {
        Bytes(self.stats.segment.0.saturating_mul(self.retransmitted_in_slot))
    }
    pub fn slot_edge(&mut self) {
        self.moved_in_slot = self.stats.acked.minus(self.slot_acked);
        self.slot_acked = self.stats.acked;
        self.retransmitted_in_slot = self.stats.retransmitted.saturating_sub(self.slot_retransmitted);
        self.slot_retransmitted = self.stats.retransmitted;
    }
    /// What the brain should hear, if that changed.
    pub fn progress(&mut self, now: Nanos) -> Option<FlowProgress> {
        self.told.as_ref()?;
        let progress = FlowProgress {
            flow: self.flow,
            delivered: self.delivered(),
            rate: self.rate(now),
            queued: self.stats.queued,
            rtt: self.stats.rtt_min,
        };
        (self.reported != Some(progress)).then(|| {
            self.reported = Some(progress);
            progress
        })
    }
    /// Forget what was reported, so that the next report is made whatever it is.
    pub fn report_again(&mut self) {
        self.reported = None;
    }
}
