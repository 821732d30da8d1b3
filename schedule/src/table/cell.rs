//! The one stateful primitive of a P4 switch's table, and the register that tells repeats from news.
//!
//! A cell is 64 bits: a tag (the announcing slot) and a sum. There is no clearing: a cell of an older period becomes a
//! cell of the new one at its first use. Both registers use the same window rule, so that slot numbers may wrap and
//! registers may start at zero.

use crate::units::Slot;

/// How many periods ahead of a packet a register may be for the packet to count as late. Exactly enough for a slot
/// guard of one; everything else is an old register that is taken over.
pub const LATE_WINDOW: u32 = 3;

/// A sum and the period that it belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// The period the sum belongs to.
    pub tag: u32,
    /// The sum; signed, readers clamp at zero.
    pub load: i32,
}

impl Cell {
    /// Adds `delta` to the sum of period `period` and returns the sum afterwards. A late packet changes nothing and
    /// gets the newer sum. Additions saturate.
    pub fn add(&mut self, period: Slot, delta: i32) -> i32 {
        match self.tag.wrapping_sub(period.0) {
            0 => self.load = self.load.saturating_add(delta),
            1..=LATE_WINDOW => {}
            _ => *self = Cell { tag: period.0, load: delta },
        }
        self.load
    }

    /// What [`Cell::add`] of zero would return.
    pub fn read(&self, period: Slot) -> i32 {
        let mut copy = *self;
        copy.add(period, 0)
    }
}

/// What a dedupe register says of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sighting {
    /// Not counted in this period nor in the one before.
    New,
    /// Counted in the period before.
    HadPrevious,
    /// Counted in this period already, or a later one was: add nothing.
    Duplicate,
}

/// One dedupe register: who was counted here last, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DedupeRegister {
    /// Signature of the flow; 0: nobody yet.
    pub signature: u32,
    /// The period it was last counted in.
    pub period: u32,
}

impl DedupeRegister {
    /// Notes that the flow with this signature (0 counts as 1) announces for `period`, unless it is a duplicate.
    ///
    /// A packet of an earlier period than the one last counted is a duplicate too: the later one, finding no
    /// predecessor, was added in full, so the late one must not be added again.
    pub fn note(&mut self, signature: u32, period: Slot) -> Sighting {
        let signature = signature.max(1);
        let ahead = self.period.wrapping_sub(period.0);
        let sighting = if self.signature != signature {
            Sighting::New
        } else if ahead <= LATE_WINDOW {
            Sighting::Duplicate
        } else if ahead == u32::MAX {
            Sighting::HadPrevious
        } else {
            Sighting::New
        };
        if sighting != Sighting::Duplicate {
            *self = DedupeRegister { signature, period: period.0 };
        }
        sighting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zero_register_takes_every_slot_number_but_its_own_late_window() {
        for period in [0_u32, 1, 2, 1 << 31, (1 << 31) + 5, u32::MAX - 3, u32::MAX - 9] {
            let mut cell = Cell::default();
            assert_eq!(cell.add(Slot(period), 5), 5, "period {period}");
        }
    }

    #[test]
    fn rollover_is_lazy_and_late_packets_change_nothing() {
        let mut cell = Cell { tag: u32::MAX, load: 7 };
        assert_eq!(cell.add(Slot(1), 2), 2);
        for late in [0, u32::MAX, u32::MAX - 1] {
            assert_eq!(cell.add(Slot(late), 100), 2);
        }
        assert_eq!(cell.add(Slot(u32::MAX - 2), 9), 9, "four behind is not late but another age");
    }

    #[test]
    fn sums_saturate_at_both_ends() {
        let mut cell = Cell { tag: 9, load: i32::MAX - 1 };
        assert_eq!(cell.add(Slot(9), 5), i32::MAX);
        cell.load = i32::MIN + 1;
        assert_eq!(cell.add(Slot(9), -5), i32::MIN);
    }

    #[test]
    fn a_register_tells_repeats_from_news() {
        let mut register = DedupeRegister::default();
        assert_eq!(register.note(4, Slot(u32::MAX)), Sighting::New);
        assert_eq!(register.note(4, Slot(u32::MAX)), Sighting::Duplicate);
        assert_eq!(register.note(4, Slot(0)), Sighting::HadPrevious);
        assert_eq!(register.note(4, Slot(u32::MAX)), Sighting::Duplicate, "late");
        assert_eq!(register.note(4, Slot(2)), Sighting::New, "a gap");
        assert_eq!(register.note(5, Slot(2)), Sighting::New, "a collision evicts");
        assert_eq!(register.note(4, Slot(2)), Sighting::New, "and is evicted");
    }
}
