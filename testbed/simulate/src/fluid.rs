//! Flows in motion: how far each one is, how fast it goes, and when something about it happens next.
//!
//! Knows links, orders and dependencies, but no jobs, rounds or schedulers: those are the engine's. A flow's progress is
//! a line since the last time it was touched; it is touched only when its rate changes, so an event costs what it
//! changes. Of the links and flows only the part that a change can reach is shared out anew ([`sluice_share::Network`]).

mod agenda;
mod plan;
mod relax;
mod sharing;

pub(super) use agenda::{Agenda, NEVER};

use sluice_share::{Network, Path};

/// Closer than this to its bound, in bytes, a flow is tight (`simulation.md` section 3.2).
pub(super) const TIGHT: f64 = 1.0;

/// What a flow waits for, by slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dep {
    pub(super) pred: u32,
    /// Its last byte first; otherwise sent ≤ lead + ratio · sent of the predecessor.
    pub(super) after: bool,
    pub(super) lead: f64,
    pub(super) ratio: f64,
    /// Only whole messages of this many bytes are passed on; 0: every byte.
    pub(super) granule: f64,
}

/// One flow, with everything the inner loop needs and nothing else.
#[derive(Clone, Debug, Default)]
pub(super) struct Moving {
    /// Bytes of a round, infinite for cross traffic.
    pub(super) bytes: f64,
    /// Delivered at time `at`.
    pub(super) sent: f64,
    /// Bytes per second put on the links since `at`.
    pub(super) rate: f64,
    /// The part of those that arrives.
    pub(super) keep: f64,
    pub(super) at: u64,
    /// When the last byte arrives if nothing changes.
    pub(super) ends: u64,
    pub(super) class: u32,
    pub(super) weight: f64,
    pub(super) cap: f64,
    /// Does not send before this time.
    pub(super) hold: u64,
    /// The engine wants to know when so many bytes are delivered.
    pub(super) mark: f64,
    /// Ends at this time whatever it has sent (cross traffic).
    pub(super) stops: u64,
    /// The rate that the slot's edge gave it (slot modes).
    pub(super) decided: f64,
    /// Whether the flow may send.
    pub(super) on: bool,
    /// Its last byte of this round has arrived.
    pub(super) done: bool,
    /// It is at its bound and goes as fast as the bound does.
    pub(super) tight: bool,
    pub(super) tight_since: u64,
    pub(super) preds: Box<[Dep]>,
    pub(super) succs: Box<[u32]>,
    /// In which search its next event was planned.
    pub(super) planned: u64,
}

impl Moving {
    /// Bytes per second that arrive.
    pub(super) fn speed(&self) -> f64 {
        self.rate * self.keep
    }

    /// Bytes delivered at `now`.
    pub(super) fn sent_at(&self, now: u64) -> f64 {
        if self.rate == 0.0 || now <= self.at {
            return self.sent;
        }
        (self.sent + self.speed() * ((now - self.at) as f64 * 1e-9)).min(self.bytes)
    }

    /// It goes at this rate from `now` on.
    fn set_rate(&mut self, rate: f64, now: u64) {
        (self.sent, self.at, self.rate) = (self.sent_at(now), now, rate);
    }
}

/// What kind of time the simulation has, as far as flows notice.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Grid {
    /// Ends are moved to the next multiple of this (paper-slot mode).
    pub(super) ends_at: Option<u64>,
}

#[derive(Debug, Default)]
pub(super) struct Fluid {
    pub(super) flows: Vec<Moving>,
    /// Rates and capacities in bytes per second.
    pub(super) network: Network,
    agenda: Agenda,
    grid: Grid,
    /// Flows that were at their bound and no longer are, and for how many nanoseconds.
    pub(super) stalled: Vec<(u32, u64)>,
    /// Flows whose rate changed since the engine last looked.
    pub(super) changed: Vec<u32>,
    /// Counts the times at which events were planned anew.
    search: u64,
    stack: Vec<u32>,
    on: u32,
}

