//! The UDP format, version 1: one packet per flow, ten lanes of rates, rewritten in place by every switch it passes.
//!
//! 144 bytes, network byte order; byte for byte what a P4 switch parses. Lane j carries the slots s with s mod 10 = j;
//! [`Packet::wrap`] names the lane of the farthest announced slot, so that nobody has to divide. Reading accepts exactly
//! what [`Packet::encode`] can write; bits without a meaning yet are kept.

use std::net::Ipv4Addr;

use sluice_schedule::units::mixed;
use sluice_schedule::{FlowId, LinkId, Rate, Slot};

/// The first two bytes of every packet.
pub const MAGIC: u16 = 0x534C;
/// Version of the format.
pub const VERSION: u8 = 1;
/// Lanes of a packet (K).
pub const LANES: usize = 10;
/// Bytes of a packet.
pub const LENGTH: usize = 44 + LANES * 10;
/// Flag: some hop had counted this announcement before.
pub const DUPLICATE: u8 = 0x02;
/// Flag: the slot was outside some hop's guard, which did not count it.
pub const GUARD: u8 = 0x08;
/// Flag: some number did not fit.
pub const SATURATED: u8 = 0x10;
/// A lane's headroom before the first hop.
pub const NO_HOP_YET: u16 = u16::MAX;

/// The unit of a fabric whose fastest link has this rate on the wire: the least one in which it can be said.
pub fn unit(fastest: Rate) -> u8 {
    // The largest number would say that nobody has set it.
    let fits = |unit: &u8| fastest.0 / (1_000_000 << unit) < u64::from(NO_HOP_YET);
    (0..16).find(fits).unwrap_or(16)
}

/// The bits of a link's signature that name the link. The others are drawn anew whenever its switch begins.
pub const MARK: u32 = 0x000f_ffff;

/// What names a link in its signature. Signatures of a path are combined by exclusive or and so are marks: whoever knows the
/// ways between two hosts can tell by which of them a packet went.
pub fn mark(link: LinkId) -> u32 {
    mixed(link.0) as u32 & MARK
}

/// What a packet is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The packet reads the table.
    #[default]
    Probe,
    /// The packet is counted in the table and reads it.
    Announce,
    /// On the way back; switches do not touch it.
    Echo,
}

/// The connection a flow is; switches route by it as they route the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tuple {
    /// Address of the sender.
    pub source: Ipv4Addr,
    /// Address of the receiver.
    pub destination: Ipv4Addr,
    /// Port of the sender.
    pub source_port: u16,
    /// Port of the receiver.
    pub destination_port: u16,
    /// The IP protocol number, 6 for TCP.
    pub protocol: u8,
    /// 24 bits without a meaning on the way.
    pub cookie: u32,
}

/// What a packet carries for one slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Lane {
    /// Announced now, in units.
    pub new: u16,
    /// Announced in the slot before.
    pub previous: u16,
    /// Sum of the passed links' loads; may be negative for a moment.
    pub load_sum: i32,
    /// Least room of a passed link.
    pub headroom: u16,
}

/// A packet of the wire format, version 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Packet {
    /// What it is for.
    pub kind: Kind,
    /// Which of [`DUPLICATE`], [`GUARD`] and [`SATURATED`] are set.
    pub flags: u8,
    /// Rates are in 2^unit Mbit/s.
    pub unit: u8,
    /// How many switches the packet passed.
    pub hops: u8,
    /// Of them, those that counted it.
    pub counted: u8,
    /// Id of the announced flow.
    pub flow: FlowId,
    /// The slot in which the announcement is made.
    pub slot: Slot,
    /// Matches an echo to its request.
    pub seq: u16,
    /// Switches that had counted the flow in the slot before.
    pub had_previous: u8,
    /// The lane of the farthest slot.
    pub wrap: u8,
    /// The signatures of the links passed, by exclusive or: changes when the path does, or a switch restarts. See [`mark`].
    pub path_sig: u32,
    /// The connection that the flow is.
    pub tuple: Tuple,
    /// What is announced and read, one lane for each slot of the horizon.
    pub lanes: [Lane; LANES],
}

