//! The messages of PS-Lite in one direction of a connection: who sends, which tensors, how many bytes.
//!
//! A message is a frame of meta, one of keys, one of values, one of lengths; what a bytedance server sends back over a
//! worker's own connection has its name before that. Only the first bytes of the first two are kept.

use crate::meta::{self, Meta};
use crate::zmtp::{self, Frame, Lost, Part};

/// Bytes of a frame that are kept: the longest meta of a push or pull, and the READY command, are shorter.
const KEPT: usize = 192;
/// Bytes of a key.
const KEY: usize = 8;

/// A node of PS-Lite by its number: 1 the scheduler, 8, 10, … servers, 9, 11, … workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node(pub u32);

impl Node {
    /// The node that a name of the form `ps<ID>` stands for.
    pub fn named(name: &[u8]) -> Option<Node> {
        let digits = name.strip_prefix(b"ps").filter(|digits| !digits.is_empty() && digits.len() <= 9)?;
        let add = |number: u32, digit: &u8| digit.is_ascii_digit().then(|| number * 10 + u32::from(digit - b'0'));
        digits.iter().try_fold(0, add).map(Node)
    }

    /// Its rank among the servers or among the workers; `None`: it is neither.
    pub fn rank(self) -> Option<u32> {
        self.0.checked_sub(8).map(|past| past / 2)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact {
    /// Its sender has this number.
    Sender(Node),
    /// The values of a push or of the reply to a pull begin. `wire`: bytes of the message so far, with these and all heads.
    Tensor { key: u64, bytes: u64, wire: u64 },
    /// The message with that tensor is over.
    TensorEnds { key: u64 },
    /// A pull was asked for.
    Pull { key: u64 },
    /// Bytes of pushes and pulls beside those: acknowledgements, requests, lengths.
    Rest { wire: u64 },
    /// A message whose meta is of no known form.
    Unknown,
}

/// One direction of a connection; what every message changes comes first.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Decoder {
    frames: zmtp::Decoder,
    message: Message,
    kept: Kept,
}

/// The first bytes of a frame that comes in pieces.
#[derive(Clone, Copy, Debug)]
struct Kept {
    have: usize,
    bytes: [u8; KEPT],
}

impl Kept {
    fn add(&mut self, body: &[u8]) {
        let Some(room) = self.bytes.get_mut(self.have..) else { return };
        let count = room.len().min(body.len());
        if let (Some(room), Some(body)) = (room.get_mut(..count), body.get(..count)) {
            room.copy_from_slice(body);
            self.have += count;
        }
    }

    fn get(&self) -> &[u8] {
        self.bytes.get(..self.have).unwrap_or_default()
    }
}

#[derive(Clone, Copy, Debug)]
struct Message {
    frame: Frame,
    index: Index,
    key: u64,
    meta: Option<Meta>,
    tensor: bool,
    /// Bytes not told yet.
    wire: u64,
}

/// Which frame of its message is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Index {
    Meta,
    Keys,
    Values,
    Further,
}

impl Decoder {
    /// Before the first byte.
    pub const fn new() -> Decoder {
        let message = Message { frame: Frame::NONE, index: Index::Meta, key: 0, meta: None, tensor: false, wire: 0 };
        Decoder { frames: zmtp::Decoder::new(), message, kept: Kept { have: 0, bytes: [0; KEPT] } }
    }

    /// Goes on over the next `count` bytes unread, if they lie within a frame of which nothing is wanted. False: nothing is
    /// changed, and they have to be read.
    #[inline]
    pub fn skip(&mut self, count: usize) -> bool {
        !self.message.wants() && self.frames.skip(count)
    }

