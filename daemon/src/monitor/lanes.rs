//! Which connection of a process carries which lane of a plan of rates, weights or an order, and on what terms.
//!
//! A lane is what one rank sends to another for one group of flows. Connections between two ranks carry their lanes in
//! order, one each; where there are fewer connections than lanes, those that are left over ride with the others, and a
//! connection has what all its lanes have together.
//!
//! Flows shorter than [`LEAST_SLOTS`] slots are joined to the next ones of their lane: no decision comes sooner than a
//! fraction of a slot, and the plan's own terms would be over before they were heard of.

use std::collections::BTreeMap;
use std::ops::Range;

use sluice_plan::follow::{Lane, Transfer, Transfers};
use sluice_progress::{PageView, Peer, PeerKind};
use sluice_schedule::{Arrival, Bytes, FlowId, Nanos, Rate, Role, Share, Term, Terms};

use super::roles::{Connection, Kinds};
use super::tuple::Tuple;
use crate::fabric::Fabric;

/// A flow of a plan that has a rate lasts as many slots at least, or is joined to the next.
const LEAST_SLOTS: u64 = 4;

/// The lanes of a job's plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lanes {
    lanes: Vec<Lane>,
    /// By sender and receiver, which lanes.
    between: BTreeMap<(u32, u32), Range<usize>>,
    /// Bytes of the longest lane.
    most: u64,
    fills: bool,
    by_round: bool,
    /// Flows that were joined to others because they are too short for a slot.
    pub joined: usize,
}

impl Lanes {
    /// The lanes of a plan on hosts with slots of this length.
    pub fn new(transfers: Transfers, slot: Nanos) -> Lanes {
        let Transfers { mut lanes, fills, by_round } = transfers;
        let count = |lanes: &[Lane]| lanes.iter().map(|lane| lane.flows.len()).sum::<usize>();
        let before = count(&lanes);
        lanes.iter_mut().for_each(|lane| join(lane, slot.times(LEAST_SLOTS)));
        let joined = before - count(&lanes);
        let mut between: BTreeMap<(u32, u32), Range<usize>> = BTreeMap::new();
        for (at, lane) in lanes.iter().enumerate() {
            between.entry((lane.from, lane.to)).or_insert(at..at).end = at + 1;
        }
        let most = lanes.iter().map(Lane::bytes).max().unwrap_or(0);
        Lanes { lanes, between, most, fills, by_round, joined }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.lanes.len()
    }

    /// What all lanes that leave a rank carry, in parts of a share.
    pub fn parts_of(&self, own: u32) -> u64 {
        self.of(own).map(|lane| Share::of(lane.bytes(), self.most).parts()).sum()
    }

    fn of(&self, own: u32) -> impl Iterator<Item = &Lane> {
        self.lanes.iter().filter(move |lane| lane.from == own)
    }

    /// The lanes from one rank to another that the n-th of so many connections carries.
    fn carried(&self, from: u32, to: u32, nth: usize, connections: usize) -> impl Iterator<Item = usize> {
        let range = self.between.get(&(from, to)).cloned().unwrap_or(0..0);
        range.skip(nth).step_by(connections.max(1))
    }

    /// The connections of a page, each with its lanes' terms. `round`: bytes that the process sends in a round; 0: not
    /// known, and taken to be the plan's. `None`: the page does not say which rank it is.
    pub fn connections(&self, view: &PageView, fabric: &Fabric, round: Bytes) -> Option<Vec<Connection>> {
        let own = view.rank?;
        let kinds = Kinds::of(view);
        let peers: Vec<Side> = view
            .peers
            .iter()
            .filter(|peer| fabric.covers(peer.local.ip(), peer.remote.ip()))
            .map(|peer| Side::new(self, &kinds, own, peer))
            .collect();
        let count = |way: fn(&Side) -> bool| {
            let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
            peers.iter().filter(|side| way(side)).for_each(|side| *counts.entry(side.rank).or_default() += 1);
            counts
        };
        let (outs, ins) = (count(|side| side.sends), count(|side| side.receives));
        // Which flow brings which lane to this rank.
        let mut bringing: BTreeMap<usize, FlowId> = BTreeMap::new();
        let mut seen: BTreeMap<u32, usize> = BTreeMap::new();
        for side in peers.iter().filter(|side| side.receives) {
            let nth = seen.entry(side.rank).or_default();
            let flow = side.tuple.incoming(fabric.host_of(side.tuple.remote_ip()));
            let connections = ins.get(&side.rank).copied().unwrap_or(1);
            bringing.extend(self.carried(side.rank, own, *nth, connections).map(|lane| (lane, flow)));
            *nth += 1;
        }
        let planned: u128 = self.of(own).map(|lane| u128::from(lane.bytes())).sum();
        let scale = Scale { round: u128::from(round.0), planned: planned.max(1) };
        let mut seen: BTreeMap<u32, usize> = BTreeMap::new();
        let connection = |side: &Side| {
            let mut connection = Connection::silent(side.tuple);
            if side.sends {
                let nth = seen.entry(side.rank).or_default();
                let connections = outs.get(&side.rank).copied().unwrap_or(1);
                let carried: Vec<&Lane> =
                    self.carried(own, side.rank, *nth, connections).map(|lane| &self.lanes[lane]).collect();
                *nth += 1;
                connection.sends = !carried.is_empty();
                connection.share = Share::of(carried.iter().map(|lane| lane.bytes()).sum(), self.most);
                connection.role = Role::Plain;
                let (fills, by_round) = (self.fills, self.by_round);
                connection.terms = Terms { terms: terms(&carried, scale, &bringing), fills, by_round };
            }
            connection
        };
        Some(peers.iter().map(connection).collect())
    }
}

