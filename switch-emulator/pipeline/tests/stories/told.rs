//! What each story tells, by hand.

use std::fmt::Write;
use std::net::Ipv4Addr;

use sluice_pipeline::control::Statement;
use sluice_pipeline::egress::seen;
use sluice_pipeline::{SEEN, UDP_PORT, frame};
use sluice_schedule::{FlowId, Slot};
use sluice_wire::udp::{DUPLICATE, GUARD, Kind, LANES, Lane, NO_HOP_YET, Packet, SATURATED, Tuple};

const HOST_A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const HOST_B: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);
const SIGNATURE: u32 = 0x00c0_ffee;
const NEXT: [u8; 6] = [2, 0, 0, 0, 1, 1];
const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// The way to [`HOST_B`], over a link of 500 units.
const ONE_LINK: &[&str] =
    &["route 10.0.1.0/24 via 1 02:00:00:00:01:01 02:00:00:00:00:01", "link 1 capacity 500 unit 0 signature 0x00c0ffee"];

struct Writer {
    text: String,
}

impl Writer {
    fn new(about: &str, control: &[&str]) -> Writer {
        let mut writer = Writer { text: format!("# {about}\n") };
        control.iter().for_each(|line| writer.control(line));
        writer
    }

    fn control(&mut self, line: &str) {
        assert_eq!(line.parse::<Statement>().map(|statement| statement.to_string()).as_deref(), Ok(line));
        let _ = writeln!(self.text, "{line}");
    }

    fn remark(&mut self, text: &str) {
        let _ = writeln!(self.text, "\n# {text}");
    }

    fn bytes(&mut self, word: &str, port: u16, bytes: &[u8]) {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let _ = writeln!(self.text, "{word} {port} {hex}");
    }

    fn drop(&mut self, port: u16, bytes: &[u8], reason: &str) {
        self.bytes("in", port, bytes);
        let _ = writeln!(self.text, "drop {reason}");
    }

    /// The packet comes in by port 0, and `expect` says what it is when it leaves by port 1.
    fn packet(&mut self, packet: Packet, expect: impl Fn(&mut Packet)) {
        let came = frame::datagram(HOST_A, HOST_B, UDP_PORT, &packet);
        let mut after = packet;
        after.hops += 1;
        after.path_sig ^= SIGNATURE;
        expect(&mut after);
        let mut left = frame::datagram(HOST_A, HOST_B, UDP_PORT, &after);
        passed_on(&mut left);
        self.bytes("in", 0, &came);
        self.bytes("out", 1, &left);
    }
}

/// What every hop does to a frame from [`frame::datagram`]: addresses, one less to live, the checksum by hand
/// (RFC 1624: the word with the time to live falls by 0x0100, so the sum rises by as much).
fn passed_on(frame: &mut [u8]) {
    frame[..6].copy_from_slice(&NEXT);
    frame[6..12].copy_from_slice(&OWN);
    frame[22] -= 1;
    let sum = u32::from(u16::from_be_bytes([frame[24], frame[25]])) + 0x0100;
    let sum = (sum & 0xffff) + (sum >> 16);
    frame[24..26].copy_from_slice(&(sum as u16).to_be_bytes());
}

fn announcement(flow: u64, slot: u32, new: u16, previous: u16) -> Packet {
    let lane = Lane { new, previous, load_sum: 0, headroom: NO_HOP_YET };
    Packet {
        kind: Kind::Announce,
        flags: 0,
        unit: 0,
        hops: 0,
        counted: 0,
        flow: FlowId(flow),
        slot: Slot(slot),
        seq: 7,
        had_previous: 0,
        wrap: farthest(u64::from(slot)),
        path_sig: 0,
        tuple: Tuple {
            source: HOST_A,
            destination: HOST_B,
            source_port: 40_000,
            destination_port: 5000,
            protocol: 6,
            cookie: 0,
        },
        lanes: [lane; LANES],
    }
}

