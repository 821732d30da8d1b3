//! Datagrams in band: what is answered to whom, and what a flood of them costs.

use std::path::Path;

use sluice_wire::udp::{Lane, NO_HOP_YET, Tuple};

use super::*;

fn set_up(table: &str) -> (Tables, Pipeline) {
    let text = format!(
        "open = true\nunauthenticated = true\ntable = \"{table}\"\n[[switches]]\nname = \"s0\"\nports = [{{ id = 0, to = \"h0\", gbps = 10, routes = [\"10.0.0.1\"] }}, {{ id = 1, to = \"h1\", gbps = 10, routes = [\"10.0.0.2\"] }}]\n"
    );
    let config = Config::parse(Path::new("test.toml"), &text).unwrap();
    (Tables::new(&config, BootId(1), None), Pipeline::new(&config, BootId(1)))
}

/// The switch's slot in these tests, near the end of the circle.
const NOW: Slot = Slot(u32::MAX);

/// A flow of `host` to 10.0.0.2 that announces `value` Mbit/s for all ten slots.
fn packet(kind: Kind, host: &str, value: u16, slot: Slot) -> Packet {
    Packet {
        kind,
        flags: 0,
        unit: 0,
        hops: 0,
        counted: 0,
        flow: FlowId(u64::from(HostId::of(host).0) << 32 | 7),
        slot,
        seq: 9,
        had_previous: 0,
        wrap: ((u64::from(slot.0) + 9) % 10) as u8,
        path_sig: 0,
        tuple: Tuple {
            source: [10, 0, 0, 1].into(),
            destination: [10, 0, 0, 2].into(),
            source_port: 1,
            destination_port: 2,
            protocol: 6,
            cookie: 0,
        },
        lanes: [Lane { new: value, headroom: NO_HOP_YET, ..Lane::default() }; LANES],
    }
}

fn send(tables: &Tables, pipeline: &mut Pipeline, packet: Packet) -> Packet {
    let answer = pipeline.answer_at(tables, NOW, [10, 0, 0, 1].into(), &packet.encode()).unwrap();
    Packet::decode(&answer).unwrap()
}

#[test]
fn announcements_add_up_and_repeats_do_not() {
    for table in ["exact", "double-buffer"] {
        let (tables, mut pipeline) = set_up(table);
        let slot = NOW;
        let first = send(&tables, &mut pipeline, packet(Kind::Announce, "h0", 1000, slot));
        assert_eq!((first.kind, first.hops, first.counted, first.had_previous), (Kind::Echo, 1, 1, 0));
        assert_ne!(first.path_sig, 0);
        let again = send(&tables, &mut pipeline, packet(Kind::Announce, "h0", 1000, slot));
        assert_eq!((again.flags, again.counted), (DUPLICATE, 1));
        let other = send(&tables, &mut pipeline, packet(Kind::Announce, "h9", 500, slot));
        let lane = other.lanes[other.lane_of(0)];
        assert_eq!(lane.load_sum, 1500, "{table}");
        assert_eq!(lane.headroom, 9564 - 1500, "{table}");
    }
}

#[test]
fn a_probe_reads_and_counts_nothing() {
    let (tables, mut pipeline) = set_up("exact");
    let slot = NOW;
    send(&tables, &mut pipeline, packet(Kind::Announce, "h0", 100, slot));
    for _ in 0..3 {
        let read = send(&tables, &mut pipeline, packet(Kind::Probe, "h9", 7, slot));
        assert_eq!((read.counted, read.lanes[read.lane_of(1)].load_sum), (0, 100));
    }
}

#[test]
fn the_guard_refuses_and_the_table_stays() {
    let (tables, mut pipeline) = set_up("exact");
    let slot = NOW;
    let far = send(&tables, &mut pipeline, packet(Kind::Announce, "h0", 100, slot.offset(5)));
    assert_eq!((far.flags, far.counted, far.hops), (GUARD, 0, 1));
    assert_eq!(far.lanes[0].headroom, NO_HOP_YET);
    let read = send(&tables, &mut pipeline, packet(Kind::Probe, "h9", 0, slot));
    assert_eq!(read.lanes[read.lane_of(1)].load_sum, 0);
}

