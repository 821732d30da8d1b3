//! The twin against an exact map: every flow's announcements kept as they are, sums made anew for each packet, periods
//! that do not wrap. Over a million packets with loss, duplicates, reordering, deaths, restarts and clocks that differ,
//! across both ends of the slot numbers. Two wrong references are told from the right one.

use std::collections::{BTreeMap, HashSet};
use std::net::Ipv4Addr;

use sluice_pipeline::egress::{Link, seen};
use sluice_pipeline::routes::{Action, NextHop};
use sluice_pipeline::{SEEN, Switch, UDP_PORT, Verdict, frame};
use sluice_schedule::{FlowId, Slot};
use sluice_wire::udp::{DUPLICATE, GUARD, Kind, LANES, NO_HOP_YET, Packet, SATURATED, Tuple};

const PORTS: u16 = 4;
const FLOWS: u64 = 24;
const CAPACITY: u32 = 9000;
/// Ticks of a slot: packets arrive in their order.
const TICKS: u64 = 1000;

/// What the reference does wrong on purpose.
#[derive(Clone, Copy, PartialEq)]
enum Mutation {
    None,
    /// The farthest slot is read as all others are.
    FarthestAsOthers,
    /// What a flow said in the period before stays in.
    KeepsPrevious,
}

/// A small generator (splitmix64), so that a seed says everything.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

type Rates = [u16; LANES];

/// One port, exactly.
#[derive(Default)]
struct Exact {
    /// By period, what each flow announced that was counted.
    said: BTreeMap<u64, BTreeMap<u64, Rates>>,
    /// The latest period whose array of this parity a lane was written in.
    written: [[Option<u64>; LANES]; 2],
}

struct Answer {
    duplicate: bool,
    follows: bool,
    loads: [i64; LANES],
}

impl Exact {
    fn farthest(period: u64) -> usize {
        ((period + LANES as u64 - 1) % LANES as u64) as usize
    }

    fn last_of(&self, flow: u64) -> Option<u64> {
        self.said.iter().rev().find(|(_, flows)| flows.contains_key(&flow)).map(|(period, _)| *period)
    }

    fn packet(&mut self, period: u64, announced: Option<(u64, Rates)>, mutation: Mutation) -> Answer {
        let (mut duplicate, mut follows) = (false, false);
        if let Some((flow, rates)) = announced {
            let last = self.last_of(flow);
            duplicate = last.is_some_and(|last| last >= period);
            follows = last.is_some_and(|last| last + 1 == period);
            if !duplicate {
                self.said.entry(period).or_default().insert(flow, rates);
                for lane in 0..LANES {
                    self.write(period, lane);
                    if lane != Self::farthest(period) || mutation == Mutation::FarthestAsOthers {
                        self.write(period - 1, lane);
                    }
                }
                while self.said.len() > 6 {
                    self.said.pop_first();
                }
            }
        }
        let loads = std::array::from_fn(|lane| {
            let farthest = lane == Self::farthest(period) && mutation != Mutation::FarthestAsOthers;
            self.read(if farthest { period } else { period - 1 }, lane, mutation)
        });
        Answer { duplicate, follows, loads }
    }

    fn write(&mut self, period: u64, lane: usize) {
        let written = &mut self.written[(period % 2) as usize][lane];
        *written = (*written).max(Some(period));
    }

    /// What the array of a period holds, or the one that has taken its place; nothing where neither was written.
    fn read(&self, period: u64, lane: usize, mutation: Mutation) -> i64 {
        let Some(held) = self.written[(period % 2) as usize][lane].filter(|held| *held >= period) else { return 0 };
        let nobody = BTreeMap::new();
        let (at, after) = (self.said.get(&held).unwrap_or(&nobody), self.said.get(&(held + 1)).unwrap_or(&nobody));
        let after = if lane == Self::farthest(held + 1) { &nobody } else { after };
        let replaced = |flow: &u64| mutation != Mutation::KeepsPrevious && after.contains_key(flow);
        let stays = at.iter().filter(|(flow, _)| !replaced(flow));
        stays.chain(after).map(|(_, rates)| i64::from(rates[lane])).sum()
    }
}

