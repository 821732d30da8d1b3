//! What a script says of the far end and of the way to it, and what the far end has seen.

use std::time::Duration;

/// What it is like from the first packet on.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    /// The largest segment that it takes.
    pub mss: u16,
    pub sack: bool,
    pub timestamps: bool,
    pub ecn: bool,
    /// Bytes that it has room for.
    pub window: u32,
    /// From a segment's sending to its acknowledgement's arrival.
    pub round_trip: Duration,
    /// It acknowledges one segment in so many.
    pub every: u32,
    /// What is on the way to it.
    pub bottleneck: Option<Bottleneck>,
}

impl Default for Habits {
    fn default() -> Habits {
        Habits {
            mss: 1460,
            sack: true,
            timestamps: true,
            ecn: false,
            window: 1 << 22,
            round_trip: Duration::from_millis(20),
            every: 1,
            bottleneck: None,
        }
    }
}

/// A link that is slower than what is sent over it.
#[derive(Clone, Copy, Debug)]
pub struct Bottleneck {
    pub bytes_per_second: u32,
    /// What would wait longer is lost.
    pub queue: Duration,
}

/// What becomes of a segment with data on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Arrives,
    Lost,
    /// So much later than others.
    Late(Duration),
    /// With the mark of a queue.
    Marked,
}

/// A segment with data.
#[derive(Clone, Copy, Debug)]
pub struct Data {
    /// How many segments were sent before it.
    pub number: u64,
    /// All of it was sent before.
    pub again: bool,
    /// How many bytes of the connection come before its end.
    pub end: u64,
}

/// What it has seen so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pub segments: u64,
    pub again: u64,
    /// Bytes that have come without a gap.
    pub bytes: u64,
    pub largest: u32,
    /// Empty segments that ask whether there is room again.
    pub probes: u64,
    /// Segments that say that a mark was answered.
    pub answered: u64,
}
