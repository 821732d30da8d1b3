//! F2, F22, F24 and F36: what travels in band, at hosts, in the pipeline and in the kernel's program in front of it; and the text of
//! tables.

use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::process::Command;

use sluice_data_plane::fuzz::{Fate, Program};
use sluice_pipeline::control::{Statement, statements};
use sluice_pipeline::vectors::{Story, stories};
use sluice_pipeline::{PORTS, Reason, Switch, UDP_PORT, Verdict, frame};
use sluice_schedule::{FlowId, Slot};
use sluice_wire::udp::{Kind, LANES, LENGTH, MAGIC, MAX_UNIT, Packet, Tuple, VERSION};

use crate::mutate::Shape;
use crate::{Seed, Target};

/// A port, a byte that says whether the header's checksum is to be right, a frame.
pub static UDP: Target = Target {
    name: "F02-udp",
    parser: "UDP packets of version 1 at a host; any frame at any port of the switch pipeline",
    property: "a packet that is read is written byte for byte; no length changes; a frame changes in the documented bytes only, one that is not ours in addresses, time to live and checksum",
    shape: Shape::Bytes,
    run: udp,
    seeds: udp_seeds,
};

/// Source, destination, and the packet of a datagram that a host could send.
pub static IN_BAND: Target = Target {
    name: "F22-in-band",
    parser: "the vector in a datagram over several switches, from a host to a host",
    property: "checksums stay right at every hop, lengths stay, and the receiver reads what was announced",
    shape: Shape::Bytes,
    run: in_band,
    seeds: in_band_seeds,
};

/// As F2, without the port.
pub static PROGRAM: Target = Target {
    name: "F24-switch-program",
    parser: "the kernel's forwarding program, run on frames (BPF_PROG_TEST_RUN)",
    property: "it sends what the pipeline sends, by the same port; what is ours or not to be forwarded it leaves as it came",
    shape: Shape::Bytes,
    run: program,
    seeds: program_seeds,
};

/// Lines of statements, and stories of frames.
pub static TABLES: Target = Target {
    name: "F36-switch-tables",
    parser: "table files of the data plane, and stories of frames",
    property: "a statement that is read is written so that it is read the same; a mistake names its line",
    shape: Shape::Text(&[
        "route",
        "member",
        "edge",
        "link",
        "guard",
        "restart",
        "via",
        "group",
        "size",
        "seed",
        "capacity",
        "unit",
        "signature",
        "in",
        "out",
        "drop",
        "0x",
    ]),
    run: tables,
    seeds: tables_seeds,
};

/// Nested prefixes, a group with an empty bucket, an edge, links, a port that only the pipeline has.
const ENTRIES: &str = "\
route 10.0.0.0/8 via 1 02:00:00:00:01:01 02:00:00:00:00:01
route 10.1.0.0/16 group 7 size 3 seed 99
route 10.1.2.0/24 via 2 02:00:00:00:02:01 02:00:00:00:00:02
route 192.168.0.0/16 group 9 size 1 seed 0
route 172.16.0.0/12 via 9 02:00:00:00:09:01 02:00:00:00:00:09
member 7 0 via 1 02:00:00:00:01:07 02:00:00:00:00:01
member 7 1 via 2 02:00:00:00:02:07 02:00:00:00:00:02
member 9 0 via 3 02:00:00:00:04:09 02:00:00:00:00:04
edge 4 10.0.0.1/32
link 1 capacity 500 unit 0 signature 0xabcdef01
link 2 capacity 9000 unit 1 signature 0x00000002
guard 1000
";
/// Ports of the kernel's program; the tables name one beyond.
const KERNEL_PORTS: u16 = 5;
/// Where a frame's IPv4 header, its datagram's checksum and its payload are.
const IP: std::ops::Range<usize> = 14..34;
const UDP_CHECKSUM: std::ops::Range<usize> = 40..42;
const PAYLOAD: usize = 42;

fn entries() -> impl Iterator<Item = Statement> {
    statements(ENTRIES).map(|(_, statement)| statement.expect("a statement of ours"))
}

fn switch() -> Switch {
    let mut switch = Switch::new(UDP_PORT);
    entries().for_each(|statement| statement.apply(&mut switch));
    switch
}

