//! What is due when: the simulated product's own queue of messages and timers, in order of (time, order of entry).

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use sluice_schedule::{Action, Announcement, Feedback, Nanos};

use crate::world::FlowIx;

/// One thing that is due. Hosts and holders are node indices.
#[derive(Debug)]
pub(super) enum Due {
    /// A daemon looks, if this is still its latest timer.
    Tick {
        host: usize,
        stamp: u64,
    },
    ToHolder {
        holder: usize,
        announcement: Box<Announcement>,
    },
    ToHost {
        host: usize,
        holder: usize,
        feedback: Box<Feedback>,
    },
    /// A holder answers everything that arrived at this instant.
    Answer(usize),
    /// A holder tells those whose view changed.
    Push(usize),
    /// A slot begins at a holder: leases end.
    HolderEdge {
        holder: usize,
        life: u64,
    },
    /// A decision that took time takes effect.
    Apply {
        host: usize,
        life: u64,
        actions: Vec<Action>,
    },
    /// The kernel drops an order that nobody renewed.
    Expire {
        flow: FlowIx,
        until: Nanos,
    },
    /// Nothing was heard across a partition for so long that connections are given up.
    Silent {
        node: usize,
        since: Nanos,
    },
    /// A connection breaks or stands again.
    Link {
        host: usize,
        holder: usize,
        up: bool,
    },
}

#[derive(Debug)]
struct Entry {
    at: Nanos,
    number: u64,
    due: Due,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// Everything that is due, by time.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    heap: BinaryHeap<Reverse<Entry>>,
    entered: u64,
}

impl Agenda {
    /// Adds what is due at this time.
    pub fn add(&mut self, at: Nanos, due: Due) {
        self.entered += 1;
        self.heap.push(Reverse(Entry { at, number: self.entered, due }));
    }

    /// Takes what is due first, if that is at `now` or before.
    pub fn pop(&mut self, now: Nanos) -> Option<(Nanos, Due)> {
        if self.heap.peek().is_none_or(|Reverse(first)| first.at > now) {
            return None;
        }
        self.heap.pop().map(|Reverse(first)| (first.at, first.due))
    }

    /// When the next thing is due. Timers at the head for which `stale` holds are dropped first.
    pub fn next(&mut self, stale: impl Fn(&Due) -> bool) -> Option<Nanos> {
        while self.heap.peek().is_some_and(|Reverse(first)| stale(&first.due)) {
            self.heap.pop();
        }
        self.heap.peek().map(|Reverse(first)| first.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_first_comes_first_and_ties_go_by_entry() {
        let mut agenda = Agenda::default();
        for (at, host) in [(5, 0), (3, 1), (5, 2), (9, 3)] {
            agenda.add(Nanos(at), Due::Tick { host, stamp: 0 });
        }
        let mut order = Vec::new();
        while let Some((at, Due::Tick { host, .. })) = agenda.pop(Nanos(5)) {
            order.push((at.0, host));
        }
        assert_eq!(order, [(3, 1), (5, 0), (5, 2)]);
        agenda.add(Nanos(7), Due::Push(1));
        assert_eq!(agenda.next(|due| matches!(due, Due::Push(_))), Some(Nanos(9)));
        assert!(agenda.pop(Nanos(8)).is_none());
    }
}
