//! Sends that nobody needs: what they bring is there already, or is neither wanted nor sent on to where it is.

use std::collections::HashMap;

use super::Flight;
use super::demand::Demand;

/// Arrivals of one chunk at one node, by the epoch from which they can be sent on.
type Arrivals<'f> = HashMap<(usize, u64), Vec<&'f Flight>>;

/// The places of useless sends of whole chunks, in the order of the file. `keeps` says where a chunk stays, so that its
/// first arrival serves all later sends; elsewhere an arrival serves the epoch it is there, and only one send unless
/// `copies`.
pub fn useless(
    flights: &[&Flight],
    demand: &Demand,
    keeps: impl Fn(usize) -> bool,
    copies: impl Fn(usize) -> bool,
) -> Vec<usize> {
    let mut arrivals: Arrivals<'_> = HashMap::new();
    for flight in flights.iter().copied() {
        arrivals.entry((flight.to, flight.chunk)).or_default().push(flight);
    }
    arrivals.values_mut().for_each(|list| list.sort_by_key(|flight| flight.usable));
    let first = |place: &(usize, u64)| arrivals.get(place).and_then(|list| list.first().copied());
    // By place and epoch how many of the fleeting arrivals are used up.
    let mut used: HashMap<(usize, u64, u64), usize> = HashMap::new();
    let mut needed: HashMap<usize, bool> = flights.iter().map(|flight| (flight.at, false)).collect();
    let mut next: Vec<&Flight> = demand.chunks.wanted.iter().filter_map(first).collect();
    while let Some(flight) = next.pop() {
        if needed.insert(flight.at, true) == Some(true) {
            continue;
        }
        let place = (flight.from, flight.chunk);
        if demand.chunks.source(flight.chunk) == Some(flight.from) {
            continue;
        }
        if keeps(flight.from) {
            next.extend(first(&place));
            continue;
        }
        let list = arrivals.get(&place).map_or(&[][..], Vec::as_slice);
        let there = list.partition_point(|arrival| arrival.usable < flight.epoch);
        let taken = used.entry((flight.from, flight.chunk, flight.epoch)).or_default();
        next.extend(list.get(there + *taken).filter(|arrival| arrival.usable == flight.epoch));
        *taken += usize::from(!copies(flight.from));
    }
    let mut useless: Vec<usize> = needed.into_iter().filter(|(_, needed)| !needed).map(|(at, _)| at).collect();
    useless.sort_unstable();
    useless
}
