//! A schedule of sends without its epochs: who waits for whom stays, and chunks are as long as the size makes them.

use std::collections::HashMap;

use crate::check::{Pace, Timed, paces, timed};
use crate::export::refused;
use crate::plan::{Collective, Plan, Sends};
use sluice_formats::problem::{E_LIMIT, Problem, Problems, UNSUPPORTED_FIELD};
use sluice_formats::quantity::Rational;
use sluice_formats::topology::{Kind, Topology};

/// Sends that are replayed at most: every size is a replay of its own.
const MAX_SENDS: usize = 2_000_000;

/// The sends, each behind those that it waits for.
#[derive(Clone, Debug)]
pub struct Replay {
    legs: Vec<Leg>,
    /// By link.
    paces: Vec<Pace>,
    /// Chunks of M.
    chunks: Rational,
}

#[derive(Clone, Debug)]
struct Leg {
    /// The link, or the first of two with the switch of a hyper-edge between.
    link: usize,
    /// The second of these.
    out: Option<usize>,
    /// What it carries, in chunks.
    part: Rational,
    /// Does it leave a switch as it comes in?
    cuts_through: bool,
    /// The sends that bring what it carries.
    needs: Vec<u32>,
    /// Does somebody wait for what it brings, and for no other send that brings the same sooner?
    counts: bool,
}

impl Replay {
    /// Finds out what each send waits for.
    ///
    /// # Errors
    /// `UNSUPPORTED_FIELD` and `E_LIMIT` as [`super::Cost::new`] has them.
    pub fn new(plan: &Plan, topology: &Topology, sends: &Sends) -> Result<Replay, Problems> {
        let ignores = plan.body.ignored.iter().flatten().any(|key| &**key == "capacity_per_epoch");
        if let Some(link) = topology.links().iter().find(|link| link.per_epoch.is_some()).filter(|_| !ignores) {
            let key = format!("/topology/inline/links/{}/capacity_per_epoch", link.entry);
            let error = Problem::new(UNSUPPORTED_FIELD, key, "epochs have no length at other sizes than the plan's");
            return Err(error.found("capacity_per_epoch").allowed("one capacity for each link").into());
        }
        let timed = timed(plan, topology, sends).map_err(|violation| refused(&violation))?;
        if timed.len() > MAX_SENDS {
            let error = Problem::new(E_LIMIT, "/content/sends", "too many sends to replay them for each size");
            return Err(error.found(timed.len().to_string()).allowed(format!("at most {MAX_SENDS}")).into());
        }
        let paces = paces(plan, topology, sends).map_err(|violation| refused(&violation))?;
        let n = plan.body.participants.as_ref().map_or_else(|| topology.compute().len(), Vec::len) as u64;
        let chunks = match plan.body.collective {
            Collective::Broadcast | Collective::Reduce => Rational::from(sends.model.chunks),
            _ => &Rational::from(n) * &Rational::from(sends.model.chunks),
        };
        let is_switch = |node: usize| matches!(topology.nodes()[node].kind, Kind::Switch | Kind::Nic);
        let free = sends.model.free_second_hop == Some(true);
        let mut held = Held { topology, arrivals: HashMap::new() };
        let mut legs: Vec<Leg> = Vec::with_capacity(timed.len());
        // What is wanted, and the send that brings it first.
        let mut first: HashMap<(Place, u64), (u64, u32)> = HashMap::new();
        for (leg, send) in (0_u32..).zip(&timed) {
            let from_switch = is_switch(send.from);
            let needs = if from_switch { held.at_switch(send) } else { held.at_node(send) };
            held.arrives(leg, send);
            if send.wanted && !send.reduces {
                let known = first.entry(((send.source, send.number, send.to), send.lo)).or_insert((u64::MAX, leg));
                *known = (*known).min((send.usable, leg));
            }
            legs.push(Leg {
                link: send.link,
                out: send.out,
                part: part(sends, send),
                cuts_through: free && from_switch && !is_switch(send.to),
                needs,
                // No sum is sent in vain.
                counts: send.reduces && !is_switch(send.to),
            });
        }
        for (_, leg) in first.into_values() {
            legs[leg as usize].counts = true;
        }
        Ok(Replay { legs, paces, chunks })
    }

    /// Until the last chunk is where it is wanted.
    pub fn time(&self, size: &Rational) -> Rational {
        self.run(size, true)
    }
    /// The same for one byte where there is no latency.
    pub fn per_byte(&self) -> Rational {
        self.run(&Rational::ONE, false)
    }

