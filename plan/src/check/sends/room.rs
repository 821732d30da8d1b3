//! Room for data that a node holds for others: not its own, and not what was delivered to it.
//!
//! What arrives may be sent on in the next epoch without being stored. A whole chunk that leaves later takes room from
//! then until it leaves for the last time, unless it came again in between; of chunks that are cut, what came and has not
//! left takes room.

use std::collections::BTreeMap;

use super::Flight;
use super::demand::Demand;
use super::timing::Timing;
use crate::check::fabric::Fabric;
use crate::check::violation::{Code, Violation};
use sluice_formats::quantity::Rational;

/// Compares what is held with the buffers of the topology.
pub fn check(fabric: &Fabric<'_>, timing: &Timing, demand: &Demand, flights: &[Flight]) -> Result<(), Violation> {
    let limited = |node: usize| fabric.topology.nodes()[node].buffer.is_some() && !timing.is_switch(node);
    let relayed = |node: usize, chunk: u64| {
        limited(node) && demand.chunks.source(chunk) != Some(node) && !demand.chunks.wanted.contains(&(node, chunk))
    };
    // By node, by epoch: what comes into the buffer, and what leaves it.
    let mut held: BTreeMap<usize, BTreeMap<u64, i128>> = BTreeMap::new();
    let mut change = |node: usize, epoch: u64, units: i128| {
        *held.entry(node).or_default().entry(epoch).or_default() += units;
    };
    if timing.divisible {
        for flight in flights {
            let units = i128::from(flight.hi - flight.lo);
            if relayed(flight.to, flight.chunk) {
                change(flight.to, flight.usable, units);
            }
            if relayed(flight.from, flight.chunk) {
                change(flight.from, flight.epoch, -units);
            }
        }
    } else {
        // By node and chunk: when it comes, and when it is sent.
        let mut moves: BTreeMap<(usize, u64), (Vec<u64>, Vec<u64>)> = BTreeMap::new();
        for flight in flights {
            if relayed(flight.to, flight.chunk) {
                moves.entry((flight.to, flight.chunk)).or_default().0.push(flight.usable);
            }
            if relayed(flight.from, flight.chunk) {
                moves.entry((flight.from, flight.chunk)).or_default().1.push(flight.epoch);
            }
        }
        for ((node, _), (mut comes, mut goes)) in moves {
            comes.sort_unstable();
            goes.sort_unstable();
            // One stay per arrival that is not sent on at once: until the last send before the next arrival.
            for (i, begin) in comes.iter().enumerate() {
                let next = comes.get(i + 1).copied().unwrap_or(u64::MAX);
                let last = goes.iter().take(goes.partition_point(|epoch| *epoch < next)).next_back();
                if let Some(end) = last.filter(|end| *end > begin) {
                    change(node, *begin, 1);
                    change(node, end + 1, -1);
                }
            }
        }
    }
    for (node, changes) in held {
        let Some(buffer) = &fabric.topology.nodes()[node].buffer else { continue };
        let mut now = 0_i128;
        for (epoch, change) in changes {
            now += change;
            let bytes = Rational::new(now, 1).map_or(Rational::ZERO, |units| &units * &timing.bytes_of_unit());
            if bytes > *buffer {
                let message = format!("{} holds {bytes} bytes for others in epoch {epoch}", fabric.id(node));
                return Err(Violation::new(Code::BufferFull, "/content/sends", message));
            }
        }
    }
    Ok(())
}
