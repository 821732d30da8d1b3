//! Both load tables against a naive per-flow model, through the switch's public face: loss, duplicates, reordering,
//! delay into the next slot, silence, restarts and the wrap of slot numbers.
//!
//! What is claimed (one schedule per flow and slot, a restarted sender silent for one slot, no collision in the dedupe
//! register): the double buffer shows, at every moment, the sums of the newest announcements of this slot and the one
//! before. The exact map shows the same, except that an announcement which came a slot late lives a slot longer there,
//! since its lease runs from its arrival.

use proptest::prelude::*;
use sluice_schedule::message::{Announcement, FlowPromise};
use sluice_schedule::switch::{Limits, LinkConfig, Switch};
use sluice_schedule::table::TableKind;
use sluice_schedule::table::cell::Sighting;
use sluice_schedule::table::soft::{DoubleBuffer, Lanes, SoftTable};
use sluice_schedule::units::{BootId, FlowId, HostId, LinkId, Rate, Slot};

const HOSTS: u32 = 4;
const FLOWS: u32 = 3;
const LINKS: u32 = 2;
const LEASE: i32 = 2;

/// What one host does in one slot.
#[derive(Clone, Debug)]
struct Deed {
    what: What,
    /// Copies delivered in the slot; the order key of each.
    copies: Vec<u8>,
    /// One more copy arrives in the next slot, at this place in its order.
    late: Option<u8>,
}

#[derive(Clone, Debug)]
enum What {
    /// For some flows: the links (bit mask) and rates in Mbit/s.
    Announce(Vec<(u32, u32, Vec<u16>)>),
    Silent,
    /// A new process, silent in its first slot.
    Restart,
}

fn deed(horizon: usize) -> impl Strategy<Value = Deed> {
    let flow = (0..FLOWS, 1..1_u32 << LINKS, prop::collection::vec(0..1000_u16, 1..=horizon));
    let what = prop_oneof![
        12 => prop::collection::vec(flow, 0..=3).prop_map(What::Announce),
        1 => Just(What::Silent),
        1 => Just(What::Restart),
    ];
    let copies = prop_oneof![1 => Just(0_usize), 6 => Just(1), 2 => Just(2), 1 => Just(3)];
    let copies = copies.prop_flat_map(|n| prop::collection::vec(any::<u8>(), n));
    (what, copies, prop::option::weighted(0.15, any::<u8>())).prop_map(|(what, copies, late)| Deed {
        what,
        copies,
        late,
    })
}

fn slots(horizon: usize) -> impl Strategy<Value = Vec<Vec<Deed>>> {
    prop::collection::vec(prop::collection::vec(deed(horizon), HOSTS as usize), 1..24)
}

fn link(n: u32) -> LinkId {
    LinkId::new(7, n)
}

fn announcement(host: u32, boot: u64, seq: u64, slot: Slot, flows: &[(u32, u32, Vec<u16>)]) -> Announcement {
    let mut promises: Vec<FlowPromise> = Vec::new();
    for (local, mask, rates) in flows {
        let flow = FlowId(u64::from(host) << 32 | u64::from(*local));
        if promises.iter().any(|promise| promise.flow == flow) {
            continue;
        }
        promises.push(FlowPromise {
            flow,
            rates: rates.iter().map(|&mbps| Rate::mbps(u64::from(mbps))).collect(),
            links: (0..LINKS).filter(|n| (mask >> n) & 1 == 1).map(link).collect(),
            ..FlowPromise::default()
        });
    }
    let watch = (0..LINKS).map(link).collect();
    Announcement {
        host: HostId(host),
        boot: BootId(boot),
        seq,
        slot,
        flows: promises,
        watch,
        ..Announcement::default()
    }
}

/// The naive model: the newest announcement of each host, and when it came.
struct Model {
    horizon: usize,
    newest: Vec<(Announcement, Slot)>,
}