struct Sent {
    port: u16,
    period: u64,
    flow: u64,
    rates: Rates,
    previous: Rates,
    kind: Kind,
}

struct Host {
    skew: i64,
    dead_until: u64,
    /// What was announced last, and when.
    last: Option<(u64, Rates)>,
}

fn switch() -> Switch {
    let mut switch = Switch::new(UDP_PORT);
    for port in 0..PORTS {
        let hop = NextHop { port, destination: [2; 6], source: [4; 6] };
        switch.set_route(format!("10.0.{port}.0/24").parse().unwrap(), Action::Hop(hop));
        switch.set_link(port, Some(Link { capacity: CAPACITY, unit: 0, signature: 0x1000 + u32::from(port) }));
    }
    switch
}

fn flow_id(port: u16, flow: u64) -> FlowId {
    FlowId(((flow + 1) << 32) | (u64::from(port) * 131 + flow))
}

struct Tally {
    packets: u64,
    mismatches: u64,
    duplicates: u64,
    late: u64,
    rejected: u64,
    restarts: u64,
}

/// Slots `from` on, over the switch's packets in the order of their arrival.
fn run(seed: u64, from: u64, slots: u64, mutation: Mutation) -> Tally {
    let mut random = Random(seed);
    let mut hosts: BTreeMap<(u16, u64), Host> = BTreeMap::new();
    for port in 0..PORTS {
        for flow in 0..FLOWS {
            let skew = random.below(801) as i64 - 400;
            hosts.insert((port, flow), Host { skew, dead_until: 0, last: None });
        }
    }
    // By arrival, then by number, so that nothing is lost where two arrive together.
    let mut air: BTreeMap<(u64, u64), Sent> = BTreeMap::new();
    let (mut twin, mut exact) = (switch(), std::array::from_fn::<Exact, 4, _>(|_| Exact::default()));
    let mut tally = Tally { packets: 0, mismatches: 0, duplicates: 0, late: 0, rejected: 0, restarts: 0 };
    let (mut number, mut newest) = (0, [0; PORTS as usize]);
    for slot in from..from + slots {
        for ((port, flow), host) in &mut hosts {
            if slot < host.dead_until {
                continue;
            }
            if random.chance(1) {
                host.dead_until = slot + 1 + random.below(6);
            }
            let rates: Rates = std::array::from_fn(|_| random.below(600) as u16);
            let follows = host.last.filter(|(last, _)| last + 1 == slot);
            let previous = follows.map_or([0; LANES], |(_, rates)| rates);
            host.last = Some((slot, rates));
            let at = (slot * TICKS + TICKS / 4 + random.below(TICKS / 2)).saturating_add_signed(host.skew);
            for kind in [Kind::Announce, Kind::Announce, Kind::Probe] {
                if random.chance(if kind == Kind::Probe { 70 } else { 5 }) {
                    continue;
                }
                let delay = if random.chance(10) { random.below(TICKS) } else { random.below(100) };
                // A clock that is far off is told by the guard.
                let period = if random.chance(1) { slot + 5 } else { slot };
                number += 1;
                let sent = Sent { port: *port, period, flow: *flow, rates, previous, kind };
                air.insert((at + delay, number), sent);
            }
        }
        let now = (slot + 1) * TICKS;
        let rest = air.split_off(&(now, 0));
        for ((arrival, _), sent) in std::mem::replace(&mut air, rest) {
            let present = arrival / TICKS;
            // Not close to the wrap: there registers of zeros pass for newer ones, see the story `wrap`.
            let near_wrap = (present + 8) >> 32 != present >> 32;
            if random.below(20_000) == 0 && !near_wrap {
                (twin, exact) = (switch(), std::array::from_fn(|_| Exact::default()));
                tally.restarts += 1;
            }
            twin.set_guard(Some(Slot(present as u32)));
            let seen = &mut newest[usize::from(sent.port)];
            tally.late += u64::from(sent.period < *seen);
            *seen = (*seen).max(sent.period.min(present + 1));
            check(&mut twin, &mut exact[usize::from(sent.port)], &sent, present, mutation, &mut tally);
        }
    }
    tally
}

