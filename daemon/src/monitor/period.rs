//! How many bytes an iteration has, learned from what a process has sent so far and when it paused.
//!
//! A training process sends the same number of bytes in every iteration, to the byte or nearly, and pauses in between
//! while it computes. It also pauses within an iteration, whenever the host is busy or a neighbour is late, so no length
//! of pause says "here an iteration ends". What does is the count: the ends of iterations are the pauses at whose counts
//! a fixed number of bytes lies from one to the next. So the learner remembers how much had been sent at each pause and
//! how long that lasted, and looks for the period among the long pauses first, then among shorter ones too
//! (`fit`). Pauses that fit no period are splits, and are ignored.
//!
//! The steps of a ring within an iteration are as regular as the iterations, and come first: nothing but time tells them
//! apart before an iteration has ended. So a period is believed only after a second, doubted when a pause of a longer
//! kind comes while it is young, and told to others only once it has stood for a while. Until then rounds are bursts,
//! managed all the same.

use std::collections::VecDeque;

use sluice_schedule::{Bytes, Nanos};

use fit::{KIND, kind_above, learn, may_be_half, multiple, of_one_kind, slack};

/// Pauses remembered: some iterations, where each has as many as a ring has steps.
const MAX_PAUSES: usize = 128;
/// Pauses as long as those between iterations that may come elsewhere in a row, before the period is forgotten.
const MAX_MISSED: u32 = 3;
/// A period younger than this is given up when a pause of a longer kind comes: it may be a step of the iteration that
/// ends there. An older one has seen its iterations.
const YOUNG: Nanos = Nanos::from_millis(10_000);
/// Periods that prove a multiple of the one that is known.
const MULTIPLE_PROOF: u64 = 3;
/// A period that stood so long is told.
const STOOD: Nanos = Nanos::from_millis(1_000);
/// Boundaries that have to come meanwhile.
const STOOD_BOUNDARIES: u32 = 2;

/// A moment at which nothing was sent and nothing waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Bytes sent before it.
    pub count: u64,
    pub length: Nanos,
    pub over: Nanos,
}

/// What is known of the iterations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Learned {
    bytes: u64,
    /// A count at which one ended.
    at: u64,
    /// How long the pauses between them last; a quarter of them are shorter, so that one kind among two counts as it is.
    pause: Nanos,
    /// How many were seen in a row.
    periods: u64,
    since: Nanos,
}

/// Learns the period of one process.
#[derive(Clone, Debug, Default)]
pub struct Period {
    pauses: VecDeque<Pause>,
    /// Sent at the last look.
    count: u64,
    /// Since when nothing is sent and nothing waits.
    quiet: Option<Nanos>,
    known: Option<Learned>,
    missed: u32,
    /// Boundaries that came where the known period has them.
    met: u32,
}

impl Period {
    /// A look: `count` bytes were sent in all, `queued` wait.
    pub fn look(&mut self, now: Nanos, count: Bytes, queued: Bytes) {
        let moved = count.0 != self.count;
        if moved || queued > Bytes::ZERO {
            if let Some(since) = self.quiet.take() {
                self.paused(Pause { count: self.count, length: now.minus(since), over: now });
            }
            self.count = self.count.max(count.0);
        }
        if queued == Bytes::ZERO && self.quiet.is_none() {
            self.quiet = Some(now);
        }
    }

    #[cfg(test)]
    /// Bytes of an iteration, once known.
    pub fn bytes(&self) -> Option<Bytes> {
        self.known.map(|known| Bytes(known.bytes))
    }

    /// Bytes of an iteration, once they have stood for a while.
    pub fn settled(&self) -> Option<Bytes> {
        let newest = self.pauses.back()?.over;
        let known = self.known.filter(|known| newest.minus(known.since) >= STOOD && self.met >= STOOD_BOUNDARIES)?;
        // In one piece since the last pause.
        let (pauses, _) = self.pauses.as_slices();
        (!may_be_half(pauses, &known)).then_some(Bytes(known.bytes))
    }