impl Model {
    /// Takes a message as it arrives; boots count up in this test.
    fn apply(&mut self, now: Slot, message: &Announcement) {
        match self.newest.iter_mut().find(|(known, _)| known.host == message.host) {
            Some((known, came)) => {
                if (message.boot, message.seq) > (known.boot, known.seq) {
                    (*known, *came) = (message.clone(), now);
                }
            }
            None => self.newest.push((message.clone(), now)),
        }
    }

    /// Has this host spoken in this slot?
    fn spoke(&self, now: Slot, host: HostId) -> bool {
        self.newest.iter().any(|(message, came)| message.host == host && *came == now)
    }

    fn load(&self, now: Slot, link: LinkId, ahead: i32, leaving_out: HostId, from_arrival: bool) -> u64 {
        let mut sum = 0;
        for (message, came) in &self.newest {
            let from = if from_arrival && came.since(message.slot) > 0 { *came } else { message.slot };
            if message.host == leaving_out || now.since(from) >= LEASE {
                continue;
            }
            for promise in message.flows.iter().filter(|promise| promise.links.contains(&link)) {
                let place = now.offset(ahead).since(message.slot);
                if (0..self.horizon as i32).contains(&place) {
                    sum += promise.rates[(place as usize).min(promise.rates.len() - 1)].0;
                }
            }
        }
        sum
    }
}

fn check(model: &Model, exact: &mut Switch, soft: &mut Switch, now: Slot, horizon: usize) -> Result<(), TestCaseError> {
    for host in 0..HOSTS {
        let host = HostId(host);
        for (switch, from_arrival) in [(&mut *exact, true), (&mut *soft, false)] {
            let seen = switch.feedback(now, host);
            prop_assert!(seen.is_some() || !model.spoke(now, host), "host {host} spoke just now and hears nothing");
            let Some(seen) = seen else { continue };
            for view in &seen.links {
                let expected: Vec<u64> =
                    (0..horizon as i32).map(|ahead| model.load(now, view.link, ahead, host, from_arrival)).collect();
                let got: Vec<u64> = view.load.iter().map(|rate| rate.0).collect();
                prop_assert_eq!(got, expected, "host {} link {} slot {} exact {}", host, view.link, now, from_arrival);
            }
        }
    }
    Ok(())
}

fn run(start: u32, horizon: usize, slots: &[Vec<Deed>]) -> Result<(), TestCaseError> {
    let links: Vec<LinkConfig> = (0..LINKS)
        .map(|n| LinkConfig { link: link(n), capacity: Rate::mbps(60_000), ..LinkConfig::default() })
        .collect();
    let limits = Limits { horizon, ..Limits::default() };
    let mut exact = Switch::new(BootId(1), limits.clone(), &links);
    let mut soft = Switch::with_table(BootId(1), limits, &links, TableKind::DoubleBuffer);
    let mut model = Model { horizon, newest: Vec::new() };
    let mut seq = [0_u64; HOSTS as usize];
    let mut boot = [1_u64; HOSTS as usize];
    let mut late: Vec<(u8, Announcement)> = Vec::new();
    for (n, deeds) in slots.iter().enumerate() {
        let now = Slot(start.wrapping_add(n as u32));
        let mut arrivals = std::mem::take(&mut late);
        for (host, deed) in deeds.iter().enumerate() {
            let flows = match &deed.what {
                What::Announce(flows) => flows,
                What::Silent => continue,
                What::Restart => {
                    (boot[host], seq[host]) = (boot[host] + 1, 0);
                    continue;
                }
            };
            seq[host] += 1;
            let message = announcement(host as u32, boot[host], seq[host], now, flows);
            arrivals.extend(deed.copies.iter().map(|&order| (order, message.clone())));
            late.extend(deed.late.map(|order| (order, message)));
        }
        arrivals.sort_by_key(|(order, _)| *order);
        exact.expire(now);
        soft.expire(now);
        check(&model, &mut exact, &mut soft, now, horizon)?;
        for (_, message) in arrivals {
            model.apply(now, &message);
            exact.announce(now, &message);
            soft.announce(now, &message);
            check(&model, &mut exact, &mut soft, now, horizon)?;
        }
    }
    // Everybody silent: nothing is left two slots later, and both tables are empty.
    let end = Slot(start.wrapping_add(slots.len() as u32 + 2));
    for switch in [&mut exact, &mut soft] {
        switch.expire(end);
        prop_assert_eq!(switch.hosts().count(), 0);
        for load in switch.links() {
            prop_assert!(load.load.iter().all(|rate| *rate == Rate::ZERO));
        }
    }
    Ok(())
}

