//! How much what a holder said still counts.
//!
//! A view that was not renewed is still used, and counts less with time; silence is never taken for a load of zero:
//!
//! | state | entered when | others' promises | own share |
//! | --- | --- | --- | --- |
//! | fresh | heard at most 1 slot ago, warm | count in full | by rank |
//! | holding | up to `stale_slots` | count in full, moved on by one per slot | by rank, steps up limited |
//! | decaying | up to K slots, or the holder is not warm yet | count less and less | moves to an equal share |
//! | local | longer | forgotten | equal share of what is known |
//!
//! What it said of unmanaged traffic counts as much as its promises.
//!
//! Promises are of slots, and end at times, of the cluster's clock. When that is set by more than a slot nobody knows for a
//! while which of them are past: for [`HELD_SLOTS`] slots every view is held, neither fresh nor given up, and what is promised
//! lasts as long as it did before the clock was set ahead.

use std::collections::BTreeMap;

use super::super::change::Change;
use super::super::config::HostConfig;
use super::{Link, Links};
use crate::clock::ClockStep;
use crate::event::{ClockTrust, Now};
use crate::units::{HolderId, Nanos, Slot};

/// So many slots views are held after a step of the cluster's clock.
const HELD_SLOTS: u64 = 2;

/// How a holder's view counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ViewState {
    /// Heard at most a slot ago.
    Fresh,
    /// Old, or of a clock that was set since, but used as it was.
    Holding,
    /// Counts less with every slot.
    Decaying,
    /// Nothing is known of others.
    #[default]
    Local,
}

impl ViewState {
    const fn counts_in_full(self) -> bool {
        matches!(self, ViewState::Fresh | ViewState::Holding)
    }
}

/// How much the view of a link counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::host) struct Trust {
    /// From 0, not at all, to 1, in full.
    pub weight: f64,
    /// Heard at most a slot ago, or only this host sends there.
    pub fresh: bool,
}

#[derive(Debug, Default)]
pub(super) struct HolderView {
    /// Uses of all its links.
    pub uses: u32,
    pub heard: Option<Nanos>,
    /// How often it has said something of its links that counts.
    pub words: u64,
    pub warm: bool,
    pub state: ViewState,
    pub trust: f64,
}

/// The clocks as they were read last.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    last: Option<Now>,
    /// Views are held until then, on the monotonic clock.
    held_until: Nanos,
}

impl Clocks {
    /// Was the cluster's clock set by more than a slot since it was read last?
    fn read(&mut self, now: Now, slot: Nanos) -> Option<ClockStep> {
        let last = *self.last.get_or_insert(now);
        if now.mono < last.mono {
            return None;
        }
        self.last = Some(now);
        let expected = last.wall.plus(now.mono.minus(last.mono));
        let step = match now.wall > expected {
            true => ClockStep::Forward(now.wall.minus(expected)),
            false => ClockStep::Back(expected.minus(now.wall)),
        };
        Some(step).filter(|step| step.size() > slot)
    }
}

/// How much the views of links of this holder count.
pub(super) fn trust(holders: &BTreeMap<HolderId, HolderView>, holder: Option<HolderId>) -> Trust {
    match holder.and_then(|holder| holders.get(&holder)) {
        None => Trust { weight: 1.0, fresh: true },
        Some(view) => Trust { weight: view.trust, fresh: view.state == ViewState::Fresh },
    }
}

impl Links {
    /// How much the view of this link counts.
    pub fn trust(&self, index: usize) -> Trust {
        trust(&self.holders, self.all[index].holder)
    }

    /// Do the views of all links count in full by which this host receives?
    pub fn knows_ingress(&self) -> bool {
        self.ingress.iter().all(|ingress| self.trust(ingress.index).weight >= 1.0)
    }

    /// Reads the clocks, before anything else is made of a moment. A step of the cluster's one is news.
    pub fn read_clocks(&mut self, now: Now, slot: Nanos) -> Change {
        let step = self.clocks.read(now, slot);
        if step.is_some() {
            self.clocks.held_until = now.mono.plus(slot.times(HELD_SLOTS));
        }
        if let Some(ClockStep::Forward(by)) = step {
            self.all.iter_mut().for_each(|link| link.defer(by, slot));
        }
        Change::large_if(step.is_some())
    }

    /// No holder has said anything yet, as at the start.
    pub fn forget_heard(&mut self) {
        self.holders.values_mut().for_each(|view| view.heard = None);
    }

    /// Moves every view's state to now; true if any counts otherwise than before, or is old: then rates go up step by
    /// step. True as well at a step of the clock.
    pub fn age(&mut self, now: Now, slot: Nanos, trust: ClockTrust, config: &HostConfig) -> bool {
        let mut moved = self.read_clocks(now, slot) > Change::None;
        let (hold, horizon) = (f64::from(config.stale_slots), config.horizon as f64);
        for view in self.holders.values_mut() {
            let before = view.state;
            let age = view.heard.map(|heard| now.mono.minus(heard).as_secs_f64() / slot.as_secs_f64());
            let (state, weight) = match age {
                None => (ViewState::Local, 0.0),
                Some(_) if !trust.is_trusted() => (ViewState::Local, 0.0),
                // Half a slot of slack: the answer to a slot's announcement is a little more than a slot old at most.
                Some(age) if age <= 1.5 && view.warm => (ViewState::Fresh, 1.0),
                Some(age) if age <= hold.max(1.5) => (ViewState::Holding, 1.0),
                Some(age) if age <= horizon => (ViewState::Decaying, 1.0 - (age - hold) / (horizon - hold).max(1.0)),
                Some(_) => (ViewState::Local, 0.0),
            };
            // A clock that is set again and again holds nothing for longer than the horizon.
            let held = now.mono < self.clocks.held_until && age.is_some_and(|age| age <= horizon);
            (view.state, view.trust) = match held && (before.counts_in_full() || state.counts_in_full()) {
                true => (ViewState::Holding, 1.0),
                false => (state, weight),
            };
            moved |= view.uses > 0 && (view.state != before || view.state != ViewState::Fresh);
        }
        moved
    }
}

impl Link {
    /// The clock was set ahead by so much: what is promised begins and ends so much later by it. Where it was set back nothing
    /// moves: a promise would end before its time.
    fn defer(&mut self, by: Nanos, slot: Nanos) {
        let slots = by.plus(Nanos(slot.0 / 2)).0 / slot.0.max(1);
        // Slots wrap, and so does what is added to them.
        self.view_slot = Slot(self.view_slot.0.wrapping_add(slots as u32));
        let ends = self.view.flows.iter_mut().map(|promise| &mut promise.until);
        let ends = ends.chain(self.others.iter_mut().map(|other| &mut other.until));
        ends.filter(|until| **until > Nanos::ZERO).for_each(|until| *until = until.plus(by));
    }
}
