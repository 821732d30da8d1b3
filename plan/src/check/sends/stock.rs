//! What every node holds while sends are replayed: copies of chunks, and sums on their way to be complete.
//!
//! A copy stays with who sent it, where that one can copy. A sum is moved: whoever sends it holds nothing of it any more,
//! and who can add makes one of it and of what it holds. So nothing is ever lost or counted twice, and a sum is
//! complete when all its parts have become one, which is at the chunk's own node. From then on it can be copied.

use std::collections::HashSet;

use super::demand::{Demand, Work};
use super::timing::Timing;
use super::{Flight, at};
use crate::check::fabric::Fabric;
use crate::check::ledger::{Ledger, Place};
use crate::check::violation::{Code, Violation};

/// How many copies of a chunk a node has at first.
type Starts<'a> = Box<dyn Fn(Place) -> u32 + 'a>;

/// What all nodes hold.
pub struct Stock<'a> {
    fabric: &'a Fabric<'a>,
    timing: &'a Timing,
    demand: &'a Demand,
    copies: Ledger<Starts<'a>>,
    sums: Sums<'a>,
    /// What came to switches, which have it for this epoch only.
    passing: Vec<&'a Flight>,
    /// Who has the copy that it wants.
    met: HashSet<Place>,
    /// The epoch by whose end the last sum was complete, or the last copy where it was wanted.
    last: Option<u64>,
}

/// Sums that are not complete yet.
struct Sums<'a> {
    /// How many parts of a chunk's sum a node holds: those that came, and what it has to give itself.
    parts: Ledger<Starts<'a>>,
    /// By chunk, in how many parts its sum still is; nothing where nothing is added up.
    left: Vec<u32>,
}

