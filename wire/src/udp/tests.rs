//! Packets against the vectors that the P4 program is held to, and any bytes as packets.

use proptest::prelude::*;
use serde_json::Value;

use super::*;

prop_compose! {
    fn packet()(
        (flags, hops, counted, had_previous) in any::<(u8, u8, u8, u8)>(),
        kind in prop::sample::select(vec![Kind::Probe, Kind::Announce, Kind::Echo]),
        unit in 0..=MAX_UNIT, wrap in 0..LANES as u8,
        (flow, slot, seq, path_sig) in any::<(u64, u32, u16, u32)>(),
        (source, destination, source_port, destination_port) in any::<(u32, u32, u16, u16)>(),
        protocol in any::<u8>(), cookie in 0_u32..1 << 24,
        lanes in any::<[(u16, u16, i32, u16); LANES]>(),
    ) -> Packet {
        let tuple = Tuple {
            source: source.into(), destination: destination.into(), source_port, destination_port, protocol, cookie,
        };
        let lanes = lanes.map(|(new, previous, load_sum, headroom)| Lane { new, previous, load_sum, headroom });
        let (flow, slot) = (FlowId(flow), Slot(slot));
        Packet { kind, flags, unit, hops, counted, flow, slot, seq, had_previous, wrap, path_sig, tuple, lanes }
    }
}

proptest! {
    #[test]
    fn packets_survive_the_wire(packet in packet()) {
        prop_assert_eq!(Packet::decode(&packet.encode()), Ok(packet));
    }
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("{key}"))
}

fn read_vector(vector: &Value) -> (Vec<u8>, Packet) {
    let hex = vector["bytes"].as_str().unwrap();
    let bytes = (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect();
    let kind = match vector["type"].as_str().unwrap() {
        "probe" => Kind::Probe,
        "announce" => Kind::Announce,
        _ => Kind::Echo,
    };
    let n = |key: &str| number(vector, key);
    let tuple = Tuple {
        source: vector["source"].as_str().unwrap().parse().unwrap(),
        destination: vector["destination"].as_str().unwrap().parse().unwrap(),
        source_port: n("source_port") as u16,
        destination_port: n("destination_port") as u16,
        protocol: n("protocol") as u8,
        cookie: n("cookie") as u32,
    };
    let mut lanes = [Lane::default(); LANES];
    for (lane, value) in lanes.iter_mut().zip(vector["lanes"].as_array().unwrap()) {
        *lane = Lane {
            new: value[0].as_u64().unwrap() as u16,
            previous: value[1].as_u64().unwrap() as u16,
            load_sum: value[2].as_i64().unwrap() as i32,
            headroom: value[3].as_u64().unwrap() as u16,
        };
    }
    let packet = Packet {
        kind,
        flags: n("flags") as u8,
        unit: n("unit") as u8,
        hops: n("hops") as u8,
        counted: n("counted") as u8,
        flow: FlowId(u64::from_str_radix(vector["flow"].as_str().unwrap(), 16).unwrap()),
        slot: Slot(n("slot") as u32),
        seq: n("seq") as u16,
        had_previous: n("had_previous") as u8,
        wrap: n("wrap") as u8,
        path_sig: n("path_sig") as u32,
        tuple,
        lanes,
    };
    (bytes, packet)
}

#[test]
fn golden_vectors_hold() {
    let text = include_str!("../../vectors/udp-v1.json");
    let vectors: Vec<Value> = serde_json::from_str(text).unwrap();
    assert!(vectors.len() >= 5);
    for vector in &vectors {
        let (bytes, packet) = read_vector(vector);
        assert_eq!(Packet::decode(&bytes), Ok(packet), "{}", vector["name"]);
        assert_eq!(packet.encode().as_slice(), bytes, "{}", vector["name"]);
    }
}

#[test]
fn what_is_not_a_packet_is_refused() {
    let vectors: Vec<Value> = serde_json::from_str(include_str!("../../vectors/udp-v1.json")).unwrap();
    let good: [u8; LENGTH] = read_vector(&vectors[0]).0.try_into().unwrap();
    assert_eq!(Packet::decode(&good[..LENGTH - 1]), Err(Malformed::Length(LENGTH - 1)));
    let with = |at: usize, value: u8| {
        let mut bytes = good;
        bytes[at] = value;
        Packet::decode(&bytes)
    };
    assert_eq!(with(0, 0), Err(Malformed::Format { magic: 0x4c, version: 1 }));
    assert_eq!(with(2, 0x22), Err(Malformed::Format { magic: MAGIC, version: 2 }));
    assert_eq!(with(2, 0x14), Err(Malformed::Kind(4)));
    assert_eq!(with(4, 11), Err(Malformed::Lanes(11)));
    assert_eq!(with(5, 17), Err(Malformed::Unit(17)));
    assert_eq!(with(23, 10), Err(Malformed::Wrap(10)));
}

#[test]
fn hops_add_loads_and_keep_the_least_room() {
    let vectors: Vec<Value> = serde_json::from_str(include_str!("../../vectors/udp-v1.json")).unwrap();
    let (_, mut packet) = read_vector(&vectors[0]);
    packet.lanes[3] = Lane { headroom: NO_HOP_YET, ..Lane::default() };
    packet.add_hop(3, Rate(1_000_001), Rate(9_999_999));
    packet.add_hop(3, Rate(5_000_000), Rate(20_000_000));
    assert_eq!((packet.lanes[3].load_sum, packet.lanes[3].headroom), (7, 9));
    packet.add_hop(3, Rate::MAX, Rate::ZERO);
    assert_eq!((packet.lanes[3].load_sum, packet.lanes[3].headroom), (i32::MAX, 0));
    assert_ne!(packet.flags & SATURATED, 0);
    packet.wrap = 9;
    assert_eq!((packet.lane_of(0), packet.lane_of(9)), (0, 9));
}
