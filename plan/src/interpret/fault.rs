//! What is wrong with a program that could be read: what, where, and in what words.

use serde::Serialize;
use std::fmt;

/// The kinds of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Kind {
    /// The buffers are not those of the collective.
    WrongShape,
    /// A connection that not exactly one block sends on and one receives from.
    BadConnection,
    /// The two ends of a message do not mean the same.
    Mismatch,
    /// Blocks that wait for ever.
    Deadlock,
    /// Two steps that touch one chunk, in no order.
    Race,
    /// A step reads what nobody has written.
    Unwritten,
    /// A sum of unlike parts, or of one part twice.
    WrongSum,
    /// A rank ends with something else than the collective owes it.
    WrongResult,
}

/// The first thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// What kind of thing.
    pub kind: Kind,
    /// Rank, block and step.
    pub at: String,
    /// What went wrong there, in a sentence.
    pub message: String,
}

impl Fault {
    pub(super) fn new(kind: Kind, at: impl Into<String>, message: impl Into<String>) -> Fault {
        Fault { kind, at: at.into(), message: message.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {}: {}", self.kind, self.at, self.message)
    }
}

impl std::error::Error for Fault {}
