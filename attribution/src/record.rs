//! A flight record as bytes: a ring of segments in one file, each of which can be read without the others.
//!
//! ```text
//! file     segments of 256 KiB, one after another, in any order of time
//! segment  head, then frames, then zeros
//! head     256 bytes: "SLUICEFR", version u32, 4 zeros, serial u64, length of the host's name u16, the name, zeros,
//!          CRC-32 u32 of all before it
//! frame    length of its payload u32, CRC-32 u32 of the segment's serial and the payload, payload
//! payload  one `Seen`, as postcard writes it
//! ```
//!
//! Numbers are little-endian. A segment that is used again gets a higher serial, and with it what is left of its earlier
//! frames fails its check. A frame that was being written when its daemon was killed fails it too and ends its segment: all
//! before it counts. No bytes make a reader panic, or take more memory than a small multiple of their length.

use std::collections::BTreeMap;

use crc::{CRC_32_ISO_HDLC, Crc, Table};
use thiserror::Error;

use crate::seen::Seen;

/// The version of the format. Whatever changes a byte of a payload raises it.
pub const VERSION: u32 = 1;
/// Bytes of a segment.
pub const SEGMENT: usize = 256 << 10;
/// Bytes of its head.
pub const HEAD: usize = 256;
/// Bytes before a frame's payload.
pub const FRAME: usize = 8;
/// Most bytes of a host's name.
pub const MAX_NAME: usize = 200;

const MAGIC: &[u8; 8] = b"SLUICEFR";
/// With a table for each of sixteen bytes: a slot of many connections has 30 kB, and a host writes one every 60 ms.
static CRC: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISO_HDLC);

/// What one host's file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// Whose it is.
    pub host: String,
    /// The slots, oldest first.
    pub slots: Vec<Seen>,
    /// Segments that end in what is no frame, or are none: one is where a daemon was killed while it wrote.
    pub torn: usize,
}

/// Why nothing could be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unreadable {
    /// It is something else.
    #[error("no flight record: it does not begin with SLUICEFR")]
    Foreign,
    /// It was written by another version.
    #[error("a flight record of version {seen}, this program reads {VERSION}; read it with the version that wrote it")]
    Version {
        /// The version of its newest segment.
        seen: u32,
    },
    /// Two hosts wrote to one file.
    #[error("a flight record of {0:?} and of {1:?}; each host needs a file of its own")]
    Hosts(String, String),
}

