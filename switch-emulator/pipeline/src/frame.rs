//! Frames: what the parser accepts, and what forwarding rewrites.
//!
//! Ethernet, IPv4 of 20 bytes, the ports of TCP and UDP, and a Sluice packet where a datagram to its port has exactly the
//! length of one and begins as one. Everything else that is IPv4 is a plain packet; what is cut short is malformed.

use std::net::Ipv4Addr;

use sluice_wire::udp::{Kind, LENGTH, Packet, Tuple};

use crate::Reason;
use crate::routes::NextHop;

/// Where the IPv4 header begins.
const IP: usize = 14;
/// Where the ports begin.
const L4: usize = IP + 20;
/// Where a datagram's payload begins.
const PAYLOAD: usize = L4 + 8;
/// Where a datagram has its checksum.
const UDP_CHECKSUM: usize = L4 + 6;
/// Bytes of a frame that carries a Sluice packet, at least.
pub const SLUICE_FRAME: usize = PAYLOAD + LENGTH;

const IPV4: [u8; 2] = [0x08, 0x00];
const TCP: u8 = 6;
const UDP: u8 = 17;

/// What the parser has found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parsed {
    /// The source of the IPv4 header.
    pub source: Ipv4Addr,
    /// The destination of the IPv4 header.
    pub destination: Ipv4Addr,
    /// The IPv4 protocol.
    pub protocol: u8,
    /// Time to live as it came.
    pub ttl: u8,
    /// Ports of the source and of the destination; zero where there are none, and in fragments.
    pub ports: [u16; 2],
}

impl Parsed {
    /// The connection that the packet itself is of.
    pub fn tuple(&self) -> Tuple {
        Tuple {
            source: self.source,
            destination: self.destination,
            source_port: self.ports[0],
            destination_port: self.ports[1],
            protocol: self.protocol,
            cookie: 0,
        }
    }
}

fn bytes<const N: usize>(frame: &[u8], at: usize) -> Result<[u8; N], Reason> {
    frame.get(at..).and_then(|rest| rest.first_chunk()).copied().ok_or(Reason::Malformed)
}

/// Parses a frame. Where it carries a probe or an announcement, that is put into `sluice`, which was empty.
///
/// # Errors
/// [`Reason::Malformed`] and [`Reason::NotIpv4`].
pub fn parse(frame: &[u8], udp_port: u16, sluice: &mut Option<Packet>) -> Result<Parsed, Reason> {
    if bytes::<2>(frame, IP - 2)? != IPV4 {
        return Err(Reason::NotIpv4);
    }
    let ip: [u8; 20] = bytes(frame, IP)?;
    // All ones would sum up as zero does, which is what a sender writes; the program compares, and does not sum.
    if ip[0] != 0x45 || checksum(&ip) != 0 || ip[10..12] == [0xff, 0xff] {
        return Err(Reason::Malformed);
    }
    let fragment = u16::from_be_bytes([ip[6], ip[7]]) & 0x3fff != 0;
    let mut parsed = Parsed {
        source: Ipv4Addr::new(ip[12], ip[13], ip[14], ip[15]),
        destination: Ipv4Addr::new(ip[16], ip[17], ip[18], ip[19]),
        protocol: ip[9],
        ttl: ip[8],
        ports: [0; 2],
    };
    if fragment || !matches!(parsed.protocol, TCP | UDP) {
        return Ok(parsed);
    }
    parsed.ports = [u16::from_be_bytes(bytes(frame, L4)?), u16::from_be_bytes(bytes(frame, L4 + 2)?)];
    if parsed.protocol == UDP {
        let length = usize::from(u16::from_be_bytes(bytes(frame, L4 + 4)?));
        let _: [u8; 2] = bytes(frame, UDP_CHECKSUM)?;
        if parsed.ports[1] == udp_port && length == PAYLOAD - L4 + LENGTH {
            *sluice = payload(frame)?;
        }
    }
    Ok(parsed)
}

/// The Sluice packet of a datagram that is as long as one; none if it does not begin as one.
fn payload(frame: &[u8]) -> Result<Option<Packet>, Reason> {
    let _: [u8; 6] = bytes(frame, PAYLOAD)?;
    match frame.get(PAYLOAD..PAYLOAD + LENGTH) {
        Some(payload) => Ok(Packet::decode(payload).ok().filter(|packet| packet.kind != Kind::Echo)),
        // The parser looks at the first six bytes, and extracts the rest only if these are right.
        None if Packet::begins(&frame[PAYLOAD..]) => Err(Reason::Malformed),
        None => Ok(None),
    }
}

/// Rewrites what every hop rewrites: the link's addresses, the time to live, and the header's checksum.
pub fn forward(frame: &mut [u8], hop: NextHop) {
    frame[..6].copy_from_slice(&hop.destination);
    frame[6..12].copy_from_slice(&hop.source);
    let ip = &mut frame[IP..L4];
    ip[8] -= 1;
    ip[10..12].fill(0);
    let sum = checksum(ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// Writes a Sluice packet back where [`parse`] found it. Its datagram has no checksum from here on.
pub fn rewrite(frame: &mut [u8], packet: &Packet) {
    frame[UDP_CHECKSUM..PAYLOAD].fill(0);
    if let Some(place) = frame.get_mut(PAYLOAD..).and_then(|rest| rest.first_chunk_mut()) {
        packet.write(place);
    }
}

/// The checksum of the Internet over an even number of bytes; 0 over a header that has its own in place and is whole.
pub fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

/// A frame with this packet as a host sends it: to the port of Sluice packets, without a checksum of its own.
pub fn datagram(source: Ipv4Addr, destination: Ipv4Addr, port: u16, packet: &Packet) -> Vec<u8> {
    let mut frame = vec![0; SLUICE_FRAME];
    frame[..6].copy_from_slice(&[0x02, 0, 0, 0, 0, 0xfe]);
    frame[6..12].copy_from_slice(&[0x02, 0, 0, 0, 0, 0xff]);
    frame[12..IP].copy_from_slice(&IPV4);
    let ip = &mut frame[IP..L4];
    ip[0] = 0x45;
    ip[2..4].copy_from_slice(&((SLUICE_FRAME - IP) as u16).to_be_bytes());
    ip[6] = 0x40;
    ip[8] = 64;
    ip[9] = UDP;
    ip[12..16].copy_from_slice(&source.octets());
    ip[16..20].copy_from_slice(&destination.octets());
    let sum = checksum(ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    frame[L4..L4 + 2].copy_from_slice(&port.to_be_bytes());
    frame[L4 + 2..L4 + 4].copy_from_slice(&port.to_be_bytes());
    frame[L4 + 4..L4 + 6].copy_from_slice(&((SLUICE_FRAME - L4) as u16).to_be_bytes());
    frame[PAYLOAD..].copy_from_slice(&packet.encode());
    frame
}

/// The Sluice packet in a frame that [`datagram`] has built and switches have passed on.
pub fn packet(frame: &[u8]) -> Option<Packet> {
    Packet::decode(frame.get(PAYLOAD..PAYLOAD + LENGTH)?).ok()
}
