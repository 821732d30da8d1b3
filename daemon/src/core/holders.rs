//! What is known of each holder of tables: is it reachable, how old is its last word, how fast does it answer.

use std::collections::{BTreeMap, VecDeque};

use sluice_schedule::clock::Shown;
use sluice_schedule::{BootId, Feedback, HolderId, Nanos, Now, Refusal, Slot};
use sluice_wire::snapshot::Histogram;
use sluice_wire::snapshot::counters::bounds;

#[derive(Clone, Debug, Default)]
pub struct HolderState {
    pub connected: bool,
    pub boot: Option<BootId>,
    /// Is its table full?
    pub warm: bool,
    /// CLOCK_MONOTONIC of its last word.
    pub heard: Option<Nanos>,
    /// The own slot then.
    heard_in: Slot,
    /// Its slot minus the own one.
    pub slot_diff: i32,
    /// Its clock minus the own one, ns, half a round trip exact.
    pub offset_ns: Option<i64>,
    /// From announcement to answer, seconds.
    pub exchange: Histogram,
    /// Announcements it refused.
    pub rejects: u64,
    pub refused: Option<Refusal>,
    /// What was wrong last; empty: nothing.
    pub error: String,
    /// It lives on another time grid.
    pub mismatch: bool,
    /// Since when it is silent.
    pub silent_since: Option<Nanos>,
    /// Messages sent to it.
    pub sent: u64,
    /// Messages received from it.
    pub received: u64,
    /// An announcement that was not answered yet.
    waiting: Option<(u64, Nanos)>,
    /// The slot of the last announcement: only the first of a slot is sure to be answered.
    said: Option<Slot>,
    /// In which slots the last announcements were made, by their numbers.
    slots: VecDeque<(u64, Slot)>,
}

/// Announcements whose slots are remembered; there are a few in a slot.
const REMEMBERED: usize = 64;

#[derive(Clone, Debug, Default)]
pub struct Holders(BTreeMap<HolderId, HolderState>);

impl Holders {
    pub fn iter(&self) -> impl Iterator<Item = (HolderId, &HolderState)> {
        self.0.iter().map(|(holder, state)| (*holder, state))
    }
    pub fn get(&self, holder: HolderId) -> Option<&HolderState> {
        self.0.get(&holder)
    }
    pub fn sent(&mut self, now: Now, holder: HolderId, seq: u64) {
        let state = self.entry(holder);
        state.sent += 1;
        let first = state.said.replace(now.slot) != Some(now.slot);
        state.slots.push_back((seq, now.slot));
        if state.slots.len() > REMEMBERED {
            state.slots.pop_front();
        }
        // The oldest unanswered one is timed: a newer one may only have joined it.
        if first && state.waiting.is_none_or(|(_, at)| now.mono.minus(at) > Nanos::from_millis(1_000)) {
            state.waiting = Some((seq, now.mono));
        }
    }
    /// It answered; returns how long that took, if this is the answer to a timed announcement.
    pub fn heard(&mut self, now: Now, at: Nanos, holder: HolderId, feedback: &Feedback) -> Option<Nanos> {
        let state = self.entry(holder);
        state.received += 1;
        state.boot = Some(feedback.boot);
        state.warm = feedback.warm;
        state.heard = Some(at);
        state.silent_since = None;
        // It may have come in the slot before this turn's.
        let heard = now.slot.offset(-i32::from(now.mono.minus(at) > now.into_slot));
        // What was refused is not what it answers by number.
        let applied = state.slots.iter().rev().find(|(seq, _)| *seq <= feedback.seq && feedback.refused.is_none());
        let sent = applied.map_or(heard, |(_, slot)| *slot);
        state.slot_diff = sluice_schedule::clock::offset(feedback.slot, sent, heard);
        state.heard_in = heard;
        state.refused = feedback.refused;
        state.rejects += u64::from(feedback.refused.is_some());
        let (seq, said) = state.waiting?;
        if feedback.seq < seq {
            return None;
        }
        state.waiting = None;
        let took = at.minus(said);
        state.exchange.observe(took.as_secs_f64());
        Some(took)
    }
    pub fn back(&mut self, now: Now, holder: HolderId, slot_diff: i32, offset_ns: Option<i64>) {
        let state = self.entry(holder);
        (state.connected, state.mismatch) = (true, false);
        state.error.clear();
        (state.heard, state.heard_in) = (Some(now.mono), now.slot);
        state.silent_since = None;
        state.waiting = None;
        (state.slot_diff, state.offset_ns) = (slot_diff, offset_ns);
        tracing::info!(event = "switch-up", holder = %holder, "a holder of tables answers");
    }
    pub fn lost(&mut self, now: Now, holder: HolderId, why: String, mismatch: bool) {
        let state = self.entry(holder);
        if state.connected {
            let why = sluice_logs::without_addresses(&why);
            tracing::info!(event = "switch-down", holder = %holder, why, "a holder of tables is lost");
        }
        (state.connected, state.mismatch, state.error) = (false, mismatch, why);
        state.waiting = None;
        state.silent_since.get_or_insert(now.mono);
    }
    /// What those that can be reached showed of their clocks.
    pub fn shown(&self) -> impl Iterator<Item = Shown> {
        let connected = self.0.values().filter(|state| state.connected);
        connected.filter_map(|state| Some(Shown { offset: state.slot_diff, at: state.heard?, slot: state.heard_in }))
    }

    fn entry(&mut self, holder: HolderId) -> &mut HolderState {
        let new = || HolderState { exchange: Histogram::new(&bounds::EXCHANGE), ..HolderState::default() };
        self.0.entry(holder).or_insert_with(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::now;

    const SWITCH: HolderId = HolderId(7);

    /// In a process whose clock says this slot, to the announcement of this number.
    fn answer(seq: u64, slot: u32) -> Feedback {
        Feedback { seq, slot: Slot(slot), ..Feedback::default() }
    }

    #[test]
    fn an_answer_that_took_three_slots_is_no_clock_that_is_three_slots_behind() {
        let mut holders = Holders::default();
        holders.back(now(600), SWITCH, 0, None);
        let mut say = |told: u64, seq, heard: u64, feedback: &Feedback| {
            holders.sent(now(told), SWITCH, seq);
            holders.heard(now(heard), now(heard).mono, SWITCH, feedback);
            holders.shown().map(|shown| shown.offset).collect::<Vec<_>>()
        };
        assert_eq!(say(610, 1, 790, &answer(1, 10)), [0], "asked and answered in slot 10, heard in slot 13");
        assert_eq!(say(791, 2, 795, &answer(2, 9)), [-4], "a clock that is behind still is");
        assert_eq!(say(796, 3, 799, &answer(3, 15)), [2], "as is one that is ahead");
        // What is refused was not taken in the slot in which it was sent, so its number says nothing of the way.
        let refused = Feedback { refused: Some(Refusal::SlotGuard), ..answer(4, 13) };
        assert_eq!(say(800, 4, 961, &refused), [-3]);
    }

    #[test]
    fn who_cannot_be_reached_shows_nothing() {
        let mut holders = Holders::default();
        holders.back(now(600), SWITCH, 2, None);
        holders.back(now(700), HolderId(8), 0, None);
        let shown = |offset, ms| Shown { offset, at: now(ms).mono, slot: now(ms).slot };
        assert_eq!(holders.shown().collect::<Vec<_>>(), [shown(2, 600), shown(0, 700)]);
        holders.lost(now(710), SWITCH, "gone".into(), false);
        assert_eq!(holders.shown().collect::<Vec<_>>(), [shown(0, 700)]);
    }
}
