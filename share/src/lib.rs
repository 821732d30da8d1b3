//! How bandwidth is shared: weighted max–min in classes of strict priority, under caps and ties to predecessors
//! (`simulation.md` section 5).
//!
//! [`Share`] takes one set of flows that belong together (through links or ties), by indices of its own, and gives their
//! rates. It knows no clock, no bytes and no jobs. Capacities, caps and rates are floats in one unit that the caller
//! chooses: the simulator's is bytes per second. All of its memory is used again: solving allocates nothing once it has
//! seen a set as large. [`Network`] keeps the flows and links of a whole network, whose rates change while flows come, go
//! and change: it finds the set that a change can reach and solves that alone.
//!
//! - **Weights.** Within a class every flow gets its weight times one common level, until a link on its path is full.
//! - **Classes.** A lower class is more urgent: a class shares what the more urgent ones left, whatever its weights.
//! - **Caps.** No flow gets more than its cap; what it does not take is shared by the others.
//! - **Ties.** A flow grows no faster than a ratio of its predecessor's rate: what it passes on must have arrived.
//!
//! The result is the only allocation in which no flow could have more without one that has less (by weight, in its class)
//! losing some. It is exact but for rounding of floats: below one part in 10⁹ of a capacity nothing is left of a link.
//!
//! There are no errors: indices come from [`Share::link`] and [`Share::flow`] of the same problem, weights are above 0,
//! capacities and caps below 0 count as 0, and ties run in no circle. Another index panics; debug builds assert weights and caps too.
//!
//! ```
//! let mut share = sluice_share::Share::default();
//! let (up, down) = (share.link(10.0), share.link(4.0));
//! share.hop(up);
//! share.hop(down);
//! share.flow(0, 1.0, f64::INFINITY);
//! share.hop(up);
//! share.flow(0, 1.0, 5.0);
//! share.hop(up);
//! // Less urgent: it gets what the others leave.
//! share.flow(1, 9.0, f64::INFINITY);
//! assert_eq!(share.solve(), [4.0, 5.0, 1.0]);
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::string_slice))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::unreachable))]
#![deny(clippy::iter_over_hash_type)]

mod fill;
mod lines;
mod network;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use lines::Line;
pub use network::{Claim, Claims, Network, Path};

/// Below this part of its capacity what is left of a link is rounding, not bandwidth.
const NOTHING: f64 = 1e-9;

/// One flow of the problem, with the ends of its stretches in `hops` and `ties`; they begin where the flow before ends.
#[derive(Clone, Copy, Debug)]
struct Entry {
    class: u32,
    weight: f64,
    cap: f64,
    hops_end: u32,
    ties_end: u32,
}

/// A flow grows no faster than `ratio` times its predecessor.
#[derive(Clone, Copy, Debug)]
struct Tie {
    pred: u32,
    ratio: f64,
}

/// What a link carries while rates grow: Σ rate = `base` + `speed` · level.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    /// What it carries in all.
    capacity: f64,
    /// What more urgent classes left.
    free: f64,
    base: f64,
    speed: f64,
    /// Flows of the present class that are not settled.
    live: u32,
    /// The link's stretch in `on_link`: from the first flow that is not settled to the end.
    from: u32,
    to: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    /// Its class comes later.
    Later,
    Growing,
    Settled,
}

/// A problem being built, its solution, and the memory both need.
#[derive(Debug, Default)]
pub struct Share {
    entries: Vec<Entry>,
    hops: Vec<u32>,
    ties: Vec<Tie>,
    loads: Vec<Load>,
    rates: Vec<f64>,
    // What follows is only of use inside `solve`.
    classes: Vec<u32>,
    order: Vec<u32>,
    on_link: Vec<u32>,
    lines: Vec<Line>,
    limits: Vec<f64>,
    stands: Vec<Stand>,
    next_from: Vec<u32>,
    next: Vec<u32>,
    stack: Vec<u32>,
    used: Vec<u32>,
    heap: BinaryHeap<Reverse<(u64, u32)>>,
    level: f64,
}

impl Share {
    /// Forgets the problem, keeps the memory.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.hops.clear();
        self.ties.clear();
        self.loads.clear();
    }

    /// Adds a link of this capacity; its index.
    #[inline]
    pub fn link(&mut self, capacity: f64) -> u32 {
        let capacity = capacity.max(0.0);
        self.loads.push(Load { capacity, free: capacity, ..Load::default() });
        self.loads.len() as u32 - 1
    }

    /// Gives a link that was added another capacity.
    #[inline]
    pub fn narrow(&mut self, link: u32, capacity: f64) {
        let load = &mut self.loads[link as usize];
        load.capacity = capacity.max(0.0);
        load.free = load.capacity;
    }

    /// What [`Share::solve`] left of a link.
    #[inline]
    pub fn left(&self, link: u32) -> f64 {
        self.loads[link as usize].free
    }

    /// Adds a link to the path of the flow that [`Share::flow`] will add next.
    #[inline]
    pub fn hop(&mut self, link: u32) {
        debug_assert!((link as usize) < self.loads.len());
        self.hops.push(link);
    }

    /// Ties the flow that [`Share::flow`] will add next to `pred`, which may be added later: its rate stays at or below
    /// `ratio` times that of `pred`. Ties must not run in a circle.
    #[inline]
    pub fn tie(&mut self, pred: u32, ratio: f64) {
        self.ties.push(Tie { pred, ratio });
    }

    /// Adds a flow over the hops and with the ties named since the last one; its index. `weight` is above 0, `cap`
    /// infinite for none; lower classes are more urgent.
    #[inline]
    pub fn flow(&mut self, class: u32, weight: f64, cap: f64) -> u32 {
        debug_assert!(weight > 0.0 && weight.is_finite() && !cap.is_nan());
        let (hops_end, ties_end) = (self.hops.len() as u32, self.ties.len() as u32);
        self.entries.push(Entry { class, weight, cap, hops_end, ties_end });
        self.entries.len() as u32 - 1
    }

    /// The rate that [`Share::solve`] gave a flow.
    #[inline]
    pub fn rate(&self, flow: usize) -> f64 {
        self.rates[flow]
    }

    /// The rate of each flow, by index. The result depends on the order of the flows only through rounding.
    pub fn solve(&mut self) -> &[f64] {
        self.fill_all();
        debug_assert!(self.rates.iter().all(|r| r.is_finite() && *r >= 0.0));
        &self.rates
    }

    fn hops_of(&self, flow: u32) -> std::ops::Range<usize> {
        let end = |f: usize| self.entries[f].hops_end as usize;
        let flow = flow as usize;
        (if flow == 0 { 0 } else { end(flow - 1) })..end(flow)
    }

    fn ties_of(&self, flow: u32) -> std::ops::Range<usize> {
        let end = |f: usize| self.entries[f].ties_end as usize;
        let flow = flow as usize;
        (if flow == 0 { 0 } else { end(flow - 1) })..end(flow)
    }
}