/// A connection as its process sees it.
struct Side {
    tuple: Tuple,
    rank: u32,
    sends: bool,
    receives: bool,
}

impl Side {
    fn new(lanes: &Lanes, kinds: &Kinds, own: u32, peer: &Peer) -> Side {
        let rank = peer.rank.unwrap_or(u32::MAX);
        let way = |from: u32, to: u32| lanes.between.contains_key(&(from, to));
        let (mut sends, mut receives) = (way(own, rank), way(rank, own));
        if kinds.one_way(peer) {
            if peer.kind == PeerKind::Connected { receives = false } else { sends = false }
        }
        Side { tuple: Tuple::of(peer.local, peer.remote), rank, sends, receives }
    }
}

/// What a process sends in a round against what the plan has it send.
#[derive(Clone, Copy)]
struct Scale {
    round: u128,
    planned: u128,
}

impl Scale {
    fn bytes(self, planned: u64) -> Bytes {
        if self.round == 0 {
            return Bytes(planned);
        }
        Bytes(u64::try_from(u128::from(planned) * self.round / self.planned).unwrap_or(u64::MAX))
    }
}

/// The terms of a connection that carries these lanes: flow by flow for one, all together for several.
fn terms(lanes: &[&Lane], scale: Scale, bringing: &BTreeMap<usize, FlowId>) -> Vec<Term> {
    let rate = |flow: &Transfer| flow.bits_per_second.map_or(Rate::ZERO, |bits| Rate(bits).payload());
    if let [lane] = lanes {
        let after = |flow: &Transfer| {
            let known = flow.after.iter().filter_map(|of| Some((*bringing.get(&of.lane)?, scale.bytes(of.bytes))));
            known.map(|(flow, bytes)| Arrival { flow, bytes }).collect()
        };
        let term = |flow: &Transfer| Term {
            end: scale.bytes(flow.end),
            rate: rate(flow),
            place: flow.place,
            after: after(flow),
        };
        return lane.flows.iter().map(term).collect();
    }
    let most = |lane: &&Lane| lane.flows.iter().map(rate).max().unwrap_or(Rate::ZERO);
    let flows = || lanes.iter().flat_map(|lane| &lane.flows);
    let Some(end) = lanes.iter().map(|lane| lane.bytes()).reduce(u64::saturating_add) else { return Vec::new() };
    vec![Term {
        end: scale.bytes(end),
        rate: lanes.iter().map(most).fold(Rate::ZERO, Rate::plus),
        place: flows().filter_map(|flow| flow.place).min(),
        after: Vec::new(),
    }]
}

/// Joins flows of a lane that take less than `least` at their rates to the ones after them; what is left over at the end
/// joins the one before. Together they have the rate at which all take as long as each did; they wait for what the first
/// waits for, since what the others wait for may itself wait for the first.
fn join(lane: &mut Lane, least: Nanos) {
    let mut joined: Vec<Transfer> = Vec::with_capacity(lane.flows.len());
    let (mut begin, mut begins) = (0, Vec::with_capacity(lane.flows.len()));
    for flow in lane.flows.drain(..) {
        let short = |begin: u64, flow: &Transfer| took(begin, flow).is_some_and(|time| time < least.0.into());
        let end = flow.end;
        match joined.last_mut() {
            Some(last) if short(begins.last().copied().unwrap_or(0), last) => merge(last, begin, flow, &begins),
            _ => {
                begins.push(begin);
                joined.push(flow);
            }
        }
        begin = end;
    }
    if let [.., before, last] = &mut joined[..]
        && let [.., _, start] = begins[..]
        && took(start, last).is_some_and(|time| time < least.0.into())
    {
        merge(before, start, last.clone(), &begins[..begins.len() - 1]);
        joined.pop();
    }
    lane.flows = joined;
}

/// Nanoseconds that a flow takes at its rate; `None`: it has none.
fn took(begin: u64, flow: &Transfer) -> Option<u128> {
    let rate = flow.bits_per_second.filter(|rate| *rate > 0)?;
    Some(u128::from(flow.end - begin) * 8_000_000_000 / u128::from(rate))
}

/// Adds a flow that begins at `begin` to the one before, which is the last of those that begin at `begins`.
fn merge(last: &mut Transfer, begin: u64, flow: Transfer, begins: &[u64]) {
    let start = begins.last().copied().unwrap_or(0);
    let time = took(start, last).zip(took(begin, &flow)).map(|(a, b)| a + b);
    last.end = flow.end;
    last.bits_per_second = time.map(|time| {
        let rate = u128::from(flow.end - start) * 8_000_000_000 / time.max(1);
        u64::try_from(rate).unwrap_or(u64::MAX)
    });
}

#[cfg(test)]
mod tests;
