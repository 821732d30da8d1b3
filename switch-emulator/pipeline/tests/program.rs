//! The text of `sluice.p4` against the Rust: constants, and where each field of the wire format lies. Reads declarations
//! by hand; that the program means what the twin does is for its compiler and the vectors to show.

use std::collections::HashMap;

use sluice_pipeline::{PORTS, Reason, SEEN, UDP_PORT};
use sluice_schedule::table::cell::LATE_WINDOW;
use sluice_schedule::{FlowId, Slot};
use sluice_wire::udp::{
    DUPLICATE, GUARD, Kind, LANES, LENGTH, Lane, MAGIC, MAX_UNIT, Packet, SATURATED, Tuple, VERSION,
};

const PROGRAM: &str = include_str!("../../p4/sluice.p4");

/// Declarations of the text, without remarks.
struct Program {
    constants: HashMap<String, u64>,
    headers: HashMap<String, Vec<Field>>,
}

#[derive(Clone, Debug, PartialEq)]
struct Field {
    name: String,
    bits: usize,
    /// Bits before it in its header.
    at: usize,
}

fn number(text: &str) -> Option<u64> {
    text.strip_prefix("0x").map_or_else(|| text.parse().ok(), |hex| u64::from_str_radix(hex, 16).ok())
}

/// `bit<16>` and `int<16>` are 16.
fn width(text: &str) -> Option<usize> {
    let inner = text.strip_prefix("bit<").or_else(|| text.strip_prefix("int<"))?;
    inner.strip_suffix('>')?.parse().ok()
}

fn read(text: &str) -> Program {
    let mut program = Program { constants: HashMap::new(), headers: HashMap::new() };
    let mut header: Option<(String, Vec<Field>)> = None;
    for line in text.lines() {
        let line = line.split("//").next().unwrap_or_default().trim();
        let words: Vec<&str> = line.trim_end_matches([';', '{']).split_whitespace().collect();
        match (&mut header, words.as_slice()) {
            (None, ["const", _, name, "=", value]) | (None, ["#define", name, value]) => {
                if let Some(value) = number(value) {
                    program.constants.insert((*name).into(), value);
                }
            }
            (None, ["header", name]) => header = Some(((*name).into(), Vec::new())),
            (Some(_), ["}"]) => program.headers.extend(header.take()),
            (Some((_, fields)), [of, name]) => {
                let at = fields.last().map_or(0, |last: &Field| last.at + last.bits);
                fields.push(Field { name: (*name).into(), bits: width(of).expect("a width"), at });
            }
            (Some(_), []) | (None, _) => {}
            (Some((name, _)), other) => panic!("{other:?} in header {name}"),
        }
    }
    program
}

#[test]
fn constants_are_those_of_the_twin() {
    let constants = read(PROGRAM).constants;
    let expected = [
        ("SLUICE_PORT", u64::from(UDP_PORT)),
        ("MAGIC", MAGIC.into()),
        ("VERSION", VERSION.into()),
        ("PROBE", 1),
        ("ANNOUNCE", 2),
        ("LANES", LANES as u64),
        ("MAX_UNIT", MAX_UNIT.into()),
        ("UDP_LENGTH", 8 + LENGTH as u64),
        ("DUPLICATE", DUPLICATE.into()),
        ("GUARD", GUARD.into()),
        ("SATURATED", SATURATED.into()),
        ("LATE_WINDOW", LATE_WINDOW.into()),
        ("MAX_LOAD", i32::MAX as u64),
        ("PORTS", PORTS.into()),
        ("SEEN", SEEN as u64),
    ];
    for (name, value) in expected {
        assert_eq!(constants.get(name), Some(&value), "{name}");
    }
    assert!(PROGRAM.contains(&format!("counter({}, CounterType.packets) drops;", Reason::ALL.len())));
    assert!(PROGRAM.contains(&format!("lane_t[{LANES}] lanes;")));
    for lane in 0..LANES {
        for part in [format!("CELLS({lane})"), format!("LANE({lane})"), format!("extract(hdr.lanes[{lane}])")] {
            assert_eq!(PROGRAM.matches(&part).count(), 1, "{part}");
        }
    }
}

fn empty() -> Packet {
    let tuple = Tuple {
        source: [0; 4].into(),
        destination: [0; 4].into(),
        source_port: 0,
        destination_port: 0,
        protocol: 0,
        cookie: 0,
    };
    Packet {
        kind: Kind::Probe,
        flags: 0,
        unit: 0,
        hops: 0,
        counted: 0,
        flow: FlowId(0),
        slot: Slot(0),
        seq: 0,
        had_previous: 0,
        wrap: 0,
        path_sig: 0,
        tuple,
        lanes: [Lane::default(); LANES],
    }
}