fn probe(slot: u32) -> Packet {
    Packet { kind: Kind::Probe, ..announcement(0, slot, 0, 0) }
}

/// The lane of the farthest slot.
pub fn farthest(slot: u64) -> u8 {
    ((slot + LANES as u64 - 1) % LANES as u64) as u8
}

/// All lanes show `published`, the farthest one `gathered`, of a link of 500 units.
fn shows(packet: &mut Packet, published: i32, gathered: i32) {
    for (at, lane) in packet.lanes.iter_mut().enumerate() {
        let load = if at == usize::from(packet.wrap) { gathered } else { published };
        lane.load_sum += load;
        lane.headroom = lane.headroom.min((500 - load).clamp(0, 500) as u16);
    }
}

fn counted(packet: &mut Packet, had_previous: bool, published: i32, gathered: i32) {
    packet.counted += 1;
    packet.had_previous += u8::from(had_previous);
    shows(packet, published, gathered);
}

fn repeated(packet: &mut Packet, published: i32, gathered: i32) {
    packet.counted += 1;
    packet.flags |= DUPLICATE;
    shows(packet, published, gathered);
}

fn count() -> Writer {
    let mut story =
        Writer::new("Announcements are counted once, replaced in the next period, and forgotten.", ONE_LINK);
    story.control("guard 1000");
    story.packet(announcement(1, 1000, 100, 0), |p| counted(p, false, 100, 100));
    story.packet(announcement(2, 1000, 50, 0), |p| counted(p, false, 150, 150));
    story.remark("a copy, and a probe");
    story.packet(announcement(1, 1000, 100, 0), |p| repeated(p, 150, 150));
    story.packet(probe(1000), |p| shows(p, 150, 150));
    story.remark("the next period: flow 1 follows on what it said, and only it is in the farthest lane");
    story.control("guard 1001");
    story.packet(probe(1001), |p| shows(p, 150, 0));
    story.packet(announcement(1, 1001, 30, 100), |p| counted(p, true, 80, 30));
    story.remark("a late copy of the period before changes nothing: flow 2 announces in time, flow 1 has moved on");
    story.packet(announcement(1, 1000, 100, 0), |p| {
        // Its cells are those of 1001 and 1000: what is newer is read where the older is gone.
        repeated(p, 30, 80);
    });
    story.remark("flow 2 was silent in 1001: in 1002 only flow 1's word of 1001 is left, in 1003 nothing");
    story.control("guard 1002");
    story.packet(probe(1002), |p| shows(p, 30, 0));
    story.control("guard 1003");
    story.packet(probe(1003), |p| shows(p, 0, 0));
    story.remark("more than the link has: no room");
    story.packet(announcement(3, 1003, 700, 0), |p| counted(p, false, 700, 700));
    story
}

fn guard() -> Writer {
    let mut story =
        Writer::new("Packets more than a slot away are not counted, and without a slot none are.", ONE_LINK);
    let refused = |p: &mut Packet| p.flags |= GUARD;
    story.packet(announcement(1, 500, 9, 0), refused);
    for (guard, away) in [(500, [2, -2, 5, -5]), (600, [3, -3, 1 << 30, i32::MIN])] {
        story.control(&format!("guard {guard}"));
        for slots in away {
            story.packet(announcement(1, 0, 9, 0).at(Slot(guard).offset(slots)), refused);
        }
        story.packet(probe(guard), |p| shows(p, 0, 0));
    }
    story.remark("one slot before, and one after");
    story.packet(announcement(1, 599, 10, 0), |p| counted(p, false, 10, 10));
    story.packet(announcement(2, 600, 20, 0), |p| counted(p, false, 30, 20));
    story.remark("who is early takes the array of the period before; who is in time then reads what is newer");
    story.packet(announcement(3, 601, 40, 0), |p| counted(p, false, 60, 40));
    story.packet(probe(600), |p| shows(p, 40, 60));
    story
}

/// Story packets name the slots of 2^32 in lanes that go on counting.
trait At {
    fn at(self, slot: Slot) -> Packet;
}

