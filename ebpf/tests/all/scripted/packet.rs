//! IPv4 packets with TCP in them, as a TUN device gives and takes them.

use std::net::{Ipv4Addr, SocketAddrV4};

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const ACK: u8 = 16;
pub const ECE: u8 = 64;
pub const CWR: u8 = 128;

const IP_HEADER: usize = 20;
const TCP_HEADER: usize = 20;
const TCP: u8 = 6;

/// The options of a segment that this end knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    pub mss: Option<u16>,
    pub scale: Option<u8>,
    pub may_sack: bool,
    /// Own time, and the one that is echoed.
    pub times: Option<Times>,
    pub sacks: Vec<Range>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    pub own: u32,
    pub echoed: u32,
}

/// Sequence numbers from one to another, the latter left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub from: u32,
    pub to: u32,
}

/// One segment. Of its payload only the length matters; what this end sends has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    pub from: SocketAddrV4,
    pub to: SocketAddrV4,
    pub sequence: u32,
    pub acknowledged: u32,
    pub flags: u8,
    pub window: u16,
    pub options: Options,
    pub payload: u32,
}

impl Segment {
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// `None`: something else than TCP over IPv4, or cut off.
    pub fn parse(bytes: &[u8]) -> Option<Segment> {
        let header = usize::from(bytes.first()? & 15) * 4;
        let whole = usize::from(half(bytes, 2)?);
        if bytes.first()? >> 4 != 4 || *bytes.get(9)? != TCP {
            return None;
        }
        let tcp = bytes.get(header..whole)?;
        let data = usize::from(tcp.get(12)? >> 4) * 4;
        let address = |at: usize| Some(Ipv4Addr::from(*bytes.get(at..)?.first_chunk::<4>()?));
        Some(Segment {
            from: SocketAddrV4::new(address(12)?, half(tcp, 0)?),
            to: SocketAddrV4::new(address(16)?, half(tcp, 2)?),
            sequence: word(tcp, 4)?,
            acknowledged: word(tcp, 8)?,
            flags: *tcp.get(13)?,
            window: half(tcp, 14)?,
            options: Options::parse(tcp.get(TCP_HEADER..data)?),
            payload: u32::try_from(tcp.len().checked_sub(data)?).ok()?,
        })
    }

    /// As it goes over a wire, without a payload.
    pub fn bytes(&self) -> Vec<u8> {
        let options = self.options.bytes();
        let length = TCP_HEADER + options.len();
        let mut tcp = Vec::with_capacity(length);
        tcp.extend(self.from.port().to_be_bytes());
        tcp.extend(self.to.port().to_be_bytes());
        tcp.extend(self.sequence.to_be_bytes());
        tcp.extend(self.acknowledged.to_be_bytes());
        tcp.extend([(length as u8 / 4) << 4, self.flags]);
        tcp.extend(self.window.to_be_bytes());
        tcp.extend([0; 4]);
        tcp.extend(options);
        let (from, to) = (self.from.ip().octets(), self.to.ip().octets());
        let pseudo = [&from[..], &to[..], &[0, TCP], &(length as u16).to_be_bytes()[..]].concat();
        let sum = checksum(&[pseudo, tcp.clone()].concat());
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        let mut ip = vec![0x45, 0];
        ip.extend(((IP_HEADER + length) as u16).to_be_bytes());
        // No identification, not to be cut, 64 hops.
        ip.extend([0, 0, 0x40, 0, 64, TCP, 0, 0]);
        ip.extend(from);
        ip.extend(to);
        let sum = checksum(&ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        ip.extend(tcp);
        ip
    }
}

impl Options {
    fn parse(mut bytes: &[u8]) -> Options {
        let mut found = Options::default();
        while let Some((&kind, rest)) = bytes.split_first() {
            let length = match kind {
                0 => break,
                1 => 1,
                _ => usize::from(rest.first().copied().unwrap_or(0)),
            };
            let Some(option) = bytes.get(..length).filter(|option| !option.is_empty()) else { break };
            match kind {
                2 => found.mss = half(option, 2),
                3 => found.scale = option.get(2).copied(),
                4 => found.may_sack = true,
                8 => {
                    let times = word(option, 2).zip(word(option, 6));
                    found.times = times.map(|(own, echoed)| Times { own, echoed });
                }
                _ => {}
            }
            bytes = bytes.get(length..).unwrap_or_default();
        }
        found
    }

    fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if let Some(mss) = self.mss {
            out.extend([2, 4]);
            out.extend(mss.to_be_bytes());
        }
        if let Some(scale) = self.scale {
            out.extend([1, 3, 3, scale]);
        }
        if self.may_sack {
            out.extend([1, 1, 4, 2]);
        }
        if let Some(times) = self.times {
            out.extend([1, 1, 8, 10]);
            out.extend(times.own.to_be_bytes());
            out.extend(times.echoed.to_be_bytes());
        }
        if !self.sacks.is_empty() {
            out.extend([1, 1, 5, 2 + 8 * self.sacks.len() as u8]);
            for range in &self.sacks {
                out.extend(range.from.to_be_bytes());
                out.extend(range.to.to_be_bytes());
            }
        }
        out
    }
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk::<2>()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk::<4>()?))
}

/// The ones' complement sum of RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let halves = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)));
    let mut sum: u32 = halves.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[test]
fn a_segment_reads_back_as_it_was_written() {
    let at = |last, port| SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, last), port);
    let options = Options {
        mss: Some(1460),
        scale: Some(7),
        may_sack: true,
        times: Some(Times { own: 5, echoed: 6 }),
        sacks: Vec::new(),
    };
    let segment = Segment {
        from: at(1, 80),
        to: at(2, 4000),
        sequence: 7,
        acknowledged: u32::MAX,
        flags: SYN | ACK,
        window: 500,
        options,
        payload: 0,
    };
    let bytes = segment.bytes();
    assert_eq!(Segment::parse(&bytes), Some(segment));
    // Over what carries its own sum the sum is nothing.
    assert_eq!(checksum(&bytes[..IP_HEADER]), 0);
    for cut in 0..bytes.len() {
        assert_eq!(Segment::parse(&bytes[..cut]), None);
    }
}
