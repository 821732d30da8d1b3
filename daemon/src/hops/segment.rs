//! The bytes of a probe and of what comes back: an empty TCP segment of a connection, as its own keep-alive would be, and a
//! router's word that its hop limit ended. Pure.
//!
//! The sequence number is the last one that was acknowledged: should a probe arrive after all, the other end takes it for a
//! duplicate and acknowledges again.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use sluice_schedule::Connection;

use super::prober::Probe;

/// An IPv4 header without options, and a TCP header without options.
const IP: usize = 20;
const TCP: usize = 20;
pub const LENGTH: usize = IP + TCP;
/// The number of ICMP over IP.
const ICMP: u8 = 1;
/// ICMP: time exceeded, in transit.
const TIME_EXCEEDED: [u8; 2] = [11, 0];
/// The ICMP header before the quoted packet.
const ICMP_HEADER: usize = 8;
/// Don't fragment, as TCP has it.
const DONT_FRAGMENT: u16 = 0x4000;
/// TCP: ACK and nothing else.
const ACK: u8 = 0x10;
/// Any window; nobody acts on it.
const WINDOW: u16 = 1024;

/// What a router says of a packet whose hop limit ended there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// The router.
    pub from: IpAddr,
    /// The packet's connection.
    pub connection: Connection,
    pub sequence: u32,
    /// The packet's number.
    pub id: u16,
}

/// The sequence number that a probe has.
pub fn sequence(probe: &Probe) -> u32 {
    probe.sequence.unacknowledged.wrapping_sub(1)
}

/// The packet; `None` for anything but TCP over IPv4. The kernel puts the length and the checksum into the IP header.
pub fn bytes(probe: &Probe) -> Option<[u8; LENGTH]> {
    let Connection { source: SocketAddr::V4(source), destination: SocketAddr::V4(destination), protocol } =
        probe.connection
    else {
        return None;
    };
    let mut packet = [0_u8; LENGTH];
    let mut put = |at: usize, bytes: &[u8]| packet[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &[0x45]);
    put(2, &(LENGTH as u16).to_be_bytes());
    put(4, &probe.id.to_be_bytes());
    put(6, &DONT_FRAGMENT.to_be_bytes());
    put(8, &[probe.hop_limit, protocol]);
    put(12, &source.ip().octets());
    put(16, &destination.ip().octets());
    put(IP, &source.port().to_be_bytes());
    put(IP + 2, &destination.port().to_be_bytes());
    put(IP + 4, &sequence(probe).to_be_bytes());
    put(IP + 8, &probe.sequence.expected.to_be_bytes());
    put(IP + 12, &[(TCP as u8 / 4) << 4, ACK]);
    put(IP + 14, &WINDOW.to_be_bytes());
    let pseudo = [0, protocol, 0, TCP as u8];
    let checksum = checksum(&[&packet[12..IP], &pseudo, &packet[IP..]]);
    packet[IP + 16..IP + 18].copy_from_slice(&checksum.to_be_bytes());
    Some(packet)
}

/// The Internet checksum of parts of even length.
fn checksum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks_exact(2));
    let mut sum: u32 = words.map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Reads an IPv4 packet as a raw socket gets it; `None` for whatever is no word on a TCP segment of IPv4.
pub fn read(packet: &[u8]) -> Option<Exceeded> {
    let (protocol, from, _, icmp) = header(packet)?;
    if protocol != ICMP || icmp.get(..2)? != TIME_EXCEEDED {
        return None;
    }
    let quoted = icmp.get(ICMP_HEADER..)?;
    let (protocol, source, destination, tcp) = header(quoted)?;
    if i32::from(protocol) != libc::IPPROTO_TCP {
        return None;
    }
    let end = |address: Ipv4Addr, port| Some(SocketAddr::new(address.into(), short(tcp, port)?));
    let connection = Connection { source: end(source, 0)?, destination: end(destination, 2)?, protocol };
    let sequence = u32::from_be_bytes(tcp.get(4..8)?.try_into().ok()?);
    Some(Exceeded { from: from.into(), connection, sequence, id: short(quoted, 4)? })
}

/// An IPv4 packet's protocol, source and destination, and what follows its header.
fn header(packet: &[u8]) -> Option<(u8, Ipv4Addr, Ipv4Addr, &[u8])> {
    let first = *packet.first()?;
    let length = usize::from(first & 0xf) * 4;
    if first >> 4 != 4 || length < IP {
        return None;
    }
    let address = |at: usize| Some(Ipv4Addr::from(<[u8; 4]>::try_from(packet.get(at..at + 4)?).ok()?));
    Some((*packet.get(9)?, address(12)?, address(16)?, packet.get(length..)?))
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// What a router at `from` says of this packet: with its own header, 8 bytes of ICMP, and the packet's first 28 bytes.
#[cfg(test)]
pub fn exceeded(from: Ipv4Addr, packet: &[u8]) -> Vec<u8> {
    let mut answer = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, ICMP, 0, 0];
    answer.extend(from.octets());
    answer.extend(&packet[12..16]);
    answer.extend([11, 0, 0, 0, 0, 0, 0, 0]);
    answer.extend(&packet[..IP + 8]);
    answer
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sluice_ebpf::Sequence;
    use sluice_schedule::FlowId;

    use super::*;

    fn probe(unacknowledged: u32, ports: (u16, u16), hop_limit: u8, id: u16) -> Probe {
        let (source, destination) = (([10, 0, 0, 1], ports.0).into(), ([10, 0, 1, 1], ports.1).into());
        let connection = Connection { source, destination, protocol: 6 };
        Probe { flow: FlowId(1), connection, sequence: Sequence { unacknowledged, expected: 77 }, hop_limit, id }
    }

    #[test]
    fn a_probe_is_a_keep_alive_with_a_hop_limit() {
        let packet = bytes(&probe(0, (40_000, 5000), 2, 0x1234)).expect("IPv4");
        assert_eq!((packet[0], packet[8], packet[9]), (0x45, 2, 6));
        assert_eq!(packet[IP + 4..IP + 8], u32::MAX.to_be_bytes(), "before the first that is not acknowledged");
        assert_eq!(packet[IP + 8..IP + 12], 77_u32.to_be_bytes());
        assert_eq!(packet[IP + 13], ACK);
        let pseudo = [0, 6, 0, 20];
        assert_eq!(checksum(&[&packet[12..IP], &pseudo, &packet[IP..]]), 0, "the checksum is right");
        let mut native = probe(1, (1, 2), 1, 1);
        native.connection.source = "[fd00::1]:1".parse().expect("an address");
        assert_eq!(bytes(&native), None);
    }

    proptest! {
        #[test]
        fn what_a_router_quotes_is_what_was_sent(seq: u32, source: u16, to: u16, hop_limit: u8, id: u16, extra in prop::collection::vec(any::<u8>(), 0..64)) {
            let probe = probe(seq, (source, to), hop_limit, id);
            let mut answer = exceeded(Ipv4Addr::new(10, 9, 0, 1), &bytes(&probe).expect("IPv4"));
            answer.extend(extra);
            let read = read(&answer).expect("an answer");
            prop_assert_eq!(read.from, IpAddr::from([10, 9, 0, 1]));
            prop_assert_eq!((read.connection, read.sequence, read.id), (probe.connection, sequence(&probe), id));
        }
    }
}