    fn run(&self, size: &Rational, latencies: bool) -> Rational {
        let chunk = size.checked_div(&self.chunks).unwrap_or(Rational::ZERO);
        let mut free = vec![Rational::ZERO; self.paces.len()];
        // By send: when it has arrived, and how long it was pushed.
        let mut done: Vec<(Rational, Rational)> = Vec::with_capacity(self.legs.len());
        let mut finish = Rational::ZERO;
        for leg in &self.legs {
            let links = [Some(leg.link), leg.out];
            let links = || links.into_iter().flatten();
            let slowest = links().map(|link| &self.paces[link].per_byte).max().unwrap_or(&Rational::ZERO);
            let push = &(&chunk * &leg.part) * slowest;
            let needs = || leg.needs.iter().map(|need| &done[*need as usize]);
            let mut ready = needs().map(|(arrived, _)| arrived.clone()).max().unwrap_or(Rational::ZERO);
            if leg.cuts_through {
                // The first byte may leave when the first is there, and the last one not before the last is there.
                let head = needs().map(|(_, pushed)| pushed).min().unwrap_or(&Rational::ZERO);
                ready = &ready - head.min(&push);
            }
            let start = links().fold(ready, |start, link| start.max(free[link].clone()));
            let end = &start + &push;
            links().for_each(|link| free[link] = end.clone());
            let latency = links().filter(|_| latencies).map(|link| &self.paces[link].latency).sum::<Rational>();
            let arrived = &end + &latency;
            if leg.counts && arrived > finish {
                finish = arrived.clone();
            }
            done.push((arrived, push));
        }
        finish
    }
}

/// The part of a chunk that a send carries.
fn part(sends: &Sends, send: &Timed) -> Rational {
    let bytes = sends.sends[send.at].entry.bytes.map(Rational::from);
    bytes.and_then(|bytes| bytes.checked_div(sends.model.chunk.value())).unwrap_or(Rational::ONE)
}

/// What came to a node of a chunk: source, number, node.
type Place = (usize, u64, usize);

/// What has come where, by what the plan says of its epochs.
struct Held<'a> {
    topology: &'a Topology,
    arrivals: HashMap<Place, Vec<Arrival>>,
}

struct Arrival {
    leg: u32,
    usable: u64,
    reduces: bool,
    /// The bytes of a piece; all of a whole chunk.
    lo: u64,
    hi: u64,
    /// Has it been passed on, where that can be done once only?
    gone: bool,
}

impl Held<'_> {
    fn arrives(&mut self, leg: u32, send: &Timed) {
        let arrival =
            Arrival { leg, usable: send.usable, reduces: send.reduces, lo: send.lo, hi: send.hi, gone: false };
        self.arrivals.entry((send.source, send.number, send.to)).or_default().push(arrival);
    }

    /// What a node sends: a sum takes all that has come since the last one, a copy the first that came, or the sum of all.
    fn at_node(&mut self, send: &Timed) -> Vec<u32> {
        let Some(list) = self.arrivals.get_mut(&(send.source, send.number, send.from)) else { return Vec::new() };
        let there =
            |arrival: &&mut Arrival| arrival.usable <= send.epoch && arrival.lo < send.hi && send.lo < arrival.hi;
        let there = list.iter_mut().filter(there);
        if send.reduces {
            let taken = there.filter(|arrival| arrival.reduces && !arrival.gone);
            return taken
                .map(|arrival| {
                    arrival.gone = true;
                    arrival.leg
                })
                .collect();
        }
        let (sums, copies): (Vec<&mut Arrival>, Vec<&mut Arrival>) = there.partition(|arrival| arrival.reduces);
        let whole = copies.iter().filter(|arrival| arrival.lo <= send.lo && send.hi <= arrival.hi);
        match whole.min_by_key(|arrival| arrival.usable) {
            Some(first) => vec![first.leg],
            None if copies.is_empty() => sums.iter().map(|arrival| arrival.leg).collect(),
            None => copies.iter().map(|arrival| arrival.leg).collect(),
        }
    }

    /// What a switch sends: what comes for this epoch; one arrival, and each once, where it cannot copy or add up.
    fn at_switch(&mut self, send: &Timed) -> Vec<u32> {
        let can = self.topology.nodes()[send.from].can;
        let Some(list) = self.arrivals.get_mut(&(send.source, send.number, send.from)) else { return Vec::new() };
        let mut there = list.iter_mut().filter(|arrival| {
            arrival.usable == send.epoch
                && arrival.reduces == send.reduces
                && arrival.lo < send.hi
                && send.lo < arrival.hi
        });
        let pieces = (send.lo, send.hi) != (0, 1);
        if pieces || send.reduces && can.reduce {
            return there.map(|arrival| arrival.leg).collect();
        }
        match there.find(|arrival| can.copy || !arrival.gone) {
            Some(arrival) => {
                arrival.gone = true;
                vec![arrival.leg]
            }
            None => Vec::new(),
        }
    }
}
