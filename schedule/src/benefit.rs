//! Does Sluice help a job at all? Short windows in which nothing is paced say so, and a job that is slower with it is
//! released for a while.
//!
//! **Windows.** Of so many slots, [`PART`] unless it is said otherwise, one belongs to a window without Sluice. Where windows lie follows from the number
//! of the slot alone, so that all hosts of a cluster are without it at the same time and nobody has to say a word. It does
//! not follow from the job: a job that is plain alone, among paced ones that yield to it, is always faster, and every job
//! would look as if it were held back. Asked is how the job fares where *nobody* is paced. The price is bounded by
//! construction: one slot in [`PART`], 0.78 % of the time, in which a cluster is as it was before.
//!
//! **Rounds** are whole iterations here, from the beginning of one to that of the next: what a job gains or loses. Communication
//! that hides behind computation may take as long as it likes.
//!
//! **Evidence.** The rounds within a window are held against the last before it and the first after it, medians against
//! medians, so that a job that changes by itself is not compared with what it no longer is. What a pair says beyond the
//! margin is added up and never falls below zero ([`ENOUGH`] is the end of it): the sum that finds a lasting difference
//! with the fewest pairs and forgets chance. No pair says more than [`MOST`], so that it takes several, and pairs of jobs
//! whose rounds differ much among themselves weigh less.
//!
//! **Release.** A job that is released runs plain for 8 periods, and for twice as many after every release that follows,
//! up to 64. Then it is managed again, until the same evidence has come together anew. Decisions fall in the middle of a
//! period only, in the same slot on every host.

use std::collections::VecDeque;

use crate::event::Now;
use crate::units::{Nanos, Slot};

/// One slot of so many is without Sluice, where nothing else is said, ...
pub const PART: u32 = 128;
/// ... of so many at least, so that there is as much to compare with before and after a window ...
pub const LEAST_PART: u32 = 8;
/// ... and at most.
pub const MOST_PART: u32 = 1024;
/// Slots in a window at most.
pub const MAX_WINDOW: u32 = 4096;
/// At the beginning of a window the sockets are still being given back: no round counts that began in these slots.
pub const SETTLE: u32 = 4;
/// Fewer whole rounds than this within, before or after a window say nothing.
pub const LEAST: usize = 4;
/// Rounds before and after a window that are compared.
const KEEP: usize = 16;
/// Rounds within a window that are compared.
const KEEP_WITHOUT: usize = 64;
/// Medians before and after a window that differ by more than this are of a job that changes by itself.
const DRIFT: u64 = 250;
/// The most that one pair adds beyond the margin, ...
pub const MOST: i64 = 150;
/// ... and the most that one takes away.
const LEAST_OF_ALL: i64 = -250;
/// So much in all is enough.
pub const ENOUGH: i64 = 600;
/// A pair that is less certain than this weighs less.
const CERTAIN: u64 = 130;
/// Periods that a job is released for first ...
pub const REST: u32 = 8;
/// ... and at most. A job that was managed for so many periods without being released is forgiven.
pub const LONGEST_REST: u32 = 64;
/// Pairs that are told of.
const TOLD: usize = 8;

/// Which slots are without Sluice; equal on all hosts of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    slot: Nanos,
    slots: u32,
    part: u32,
}