#[test]
fn planted_faults_of_the_registers_are_noticed() {
    let periods: Vec<Vec<Packet>> = (0..8_u16)
        .map(|n| (0..2_u16).map(|flow| ((0..5).map(|i| 100 * n + 10 * flow + i).collect(), 1, 0)).collect())
        .collect();
    assert!(run_registers(7, 5, &periods, None).is_ok());
    for wrong in [Wrong::Rotation, Wrong::WrapLane, Wrong::Previous] {
        assert!(run_registers(7, 5, &periods, Some(wrong)).is_err(), "{wrong:?}");
    }
}

#[test]
fn the_flows_of_this_test_do_not_collide() {
    let mut places: Vec<u32> = (0..HOSTS)
        .flat_map(|host| (0..FLOWS).map(move |local| FlowId((u64::from(host) << 32) | u64::from(local))))
        .flat_map(|flow| {
            (0..LINKS).map(move |link| SoftTable::hashes(flow, link).0 % SoftTable::DEDUPE_REGISTERS as u32)
        })
        .collect();
    places.sort_unstable();
    assert!(places.windows(2).all(|pair| pair[0] != pair[1]));
}

/// Faults of a pipeline that the model must notice.
#[derive(Clone, Copy, Debug)]
enum Wrong {
    /// Lanes are rotated by one too many from some period on.
    Rotation,
    /// The farthest slot's lane is treated like all others.
    WrapLane,
    /// What was announced before is not taken off.
    Previous,
}

/// One flow's packets of one period, straight to the registers: values per lane offset, copies, and late copies.
type Packet = (Vec<u16>, u8, u8);