impl<'a> Stock<'a> {
    /// What everybody holds before the first epoch.
    pub fn new(fabric: &'a Fabric<'a>, timing: &'a Timing, demand: &'a Demand) -> Stock<'a> {
        let (nodes, chunks, adds) = (fabric.topology.nodes().len(), demand.chunks.count(), demand.work != Work::Copy);
        let source = move |(node, chunk): Place| u32::from(!adds && demand.chunks.source(chunk) == Some(node));
        let own = move |(node, _): Place| u32::from(adds && fabric.takes_part(node));
        let contributors = fabric.participants.len() as u32;
        Stock {
            fabric,
            timing,
            demand,
            copies: Ledger::new(timing.units, nodes, chunks, Box::new(source)),
            sums: Sums {
                parts: Ledger::new(1, nodes, if adds { chunks } else { 0 }, Box::new(own)),
                left: if adds { vec![contributors; chunks as usize] } else { Vec::new() },
            },
            passing: Vec::new(),
            met: HashSet::new(),
            last: None,
        }
    }

    /// The epoch by whose end the last demand was met.
    pub fn last(&self) -> Option<u64> {
        self.last
    }

    /// Pieces of chunks are moved, whole chunks are copied, and switches do as they can.
    fn copies(&self, node: usize) -> bool {
        if self.timing.is_switch(node) { self.fabric.topology.nodes()[node].can.copy } else { !self.timing.divisible }
    }

    /// An epoch ends: switches lose what they have.
    pub fn pass(&mut self) -> Result<(), Violation> {
        for flight in self.passing.drain(..) {
            let place = (flight.to, flight.chunk);
            if !flight.reduces {
                self.copies.clear(place);
            } else if !self.sums.parts.holds(place, 0) {
                let message =
                    format!("{} does not pass on all that comes, and keeps nothing", self.fabric.id(flight.to));
                return Err(Violation::new(Code::HopUnbalanced, at(flight.at, "/to"), message));
            }
        }
        Ok(())
    }

    /// A send begins, if its sender has what it sends.
    pub fn leave(&mut self, flight: &Flight) -> Result<(), Violation> {
        let place = (flight.from, flight.chunk);
        let missing = |what: &str| {
            let (from, epoch) = (self.fabric.id(flight.from), flight.epoch);
            Err(Violation::new(Code::HopWithoutData, at(flight.at, ""), format!("{from} {what} in epoch {epoch}")))
        };
        if flight.reduces {
            if self.sums.parts.holds(place, 0) {
                return missing("has nothing to add to this chunk");
            }
            self.sums.parts.take(place, 0, 1);
            return Ok(());
        }
        if self.copies.missing(place, flight.lo, flight.hi).is_some() {
            let adds = self.demand.work != Work::Copy;
            return missing(if adds {
                "does not have the whole sum of this chunk"
            } else {
                "does not have this chunk"
            });
        }
        if self.timing.divisible && self.demand.chunks.wanted.contains(&place) {
            let from = self.fabric.id(flight.from);
            let message = format!("{from} wants this chunk itself, and chunks that are cut are not copied");
            return Err(Violation::new(Code::HopWithoutData, at(flight.at, ""), message));
        }
        if !self.copies(flight.from) {
            self.copies.take(place, flight.lo, flight.hi);
        }
        Ok(())
    }

    /// What a send brought is there.
    pub fn arrive(&mut self, flight: &'a Flight) {
        let place = (flight.to, flight.chunk);
        let usable = flight.usable;
        if self.timing.is_switch(flight.to) {
            self.passing.push(flight);
        }
        if flight.reduces {
            self.add(place, usable);
            return;
        }
        let merge = self.copies(flight.to);
        self.copies.give(place, flight.lo, flight.hi, merge);
        let wants = !self.timing.is_switch(flight.to) && self.demand.chunks.wanted.contains(&place);
        if wants && !self.met.contains(&place) && self.copies.missing(place, 0, self.timing.units).is_none() {
            self.met.insert(place);
            self.last = self.last.max(Some(usable.saturating_sub(1)));
        }
    }

    /// A part of a sum comes to a node, which can use it from this epoch on.
    fn add(&mut self, place: Place, usable: u64) {
        let (node, chunk) = place;
        let adds = self.fabric.topology.nodes()[node].can.reduce;
        let becomes_one = adds && !self.sums.parts.holds(place, 0);
        self.sums.parts.give(place, 0, 1, adds);
        let Some(left) = self.sums.left.get_mut(chunk as usize).filter(|_| becomes_one) else { return };
        *left -= 1;
        // The chunk's own node never gives its part away, so that the last part is there.
        if *left == 1 {
            self.copies.give(place, 0, self.timing.units, true);
            self.last = self.last.max(Some(usable.saturating_sub(1)));
        }
    }

    /// Has it taken more work than any plan is worth?
    pub fn is_tired(&self) -> bool {
        self.copies.is_tired() || self.sums.parts.is_tired()
    }

    /// Has everybody what it is owed? In the order of the demands, so that the first one missing is always the same.
    pub fn complete(&mut self) -> Result<(), Violation> {
        let demand = self.demand;
        let missing = |node: usize, what: &str, chunk: u64| {
            let message = format!("{} {what} {}", self.fabric.id(node), demand.chunks.name(self.fabric, chunk));
            Err(Violation::new(Code::MissingData, "/content/sends", message))
        };
        if let Some(chunk) = self.sums.left.iter().position(|parts| *parts > 1) {
            let chunk = chunk as u64;
            let holds =
                |node: &usize| demand.chunks.source(chunk) != Some(*node) && !self.sums.parts.holds((*node, chunk), 0);
            return match (0..self.fabric.topology.nodes().len()).find(holds) {
                Some(node) => missing(node, "keeps a part of the sum of", chunk),
                None => missing(demand.chunks.source(chunk).unwrap_or(0), "cannot add up", chunk),
            };
        }
        if demand.work == Work::Reduce {
            return Ok(());
        }
        for place in &demand.chunks.wanted {
            if !self.copies.holds(*place, 1) && (self.timing.divisible || !self.met.contains(place)) {
                return missing(place.0, "never gets", place.1);
            }
        }
        Ok(())
    }
}
