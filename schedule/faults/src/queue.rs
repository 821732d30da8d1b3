//! What is to happen, in order of (time, tie-break from the seed).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use sluice_schedule::message::{Announcement, Feedback};
use sluice_schedule::units::{HolderId, Nanos, mixed};

use crate::life::Told;

/// What happens.
pub enum Ev {
    Tick {
        host: usize,
        life: u32,
    },
    HolderTick {
        holder: usize,
        life: u32,
    },
    ToHolder {
        holder: usize,
        from: usize,
        announcement: Box<Announcement>,
    },
    ToHost {
        host: usize,
        holder: HolderId,
        feedback: Box<Feedback>,
    },
    Push(usize),
    Kernel,
    RoundDue(usize),
    JobBorn(usize),
    JobDies(usize),
    Fault(usize),
    Restart {
        host: usize,
        older: bool,
    },
    HolderUp(usize),
    Flap(usize),
    FlapHolder(usize),
    /// A host's clock, which stood still, is that much behind.
    ClockBehind {
        host: usize,
        by: i64,
    },
    ClockRight(usize),
    Told {
        host: usize,
        life: u32,
        told: Box<Told>,
    },
    Lost {
        host: usize,
        holder: usize,
        ticket: u64,
    },
    Dial {
        host: usize,
        holder: usize,
        ticket: u64,
    },
    KeepAlive {
        host: usize,
        holder: usize,
    },
    Heal {
        host: usize,
        holder: usize,
    },
    Calm,
}

struct Entry {
    at: Nanos,
    tie: u64,
    event: Ev,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        (self.at, self.tie) == (other.at, other.tie)
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> std::cmp::Ordering {
        (self.at, self.tie).cmp(&(other.at, other.tie))
    }
}

/// All that is to happen.
pub struct Queue {
    seed: u64,
    ties: u64,
    entries: BinaryHeap<Reverse<Entry>>,
}

impl Queue {
    pub fn new(seed: u64) -> Queue {
        Queue { seed, ties: 0, entries: BinaryHeap::new() }
    }

    pub fn put(&mut self, at: Nanos, event: Ev) {
        self.ties += 1;
        let tie = mixed(self.seed ^ self.ties.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        self.entries.push(Reverse(Entry { at, tie, event }));
    }

    pub fn take(&mut self) -> Option<(Nanos, Ev)> {
        let Reverse(entry) = self.entries.pop()?;
        Some((entry.at, entry.event))
    }
}
