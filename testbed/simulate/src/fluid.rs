//! Flows in motion: how far each one is, how fast it goes, and when something about it happens next.
//!
//! Knows links, orders and dependencies, but no jobs, rounds or schedulers: those are the engine's. A flow's progress is
//! a line since the last time it was touched; it is touched only when its rate changes, so an event costs what it
//! changes. Of the links and flows only the part that a change can reach is shared out anew.

mod agenda;
mod component;
mod plan;
mod relax;

pub(super) use agenda::{Agenda, NEVER};

use std::collections::HashMap;

use sluice_share::Share;

use self::component::LinkRecord;

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
    /// When that began.
    pub(super) tight_since: u64,
    /// Stretch of its path in the list of paths.
    pub(super) path: (u32, u32),
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
}

/// What kind of time the simulation has, as far as flows notice.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Grid {
    /// Ends are moved to the next multiple of this (paper-slot mode).
    pub(super) ends_at: Option<u64>,
}

/// All flows and links.
#[derive(Debug, Default)]
pub(super) struct Fluid {
    pub(super) flows: Vec<Moving>,
    /// Bytes per second of each link.
    pub(super) capacity: Vec<f64>,
    /// Flows that are on, per link, in no order.
    on_link: Vec<Vec<u32>>,
    /// Sum of their rates, per link; to rounding.
    load: Vec<f64>,
    /// Links of all paths, one after the other.
    pub(super) hops: Vec<u32>,
    paths: HashMap<Box<[u32]>, (u32, u32)>,
    agenda: Agenda,
    share: Share,
    grid: Grid,
    /// Where the next sharing begins.
    dirty_flows: Vec<u32>,
    dirty_links: Vec<u32>,
    /// Everything is shared out every time; for the test that the result is the same.
    pub(super) whole: bool,
    /// Flows that were at their bound and no longer are, and for how many nanoseconds.
    pub(super) stalled: Vec<(u32, u64)>,
    /// Flows whose rate changed since the engine last looked.
    pub(super) changed: Vec<u32>,
    search: u64,
    problem: u64,
    /// In which search each flow was found, and its place in the last problem.
    found: Vec<u64>,
    place: Vec<u32>,
    /// Touched flows of the present search.
    seeds: Vec<u32>,
    part: Vec<u32>,
    /// How many of those were asked whom they reach.
    looked: usize,
    stack: Vec<u32>,
    link_records: Vec<LinkRecord>,
    /// Links of the problem that flows outside it use too.
    open: Vec<u32>,
    on: u32,
}

impl Fluid {
    /// Nothing flows over these links, given in bytes per second.
    pub(super) fn new(capacity: Vec<f64>, grid: Grid) -> Fluid {
        let links = capacity.len();
        Fluid {
            capacity,
            on_link: vec![Vec::new(); links],
            load: vec![0.0; links],
            link_records: vec![LinkRecord::default(); links],
            grid,
            ..Fluid::default()
        }
    }

    /// Puts a flow that does not send yet into a slot.
    pub(super) fn put(&mut self, slot: u32, mut flow: Moving) {
        let at = slot as usize;
        if self.flows.len() <= at {
            self.flows.resize_with(at + 1, Moving::default);
            self.found.resize(at + 1, 0);
            self.place.resize(at + 1, 0);
        }
        flow.stops = if flow.stops == 0 { NEVER } else { flow.stops };
        (flow.mark, flow.ends) = (f64::INFINITY, NEVER);
        // Marks of searches belong to the slot, not to the flow.
        flow.planned = self.flows[at].planned;
        self.flows[at] = flow;
    }

    /// Remembers a path; the same path twice is one.
    pub(super) fn path_of(&mut self, links: impl Iterator<Item = u32>) -> (u32, u32) {
        let path: Box<[u32]> = links.collect();
        if let Some(&known) = self.paths.get(&path) {
            return known;
        }
        let from = self.hops.len() as u32;
        self.hops.extend_from_slice(&path);
        let stretch = (from, self.hops.len() as u32);
        self.paths.insert(path, stretch);
        stretch
    }

    /// Another part of what the flow sends arrives from now on.
    pub(super) fn set_keep(&mut self, slot: u32, keep: f64, now: u64) {
        let flow = &mut self.flows[slot as usize];
        if flow.keep != keep {
            (flow.sent, flow.at, flow.keep) = (flow.sent_at(now), now, keep);
            if flow.on {
                self.touch_flow(slot);
            }
        }
    }

    /// True when something was touched since rates were computed.
    pub(super) fn is_dirty(&self) -> bool {
        !self.dirty_flows.is_empty() || !self.dirty_links.is_empty()
    }

    /// The links of a flow.
    pub(super) fn path(&self, slot: u32) -> &[u32] {
        let (from, to) = self.flows[slot as usize].path;
        &self.hops[from as usize..to as usize]
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
        let (from, to) = flow.path;
        for hop in from..to {
            self.on_link[self.hops[hop as usize] as usize].push(slot);
        }
        self.on += 1;
        self.touch_flow(slot);
        if self.flows[slot as usize].stops < NEVER {
            self.agenda.set(slot, self.flows[slot as usize].stops);
        }
    }

    /// The flow has delivered its last byte, or is stopped where it is.
    pub(super) fn stop(&mut self, slot: u32, now: u64, complete: bool) {
        self.loose(slot, now);
        self.leave_links(slot);
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
                self.touch_flow(next);
            }
        }
    }

    /// A flow that is on goes over other links from now on; the bytes it had delivered on the old ones.
    pub(super) fn reroute(&mut self, slot: u32, path: (u32, u32)) {
        if self.flows[slot as usize].on {
            self.leave_links(slot);
            for hop in path.0..path.1 {
                let link = self.hops[hop as usize] as usize;
                self.on_link[link].push(slot);
                self.load[link] += self.flows[slot as usize].rate;
            }
            self.touch_flow(slot);
        }
        self.flows[slot as usize].path = path;
    }

    fn leave_links(&mut self, slot: u32) {
        let (from, to) = self.flows[slot as usize].path;
        for hop in from..to {
            let link = self.hops[hop as usize];
            self.dirty_if_full(link);
            let list = &mut self.on_link[link as usize];
            if let Some(at) = list.iter().position(|&f| f == slot) {
                list.swap_remove(at);
            }
            let left = self.load[link as usize] - self.flows[slot as usize].rate;
            // What an empty link carries is known exactly.
            self.load[link as usize] = if self.on_link[link as usize].is_empty() { 0.0 } else { left };
        }
    }

    /// A flow of this link gives up bandwidth: only where the link is full does anybody wait for it.
    fn dirty_if_full(&mut self, link: u32) {
        if self.is_full(link) {
            self.dirty_links.push(link);
        }
    }

    /// Something about the flow is new: the next sharing begins here too.
    pub(super) fn touch_flow(&mut self, slot: u32) {
        self.dirty_flows.push(slot);
    }

    /// The flow is no longer at its bound: how long it was goes to `stalled`.
    fn loose(&mut self, slot: u32, now: u64) {
        let flow = &mut self.flows[slot as usize];
        if std::mem::take(&mut flow.tight) && now > flow.tight_since {
            self.stalled.push((slot, now - flow.tight_since));
        }
    }

    /// Flows that may send.
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