/// Why bytes are not a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The packet has another length than [`LENGTH`].
    #[error("message-malformed: a UDP packet has {0} bytes; allowed {LENGTH}.")]
    Length(usize),
    /// Something else than a packet of this format.
    #[error(
        "message-malformed: a UDP packet begins with {magic:#06x}, version {version}; allowed {MAGIC:#06x}, version {VERSION}."
    )]
    Format {
        /// The first two bytes as a number.
        magic: u16,
        /// The version of the format.
        version: u8,
    },
    /// The packet has a type that is not known.
    #[error("message-malformed: a UDP packet has type {0}; allowed 1 (probe), 2 (announce), 3 (echo).")]
    Kind(u8),
    /// Another number of lanes.
    #[error("message-malformed: a UDP packet has K = {0}; allowed {LANES}.")]
    Lanes(u8),
    /// A lane that does not exist.
    #[error("message-malformed: a UDP packet has wrap lane {0}; allowed 0 to 9.")]
    Wrap(u8),
    /// Unit beyond what a rate can be.
    #[error("message-malformed: a UDP packet has unit {0}; allowed 0 to 16.")]
    Unit(u8),
}

/// The largest unit: 2^16 Mbit/s times 65,535 is beyond any link.
pub const MAX_UNIT: u8 = 16;

impl Packet {
    /// A packet as it leaves a host, before its first hop: nothing announced, nothing read, in units of 1 Mbit/s.
    pub fn new(kind: Kind, flow: FlowId, slot: Slot, tuple: Tuple) -> Packet {
        Packet {
            kind,
            flags: 0,
            unit: 0,
            hops: 0,
            counted: 0,
            flow,
            slot,
            seq: 0,
            had_previous: 0,
            wrap: ((u64::from(slot.0) + LANES as u64 - 1) % LANES as u64) as u8,
            path_sig: 0,
            tuple,
            lanes: [Lane { headroom: NO_HOP_YET, ..Lane::default() }; LANES],
        }
    }

    /// The packet as it travels.
    pub fn encode(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        self.write(&mut bytes);
        bytes
    }

    /// The same into place.
    pub fn write(&self, bytes: &mut [u8; LENGTH]) {
        let kind = match self.kind {
            Kind::Probe => 1,
            Kind::Announce => 2,
            Kind::Echo => 3,
        };
        let mut out = Writer { bytes, at: 0 };
        out.put(MAGIC.to_be_bytes());
        out.put([VERSION << 4 | kind, self.flags, LANES as u8, self.unit, self.hops, self.counted]);
        out.put(self.flow.0.to_be_bytes());
        out.put(self.slot.0.to_be_bytes());
        out.put(self.seq.to_be_bytes());
        out.put([self.had_previous, self.wrap]);
        out.put(self.path_sig.to_be_bytes());
        out.put(self.tuple.source.octets());
        out.put(self.tuple.destination.octets());
        out.put(self.tuple.source_port.to_be_bytes());
        out.put(self.tuple.destination_port.to_be_bytes());
        out.put((u32::from(self.tuple.protocol) << 24 | self.tuple.cookie & 0x00ff_ffff).to_be_bytes());
        for lane in &self.lanes {
            out.put(lane.new.to_be_bytes());
            out.put(lane.previous.to_be_bytes());
            out.put(lane.load_sum.to_be_bytes());
            out.put(lane.headroom.to_be_bytes());
        }
    }