#[test]
fn the_slot_before_is_recognised() {
    let (tables, mut pipeline) = set_up("exact");
    let slot = NOW;
    send(&tables, &mut pipeline, packet(Kind::Announce, "h0", 100, slot));
    let next = send(&tables, &mut pipeline, packet(Kind::Announce, "h0", 300, slot.offset(1)));
    assert_eq!((next.counted, next.had_previous), (1, 1));
    let read = send(&tables, &mut pipeline, packet(Kind::Probe, "h9", 0, slot.offset(1)));
    assert_eq!(read.lanes[read.lane_of(1)].load_sum, 300);
}

#[test]
fn garbage_and_strangers_get_no_answer() {
    let (tables, mut pipeline) = set_up("exact");
    let malformed = Err(Unanswered::Malformed);
    assert_eq!(pipeline.answer_at(&tables, NOW, [10, 0, 0, 1].into(), b"hello"), malformed);
    let echo = packet(Kind::Echo, "h0", 1, NOW).encode();
    assert_eq!(pipeline.answer_at(&tables, NOW, [10, 0, 0, 1].into(), &echo), malformed);
    pipeline.peers = vec![sluice_formats::network::parse("10.0.0.0/24").unwrap()];
    let probe = packet(Kind::Probe, "h0", 1, NOW).encode();
    for bytes in [probe.as_slice(), b"hello"] {
        assert_eq!(pipeline.answer_at(&tables, NOW, [10, 0, 1, 1].into(), bytes), Err(Unanswered::Network));
    }
    assert!(pipeline.answer_at(&tables, NOW, [10, 0, 0, 9].into(), &probe).is_ok());
}

#[test]
fn an_address_that_floods_is_cut_off() {
    let (tables, mut pipeline) = set_up("exact");
    let probe = packet(Kind::Probe, "h0", 1, NOW).encode();
    pipeline.meters.began = sluice_clock::monotonic();
    pipeline.meters.sources.insert([10, 0, 0, 1].into(), PACKETS);
    assert_eq!(pipeline.answer_at(&tables, NOW, [10, 0, 0, 1].into(), &probe), Err(Unanswered::Flood));
    assert!(pipeline.answer_at(&tables, NOW, [10, 0, 0, 2].into(), &probe).is_ok());
}

#[test]
fn sources_that_are_made_up_share_one_meter_and_take_no_room() {
    let mut meters = Meters { most: 64, ..Meters::default() };
    let now = Nanos::from_millis(5_000);
    let source = |n: u32| IpAddr::from(n.to_be_bytes());
    let taken = (0..64 + PACKETS + 1000).filter(|n| meters.take(now, source(*n))).count();
    assert_eq!(taken, 64 + PACKETS as usize);
    assert_eq!(meters.sources.len(), 64);
    assert!(meters.take(now, source(3)), "who was there first has its own");
    assert!(meters.take(now.plus(Nanos::from_millis(1_001)), source(u32::MAX)), "a second later all begin anew");
}

#[test]
fn an_address_does_not_announce_in_a_name_that_is_in_use_from_another() {
    let (tables, mut pipeline) = set_up("exact");
    send(&tables, &mut pipeline, packet(Kind::Announce, "h0", 100, NOW));
    let lie = packet(Kind::Announce, "h0", 9000, NOW.offset(1)).encode();
    assert_eq!(pipeline.answer_at(&tables, NOW, [10, 0, 0, 9].into(), &lie), Err(Unanswered::Impostor));
    let read = send(&tables, &mut pipeline, packet(Kind::Probe, "h9", 0, NOW));
    assert_eq!(read.lanes[read.lane_of(1)].load_sum, 100);
    assert_eq!(tables.lock().speakers.impostors, 1);
}

#[test]
fn what_a_host_announces_flow_by_flow_is_no_more_than_its_cable() {
    let (tables, mut pipeline) = set_up("exact");
    for flow in 0..4 {
        let mut packet = packet(Kind::Announce, "h0", 9000, NOW);
        packet.flow = FlowId(packet.flow.0 + flow);
        let echo = send(&tables, &mut pipeline, packet);
        assert_eq!(echo.counted, 1, "scaled down and not refused");
    }
    let read = send(&tables, &mut pipeline, packet(Kind::Probe, "h9", 0, NOW));
    let load = read.lanes[read.lane_of(0)].load_sum;
    // 10 Gbit/s on the wire, rounded up to whole units.
    assert!((9_500..=9_565).contains(&load), "{load}");
}