/// The head of a segment.
#[allow(clippy::indexing_slicing, reason = "constant offsets of an array, and a name that was cut to its place")]
pub fn head(serial: u64, host: &str) -> [u8; HEAD] {
    let mut bytes = [0; HEAD];
    let mut end = host.len().min(MAX_NAME);
    while !host.is_char_boundary(end) {
        end -= 1;
    }
    let name = &host.as_bytes()[..end];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[16..24].copy_from_slice(&serial.to_le_bytes());
    bytes[24..26].copy_from_slice(&(name.len() as u16).to_le_bytes());
    bytes[26..26 + name.len()].copy_from_slice(name);
    let sum = CRC.checksum(&bytes[..HEAD - 4]);
    bytes[HEAD - 4..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// Writes a slot's frame behind what is in `out`; false: it is larger than a segment, and nothing was written.
#[allow(clippy::indexing_slicing, reason = "into the place that was made for it a few lines before")]
pub fn frame(serial: u64, seen: &Seen, out: &mut Vec<u8>) -> bool {
    let begins = out.len();
    out.extend([0; FRAME]);
    // Into memory of plain data: it fails only where there is no memory.
    let Ok(mut written) = postcard::to_extend(seen, std::mem::take(out)) else { return false };
    let length = written.len() - begins - FRAME;
    let sum = check(serial, &written[begins + FRAME..]);
    written[begins..begins + 4].copy_from_slice(&(length as u32).to_le_bytes());
    written[begins + 4..begins + FRAME].copy_from_slice(&sum.to_le_bytes());
    let fits = HEAD + FRAME + length <= SEGMENT;
    if !fits {
        written.truncate(begins);
    }
    *out = written;
    fits
}

/// A segment of one frame with a good check around any bytes: for `sluice-fuzz-targets` and nobody else.
#[doc(hidden)]
pub fn segment_of(payload: &[u8]) -> Vec<u8> {
    let mut segment = head(1, "h0").to_vec();
    segment.extend((payload.len() as u32).to_le_bytes());
    segment.extend(check(1, payload).to_le_bytes());
    segment.extend(payload);
    segment
}

fn check(serial: u64, payload: &[u8]) -> u32 {
    let mut digest = CRC.digest();
    digest.update(&serial.to_le_bytes());
    digest.update(payload);
    digest.finalize()
}

/// A segment's head, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Its version.
    pub version: u32,
    /// Its serial.
    pub serial: u64,
    /// Whose it is.
    pub host: String,
}

/// Reads the head of a segment; `None`: it is none.
pub fn read_head(segment: &[u8]) -> Option<Head> {
    let head = segment.get(..HEAD)?;
    let (before, sum) = head.split_at(HEAD - 4);
    if !before.starts_with(MAGIC) || u32_at(sum, 0)? != CRC.checksum(before) {
        return None;
    }
    let name = usize::from(u16::from_le_bytes(head.get(24..26)?.try_into().ok()?));
    let host = String::from_utf8_lossy(head.get(26..26 + name.min(MAX_NAME))?).into_owned();
    Some(Head { version: u32_at(head, 8)?, serial: u64::from_le_bytes(head.get(16..24)?.try_into().ok()?), host })
}

/// Is this the beginning of a head that was not written to its end?
pub fn may_become_head(bytes: &[u8]) -> bool {
    MAGIC.starts_with(bytes.get(..MAGIC.len()).unwrap_or(bytes)) || bytes.iter().all(|byte| *byte == 0)
}

/// Reads the frames of a segment, and whether it ends as it should.
fn frames(serial: u64, segment: &[u8], out: &mut Vec<Seen>) -> bool {
    let mut rest = segment.get(HEAD..).unwrap_or_default();
    loop {
        let (Some(length), Some(sum)) = (u32_at(rest, 0), u32_at(rest, 4)) else { return true };
        if length == 0 {
            return true;
        }
        let end = FRAME.saturating_add(length as usize);
        let Some(payload) = rest.get(FRAME..end).filter(|payload| check(serial, payload) == sum) else { return false };
        let Ok(seen) = postcard::from_bytes(payload) else { return false };
        out.push(seen);
        rest = rest.get(end..).unwrap_or_default();
    }
}

/// Reads a whole file.
///
/// # Errors
/// [`Unreadable`]: not a segment of it can be read.
pub fn read(bytes: &[u8]) -> Result<Record, Unreadable> {
    let mut segments: BTreeMap<u64, (Head, &[u8])> = BTreeMap::new();
    let (mut torn, mut version) = (0, None);
    for segment in bytes.chunks(SEGMENT) {
        match read_head(segment) {
            Some(head) if head.version == VERSION => drop(segments.insert(head.serial, (head, segment))),
            Some(head) => version = version.max(Some((head.serial, head.version))),
            None => torn += usize::from(segment.iter().any(|byte| *byte != 0)),
        }
    }
    let Some((_, (newest, _))) = segments.last_key_value() else {
        return Err(version.map_or(Unreadable::Foreign, |(_, seen)| Unreadable::Version { seen }));
    };
    let mut record = Record { host: newest.host.clone(), torn, slots: Vec::new() };
    for (serial, (head, segment)) in &segments {
        if head.host != record.host {
            return Err(Unreadable::Hosts(head.host.clone(), record.host));
        }
        record.torn += usize::from(!frames(*serial, segment, &mut record.slots));
    }
    // A clock that was set back makes an earlier time later; the cut into rounds needs them in order.
    record.slots.sort_by_key(|seen| seen.to);
    Ok(record)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

#[cfg(test)]
mod tests;
