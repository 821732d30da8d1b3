//! The framing of ZMTP 3 (ZeroMQ RFC 23), read from one direction of a connection in pieces of any size.
//!
//! Pure and bounded: a decoder keeps a few words and never a copy of what it reads; the body of a frame is passed over
//! in one step however long it is. Whatever is not ZMTP 3 without encryption ends it.

/// Bytes of a greeting.
const GREETING: u8 = 64;
/// The security mechanism in a greeting: bytes 12 to 31.
const MECHANISM: (u8, &[u8; 20]) = (12, b"NULL\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
/// Bits of a frame's first byte.
const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

/// What comes next in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// A frame begins, and this is its head.
    Begins(Frame),
    /// Bytes of its body, in order; none for an empty one.
    Body(&'a [u8]),
    Ends,
    /// A frame and all of its body: in place of the three above.
    Whole(Frame, &'a [u8]),
}

/// The head of a frame: two words, so that it is handed on in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    flags: u8,
    /// Bytes of the body.
    pub size: u64,
}

impl Frame {
    /// Stands where no frame is under way.
    pub const NONE: Frame = Frame { flags: 0, size: 0 };

    /// A command of the connection, no part of a message.
    pub fn command(self) -> bool {
        self.flags & COMMAND != 0
    }

    /// Do further frames of the same message follow?
    pub fn more(self) -> bool {
        self.flags & MORE != 0
    }

    /// Bytes of the head itself.
    pub fn head(self) -> u8 {
        if self.flags & LONG == 0 { 2 } else { 9 }
    }
}

/// It is not, or no longer, a stream that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost;

/// One direction of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Decoder {
    phase: Phase,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// So many bytes of the greeting were right.
    Greeting(u8),
    Flags,
    Length {
        flags: u8,
        left: u8,
        value: u64,
    },
    Body(u64),
    Lost,
}

impl Decoder {
    /// Before the first byte.
    pub const fn new() -> Decoder {
        Decoder { phase: Phase::Greeting(0) }
    }

    /// Goes on over the next `count` bytes, whatever they are, if a body holds them and more. False: nothing is changed.
    #[inline]
    pub fn skip(&mut self, count: usize) -> bool {
        match &mut self.phase {
            Phase::Body(left) if (count as u64) < *left => {
                *left -= count as u64;
                true
            }
            _ => false,
        }
    }

    /// What comes next in these bytes, which go on where the last ones ended; `None`: they are all read.
    ///
    /// # Errors
    /// It is no ZMTP 3 without encryption, now and for every further call.
    #[inline]
    pub fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Option<Part<'a>>, Lost> {
        // What most calls hold: frames that are whole.
        if let (Phase::Flags, Some((frame, body, rest))) = (self.phase, whole(bytes)) {
            *bytes = rest;
            return Ok(Some(Part::Whole(frame, body)));
        }
        self.piece(bytes)
    }

    fn piece<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Option<Part<'a>>, Lost> {
        loop {
            if let Phase::Body(0) = self.phase {
                self.phase = Phase::Flags;
                return Ok(Some(Part::Ends));
            }
            let Some((&byte, rest)) = bytes.split_first() else {
                return if let Phase::Lost = self.phase { Err(Lost) } else { Ok(None) };
            };
            self.phase = match self.phase {
                Phase::Greeting(at) if !greeting(at, byte) => Phase::Lost,
                Phase::Greeting(at) if at + 1 == GREETING => Phase::Flags,
                Phase::Greeting(at) => Phase::Greeting(at + 1),
                Phase::Flags if !flags(byte) => Phase::Lost,
                Phase::Flags => Phase::Length { flags: byte, left: if byte & LONG == 0 { 1 } else { 8 }, value: 0 },
                Phase::Length { flags, left, value } => {
                    let value = value << 8 | u64::from(byte);
                    if left > 1 {
                        Phase::Length { flags, left: left - 1, value }
                    } else if value > i64::MAX as u64 {
                        Phase::Lost
                    } else {
                        self.phase = Phase::Body(value);
                        *bytes = rest;
                        return Ok(Some(Part::Begins(Frame { flags, size: value })));
                    }
                }
                Phase::Body(left) => {
                    let take = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                    let (body, rest) = bytes.split_at_checked(take).unwrap_or((bytes, &[]));
                    self.phase = Phase::Body(left - body.len() as u64);
                    *bytes = rest;
                    return Ok(Some(Part::Body(body)));
                }
                Phase::Lost => return Err(Lost),
            };
            *bytes = rest;
        }
    }
}

/// May a greeting have this byte here?
fn greeting(at: u8, byte: u8) -> bool {
    match at {
        0 => byte == 0xff,
        9 => byte == 0x7f,
        10 => byte >= 3,
        12..32 => MECHANISM.1.get(usize::from(at - MECHANISM.0)) == Some(&byte),
        _ => true,
    }
}

/// May a frame begin with this byte? A command is alone.
fn flags(byte: u8) -> bool {
    byte & !(MORE | LONG | COMMAND) == 0 && byte & (MORE | COMMAND) != MORE | COMMAND
}

/// The frame that these bytes begin with, its body and what follows, if all of it is there.
#[inline]
fn whole(bytes: &[u8]) -> Option<(Frame, &[u8], &[u8])> {
    let (&first, rest) = bytes.split_first().filter(|(first, _)| flags(**first))?;
    let (size, rest) = if first & LONG == 0 {
        rest.split_first().map(|(size, rest)| (u64::from(*size), rest))?
    } else {
        rest.split_first_chunk().map(|(size, rest)| (u64::from_be_bytes(*size), rest))?
    };
    let (body, rest) = rest.split_at_checked(usize::try_from(size).ok()?)?;
    Some((Frame { flags: first, size }, body, rest))
}

// Named, since `sluice-fuzz-targets` builds this file too.
#[cfg(test)]
#[path = "zmtp/tests.rs"]
pub mod tests;