impl Fluid {
    /// Nothing flows over these links, given in bytes per second.
    pub(super) fn new(capacity: impl IntoIterator<Item = f64>, grid: Grid) -> Fluid {
        Fluid { network: Network::new(capacity), grid, ..Fluid::default() }
    }

    /// Puts a flow that does not send yet into a slot.
    pub(super) fn put(&mut self, slot: u32, mut flow: Moving, path: Path) {
        let at = slot as usize;
        if self.flows.len() <= at {
            self.flows.resize_with(at + 1, Moving::default);
        }
        self.network.put(slot, path);
        flow.stops = if flow.stops == 0 { NEVER } else { flow.stops };
        (flow.mark, flow.ends) = (f64::INFINITY, NEVER);
        // Marks of searches belong to the slot, not to the flow.
        flow.planned = self.flows[at].planned;
        self.flows[at] = flow;
    }

    /// Another part of what the flow sends arrives from now on.
    pub(super) fn set_keep(&mut self, slot: u32, keep: f64, now: u64) {
        let flow = &mut self.flows[slot as usize];
        if flow.keep != keep {
            (flow.sent, flow.at, flow.keep) = (flow.sent_at(now), now, keep);
            if flow.on {
                self.network.touch(slot);
            }
        }
    }

    /// A round begins: nothing is delivered.
    pub(super) fn rewind(&mut self, slot: u32, now: u64) {
        let flow = &mut self.flows[slot as usize];
        debug_assert!(!flow.on);
        (flow.sent, flow.rate, flow.decided, flow.at, flow.done) = (0.0, 0.0, 0.0, now, false);
    }

    /// The flow may send from now on; it gets a rate when rates are next computed.
    pub(super) fn start(&mut self, slot: u32, now: u64) {
        let flow = &mut self.flows[slot as usize];
        debug_assert!(!flow.on && !flow.done);
        (flow.on, flow.at, flow.tight) = (true, now, false);
        self.on += 1;
        self.network.add(slot);
        if self.flows[slot as usize].stops < NEVER {
            self.agenda.set(slot, self.flows[slot as usize].stops);
        }
    }

    /// The flow has delivered its last byte, or is stopped where it is.
    pub(super) fn stop(&mut self, slot: u32, now: u64, complete: bool) {
        self.loose(slot, now);
        self.network.remove(slot);
        let flow = &mut self.flows[slot as usize];
        debug_assert!(flow.on);
        flow.sent = if complete { flow.bytes } else { flow.sent_at(now) };
        (flow.on, flow.done, flow.rate, flow.at) = (false, complete, 0.0, now);
        (flow.ends, flow.decided, flow.mark) = (NEVER, 0.0, f64::INFINITY);
        self.on -= 1;
        self.agenda.remove(slot);
        for i in 0..self.flows[slot as usize].succs.len() {
            let next = self.flows[slot as usize].succs[i];
            if self.flows[next as usize].on {
                self.network.touch(next);
            }
        }
    }

    /// The flow is no longer at its bound: how long it was goes to `stalled`.
    fn loose(&mut self, slot: u32, now: u64) {
        let flow = &mut self.flows[slot as usize];
        if std::mem::take(&mut flow.tight) && now > flow.tight_since {
            self.stalled.push((slot, now - flow.tight_since));
        }
    }

    pub(super) fn active(&self) -> u32 {
        self.on
    }

    /// When something about a flow happens next.
    pub(super) fn next(&self) -> u64 {
        self.agenda.next()
    }

    /// Takes the flows about which something happens at `now` or before.
    pub(super) fn due(&mut self, now: u64, into: &mut Vec<u32>) {
        while let Some(slot) = self.agenda.pop(now) {
            into.push(slot);
        }
    }

    /// True when the last byte of a flow that was due has arrived.
    pub(super) fn has_ended(&self, slot: u32, now: u64) -> bool {
        self.flows[slot as usize].ends <= now
    }
}
