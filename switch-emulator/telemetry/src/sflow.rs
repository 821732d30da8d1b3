//! As much of sFlow version 5 as says how many octets left each interface: datagrams to readings, and back for tests.
//!
//! A datagram is XDR (RFC 4506): big-endian words, and before every part of open length its length. Read is the record
//! of generic interface counters in counter samples, plain and expanded; flow samples, other records and what vendors
//! add are passed over by their length. Nobody signs a datagram: whoever may send one may speak for any agent.

use std::net::IpAddr;

/// Bytes of a datagram at most: more than UDP carries.
pub const LONGEST: usize = 64 * 1024;
/// The version of the format that is read and written.
pub const VERSION: u32 = 5;

/// Bytes of the shortest sample or record there can be: its format and its length.
const SHORTEST_PART: usize = 8;
/// Address types.
const IPV4: u32 = 1;
const IPV6: u32 = 2;
/// Formats of samples. The upper 20 bits say whose format it is; zero is sflow.org.
const COUNTERS: u32 = 2;
const EXPANDED_COUNTERS: u32 = 4;
/// Format of the record of generic interface counters.
const INTERFACE: u32 = 1;
/// What stands for a counter that the agent does not have.
const UNKNOWN: u64 = u64::MAX;

/// What an agent says of one interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Address by which the agent names itself; IPv4 carried in IPv6 counts as IPv4.
    pub agent: IpAddr,
    /// The interface's index at that agent (ifIndex).
    pub interface: u32,
    /// Octets that left by the interface since some moment, framing included.
    pub out_octets: u64,
    /// The agent's clock when it sent this: milliseconds since it started, modulo 2^32.
    pub uptime_ms: u32,
}

/// Why bytes are no datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Longer than any datagram.
    #[error("sflow-malformed: a datagram has {0} bytes; allowed up to {LONGEST}.")]
    Length(usize),
    /// Another version of the format.
    #[error("sflow-malformed: a datagram has version {0}; allowed {VERSION}.")]
    Version(u32),
    /// The agent's address is neither IPv4 nor IPv6.
    #[error("sflow-malformed: the agent's address has type {0}; allowed {IPV4} (IPv4) and {IPV6} (IPv6).")]
    AddressType(u32),
    /// More samples or records than the bytes that are left can hold.
    #[error("sflow-malformed: {field} is {found}; allowed 0 to {allowed}, for which bytes are left.")]
    Count {
        /// What is counted.
        field: &'static str,
        /// The count as it was read.
        found: u32,
        /// The most that fit.
        allowed: usize,
    },
    /// Something reaches beyond the end of the datagram, or of the part that it belongs to.
    #[error("sflow-malformed: {field} at byte {at} takes {needed} bytes; allowed up to {left}, which are left.")]
    Short {
        /// What was being read.
        field: &'static str,
        /// Where it begins in the datagram.
        at: usize,
        /// Bytes it takes, padding included.
        needed: usize,
        /// Bytes there are.
        left: usize,
    },
}

/// What is left to read of a datagram, or of one part of it.
struct Input<'a> {
    rest: &'a [u8],
    /// Where `rest` begins in the datagram.
    at: usize,
}

impl<'a> Input<'a> {
    fn take<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], Malformed> {
        let Some((taken, rest)) = self.rest.split_first_chunk::<N>() else { return Err(self.short(field, N)) };
        self.rest = rest;
        self.at += N;
        Ok(*taken)
    }

    fn word(&mut self, field: &'static str) -> Result<u32, Malformed> {
        self.take(field).map(u32::from_be_bytes)
    }

    fn double_word(&mut self, field: &'static str) -> Result<u64, Malformed> {
        self.take(field).map(u64::from_be_bytes)
    }

    /// A count of samples or records. One that the bytes left could not hold is a lie, told before anything is done.
    fn count(&mut self, field: &'static str) -> Result<u32, Malformed> {
        let found = self.word(field)?;
        let allowed = self.rest.len() / SHORTEST_PART;
        let fits = usize::try_from(found).is_ok_and(|found| found <= allowed);
        if fits { Ok(found) } else { Err(Malformed::Count { field, found, allowed }) }
    }

    /// A part that begins with its length in bytes, and is padded to whole words.
    fn part(&mut self, field: &'static str) -> Result<Input<'a>, Malformed> {
        let length = usize::try_from(self.word(field)?).unwrap_or(usize::MAX);
        let padded = length.checked_next_multiple_of(4).unwrap_or(usize::MAX);
        let Some((part, rest)) = self.rest.split_at_checked(padded) else { return Err(self.short(field, padded)) };
        let part = Input { rest: part.get(..length).unwrap_or(part), at: self.at };
        self.rest = rest;
        self.at += padded;
        Ok(part)
    }

    fn short(&self, field: &'static str, needed: usize) -> Malformed {
        Malformed::Short { field, at: self.at, needed, left: self.rest.len() }
    }
}