    /// Goes on with the next bytes; `each` is told what they hold.
    ///
    /// # Errors
    /// It is no ZMTP 3 without encryption, now and for every further call.
    pub fn feed(&mut self, mut bytes: &[u8], mut each: impl FnMut(Fact)) -> Result<(), Lost> {
        let Decoder { frames, message, kept } = self;
        while let Some(part) = frames.next(&mut bytes)? {
            match part {
                Part::Begins(frame) => {
                    kept.have = 0;
                    message.begins(frame, &mut each);
                }
                Part::Body(body) if message.wants() => kept.add(body),
                Part::Body(_) => {}
                Part::Ends => message.ends(kept.get(), &mut each),
                Part::Whole(frame, body) => {
                    message.begins(frame, &mut each);
                    message.ends(body.get(..KEPT).unwrap_or(body), &mut each);
                }
            }
        }
        Ok(())
    }
}

impl Message {
    fn begins(&mut self, frame: Frame, each: &mut impl FnMut(Fact)) {
        self.frame = frame;
        if frame.command() {
            return;
        }
        self.wire = self.wire.saturating_add(frame.size).saturating_add(frame.head().into());
        if !self.meta.is_some_and(|meta| meta.data) {
            return;
        }
        match self.index {
            Index::Values if frame.size > 0 => {
                self.tensor = true;
                each(Fact::Tensor { key: self.key, bytes: frame.size, wire: std::mem::take(&mut self.wire) });
            }
            Index::Further if self.tensor => each(Fact::Rest { wire: std::mem::take(&mut self.wire) }),
            _ => {}
        }
    }

    /// Is the body of this frame kept?
    fn wants(&self) -> bool {
        self.frame.command() || matches!(self.index, Index::Meta | Index::Keys)
    }

    /// Over, with these first bytes of it.
    fn ends(&mut self, first: &[u8], each: &mut impl FnMut(Fact)) {
        let whole = Some(first).filter(|first| first.len() as u64 == self.frame.size);
        if self.frame.command() {
            if let Some(node) = whole.and_then(ready) {
                each(Fact::Sender(node));
            }
            return;
        }
        match self.index {
            Index::Meta => {
                if let Some(node) = whole.filter(|_| self.frame.more()).and_then(Node::named) {
                    each(Fact::Sender(node));
                } else {
                    // One that is longer than any push's is control, with a list of nodes.
                    let control = Some(Meta { data: false, request: false, push: false });
                    self.meta = whole.map_or(control, meta::read);
                    self.index = Index::Keys;
                }
            }
            Index::Keys => {
                self.key = first.first_chunk::<KEY>().map_or(0, |key| u64::from_le_bytes(*key));
                self.index = Index::Values;
            }
            Index::Values | Index::Further => self.index = Index::Further,
        }
        if !self.frame.more() {
            self.over(each);
        }
    }

    fn over(&mut self, each: &mut impl FnMut(Fact)) {
        let wire = std::mem::take(&mut self.wire);
        match self.meta {
            Some(meta) if meta.data => {
                if self.tensor {
                    each(Fact::TensorEnds { key: self.key });
                } else {
                    each(Fact::Rest { wire });
                    if meta.request && !meta.push && self.index == Index::Further {
                        each(Fact::Pull { key: self.key });
                    }
                }
            }
            Some(_) => {}
            None => each(Fact::Unknown),
        }
        (self.index, self.meta, self.tensor, self.key) = (Index::Meta, None, false, 0);
    }
}

/// The sender's name in a READY command: properties of a name (length 1) and a value (length 4).
#[cold]
fn ready(body: &[u8]) -> Option<Node> {
    let mut rest = body.strip_prefix(b"\x05READY")?;
    loop {
        let (&length, after) = rest.split_first()?;
        let (name, after) = after.split_at_checked(length.into())?;
        let (length, after) = after.split_first_chunk::<4>()?;
        let (value, after) = after.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        if name.eq_ignore_ascii_case(b"Identity") {
            return Node::named(value);
        }
        rest = after;
    }
}

// Named, since `sluice-fuzz-targets` builds this file too.
#[cfg(test)]
#[path = "van/tests.rs"]
mod tests;
