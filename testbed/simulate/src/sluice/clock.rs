//! A machine's clock in virtual time: right, or wrong by some slots while a fault says so.

use sluice_schedule::clock::SlotClock;
use sluice_schedule::{Nanos, Now};

/// Slots that lie before the scenario's time 0, so that nothing happens at time 0 of a clock, which is "never" in places.
const SLOTS_BEFORE: u64 = 1000;

/// A machine's monotonic and wall clock and its slot grid.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    grid: SlotClock,
    /// Added to the wall clock.
    pub skew: Nanos,
}

impl Clock {
    pub fn new(slot: Nanos) -> Clock {
        Clock { grid: SlotClock::new(slot), skew: Nanos::ZERO }
    }

    /// The clock of a new process on the same machine: it has read nothing yet.
    pub fn restarted(&self) -> Clock {
        Clock { grid: SlotClock::new(self.grid.length()), skew: self.skew }
    }

    /// What it shows at `at` of the scenario. Slot edges of a right clock are the scenario's.
    pub fn now(&mut self, at: Nanos) -> Now {
        let mono = at.plus(self.grid.length().times(SLOTS_BEFORE));
        let wall = mono.plus(self.skew);
        let reading = self.grid.read(mono, wall);
        Now { mono, wall, slot: reading.slot, into_slot: reading.into_slot }
    }

    /// Time from this reading to the next slot.
    pub fn until_edge(&self, now: Now) -> Nanos {
        self.grid.until_edge(now.wall)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_the_scenarios_and_skew_moves_them() {
        let slot = Nanos::from_millis(60);
        let mut clock = Clock::new(slot);
        let now = clock.now(Nanos::from_millis(120));
        assert_eq!((now.slot.0, now.into_slot, clock.until_edge(now)), (1002, Nanos::ZERO, slot));
        clock.skew = slot.scaled(2.5);
        let now = clock.now(Nanos::from_millis(121));
        assert_eq!((now.slot.0, now.into_slot), (1004, Nanos::from_millis(31)));
        clock.skew = Nanos::ZERO;
        assert_eq!(clock.now(Nanos::from_millis(122)).slot.0, 1004, "a grid never goes back");
    }
}