/// What a datagram says of interfaces, in its order; at most one reading for every 72 of its bytes. Interfaces that do
/// not count octets are left out, and so is whatever stands behind the last sample.
///
/// # Errors
/// [`Malformed`] if any part does not fit its length, even one that is passed over: then nothing of it is believed.
pub fn decode(bytes: &[u8]) -> Result<Vec<Reading>, Malformed> {
    if bytes.len() > LONGEST {
        return Err(Malformed::Length(bytes.len()));
    }
    let mut input = Input { rest: bytes, at: 0 };
    let version = input.word("version")?;
    if version != VERSION {
        return Err(Malformed::Version(version));
    }
    let agent = match input.word("agent address type")? {
        IPV4 => IpAddr::from(input.take::<4>("agent address")?),
        IPV6 => IpAddr::from(input.take::<16>("agent address")?).to_canonical(),
        other => return Err(Malformed::AddressType(other)),
    };
    let _sub_agent = input.word("sub-agent id")?;
    let _sequence = input.word("sequence number")?;
    let uptime_ms = input.word("uptime")?;
    let mut readings = Vec::new();
    for _ in 0..input.count("number of samples")? {
        let format = input.word("sample format")?;
        let mut sample = input.part("sample")?;
        match format {
            COUNTERS => _ = sample.take::<8>("sequence number and source")?,
            EXPANDED_COUNTERS => _ = sample.take::<12>("sequence number and source")?,
            _ => continue,
        }
        for _ in 0..sample.count("number of records")? {
            let format = sample.word("record format")?;
            let record = sample.part("record")?;
            if format != INTERFACE {
                continue;
            }
            let (interface, out_octets) = read_interface(record)?;
            if out_octets != UNKNOWN {
                readings.push(Reading { agent, interface, out_octets, uptime_ms });
            }
        }
    }
    Ok(readings)
}

/// Index and octets out of a record of generic interface counters; what stands behind them is not looked at.
fn read_interface(mut record: Input<'_>) -> Result<(u32, u64), Malformed> {
    let index = record.word("ifIndex")?;
    // ifType, ifSpeed, ifDirection and ifStatus.
    record.take::<20>("ifType to ifStatus")?;
    record.double_word("ifInOctets")?;
    // Packets in: unicast, multicast, broadcast, discarded, in error, of unknown protocols.
    record.take::<24>("ifInUcastPkts to ifInUnknownProtos")?;
    Ok((index, record.double_word("ifOutOctets")?))
}

/// A datagram to be written; what [`decode`] passes over is here too, so that tests can put it in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Address by which the agent names itself.
    pub agent: IpAddr,
    /// Which part of the agent speaks.
    pub sub_agent: u32,
    /// Datagrams of that part so far.
    pub sequence: u32,
    /// Milliseconds since the agent started, modulo 2^32.
    pub uptime_ms: u32,
    /// What the datagram carries.
    pub samples: Vec<Sample>,
}

/// One sample of a datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sample {
    /// Counters of one source.
    Counters {
        /// In the format with a word for the source's class and one for its index, not one for both.
        expanded: bool,
        /// Samples of this source so far.
        sequence: u32,
        /// Index of the source, an interface as a rule; 24 bits of it unless `expanded`.
        source: u32,
        /// What was counted.
        records: Vec<Record>,
    },
    /// Anything else.
    Other {
        /// Number of its format, neither 2 nor 4.
        format: u32,
        /// Its bytes, without padding.
        body: Vec<u8>,
    },
}

/// One record of a counter sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// Generic interface counters.
    Interface(Interface),
    /// Anything else.
    Other {
        /// Number of its format, not 1.
        format: u32,
        /// Its bytes, without padding.
        body: Vec<u8>,
    },
}

/// Generic counters of an interface; what is not named here is written as zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// The interface's index at its agent (ifIndex).
    pub index: u32,
    /// Its rate in bit/s (ifSpeed).
    pub speed: u64,
    /// Octets that came in by it.
    pub in_octets: u64,
    /// Octets that left by it; 2^64 − 1 means that they are not counted.
    pub out_octets: u64,
}

/// The datagram as it travels. Nothing keeps it below [`LONGEST`] or below what a path carries; a sample with one
/// interface takes 116 bytes, and what comes before the samples 28 (40 of an IPv6 agent).
pub fn encode(datagram: &Datagram) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out, VERSION);
    match datagram.agent {
        IpAddr::V4(address) => {
            put(&mut out, IPV4);
            out.extend(address.octets());
        }
        IpAddr::V6(address) => {
            put(&mut out, IPV6);
            out.extend(address.octets());
        }
    }
    for word in [datagram.sub_agent, datagram.sequence, datagram.uptime_ms, count(datagram.samples.len())] {
        put(&mut out, word);
    }
    for sample in &datagram.samples {
        match sample {
            Sample::Counters { expanded, sequence, source, records } => {
                let format = if *expanded { EXPANDED_COUNTERS } else { COUNTERS };
                put_part(&mut out, format, &encode_counters(*expanded, *sequence, *source, records));
            }
            Sample::Other { format, body } => put_part(&mut out, *format, body),
        }
    }
    out
}

fn encode_counters(expanded: bool, sequence: u32, source: u32, records: &[Record]) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out, sequence);
    if expanded {
        // The class of interfaces.
        put(&mut out, 0);
        put(&mut out, source);
    } else {
        put(&mut out, source & 0x00ff_ffff);
    }
    put(&mut out, count(records.len()));
    for record in records {
        match record {
            Record::Interface(interface) => put_part(&mut out, INTERFACE, &encode_interface(interface)),
            Record::Other { format, body } => put_part(&mut out, *format, body),
        }
    }
    out
}

fn encode_interface(interface: &Interface) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out, interface.index);
    // Ethernet, as ifType has it.
    put(&mut out, 6);
    out.extend(interface.speed.to_be_bytes());
    // Full duplex; up, and meant to be.
    put(&mut out, 1);
    put(&mut out, 3);
    for octets in [interface.in_octets, interface.out_octets] {
        out.extend(octets.to_be_bytes());
        // Six counters of packets and errors.
        out.extend([0; 24]);
    }
    out
}

fn put(out: &mut Vec<u8>, word: u32) {
    out.extend(word.to_be_bytes());
}

fn put_part(out: &mut Vec<u8>, format: u32, body: &[u8]) {
    put(out, format);
    put(out, count(body.len()));
    out.extend(body);
    out.resize(out.len().next_multiple_of(4), 0);
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