impl At for Packet {
    fn at(mut self, slot: Slot) -> Packet {
        self.slot = slot;
        self.wrap = farthest(u64::from(slot.0));
        self
    }
}

fn wrap() -> Writer {
    let mut story = Writer::new("Slot numbers wrap at 2^32; the middle is no place of its own.", ONE_LINK);
    let lane = |slot: u64| farthest(slot);
    for (from, to) in [((1_u64 << 31) - 2, (1_u64 << 31) + 2), ((1 << 32) - 8, (1 << 32) + 4)] {
        story.remark(&format!("slots {from} to {to}"));
        for slot in from..=to {
            story.control(&format!("guard {}", slot as u32));
            let (first, new) = (slot == from, 10 + (slot - from) as u16);
            let mut packet = announcement(5, slot as u32, new, if first { 0 } else { new - 1 });
            packet.wrap = lane(slot);
            story.packet(packet, |p| counted(p, !first, new.into(), new.into()));
            story.packet(packet, |p| repeated(p, new.into(), new.into()));
        }
    }
    story
        .remark("a register that was never written holds zeros: in the three slots before 0 it passes for a newer one");
    story.control("restart");
    ONE_LINK.iter().for_each(|line| story.control(line));
    story.control("guard 4294967294");
    story.packet(announcement(6, u32::MAX - 1, 10, 0), |p| counted(p, false, 0, 0));
    story.control("guard 4294967295");
    story.packet(announcement(6, u32::MAX, 11, 10), |p| counted(p, true, 0, 0));
    story.control("guard 0");
    story.packet(announcement(6, 0, 12, 11).wrapped(1 << 32), |p| counted(p, true, 0, 12));
    story.control("guard 1");
    story.packet(announcement(6, 1, 13, 12).wrapped((1 << 32) + 1), |p| counted(p, true, 13, 13));
    story
}

trait Wrapped {
    fn wrapped(self, slot: u64) -> Packet;
}

impl Wrapped for Packet {
    fn wrapped(mut self, slot: u64) -> Packet {
        self.wrap = farthest(slot);
        self
    }
}

/// Two flows that share a register at port 1, the smallest there are.
fn colliding() -> (u64, u64) {
    let place = |flow: u64| seen(FlowId(flow), 1).index as usize % SEEN;
    let mut at = std::collections::HashMap::new();
    (1..).find_map(|flow| at.insert(place(flow), flow).map(|earlier| (earlier, flow))).unwrap()
}

fn collision() -> Writer {
    let (a, b) = colliding();
    let mut story =
        Writer::new("Flows that share a register drive each other out: too much is shown, never too little.", ONE_LINK);
    let _ = writeln!(story.text, "# Flows {a} and {b} share one at port 1.");
    story.control("guard 100");
    story.packet(announcement(a, 100, 100, 0), |p| counted(p, false, 100, 100));
    story.packet(announcement(b, 100, 50, 0), |p| counted(p, false, 150, 150));
    story.remark("both are new in each period: what they said before stays for that period; what gathers is right");
    story.control("guard 101");
    story.packet(announcement(a, 101, 100, 100), |p| counted(p, false, 250, 100));
    story.packet(announcement(b, 101, 50, 50), |p| counted(p, false, 300, 150));
    story.remark("and a copy is not known as one");
    story.packet(announcement(a, 101, 100, 100), |p| counted(p, false, 400, 250));
    story.control("guard 102");
    story.packet(probe(102), |p| shows(p, 250, 0));
    story
}