/// A field's name, and how a packet gets the largest value in it that all others leave alone.
type Fill = (&'static str, fn(&mut Packet));

/// Bits that change if the field does, as (first, one past the last), over the whole packet.
fn changed(fill: fn(&mut Packet)) -> (usize, usize) {
    let (before, mut packet) = (empty().encode(), empty());
    fill(&mut packet);
    let after = packet.encode();
    let bits: Vec<usize> =
        (0..8 * LENGTH).filter(|bit| (before[bit / 8] ^ after[bit / 8]) >> (7 - bit % 8) & 1 == 1).collect();
    (bits[0], bits[bits.len() - 1] + 1)
}

#[test]
fn fields_lie_where_the_wire_has_them() {
    let headers = read(PROGRAM).headers;
    let sluice: &[Fill] = &[
        ("flags", |p| p.flags = 0xff),
        ("unit", |p| p.unit = 0x10),
        ("hops", |p| p.hops = 0xff),
        ("counted", |p| p.counted = 0xff),
        ("flow", |p| p.flow = FlowId(u64::MAX)),
        ("slot", |p| p.slot = Slot(u32::MAX)),
        ("seq", |p| p.seq = u16::MAX),
        ("had_previous", |p| p.had_previous = 0xff),
        ("wrap", |p| p.wrap = 9),
        ("path_sig", |p| p.path_sig = u32::MAX),
        ("source", |p| p.tuple.source = [0xff; 4].into()),
        ("destination", |p| p.tuple.destination = [0xff; 4].into()),
        ("source_port", |p| p.tuple.source_port = u16::MAX),
        ("destination_port", |p| p.tuple.destination_port = u16::MAX),
        ("protocol", |p| p.tuple.protocol = 0xff),
        ("cookie", |p| p.tuple.cookie = 0x00ff_ffff),
    ];
    let head = &headers["sluice_t"];
    let whole = |field: &Field| (field.at, field.at + field.bits);
    for (name, fill) in sluice {
        let field = head.iter().find(|field| field.name == *name).unwrap_or_else(|| panic!("{name}"));
        let (first, end) = changed(*fill);
        let (from, to) = whole(field);
        assert!(from <= first && end <= to, "{name}: bits {first} to {end} on the wire, {from} to {to} in the program");
        if !matches!(*name, "unit" | "wrap") {
            assert_eq!((first, end), (from, to), "{name}");
        }
    }
    // The rest of the head has one value only.
    let named: Vec<&str> = head.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(named[..4], ["magic", "version", "kind", "flags"]);
    assert_eq!((named[4], head.len()), ("lanes", sluice.len() + 4));
    let bits = head.last().map_or(0, |last| last.at + last.bits);

    let lane: &[Fill] = &[
        ("new", |p| p.lanes[0].new = u16::MAX),
        ("previous", |p| p.lanes[0].previous = u16::MAX),
        ("load_sum", |p| p.lanes[0].load_sum = -1),
        ("headroom", |p| p.lanes[0].headroom = u16::MAX),
    ];
    let lanes = &headers["lane_t"];
    assert_eq!(lanes.len(), lane.len());
    for ((name, fill), field) in lane.iter().zip(lanes) {
        assert_eq!(*name, field.name);
        assert_eq!(changed(*fill), (bits + field.at, bits + field.at + field.bits), "{name}");
    }
    let of_lane = lanes.last().map_or(0, |last| last.at + last.bits);
    assert_eq!(bits + LANES * of_lane, 8 * LENGTH);
}

#[test]
fn no_block_has_a_name_that_v1model_has() {
    // The types of its package's parameters, which it declares itself.
    let taken = ["Parser", "VerifyChecksum", "Ingress", "Egress", "ComputeChecksum", "Deparser"];
    let name = |line: &str| {
        let rest = line.strip_prefix("control ").or_else(|| line.strip_prefix("parser "))?;
        rest.split_once('(').map(|(name, _)| name.to_owned())
    };
    let names: Vec<String> = PROGRAM.lines().filter_map(name).collect();
    assert_eq!(names.len(), 6, "{names:?}");
    assert!(names.iter().all(|name| !taken.contains(&name.as_str())), "{names:?}");
}

#[test]
fn a_program_that_has_drifted_is_seen() {
    let moved =
        PROGRAM.replace("    bit<16> seq;\n    bit<8>  had_previous;", "    bit<8>  had_previous;\n    bit<16> seq;");
    assert_ne!(moved, PROGRAM);
    assert_ne!(read(&moved).headers["sluice_t"], read(PROGRAM).headers["sluice_t"]);
    let other = PROGRAM.replace("const bit<32> LATE_WINDOW = 3;", "const bit<32> LATE_WINDOW = 4;");
    assert_eq!(read(&other).constants["LATE_WINDOW"], 4);
}
