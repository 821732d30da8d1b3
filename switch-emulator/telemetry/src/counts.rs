//! How much was heard, and what became of it: counters that one task moves and any other may read.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters since the start; they only grow.
#[derive(Debug, Default)]
pub struct Counts {
    pub(crate) accepted: AtomicU64,
    pub(crate) malformed: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) sessions: AtomicU64,
}

/// What [`Counts`] said at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Messages that were read: datagrams of sFlow, notifications of gNMI.
    pub accepted: u64,
    /// Datagrams that are none of sFlow version 5, and counters in notifications that are no counters.
    pub malformed: u64,
    /// Datagrams from outside the allowed networks; none over gNMI, which is asked for and does not come by itself.
    pub refused: u64,
    /// Readings for which there was no room where they were to go.
    pub dropped: u64,
    /// Subscriptions that a gNMI target took; none over sFlow.
    pub sessions: u64,
}

impl Counts {
    /// All counters as they are now.
    pub fn totals(&self) -> Totals {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Totals {
            accepted: read(&self.accepted),
            malformed: read(&self.malformed),
            refused: read(&self.refused),
            dropped: read(&self.dropped),
            sessions: read(&self.sessions),
        }
    }
}

/// Counts one more.
pub(crate) fn one(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