impl Windows {
    /// Windows of so many slots, and one slot of `part` in one, both rounded up to a power of two: then they go on evenly
    /// where slot numbers wrap.
    pub fn new(slot: Nanos, slots: u32, part: u32) -> Windows {
        let slots = slots.clamp(1, MAX_WINDOW).next_power_of_two();
        Windows { slot, slots, part: part.clamp(LEAST_PART, MOST_PART).next_power_of_two() }
    }
    /// Is nothing paced in this slot?
    pub const fn without(&self, slot: Slot) -> bool {
        self.place(slot) < self.slots
    }
    /// Slots from the beginning of a window to that of the next.
    pub const fn period(&self) -> u32 {
        self.slots * self.part
    }
    /// The time from the beginning of a window to that of the next.
    pub fn period_time(&self) -> Nanos {
        self.slot.times(u64::from(self.period()))
    }
    const fn number(&self, slot: Slot) -> u32 {
        slot.0 / self.period()
    }
    const fn place(&self, slot: Slot) -> u32 {
        slot.0 % self.period()
    }
    /// Where that belongs which ended so long before now and took so long.
    fn side(&self, now: Now, ago: Nanos, took: Nanos) -> Option<Side> {
        let moment = self.slot.times(u64::from(self.place(now.slot))).plus(now.into_slot);
        // What began in an earlier period began before this one's window.
        let end = Nanos(moment.0.checked_sub(ago.0)?);
        let began = Nanos(end.0.checked_sub(took.0)?);
        let at = |slots: u32| self.slot.times(u64::from(slots));
        match () {
            // A window's length after it, links and turns are as they were.
            () if began >= at(2 * self.slots) => Some(Side::With),
            () if began >= at(SETTLE.min(self.slots / 2)) && end < at(self.slots) => Some(Side::Without),
            () => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    With,
    Without,
}

/// What follows for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Its rounds take so many thousandths longer with Sluice: it is given back for so long.
    Released {
        /// Median of the last pairs, thousandths.
        slower: i64,
        /// How long it is left alone.
        rest: Nanos,
    },
    /// It is tried again.
    Managed,
}

/// How it stands with a job, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Thousandths by which its rounds take longer with Sluice, the median of the last pairs; negative: less long.
    /// `None`: there was no pair yet.
    pub slower: Option<i64>,
    /// Windows that could be compared with what lies around them.
    pub pairs: u64,
    /// It is released, and tried again after this time.
    pub retry: Option<Nanos>,
}

/// What is known of one job.
#[derive(Clone, Debug)]
pub struct Benefit {
    windows: Windows,
    /// Thousandths that a job may be slower.
    margin: i64,
    /// The period that samples are of.
    period: Option<u32>,
    judged: bool,
    /// The last rounds with Sluice of the period before.
    before: Vec<Nanos>,
    without: Vec<Nanos>,
    /// The first rounds with Sluice of this period.
    after: Vec<Nanos>,
    recent: VecDeque<Nanos>,
    evidence: i64,
    pairs: u64,
    last: VecDeque<i64>,
    /// Periods that are left of a release; 0: it is managed.
    rest: u32,
    next_rest: u32,
    /// Periods it was managed since the last release.
    calm: u32,
}

impl Benefit {
    /// A job of which nothing is known. `margin`: thousandths that it may be slower with Sluice.
    pub fn new(windows: Windows, margin: u32) -> Benefit {
        Benefit {
            windows,
            margin: i64::from(margin),
            period: None,
            judged: true,
            before: Vec::new(),
            without: Vec::new(),
            after: Vec::new(),
            recent: VecDeque::new(),
            evidence: 0,
            pairs: 0,
            last: VecDeque::new(),
            rest: 0,
            next_rest: REST,
            calm: 0,
        }
    }

    /// Is it given back at the moment?
    pub const fn released(&self) -> bool {
        self.rest > 0
    }

    /// So many rounds, one after the other, took so long together, and the last ended so long before now. Call
    /// [`Benefit::edge`] for the slot first.
    pub fn ended(&mut self, now: Now, ago: Nanos, took: Nanos, rounds: u64) {
        let each = Nanos(took.0 / rounds.max(1));
        if self.rest > 0 || self.period != Some(self.windows.number(now.slot)) {
            return;
        }
        match self.windows.side(now, ago, took) {
            Some(Side::Without) if self.without.len() < KEEP_WITHOUT => self.without.push(each),
            Some(Side::With) => {
                if self.after.len() < KEEP && !self.judged {
                    self.after.push(each);
                }
                if self.recent.len() == KEEP {
                    self.recent.pop_front();
                }
                self.recent.push_back(each);
            }
            _ => {}
        }
    }

    /// A slot began. Slots may be missing, and then so is what would have been seen in them.
    pub fn edge(&mut self, slot: Slot) -> Option<Change> {
        let number = self.windows.number(slot);
        if self.period != Some(number) {
            return self.next_period(number);
        }
        if self.judged || self.windows.place(slot) < self.windows.period() / 2 {
            return None;
        }
        self.judged = true;
        self.judge()
    }

    /// For a while nothing was as it should be, for reasons that have nothing to do with the job: what was seen around
    /// it is not compared.
    pub fn interrupt(&mut self) {
        self.before.clear();
        self.without.clear();
        self.after.clear();
        self.recent.clear();
        self.judged = true;
    }

    /// How it stands with the job in this slot.
    pub fn standing(&self, slot: Slot) -> Standing {
        let gone = u64::from(self.windows.place(slot));
        let rest = u64::from(self.rest) * u64::from(self.windows.period());
        let retry = (self.rest > 0).then(|| self.windows.slot.times(rest.saturating_sub(gone)));
        Standing { slower: self.slower(), pairs: self.pairs, retry }
    }