thread_local! {
    // Its registers are large; what must hold does so whatever they hold.
    static SWITCH: RefCell<Switch> = RefCell::new(switch());
    static IN_KERNEL: RefCell<Result<(Program, Switch), String>> = RefCell::new(in_kernel());
}

/// The frame in these bytes, with the checksum that its header should have if the first of them is odd.
fn frame_of(bytes: &[u8]) -> Option<Vec<u8>> {
    let (right, frame) = bytes.split_first()?;
    let mut frame = frame.to_vec();
    if right % 2 == 1
        && let Some(header) = frame.get_mut(IP)
    {
        header[10..12].fill(0);
        let sum = frame::checksum(header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    Some(frame)
}

fn udp(bytes: &[u8]) {
    if let Ok(packet) = Packet::decode(bytes) {
        assert_eq!(packet.encode().as_slice(), bytes, "what is read is written again");
        assert!(usize::from(packet.wrap) < LANES && packet.unit <= MAX_UNIT);
        assert!((0..LANES).all(|ahead| packet.lane_of(ahead) < LANES));
    }
    let Some((port, rest)) = bytes.split_first() else { return };
    let Some(frame) = frame_of(rest) else { return };
    SWITCH.with_borrow_mut(|switch| drop(passes(switch, u16::from(*port) % PORTS, &frame)));
}

/// Takes a frame through the switch and holds it against what may change; the frame as it leaves, if it does.
fn passes(switch: &mut Switch, port: u16, before: &[u8]) -> Option<Vec<u8>> {
    let mut after = before.to_vec();
    let Verdict::Forward { port, answered } = switch.process(port, &mut after) else {
        assert_eq!(after, before, "what is dropped is left alone");
        return None;
    };
    assert!(port < PORTS);
    assert_eq!(after.len(), before.len());
    assert_eq!(frame::checksum(&after[IP]), 0, "the header's checksum is right");
    let mut expected = before.to_vec();
    expected[..12].copy_from_slice(&after[..12]);
    expected[22] = before[22] - 1;
    expected[24..26].copy_from_slice(&after[24..26]);
    if answered {
        let packet = |frame: &[u8]| Packet::decode(&frame[PAYLOAD..PAYLOAD + LENGTH]).expect("a packet");
        let (was, is) = (packet(before), packet(&after));
        assert_eq!(is.flags & was.flags, was.flags, "a flag that is set stays");
        assert_eq!(is.hops, was.hops.wrapping_add(1));
        let mut lanes = is.lanes;
        for (lane, was) in lanes.iter_mut().zip(&was.lanes) {
            assert!(lane.headroom <= was.headroom);
            (lane.load_sum, lane.headroom) = (was.load_sum, was.headroom);
        }
        let (flags, hops, counted) = (was.flags, was.hops, was.counted);
        let kept = Packet { flags, hops, counted, had_previous: was.had_previous, path_sig: was.path_sig, lanes, ..is };
        assert_eq!(kept, was, "everything else is as it came");
        assert_eq!(after[UDP_CHECKSUM], [0, 0], "a datagram that was rewritten has no checksum");
        expected[UDP_CHECKSUM].fill(0);
        expected[PAYLOAD..PAYLOAD + LENGTH].copy_from_slice(&after[PAYLOAD..PAYLOAD + LENGTH]);
    }
    assert_eq!(after, expected, "only the documented bytes change");
    Some(after)
}

/// A packet as a host could have written it, out of these bytes.
fn packet_of(bytes: &[u8]) -> Packet {
    let mut raw = [0; LENGTH];
    let count = bytes.len().min(LENGTH);
    raw[..count].copy_from_slice(&bytes[..count]);
    raw[..2].copy_from_slice(&MAGIC.to_be_bytes());
    raw[2] = VERSION << 4 | (1 + raw[2] % 3);
    (raw[4], raw[5], raw[23]) = (LANES as u8, raw[5] % (MAX_UNIT + 1), raw[23] % LANES as u8);
    Packet::decode(&raw).expect("a packet of ours")
}

fn in_band(bytes: &[u8]) {
    let Some((ends, rest)) = bytes.split_first_chunk::<8>() else { return };
    let address = |at: usize| Ipv4Addr::new(ends[at], ends[at + 1], ends[at + 2], ends[at + 3]);
    let packet = packet_of(rest);
    let mut frame = frame::datagram(address(0), address(4), UDP_PORT, &packet);
    assert_eq!(frame::packet(&frame), Some(packet));
    for hop in 0..3 {
        let Some(next) = SWITCH.with_borrow_mut(|switch| passes(switch, hop, &frame)) else { return };
        frame = next;
        let read = frame::packet(&frame).expect("the receiver reads it");
        assert_eq!(
            (read.kind, read.flow, read.slot, read.tuple),
            (packet.kind, packet.flow, packet.slot, packet.tuple)
        );
        assert_eq!(read.lanes.map(|lane| lane.new), packet.lanes.map(|lane| lane.new));
        assert_eq!(u16::from_be_bytes([frame[38], frame[39]]), (LENGTH + 8) as u16, "the datagram's length");
        if packet.kind == Kind::Echo {
            assert_eq!(read, packet, "an echo is nobody's on the way");
        }
    }
}

/// The program in a network of its own: what it sends, it sends by that network's loopback.
fn in_kernel() -> Result<(Program, Switch), String> {
    // SAFETY: the calling thread gets another network; it has no memory or descriptor to lose.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        return Err(format!("no network of its own: {}", std::io::Error::last_os_error()));
    }
    let up = Command::new("ip").args(["link", "set", "lo", "up"]).status();
    if !up.as_ref().is_ok_and(std::process::ExitStatus::success) {
        return Err(format!("ip link set lo up: {up:?}"));
    }
    let tables = entries().filter(|statement| matches!(statement, Statement::Route(..) | Statement::Member(..)));
    let program = Program::load(UDP_PORT, KERNEL_PORTS, tables).map_err(|error| error.to_string())?;
    Ok((program, switch()))
}

/// Can the kernel's program be run here? Asked in a thread of its own, which it takes into another network.
///
/// # Errors
/// Why not.
pub fn program_runs() -> Result<(), String> {
    let asked = std::thread::spawn(|| in_kernel().map(drop)).join();
    asked.unwrap_or_else(|_| Err("it panics".to_owned()))
}

fn program(bytes: &[u8]) {
    let Some(frame) = frame_of(bytes) else { return };
    IN_KERNEL.with_borrow_mut(|kernel| {
        let (program, switch) = match kernel {
            Ok((program, switch)) => (program, switch),
            Err(why) => panic!("whoever runs this asks `program_runs` before: {why}"),
        };
        let Some(fate) = program.run(&frame) else {
            // The kernel makes no packet of less than two headers (of IPv6 the second has 40 bytes), nor of more than a page.
            let two = if frame.get(12..14) == Some(&[0x86, 0xdd]) { 54 } else { 34 };
            assert!(!(two..2000).contains(&frame.len()), "the program does not run on {frame:02x?}");
            return;
        };
        let mut bytes = frame.clone();
        let expected = match switch.process(0, &mut bytes) {
            Verdict::Forward { port, .. } if port < KERNEL_PORTS && !may_be_ours(&frame) => Fate::Sent(port, bytes),
            _ => Fate::Left(frame.clone()),
        };
        assert_eq!(fate, expected, "{frame:02x?}");
    });
}

/// May it be a packet that switches touch, by its port and by how it begins?
fn may_be_ours(frame: &[u8]) -> bool {
    let word = |at: usize| frame.get(at..at + 2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
    let fragment = word(20).is_none_or(|word| word & 0x3fff != 0);
    let echo = frame.get(42..48).is_some_and(|payload| payload[..3] == [0x53, 0x4c, 0x13]);
    !fragment && frame.get(23) == Some(&17) && word(36) == Some(UDP_PORT) && !echo
}

fn tables(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for (line, statement) in statements(text) {
        assert!((1..=text.lines().count()).contains(&line));
        match statement {
            Ok(statement) => {
                let again: Statement = statement.to_string().parse().expect("what is written is a statement");
                assert_eq!(again, statement);
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    if let Err(error) = Story::read("story", text) {
        assert!(error.line <= text.lines().count(), "{error}");
    }
}

/// Frames of a probe and an announcement by different routes, an echo, plain TCP and UDP, and what is no IPv4.
fn udp_seeds() -> Vec<Seed> {
    let (source, near, far) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 7, 7), Ipv4Addr::new(10, 1, 9, 9));
    let framed = |name: &str, frame: Vec<u8>| Seed::new(name, [&[0, 1], frame.as_slice()].concat());
    let mut tcp = frame::datagram(source, near, 5000, &a_packet(Kind::Probe));
    tcp[23] = 6;
    let mut other = tcp.clone();
    other[12..14].copy_from_slice(&[0x86, 0xdd]);
    let mut seeds = vec![
        Seed::new("packet", a_packet(Kind::Announce).encode()),
        framed("tcp", tcp),
        framed("ipv6", other),
        framed("udp", frame::datagram(source, far, 7000, &a_packet(Kind::Probe))),
    ];
    for (name, kind) in [("probe", Kind::Probe), ("announce", Kind::Announce), ("echo", Kind::Echo)] {
        for (route, to) in [("near", near), ("far", far)] {
            seeds.push(framed(&format!("{name}-{route}"), frame::datagram(source, to, UDP_PORT, &a_packet(kind))));
        }
    }
    seeds
}

/// The frames of F2, without the port.
fn program_seeds() -> Vec<Seed> {
    let framed = udp_seeds().into_iter().filter(|seed| seed.bytes.starts_with(&[0, 1]));
    framed.map(|seed| Seed::new(seed.name, &seed.bytes[1..])).collect()
}

fn a_packet(kind: Kind) -> Packet {
    let tuple = Tuple {
        source: Ipv4Addr::new(10, 0, 0, 1),
        destination: Ipv4Addr::new(10, 0, 7, 7),
        source_port: 40_000,
        destination_port: 5000,
        protocol: 6,
        cookie: 0x00ab_cdef,
    };
    let mut packet = Packet::new(kind, FlowId(0x0000_0003_0000_0007), Slot(1000), tuple);
    for (number, lane) in packet.lanes.iter_mut().enumerate() {
        (lane.new, lane.previous) = (100 + number as u16, 90);
    }
    packet
}

fn in_band_seeds() -> Vec<Seed> {
    let ends = |last: u8| [10, 0, 0, 1, 10, 0, 7, last];
    let seed = |name: &str, last, kind| Seed::new(name, [&ends(last)[..], &a_packet(kind).encode()].concat());
    vec![seed("probe", 7, Kind::Probe), seed("announce", 9, Kind::Announce), seed("echo", 11, Kind::Echo)]
}

fn tables_seeds() -> Vec<Seed> {
    // The pipeline's own stories are long; their statements and some frames are enough.
    let told: String = stories()
        .iter()
        .flat_map(|story| &story.steps)
        .filter_map(|step| match step {
            sluice_pipeline::vectors::Step::Control(statement) => Some(format!("{statement}\n")),
            sluice_pipeline::vectors::Step::Frame { .. } => None,
        })
        .take(40)
        .collect();
    let drops: String = Reason::ALL.iter().map(|reason| format!("in 3 0011223344\ndrop {reason}\n")).collect();
    let remarks = format!("# tables\n\n{ENTRIES}restart # all anew\n");
    vec![Seed::new("entries", remarks), Seed::new("stories", told), Seed::new("drops", drops + "in 1 00\nout 2 00ff\n")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_and_announcements_are_answered_and_echoes_pass() {
        let mut switch = switch();
        let mut seen = 0;
        for seed in udp_seeds().iter().filter(|seed| seed.name.ends_with("-near")) {
            let frame = frame_of(&seed.bytes[1..]).expect("a frame");
            let after = passes(&mut switch, 0, &frame).expect("it is forwarded");
            let read = frame::packet(&after).expect("a packet");
            assert_eq!(read.hops, u8::from(!seed.name.starts_with("echo")), "{}", seed.name);
            seen += 1;
        }
        assert_eq!(seen, 3);
    }
}
