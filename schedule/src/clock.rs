//! The slot grid: wall time to slot number, never backwards, and whether a clock may be trusted at all.
//!
//! Pure: the shell reads the clocks and passes the values in. After a backward step of the wall clock the grid waits in
//! the slot it had reached; after a forward step it skips. Both are reported. Reading the kernel's clock state is left
//! to the daemon.

use crate::event::{ClockTrust, Now};
use crate::units::{Nanos, Slot};

/// The slot grid of one process.
#[derive(Clone, Debug)]
pub struct SlotClock {
    length: Nanos,
    last: Option<Last>,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    mono: Nanos,
    wall: Nanos,
    index: u64,
    into_slot: Nanos,
}

/// One reading of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The slot, never before that of an earlier reading.
    pub slot: Slot,
    /// Slots since 0 of the clock, not wrapped; `slot` is its lower half.
    pub index: u64,
    /// How much of the slot is over; never less than at an earlier reading of the same slot.
    pub into_slot: Nanos,
    /// Slots that began since the last reading without being read; 0 in steady running.
    pub skipped: u64,
    /// How far the wall clock must still run until it is back at the grid's place; zero unless it was set back.
    pub waiting: Nanos,
    /// The wall clock was stepped since the last reading.
    pub step: Option<ClockStep>,
}

/// A step of the wall clock against the monotonic one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockStep {
    /// Set ahead (or the machine slept) by this much.
    Forward(Nanos),
    /// Set back by this much.
    Back(Nanos),
}

impl ClockStep {
    /// How far the clock was set.
    pub const fn size(self) -> Nanos {
        match self {
            ClockStep::Forward(by) | ClockStep::Back(by) => by,
        }
    }
}

impl SlotClock {
    /// Differences between the clocks below this part of a slot are slewing or reading noise, not a step.
    const STEP_PART: u64 = 4;

    /// A grid of slots of `length` (zero counts as one nanosecond).
    pub fn new(length: Nanos) -> SlotClock {
        SlotClock { length: Nanos(length.0.max(1)), last: None }
    }

    /// The slot length that this grid was made with, at least one nanosecond.
    pub const fn length(&self) -> Nanos {
        self.length
    }

    /// The place on the grid at this time. `mono` tells steps of `wall` from the passing of time.
    pub fn read(&mut self, mono: Nanos, wall: Nanos) -> Reading {
        let raw_index = wall.0 / self.length.0;
        let raw_into = Nanos(wall.0 % self.length.0);
        let Some(last) = self.last else {
            self.last = Some(Last { mono, wall, index: raw_index, into_slot: raw_into });
            return Reading {
                slot: Slot(raw_index as u32),
                index: raw_index,
                into_slot: raw_into,
                skipped: 0,
                waiting: Nanos::ZERO,
                step: None,
            };
        };
        let expected = last.wall.plus(mono.minus(last.mono));
        let tolerance = self.length.0 / Self::STEP_PART;
        let step = if wall.0 > expected.0.saturating_add(tolerance) {
            Some(ClockStep::Forward(wall.minus(expected)))
        } else if expected.0 > wall.0.saturating_add(tolerance) {
            Some(ClockStep::Back(expected.minus(wall)))
        } else {
            None
        };
        let (index, into_slot) = match raw_index.cmp(&last.index) {
            std::cmp::Ordering::Greater => (raw_index, raw_into),
            std::cmp::Ordering::Equal => (raw_index, raw_into.max(last.into_slot)),
            std::cmp::Ordering::Less => (last.index, last.into_slot),
        };
        self.last = Some(Last { mono, wall, index, into_slot });
        Reading {
            slot: Slot(index as u32),
            index,
            into_slot,
            skipped: (index - last.index).saturating_sub(1),
            waiting: Nanos(index.saturating_mul(self.length.0)).plus(into_slot).minus(wall),
            step,
        }
    }

    /// How long after `wall` the next slot begins: within one slot length, except while a clock that was set back is
    /// waited for.
    pub fn until_edge(&self, wall: Nanos) -> Nanos {
        let index = self.last.map_or(0, |last| last.index).max(wall.0 / self.length.0);
        Nanos(index.saturating_add(1).saturating_mul(self.length.0)).minus(wall)
    }
}

/// Most peers are in another slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("slot-offset-too-large: the median offset to peers is {median} slots, allowed is 1")]
pub struct PeersDiffer {
    /// The median of their slots minus the own one.
    pub median: i32,
}

/// A host in doubt, or contradicted, asks holders to whom it has nothing else to say once in so many slots; which one that is
/// differs by host and holder.
pub const SELDOM_SLOTS: u32 = 16;

/// For so many slots what a peer showed of its clock is fresh. A host hears in every slot from those whom it needs, and of
/// others does not know whether they were set right since.
const FRESH_SLOTS: u64 = 3;
/// For so many it is evidence beside what is fresh: one whom a host needs may be the one that is wrong, and the others are asked
/// seldom. (Longer, and those that have fallen silent since would count: found by seeds.)
const OLD_SLOTS: u64 = SELDOM_SLOTS as u64 + 4;
/// A slot more or less is what two clocks differ by at an edge.
const MAX_OFFSET: u32 = 1;