fn check(twin: &mut Switch, exact: &mut Exact, sent: &Sent, present: u64, mutation: Mutation, tally: &mut Tally) {
    let mut packet = Packet {
        kind: sent.kind,
        flags: 0,
        unit: 0,
        hops: 3,
        counted: 2,
        flow: flow_id(sent.port, sent.flow),
        slot: Slot(sent.period as u32),
        seq: 9,
        had_previous: 1,
        wrap: Exact::farthest(sent.period) as u8,
        path_sig: 0x55,
        tuple: Tuple {
            source: Ipv4Addr::new(10, 1, 0, 1),
            destination: Ipv4Addr::new(10, 0, sent.port as u8, 1),
            source_port: 1,
            destination_port: 2,
            protocol: 6,
            cookie: 0,
        },
        lanes: Default::default(),
    };
    for (lane, (new, previous)) in packet.lanes.iter_mut().zip(sent.rates.iter().zip(&sent.previous)) {
        (lane.new, lane.previous, lane.load_sum, lane.headroom) = (*new, *previous, 70, NO_HOP_YET);
    }
    let mut bytes = frame::datagram(packet.tuple.source, packet.tuple.destination, UDP_PORT, &packet);
    assert_eq!(twin.process(0, &mut bytes), Verdict::Forward { port: sent.port, answered: true });
    let got = frame::packet(&bytes).unwrap();

    packet.hops += 1;
    packet.path_sig ^= 0x1000 + u32::from(sent.port);
    if sent.period.abs_diff(present) > 1 {
        packet.flags |= GUARD;
        tally.rejected += 1;
    } else {
        let announced = (sent.kind == Kind::Announce).then_some((sent.flow, sent.rates));
        let answer = exact.packet(sent.period, announced, mutation);
        if announced.is_some() {
            packet.counted += 1;
            packet.had_previous += u8::from(answer.follows);
            packet.flags |= if answer.duplicate { DUPLICATE } else { 0 };
            tally.duplicates += u64::from(answer.duplicate);
        }
        for (lane, load) in packet.lanes.iter_mut().zip(answer.loads) {
            lane.load_sum += load as i32;
            lane.headroom = lane.headroom.min((i64::from(CAPACITY) - load).clamp(0, 65_535) as u16);
        }
    }
    assert_eq!(packet.flags & SATURATED, 0);
    tally.packets += 1;
    tally.mismatches += u64::from(got != packet);
}

#[test]
fn no_two_flows_of_this_test_share_a_register() {
    let mut places = HashSet::new();
    for port in 0..PORTS {
        assert!((0..FLOWS).all(|flow| places.insert(seen(flow_id(port, flow), port).index as usize % SEEN)));
    }
}

#[test]
fn a_million_packets_match_an_exact_map() {
    let starts = [1_000, (1 << 31) - 400, (1 << 32) - 400, (1_u64 << 32) * 7 - 900];
    let tallies: Vec<Tally> = std::thread::scope(|scope| {
        let runs: Vec<_> = (0_u64..)
            .zip(starts)
            .map(|(seed, from)| scope.spawn(move || run(seed, from, 1250, Mutation::None)))
            .collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    for (tally, from) in tallies.iter().zip(starts) {
        assert_eq!(tally.mismatches, 0, "of {} from slot {from} on", tally.packets);
        assert!(tally.duplicates > 10_000 && tally.late > 1_000 && tally.rejected > 1_000 && tally.restarts > 2);
    }
    let packets: u64 = tallies.iter().map(|tally| tally.packets).sum();
    assert!(packets >= 1_000_000, "{packets}");
}

#[test]
fn wrong_references_are_told_from_the_right_one() {
    for mutation in [Mutation::FarthestAsOthers, Mutation::KeepsPrevious] {
        let tally = run(5, 1_000, 50, mutation);
        assert!(tally.mismatches > tally.packets / 10, "{} of {}", tally.mismatches, tally.packets);
    }
}