fn saturation() -> Writer {
    let mut story = Writer::new("Sums stop at the largest number and say so; room is never less than none.", ONE_LINK);
    story.control("guard 9");
    let carries = |sum: i32| {
        let mut packet = announcement(4, 9, 400, 0);
        packet.lanes.iter_mut().for_each(|lane| lane.load_sum = sum);
        packet
    };
    let full = |p: &mut Packet| {
        p.flags |= SATURATED;
        p.lanes.iter_mut().for_each(|lane| (lane.load_sum, lane.headroom) = (i32::MAX, 100));
    };
    story.packet(carries(i32::MAX - 400), |p| {
        counted(p, false, 0, 0);
        full(p);
    });
    story.packet(Packet { kind: Kind::Probe, ..carries(i32::MAX - 399) }, full);
    story.packet(Packet { kind: Kind::Probe, ..carries(i32::MAX - 401) }, |p| shows(p, 400, 400));
    story.packet(Packet { kind: Kind::Probe, ..carries(-400) }, |p| shows(p, 400, 400));
    story.packet(announcement(5, 9, u16::MAX, 0), |p| counted(p, false, 65_935, 65_935));
    story.remark("the least room of the path stays");
    let mut tight = probe(9);
    tight.lanes.iter_mut().for_each(|lane| lane.headroom = 0);
    story.packet(tight, |p| shows(p, 65_935, 65_935));
    story
}

fn restart() -> Writer {
    let mut story =
        Writer::new("A switch that has begun anew counts in full what follows on what it does not know.", ONE_LINK);
    story.control("guard 70");
    story.packet(announcement(1, 70, 100, 0), |p| counted(p, false, 100, 100));
    story.packet(announcement(2, 70, 200, 0), |p| counted(p, false, 300, 300));
    story.control("restart");
    story.remark("nothing is known of routes either");
    let lost = frame::datagram(HOST_A, HOST_B, UDP_PORT, &announcement(1, 70, 100, 0));
    story.drop(0, &lost, "no-route");
    ONE_LINK.iter().for_each(|line| story.control(line));
    story.control("guard 71");
    story.packet(announcement(1, 71, 110, 100), |p| counted(p, false, 110, 110));
    story.control("guard 72");
    story.packet(announcement(1, 72, 120, 110), |p| counted(p, true, 120, 120));
    story.packet(announcement(2, 72, 210, 200), |p| counted(p, false, 330, 330));
    story
}

/// A TCP segment without data.
fn segment(ttl: u8) -> Vec<u8> {
    let mut frame = frame::datagram(HOST_A, HOST_B, 40_000, &announcement(1, 1, 1, 1));
    frame.truncate(14 + 20 + 20);
    frame[16..18].copy_from_slice(&40_u16.to_be_bytes());
    frame[22] = ttl;
    frame[23] = 6;
    checked(frame)
}