/// What a peer showed of its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Its slot minus the own one.
    pub offset: i32,
    /// When that was, on the monotonic clock.
    pub at: Nanos,
    /// The own slot then.
    pub slot: Slot,
}

impl Shown {
    /// The same as of now: where the own clock was set since then, the peer is as many slots away the other way.
    fn offset_now(self, now: Now, slot: Nanos) -> i32 {
        let passed = now.mono.minus(self.at).as_secs_f64() / slot.as_secs_f64();
        let set = f64::from(now.slot.since(self.slot)) - passed;
        // What is less than a slot is where in its slot each was read.
        self.offset.saturating_sub(set as i32)
    }
}

/// May slot numbers of the own clock be used with others, by what peers showed of theirs, one entry each? A host that could so
/// far loses its trust where most of what is fresh say so, and most of all that it heard lately: one wrong peer that alone is
/// needed convinces nobody as long as others were heard. One that could not gains it by all that it heard. Nobody's slot number
/// is adopted, whatever the answer.
pub fn trust(now: Now, slot: Nanos, so_far: ClockTrust, shown: &[Shown]) -> Result<ClockTrust, PeersDiffer> {
    let offsets = |slots| {
        let known = shown.iter().filter(|shown| now.mono.minus(shown.at) <= slot.times(slots));
        known.map(|shown| shown.offset_now(now, slot)).collect::<Vec<i32>>()
    };
    let (fresh, all) = (offsets(FRESH_SLOTS), offsets(OLD_SLOTS));
    let right = |offset: i32| offset.unsigned_abs() <= MAX_OFFSET;
    let median_of_all = median(&all);
    let agree = right(median_of_all) || so_far.is_trusted() && right(median(&fresh));
    if !agree {
        return Err(PeersDiffer { median: median_of_all });
    }
    let contradicted = fresh.into_iter().any(|offset| !right(offset));
    Ok(if contradicted { ClockTrust::Contradicted } else { ClockTrust::Trusted })
}

/// How many slots another's clock is ahead of this one's, by what it said: the least that explains it. It read its clock after
/// it had heard what was sent in slot `sent`, and before its word `told` came in slot `heard`; an answer that took long is no
/// wrong clock.
pub fn offset(told: Slot, sent: Slot, heard: Slot) -> i32 {
    let (least, most) = (told.since(heard), told.since(sent));
    0_i32.max(least).min(most.max(least))
}