    /// The count at which the iteration ends that a byte after `count` belongs to.
    pub fn end_after(&self, count: Bytes) -> Option<Bytes> {
        let known = self.known?;
        let begun = known.begun(count.0.saturating_add(slack(known.bytes)));
        Some(Bytes(known.boundary(begun.saturating_add(1))))
    }

    /// Counts that differ by less than this are the same boundary.
    pub fn slack(&self) -> Bytes {
        Bytes(self.known.map_or(0, |known| slack(known.bytes)))
    }

    fn paused(&mut self, pause: Pause) {
        if let Some(last) = self.pauses.back_mut().filter(|last| last.count == pause.count) {
            // Looked at while the first byte waited: one pause.
            last.length = Nanos(last.length.0.saturating_add(pause.length.0));
            last.over = pause.over;
        } else {
            if self.pauses.len() == MAX_PAUSES {
                self.pauses.pop_front();
            }
            self.pauses.push_back(pause);
        }
        let pauses: &[Pause] = self.pauses.make_contiguous();
        let learned = learn(pauses);
        let Some(known) = &mut self.known else {
            (self.known, self.missed, self.met) = (learned, 0, 0);
            return;
        };
        let fits = known.fits(pause.count);
        let explained = learned.is_some_and(|learned| !kind_above(pause.length, learned.pause));
        let young = pause.over.minus(known.since) < YOUNG;
        let better = |other: &Learned| known.gives_way_to(other, pauses) || !fits && other.pause >= known.pause;
        if young && kind_above(pause.length, known.pause) && !explained {
            (self.known, self.missed) = (None, 0);
        } else if let Some(learned) = learned.filter(better) {
            self.missed = 0;
            if known.is_same(&learned) {
                *known = Learned { since: known.since, ..learned };
                self.met += 1;
            } else {
                (*known, self.met) = (learned, 0);
            }
        } else if fits {
            // Counts drift by what headers vary; the pause says where the boundary is.
            (known.at, self.missed) = (pause.count, 0);
            self.met += 1;
        } else if pause.length.0 >= known.pause.0 / KIND {
            // As long as one between iterations, but elsewhere.
            self.missed += 1;
            if self.missed > MAX_MISSED {
                (self.known, self.missed, self.met) = (learned, 0, 0);
            }
        }
    }
}

impl Learned {
    /// Has the other one as many bytes?
    fn is_same(&self, other: &Learned) -> bool {
        self.bytes.abs_diff(other.bytes) <= slack(self.bytes)
    }

    /// Is the other one the same with a newer count, what this one is a multiple of, a well proved multiple, or one with
    /// pauses of a longer kind?
    fn gives_way_to(&self, other: &Learned, pauses: &[Pause]) -> bool {
        if self.is_same(other) {
            return true;
        }
        let longer_kind = other.pause.0 / KIND >= self.pause.0;
        if other.bytes > self.bytes {
            return longer_kind || multiple(other.bytes, self.bytes).is_some() && other.periods >= MULTIPLE_PROOF;
        }
        let part = multiple(self.bytes, other.bytes).is_some() && other.pause.0 >= self.pause.0 / KIND;
        (part || longer_kind) && of_one_kind(pauses, self, other)
    }

    /// Does an iteration end at this count, or nearly?
    fn fits(&self, count: u64) -> bool {
        let nearest = self.boundary(self.begun(count.saturating_add(self.bytes / 2)));
        nearest.abs_diff(count) <= slack(self.bytes)
    }

    /// Iterations that began between the known boundary and this count.
    fn begun(&self, count: u64) -> u64 {
        count.saturating_sub(self.at) / self.bytes.max(1)
    }
    /// The count at the end of so many iterations after the known boundary.
    fn boundary(&self, iterations: u64) -> u64 {
        self.at.saturating_add(iterations.saturating_mul(self.bytes))
    }
}

mod fit;
#[cfg(test)]
mod tests;