/// The registers alone against the newest counted packet of each flow, with the order of copies as given.
fn run_registers(
    start: u32,
    horizon: usize,
    periods: &[Vec<Packet>],
    wrong: Option<Wrong>,
) -> Result<(), TestCaseError> {
    let mut registers = DoubleBuffer::new(1, horizon, 1 << 10);
    registers.prime(Slot(start));
    let base = (1_u64 << 32) | u64::from(start);
    let lane = |slot: u64| (slot % horizon as u64) as usize;
    let wrap = |period: u64| match wrong {
        Some(Wrong::WrapLane) => horizon,
        _ => lane(period + horizon as u64 - 1),
    };
    let in_lanes = |period: u64, values: &[u16]| {
        let mut lanes = vec![0; horizon];
        values.iter().enumerate().for_each(|(ahead, &value)| lanes[lane(period + ahead as u64)] = value);
        lanes
    };
    let flows = periods.first().map_or(0, Vec::len);
    let nothing = vec![0; horizon];
    let mut counted: Vec<Option<(u64, Vec<u16>)>> = vec![None; flows];
    let mut late: Vec<(usize, u64)> = Vec::new();
    let values = |flow: usize, period: u64| -> &[u16] {
        period.checked_sub(base).and_then(|n| periods.get(n as usize)).map_or(&nothing[..], |all| &all[flow].0)
    };
    for (n, packets) in periods.iter().enumerate() {
        let now = base + n as u64;
        let mut arrivals = std::mem::take(&mut late);
        for (flow, (_, copies, behind)) in packets.iter().enumerate() {
            arrivals.extend((0..*copies).map(|_| (flow, now)));
            late.extend((0..*behind).map(|_| (flow, now)));
        }
        // Late packets sometimes before, sometimes after the period's own.
        if n % 2 == 1 {
            arrivals.reverse();
        }
        for (flow, period) in arrivals {
            let lanes = Lanes {
                period: Slot(period as u32),
                wrap: wrap(period),
                new: &match wrong {
                    Some(Wrong::Rotation) if n > 3 => in_lanes(period + 1, values(flow, period)),
                    _ => in_lanes(period, values(flow, period)),
                },
                previous: &match wrong {
                    Some(Wrong::Previous) => nothing.clone(),
                    _ => in_lanes(period - 1, values(flow, period - 1)),
                },
            };
            let sighting = registers.announce(0, flow as u32, flow as u32 + 1, lanes);
            let news = counted[flow].as_ref().is_none_or(|(last, _)| *last < period);
            prop_assert_eq!(sighting != Sighting::Duplicate, news);
            if news {
                counted[flow] = Some((period, values(flow, period).to_vec()));
            }
            for ahead in 0..horizon as u64 {
                let live = counted.iter().flatten().filter(|(period, _)| now - period < 2);
                let expected: i32 = live
                    .map(|(period, values)| values.get((now + ahead - period) as usize).map_or(0, |&v| i32::from(v)))
                    .sum();
                let got = registers.read(0, lane(now + ahead), Slot(now as u32), wrap(now));
                prop_assert_eq!(got, expected, "period {} ahead {}", n, ahead);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 384, failure_persistence: None, ..ProptestConfig::default() })]

    /// Promises: P-12, P-37
    #[test]
    fn both_tables_equal_the_naive_model(
        start in prop_oneof![Just(0_u32), Just(u32::MAX - 7), Just((1 << 31) - 7), any::<u32>()],
        (horizon, slots) in (3_usize..=6).prop_flat_map(|horizon| (Just(horizon), slots(horizon))),
    ) {
        run(start, horizon, &slots)?;
    }

    #[test]
    fn without_late_messages_both_tables_are_equal(
        (horizon, mut slots) in (3_usize..=10).prop_flat_map(|horizon| (Just(horizon), slots(horizon))),
    ) {
        slots.iter_mut().flatten().for_each(|deed| deed.late = None);
        run(u32::MAX - 11, horizon, &slots)?;
    }

    #[test]
    fn registers_alone_stand_copies_that_come_late(
        start in prop_oneof![Just(0_u32), Just(u32::MAX - 9), any::<u32>()],
        (horizon, periods) in (3_usize..=6).prop_flat_map(|horizon| {
            let packet = (prop::collection::vec(0..500_u16, horizon), 0..3_u8, prop_oneof![3 => Just(0_u8), 1 => 1..3_u8]);
            (Just(horizon), prop::collection::vec(prop::collection::vec(packet, 3), 1..24))
        }),
    ) {
        run_registers(start, horizon, &periods, None)?;
    }

    #[test]
    fn no_bytes_of_a_message_hurt_a_holder(
        slot in any::<u32>(), ahead in -3_i32..=3, seq in any::<u64>(), boot in 0..3_u64, host in 0..6_u32,
        sender in 0..6_u32, rates in prop::collection::vec(any::<u64>(), 0..20), n in 0..4_u32, soft in any::<bool>(),
    ) {
        let kind = if soft { TableKind::DoubleBuffer } else { TableKind::Exact };
        let config = LinkConfig { link: link(0), capacity: Rate(u64::MAX), cross: Rate(u64::MAX), attached: None };
        let mut switch = Switch::with_table(BootId(1), Limits { hosts: 2, ..Limits::default() }, &[config], kind);
        for round in 0..3 {
            let flow = FlowPromise {
                flow: FlowId(u64::from(sender) << 32),
                rates: rates.iter().map(|&rate| Rate(rate)).collect(),
                links: vec![link(n); 2],
                ..FlowPromise::default()
            };
            let message = Announcement {
                host: HostId(host + round), boot: BootId(boot), seq, slot: Slot(slot).offset(ahead),
                flows: vec![flow.clone(), flow], watch: vec![link(n); 3], measured: vec![(link(n), Rate(seq))],
                ..Announcement::default()
            };
            switch.announce(Slot(slot).offset(round as i32), &message);
            prop_assert!(switch.hosts().count() <= 2);
            switch.take_stale();
        }
    }
}