/// Where peers are as many on one side as on the other, the own clock is one more: a single wrong one of two convinces nobody.
fn median(offsets: &[i32]) -> i32 {
    let mut sorted = offsets.to_vec();
    if sorted.len().is_multiple_of(2) {
        sorted.push(0);
    }
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

/// Turns wrapping slot numbers into a running count, so that tables can index by it across the wrap.
#[derive(Clone, Copy, Debug)]
pub struct Unroll {
    latest: u64,
}

impl Unroll {
    /// Counts from this slot on; the count's lower half is the slot number.
    pub const fn new(slot: Slot) -> Unroll {
        Unroll { latest: (1 << 32) | slot.0 as u64 }
    }
    /// The count of a slot near the latest one (within 2³¹ slots).
    pub const fn count(&self, slot: Slot) -> u64 {
        self.latest.saturating_add_signed(slot.since(self.slot()) as i64)
    }
    /// Moves on to `slot` (never back) and returns the count reached.
    pub fn advance(&mut self, slot: Slot) -> u64 {
        self.latest = self.latest.max(self.count(slot));
        self.latest
    }
    /// The count of the latest slot reached.
    pub const fn latest(&self) -> u64 {
        self.latest
    }
    /// The latest slot reached.
    pub const fn slot(&self) -> Slot {
        Slot(self.latest as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT: Nanos = Nanos::from_millis(60);

    fn ms(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    #[test]
    fn time_falls_on_the_grid() {
        let mut clock = SlotClock::new(SLOT);
        let first = clock.read(ms(0), ms(125));
        assert_eq!((first.slot, first.into_slot, first.step), (Slot(2), ms(5), None));
        let next = clock.read(ms(70), ms(195));
        assert_eq!((next.slot, next.into_slot, next.skipped), (Slot(3), ms(15), 0));
        assert_eq!(clock.until_edge(ms(195)), ms(45));
    }

    /// Promises: P-19
    #[test]
    fn a_backward_step_waits_and_a_forward_step_skips() {
        let mut clock = SlotClock::new(SLOT);
        clock.read(ms(0), ms(610));
        let back = clock.read(ms(1), ms(311));
        assert_eq!((back.slot, back.into_slot), (Slot(10), ms(10)));
        assert_eq!((back.step, back.waiting), (Some(ClockStep::Back(ms(300))), ms(299)));
        assert_eq!(clock.until_edge(ms(311)), ms(349));
        let still = clock.read(ms(200), ms(510));
        assert_eq!((still.slot, still.step), (Slot(10), None));
        let ahead = clock.read(ms(201), ms(1_811));
        assert_eq!((ahead.slot, ahead.skipped), (Slot(30), 19));
        assert_eq!(ahead.step, Some(ClockStep::Forward(ms(1_300))));
    }

    fn at(ms: u64, set: i32) -> Now {
        let mono = Nanos::from_millis(ms);
        Now { mono, slot: Slot((mono.0 / SLOT.0) as u32).offset(set), ..Now::default() }
    }

    fn shown(offset: i32, age: u64) -> Shown {
        let Now { mono, slot, .. } = at(3_000 - age, 0);
        Shown { offset, at: mono, slot }
    }

    fn verdict(so_far: ClockTrust, shown: &[Shown]) -> Result<ClockTrust, PeersDiffer> {
        trust(at(3_000, 0), SLOT, so_far, shown)
    }

    /// Promises: P-20
    #[test]
    fn most_peers_decide_and_where_two_disagree_the_own_clock_does() {
        let of = |offsets: &[i32]| {
            let all: Vec<Shown> = offsets.iter().map(|offset| shown(*offset, 60)).collect();
            let judged = verdict(ClockTrust::Trusted, &all);
            assert_eq!(judged.is_ok(), verdict(ClockTrust::Untrusted, &all).is_ok(), "{offsets:?}");
            judged
        };
        for agree in [&[][..], &[1], &[-1, 1], &[0, 0, 0]] {
            assert_eq!(of(agree), Ok(ClockTrust::Trusted), "{agree:?}");
        }
        for some in [&[0, 3][..], &[-5, 3], &[0, 3, 0], &[4, 0, 0, 4], &[0, 1, -617, 1]] {
            assert_eq!(of(some), Ok(ClockTrust::Contradicted), "{some:?}");
        }
        for (most, median) in
            [(&[2][..], 2), (&[3, 2], 2), (&[-3, 0, -2], -2), (&[4, 4, 4, 0], 4), (&[617, 617, 0], 617)]
        {
            assert_eq!(of(most), Err(PeersDiffer { median }), "{most:?}");
        }
    }

    /// Promises: P-20
    #[test]
    fn one_wrong_peer_that_alone_is_needed_convinces_nobody_as_long_as_others_were_heard() {
        let of = |so_far, age| verdict(so_far, &[shown(4, 60), shown(0, age), shown(1, age)]);
        for so_far in [ClockTrust::Trusted, ClockTrust::Contradicted, ClockTrust::Untrusted] {
            assert_eq!(of(so_far, 1_200), Ok(ClockTrust::Contradicted));
            assert_eq!(of(so_far, 1_201), Err(PeersDiffer { median: 4 }));
        }
    }

    /// Promises: P-19, P-20
    #[test]
    fn what_was_shown_before_the_own_clock_was_set_counts_as_far_off_as_it_is_since() {
        let all = [shown(0, 60), shown(1, 600), shown(0, 1_200)];
        for (set, median) in [(100, -100), (-7, 7), (2, -2)] {
            let judged = trust(at(3_000, set), SLOT, ClockTrust::Trusted, &all);
            assert_eq!(judged, Err(PeersDiffer { median }), "nobody has to say so anew");
            // Set right again by as much it is right at once.
            let wrong = all.map(|shown| Shown { offset: shown.offset - set, slot: shown.slot.offset(set), ..shown });
            assert_eq!(verdict(ClockTrust::Untrusted, &wrong), Ok(ClockTrust::Trusted));
        }
    }

    /// Promises: P-20
    #[test]
    fn what_was_shown_long_ago_makes_nobody_lose_its_trust() {
        let all = [shown(0, 180), shown(3, 181), shown(2, 1_200), shown(4, 1_201)];
        assert_eq!(verdict(ClockTrust::Trusted, &all), Ok(ClockTrust::Trusted));
        assert_eq!(verdict(ClockTrust::Untrusted, &all), Err(PeersDiffer { median: 2 }), "of 0, 3 and 2");
    }

    /// Promises: P-21
    #[test]
    fn a_slow_answer_is_no_wrong_clock() {
        let slot = |n: u32| Slot(u32::MAX.wrapping_add(n));
        assert_eq!(offset(slot(10), slot(10), slot(13)), 0, "asked in 10, answered in 10, heard in 13");
        assert_eq!(offset(slot(12), slot(10), slot(13)), 0);
        assert_eq!(offset(slot(9), slot(10), slot(13)), -1, "its clock said 9 when the question came");
        assert_eq!(offset(slot(15), slot(10), slot(13)), 2, "its clock says 15 already");
        assert_eq!(offset(slot(5), slot(10), slot(10)), -5);
        assert_eq!(offset(slot(17), slot(10), slot(10)), 7);
    }

    /// Promises: P-21
    #[test]
    fn a_count_runs_on_across_the_wrap() {
        let mut unroll = Unroll::new(Slot(u32::MAX));
        let before = unroll.latest();
        assert_eq!(unroll.advance(Slot(1)), before + 2);
        assert_eq!(unroll.slot(), Slot(1));
        assert_eq!(unroll.count(Slot(u32::MAX)), before);
        assert_eq!(unroll.advance(Slot(0)), before + 2);
    }
}