    fn next_period(&mut self, number: u32) -> Option<Change> {
        let follows = self.period.is_some_and(|period| {
            let last = u32::MAX / self.windows.period();
            number == if period == last { 0 } else { period + 1 }
        });
        self.period = Some(number);
        self.before = if follows { self.recent.drain(..).collect() } else { Vec::new() };
        self.recent.clear();
        self.without.clear();
        self.after.clear();
        self.judged = !follows;
        if self.rest > 0 {
            self.rest -= 1;
            return (self.rest == 0).then_some(Change::Managed);
        }
        self.calm = self.calm.saturating_add(1);
        if self.calm >= LONGEST_REST {
            self.next_rest = REST;
        }
        None
    }

    fn judge(&mut self) -> Option<Change> {
        let pair = Pair::of(&self.before, &self.without, &self.after)?;
        self.pairs += 1;
        if self.last.len() == TOLD {
            self.last.pop_front();
        }
        self.last.push_back(pair.slower);
        let beyond = (pair.slower - self.margin).clamp(LEAST_OF_ALL, MOST);
        self.evidence = (self.evidence + beyond * pair.weight / 1000).max(0);
        if self.evidence < ENOUGH {
            return None;
        }
        self.evidence = 0;
        self.calm = 0;
        // The period that is half over does not count.
        self.rest = self.next_rest + 1;
        self.next_rest = (self.next_rest * 2).min(LONGEST_REST);
        self.recent.clear();
        let rest = self.windows.slot.times(u64::from(self.rest) * u64::from(self.windows.period()));
        let half = Nanos(self.windows.period_time().0 / 2);
        Some(Change::Released { slower: self.slower().unwrap_or(pair.slower), rest: rest.minus(half) })
    }

    fn slower(&self) -> Option<i64> {
        let mut sorted: Vec<i64> = self.last.iter().copied().collect();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied()
    }
}

/// A window against what lies around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pair {
    /// Thousandths that rounds took longer with Sluice.
    slower: i64,
    /// Thousandths of a full pair.
    weight: i64,
}

impl Pair {
    fn of(before: &[Nanos], without: &[Nanos], after: &[Nanos]) -> Option<Pair> {
        if [before, without, after].iter().any(|rounds| rounds.len() < LEAST) {
            return None;
        }
        let (early, late) = (median(before), median(after));
        if thousandths(early.max(late), early.min(late)) > 1000 + DRIFT {
            return None;
        }
        let both: Vec<Nanos> = [before, after].concat();
        let (with, plain) = (median(&both), median(without));
        let longer = i64::try_from(thousandths(with, plain)).unwrap_or(i64::MAX);
        // How far rounds lie from the median of theirs tells how far the medians may be off by chance.
        let mut off: Vec<u64> = both.iter().map(|took| apart(*took, with)).collect();
        off.extend(without.iter().map(|took| apart(*took, plain)));
        off.sort_unstable();
        let sigma = off[off.len() / 2].saturating_mul(186) / 100; // Of a median, from the median distance: 1.4826 × 1.2533.
        let square = u128::from(sigma) * u128::from(sigma);
        let variance = square / without.len() as u128 + square / both.len() as u128;
        let uncertain = u64::try_from(variance.isqrt()).unwrap_or(u64::MAX);
        let weight = CERTAIN * 1000 / uncertain.max(CERTAIN);
        Some(Pair { slower: longer.saturating_sub(1000), weight: weight as i64 })
    }
}

/// The mean of the two in the middle: of few rounds the upper one would be too long by a third of their spread.
fn median(rounds: &[Nanos]) -> Nanos {
    let mut sorted = rounds.to_vec();
    sorted.sort_unstable();
    let at = |index: usize| sorted.get(index).copied().unwrap_or(Nanos::ZERO);
    let (low, high) = (at(sorted.len().saturating_sub(1) / 2), at(sorted.len() / 2));
    Nanos(low.0 + (high.0 - low.0) / 2)
}

fn thousandths(part: Nanos, whole: Nanos) -> u64 {
    u64::try_from(u128::from(part.0) * 1000 / u128::from(whole.0.max(1))).unwrap_or(u64::MAX)
}

fn apart(took: Nanos, middle: Nanos) -> u64 {
    thousandths(Nanos(took.0.abs_diff(middle.0)), middle)
}

#[cfg(test)]
mod tests;
