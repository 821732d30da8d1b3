//! The first frame of a PS-Lite message: what kind of message it is. Two forms are in use, dmlc's protobuf and
//! bytedance's C struct; both are read strictly, so that neither is taken for the other.

/// What is read of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// A push or a pull, or a reply to one; otherwise control, or a command of the application.
    pub data: bool,
    /// A request; otherwise its reply.
    pub request: bool,
    /// Whether the message is a push.
    pub push: bool,
}

/// Reads one, whole; `None`: of neither form.
pub fn read(bytes: &[u8]) -> Option<Meta> {
    protobuf(bytes).or_else(|| packed(bytes))
}

/// Field numbers of dmlc's `PBMeta`.
mod field {
    pub const BODY: u64 = 2;
    pub const CONTROL: u64 = 3;
    pub const REQUEST: u64 = 4;
    pub const PUSH: u64 = 5;
    pub const SIMPLE_APP: u64 = 6;
    pub const DATA_TYPE: u64 = 9;
    /// The last one with a tag of one byte; 12 (pull) and 13 (priority) came later than the others.
    pub const LAST: u64 = 15;
}

/// Fields that may be numbers, and that may be texts, by bit.
const NUMBERS: u64 = ((2 << field::LAST) - 2) & !(1 << field::BODY | 1 << field::CONTROL);
const TEXTS: u64 = 1 << field::BODY | 1 << field::CONTROL | 1 << field::DATA_TYPE;

fn protobuf(mut bytes: &[u8]) -> Option<Meta> {
    // Fields that are there and not 0, by bit: no branch for each that a processor would have to foresee.
    let mut set = 0_u64;
    if bytes.is_empty() {
        return None;
    }
    while !bytes.is_empty() {
        let (tag, value) = match bytes.split_first_chunk() {
            Some(([tag, value], rest)) if (tag | value) & 0x80 == 0 => {
                bytes = rest;
                (u64::from(*tag), u64::from(*value))
            }
            _ => (varint(&mut bytes)?, varint(&mut bytes)?),
        };
        let number = 1_u64.checked_shl(u32::try_from(tag >> 3).ok()?)?;
        match tag & 7 {
            0 if number & NUMBERS != 0 => set = (set & !number) | (u64::from(value != 0) * number),
            2 if number & TEXTS != 0 => {
                bytes = bytes.get(usize::try_from(value).ok()?..)?;
                set |= number & (1 << field::CONTROL);
            }
            _ => return None,
        }
    }
    let is = |field: u64| set & 1 << field != 0;
    let data = !is(field::CONTROL) && !is(field::SIMPLE_APP);
    Some(Meta { data, request: is(field::REQUEST), push: is(field::PUSH) })
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Offsets in bytedance's `RawMeta` on 64-bit little-endian machines, the same in all its versions.
mod at {
    pub const BODY_SIZE: usize = 4;
    pub const COMMAND: usize = 8;
    pub const NODES: usize = 12;
    pub const REQUEST: usize = 32;
    pub const DATA_TYPES: usize = 44;
}

/// Size of the struct and offset of `push` in it (`simple_app` is the next byte): 2020-01 (ps-lite 3b7180d), with
/// devices (2558dfe), with a sequence number (6dc1966).
const VERSIONS: [(usize, usize); 3] = [(88, 52), (104, 68), (112, 68)];

fn packed(bytes: &[u8]) -> Option<Meta> {
    let word = |at: usize| bytes.get(at..).and_then(|rest| rest.first_chunk()).map(|word| u32::from_le_bytes(*word));
    let flag = |at: usize| bytes.get(at).filter(|byte| **byte <= 1).map(|byte| *byte == 1);
    let (body, types, nodes) = (word(at::BODY_SIZE)?, word(at::DATA_TYPES)?, word(at::NODES)?);
    let control = word(at::COMMAND)? != 0 || nodes != 0;
    let fixed = (bytes.len() as u64).checked_sub(u64::from(body))?.checked_sub(u64::from(types) * 4)?;
    // How long a node is differs too; a message with nodes is control whatever follows.
    let known = |(size, _): &&(usize, usize)| *size as u64 == fixed || nodes != 0 && fixed > *size as u64;
    let (_, push) = VERSIONS.iter().find(known)?;
    let (request, push, simple) = (flag(at::REQUEST)?, flag(*push), flag(push + 1));
    if control {
        return Some(Meta { data: false, request, push: false });
    }
    Some(Meta { data: !simple?, request, push: push? })
}

// Named, since `sluice-fuzz-targets` builds this file too.
#[cfg(test)]
#[path = "meta/tests.rs"]
pub mod tests;