fn checked(mut frame: Vec<u8>) -> Vec<u8> {
    frame[24..26].fill(0);
    let sum = frame::checksum(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}

fn forward() -> Writer {
    let mut story =
        Writer::new("Plain packets are forwarded, Sluice packets go where their connection goes.", ONE_LINK);
    story.control("guard 100");
    let plain = |story: &mut Writer, mut frame: Vec<u8>| {
        story.bytes("in", 3, &frame);
        passed_on(&mut frame);
        story.bytes("out", 1, &frame);
    };
    plain(&mut story, segment(64));
    plain(&mut story, segment(2));
    story.remark("a fragment has no ports, and may end early");
    let mut fragment = segment(64);
    fragment[20..22].copy_from_slice(&[0x00, 0x10]);
    fragment.truncate(34);
    plain(&mut story, checked(fragment));
    story.remark("what is not forwarded");
    story.drop(3, &segment(1), "ttl-expired");
    let mut elsewhere = segment(64);
    elsewhere[30] = 99;
    story.drop(3, &checked(elsewhere.clone()), "no-route");
    story.drop(3, &elsewhere, "malformed");
    // With this id the checksum is zero, and all ones would sum up to the same.
    let mut zero = segment(64);
    zero[18..20].fill(0);
    zero = checked(zero);
    zero.copy_within(24..26, 18);
    plain(&mut story, checked(zero.clone()));
    zero[24..26].fill(0xff);
    story.drop(3, &zero, "malformed");
    let mut options = segment(64);
    options[14] = 0x46;
    story.drop(3, &checked(options), "malformed");
    let mut arp = segment(64);
    arp[12..14].copy_from_slice(&[0x08, 0x06]);
    story.drop(3, &arp, "not-ipv4");
    story.drop(3, &segment(64)[..13], "malformed");
    story.drop(3, &segment(64)[..30], "malformed");
    story.drop(3, &segment(64)[..37], "malformed");
    let whole = frame::datagram(HOST_A, HOST_B, UDP_PORT, &announcement(1, 100, 1, 0));
    story.drop(3, &whole[..whole.len() - 1], "malformed");
    story.drop(3, &whole[..47], "malformed");

    story.remark("an echo, another version, and another number of lanes are plain packets");
    for (at, byte) in [(44, 0x13), (44, 0x21), (44, 0x14), (46, 9), (43, 0x4d)] {
        let mut frame = whole.clone();
        frame[at] = byte;
        frame[40..42].copy_from_slice(&[0xab, 0xcd]);
        plain(&mut story, frame);
    }
    story.remark("so are a lane that does not exist, and a unit beyond all");
    for (at, byte) in [(65, 10), (47, 17)] {
        let mut frame = whole.clone();
        frame[at] = byte;
        plain(&mut story, frame);
    }
    story.remark("rates in another unit are neither counted nor answered");
    story.packet(Packet { unit: 4, ..announcement(8, 100, 60, 0) }, |_| {});
    story.packet(probe(100), |p| shows(p, 0, 0));

    story.remark("whose Sluice packets come in by a port of a host");
    story.control("edge 0 10.0.0.1/32");
    story.packet(announcement(9, 100, 60, 0), |p| counted(p, false, 60, 60));
    story.drop(0, &frame::datagram([10, 0, 0, 2].into(), HOST_B, UDP_PORT, &probe(100)), "spoofed");

    story.remark("two ways: the connection chooses, also for the packet that speaks of it; a link without an entry");
    story.control("restart");
    story.control(ONE_LINK[1]);
    story.control("guard 100");
    story.control("route 10.0.1.0/24 group 3 size 2 seed 17");
    story.control("member 3 0 via 1 02:00:00:00:01:01 02:00:00:00:00:01");
    story.control("member 3 1 via 2 02:00:00:00:01:01 02:00:00:00:00:01");
    for port in 40_000..40_008_u16 {
        let mut frame = segment(64);
        frame[34..36].copy_from_slice(&port.to_be_bytes());
        let mut speaks = probe(100);
        speaks.tuple.source_port = port;
        speaks.tuple.destination_port = u16::from_be_bytes([frame[36], frame[37]]);
        let out = 1 + (hashed(17, &speaks.tuple) % 2) as u16;
        story.bytes("in", 3, &frame);
        passed_on(&mut frame);
        story.bytes("out", out, &frame);
        if out == 1 {
            story.packet(speaks, |p| shows(p, 0, 0));
        } else {
            let mut untouched = frame::datagram(HOST_A, HOST_B, UDP_PORT, &speaks);
            story.bytes("in", 0, &untouched);
            passed_on(&mut untouched);
            story.bytes("out", 2, &untouched);
        }
    }
    story
}

fn hashed(seed: u32, tuple: &Tuple) -> u32 {
    let mut bytes = tuple.source.octets().to_vec();
    bytes.extend(tuple.destination.octets());
    bytes.extend(tuple.source_port.to_be_bytes());
    bytes.extend(tuple.destination_port.to_be_bytes());
    bytes.push(tuple.protocol);
    crc32(&crc32(&bytes).wrapping_add(seed).to_be_bytes())
}

/// Bit by bit, as the standard has it.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

/// Every story's name and text.
pub fn written() -> Vec<(&'static str, String)> {
    let stories = [
        ("count", count()),
        ("guard", guard()),
        ("wrap", wrap()),
        ("collision", collision()),
        ("saturation", saturation()),
        ("restart", restart()),
        ("forward", forward()),
    ];
    stories.into_iter().map(|(name, story)| (name, story.text)).collect()
}