    /// From bytes.
    ///
    /// # Errors
    /// [`Malformed`] for whatever [`Packet::encode`] does not write.
    pub fn decode(bytes: &[u8]) -> Result<Packet, Malformed> {
        let Ok(bytes) = <&[u8; LENGTH]>::try_from(bytes) else { return Err(Malformed::Length(bytes.len())) };
        let mut input = Reader { bytes, at: 0 };
        let magic = u16::from_be_bytes(input.take());
        let [version_kind, flags, lanes, unit, hops, counted] = input.take();
        let version = version_kind >> 4;
        if (magic, version) != (MAGIC, VERSION) {
            return Err(Malformed::Format { magic, version });
        }
        let kind = match version_kind & 0x0f {
            1 => Kind::Probe,
            2 => Kind::Announce,
            3 => Kind::Echo,
            other => return Err(Malformed::Kind(other)),
        };
        if usize::from(lanes) != LANES {
            return Err(Malformed::Lanes(lanes));
        }
        if unit > MAX_UNIT {
            return Err(Malformed::Unit(unit));
        }
        let flow = FlowId(u64::from_be_bytes(input.take()));
        let slot = Slot(u32::from_be_bytes(input.take()));
        let seq = u16::from_be_bytes(input.take());
        let [had_previous, wrap] = input.take();
        if usize::from(wrap) >= LANES {
            return Err(Malformed::Wrap(wrap));
        }
        let path_sig = u32::from_be_bytes(input.take());
        let (source, destination) = (Ipv4Addr::from(input.take::<4>()), Ipv4Addr::from(input.take::<4>()));
        let (source_port, destination_port) = (u16::from_be_bytes(input.take()), u16::from_be_bytes(input.take()));
        let last = u32::from_be_bytes(input.take());
        let (protocol, cookie) = ((last >> 24) as u8, last & 0x00ff_ffff);
        let tuple = Tuple { source, destination, source_port, destination_port, protocol, cookie };
        let mut lanes = [Lane::default(); LANES];
        for lane in &mut lanes {
            lane.new = u16::from_be_bytes(input.take());
            lane.previous = u16::from_be_bytes(input.take());
            lane.load_sum = i32::from_be_bytes(input.take());
            lane.headroom = u16::from_be_bytes(input.take());
        }
        Ok(Packet { kind, flags, unit, hops, counted, flow, slot, seq, had_previous, wrap, path_sig, tuple, lanes })
    }

    /// Do these bytes begin as a probe or an announcement does? A switch reads no further where they do not.
    pub fn begins(bytes: &[u8]) -> bool {
        let [high, low] = MAGIC.to_be_bytes();
        let known = |kind: u8| kind >> 4 == VERSION && matches!(kind & 0x0f, 1 | 2);
        matches!(*bytes, [a, b, kind, _, lanes, ..] if (a, b) == (high, low) && known(kind) && usize::from(lanes) == LANES)
    }

    /// The lane of the slot `ahead` slots after [`Packet::slot`].
    pub fn lane_of(&self, ahead: usize) -> usize {
        (usize::from(self.wrap) + 1 + ahead) % LANES
    }

    /// What `value` units are.
    pub fn rate(&self, value: u16) -> Rate {
        Rate(u64::from(value) * self.unit_rate())
    }

    /// One unit in bit/s.
    fn unit_rate(&self) -> u64 {
        1_000_000 << self.unit.min(MAX_UNIT)
    }

    /// One switch adds what it knows of its link in this lane: the load (rounded up) and the room left (rounded down).
    pub fn add_hop(&mut self, lane: usize, load: Rate, room: Rate) {
        let unit = self.unit_rate();
        let Some(lane) = self.lanes.get_mut(lane) else { return };
        let load = i32::try_from(load.0.div_ceil(unit)).unwrap_or(i32::MAX);
        let sum = lane.load_sum.checked_add(load);
        if sum.is_none() || load == i32::MAX {
            self.flags |= SATURATED;
        }
        lane.load_sum = sum.unwrap_or(i32::MAX);
        lane.headroom = lane.headroom.min(u16::try_from(room.0 / unit).unwrap_or(u16::MAX));
    }
}

struct Writer<'a> {
    bytes: &'a mut [u8; LENGTH],
    at: usize,
}

impl Writer<'_> {
    fn put<const N: usize>(&mut self, field: [u8; N]) {
        self.bytes[self.at..self.at + N].copy_from_slice(&field);
        self.at += N;
    }
}

struct Reader<'a> {
    bytes: &'a [u8; LENGTH],
    at: usize,
}

impl Reader<'_> {
    /// The next `N` bytes. The fields of a packet add up to its length, which the caller has checked.
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut field = [0; N];
        field.copy_from_slice(&self.bytes[self.at..self.at + N]);
        self.at += N;
        field
    }
}

#[cfg(test)]
mod tests;
