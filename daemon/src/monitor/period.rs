//! How many bytes an iteration has, learned from what a process has sent so far and when it paused.
//!
//! A training process sends the same number of bytes in every iteration, to the byte or nearly, and pauses in between
//! while it computes. It also pauses within an iteration, whenever the host is busy or a neighbour is late, so no length
//! of pause says "here an iteration ends". What does is the count: the ends of iterations are the pauses at whose counts
//! a fixed number of bytes lies from one to the next. So the learner remembers how much had been sent at each pause and
//! how long that lasted, and looks for the period among the long pauses first, then among shorter ones too. Pauses that
//! fit no period are splits, and are ignored.
//!
//! A shorter period that divides the one found counts only if its pauses are of the same kind (a quarter as long at
//! least): the steps of a ring within an iteration are as regular as the iterations.

use std::collections::VecDeque;

use sluice_schedule::{Bytes, Nanos};

/// Pauses remembered.
const MOST: usize = 48;
/// Counts agree if they differ by less than this part of the period: the 0.1 % that headers may vary by.
const TOLERANCE: u64 = 1000;
/// No iteration is smaller.
const LEAST: u64 = 64 << 10;
/// Periods in a row that have to be seen before one is believed: two more for every four-fold number of pauses in it,
/// since the more pauses, the more likely one lies in the right place by chance.
const PROOF: u32 = 2;
/// Levels of length looked at: half of the longest pause, a quarter, ...
const LEVELS: u32 = 7;
/// A finer period's pauses are at least one in so many of the coarser one's.
const KIND: u64 = 4;
/// Pauses as long as those between iterations that may come elsewhere in a row, before the period is forgotten.
const MOST_MISSED: u32 = 3;

/// A moment at which nothing was sent and nothing waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Bytes sent before it.
    pub count: u64,
    /// How long it lasted.
    pub length: Nanos,
}

/// What is known of the iterations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    /// Bytes of one.
    bytes: u64,
    /// A count at which one ended.
    at: u64,
    /// How long the pauses between them last; a quarter of them are shorter, so that one kind among two counts as it is.
    pause: Nanos,
}

/// Learns the period of one process.
#[derive(Clone, Debug, Default)]
pub struct Period {
    pauses: VecDeque<Pause>,
    /// Sent at the last look.
    count: u64,
    /// Since when nothing is sent and nothing waits.
    quiet: Option<Nanos>,
    known: Option<Known>,
    missed: u32,
}

impl Period {
    /// A look: `count` bytes were sent in all, `queued` wait.
    pub fn look(&mut self, now: Nanos, count: Bytes, queued: Bytes) {
        let moved = count.0 != self.count;
        if moved || queued > Bytes::ZERO {
            if let Some(since) = self.quiet.take() {
                self.paused(Pause { count: self.count, length: now.minus(since) });
            }
            self.count = self.count.max(count.0);
        }
        if queued == Bytes::ZERO && self.quiet.is_none() {
            self.quiet = Some(now);
        }
    }

    /// Bytes of an iteration, once known.
    pub fn bytes(&self) -> Option<Bytes> {
        self.known.map(|known| Bytes(known.bytes))
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
        } else {
            if self.pauses.len() == MOST {
                self.pauses.pop_front();
            }
            self.pauses.push_back(pause);
        }
        let learned = learn(self.pauses.make_contiguous());
        let Some(known) = &mut self.known else {
            self.known = learned;
            return;
        };
        let nearest = known.boundary(known.begun(pause.count.saturating_add(known.bytes / 2)));
        let fits = nearest.abs_diff(pause.count) <= slack(known.bytes);
        let better = |other: &Known| known.gives_way_to(other) || !fits && other.pause >= known.pause;
        if let Some(learned) = learned.filter(better) {
            (*known, self.missed) = (learned, 0);
        } else if fits {
            // Counts drift by what headers vary; the pause says where the boundary is.
            (known.at, self.missed) = (pause.count, 0);
        } else if pause.length.0 >= known.pause.0 / KIND {
            // As long as one between iterations, but elsewhere.
            self.missed += 1;
            if self.missed > MOST_MISSED {
                (self.known, self.missed) = (learned, 0);
            }
        }
    }
}

impl Known {
    /// Is the other one the same with a newer count, one with pauses of a longer kind, or what this one is a multiple of?
    fn gives_way_to(&self, other: &Known) -> bool {
        let off = self.bytes % other.bytes.max(1);
        let multiple = off.min(other.bytes.saturating_sub(off)) <= slack(self.bytes);
        let finer = other.bytes <= self.bytes.saturating_add(slack(self.bytes)) && other.pause.0 >= self.pause.0 / KIND;
        multiple && finer || other.pause.0 / KIND >= self.pause.0
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

fn slack(bytes: u64) -> u64 {
    bytes / TOLERANCE
}

/// Periods wanted as proof where so many pauses lie within one.
fn proof(pauses: usize) -> u64 {
    u64::from(PROOF + 2 * pauses.max(1).ilog(4))
}

/// The period that fits the pauses, if one does.
fn learn(pauses: &[Pause]) -> Option<Known> {
    let longest = pauses.iter().map(|pause| pause.length.0).max()?;
    let mut best: Option<Known> = None;
    for level in 1..=LEVELS {
        let points: Vec<Pause> = pauses.iter().filter(|pause| pause.length.0 >= longest >> level).copied().collect();
        let Some(found) = fit(&points) else { continue };
        let finer = |known: &Known| found.bytes < known.bytes && found.pause.0 >= known.pause.0 / KIND;
        if best.as_ref().is_none_or(finer) {
            best = Some(found);
        }
    }
    best
}

/// The shortest distance from the last pause back to another one that fits again and again.
fn fit(points: &[Pause]) -> Option<Known> {
    let last = points.last()?;
    let distance = |point: &Pause| last.count.saturating_sub(point.count);
    let candidates = points.iter().rev().enumerate().skip(1).map(|(within, point)| (within, distance(point)));
    candidates.filter(|(_, bytes)| *bytes >= LEAST).find_map(|(within, bytes)| {
        let mut lengths = vec![last.length];
        let mut at = last.count;
        // Each boundary is looked for one period before the one found, so that a drift does not add up.
        while let Some(wanted) = at.checked_sub(bytes)
            && let Some(point) = nearest(points, wanted)
            && point.count.abs_diff(wanted) <= slack(bytes)
        {
            at = point.count;
            lengths.push(point.length);
        }
        let periods = lengths.len() as u64 - 1;
        if periods < proof(within) {
            return None;
        }
        lengths.sort_unstable();
        let pause = lengths.get(lengths.len() / 4).copied().unwrap_or_default();
        Some(Known { bytes: (last.count - at) / periods, at: last.count, pause })
    })
}

/// The point whose count is nearest; counts rise.
fn nearest(points: &[Pause], wanted: u64) -> Option<&Pause> {
    let after = points.partition_point(|point| point.count < wanted);
    let around = [after.checked_sub(1), Some(after)].into_iter().flatten().filter_map(|i| points.get(i));
    around.min_by_key(|point| point.count.abs_diff(wanted))
}

#[cfg(test)]
mod tests;
