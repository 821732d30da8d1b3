//! What unmanaged traffic takes of an own link, and how much of the link is reserved for it.
//!
//! The estimate is the largest of the last slots, so that a burst is remembered and a pause is not mistaken for the
//! end. Two repairs keep it from settling in the wrong place. On a full link elastic traffic takes what is left to it,
//! so its measured rate says nothing about what it wants: there the estimate exceeds the measurement and lets it grow.
//! And such traffic takes all of a link that managed flows left for a moment; were all of it then reserved, managed
//! flows would never come back. So no more than half of the link is reserved; beyond that both sides compete.

use crate::units::Rate;

/// The estimate for one own link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CrossTraffic {
    seen: [Rate; CrossTraffic::MOST_SLOTS],
    full: [bool; CrossTraffic::MOST_SLOTS],
    next: usize,
    slots: usize,
}

impl CrossTraffic {
    /// The longest history.
    pub const MOST_SLOTS: usize = 32;
    /// From this part of its rate on a link counts as full: counters and pacing are not finer.
    const FULL: f64 = 0.9;
    /// How much more than was measured is left on a full link.
    const GROWTH: f64 = 1.5;
    /// Below this part of the link traffic on a full link is left as measured: acknowledgements and retransmissions of
    /// managed flows look like a little cross traffic.
    const NOISE: f64 = 0.02;
    /// The largest part of a link that is reserved for unmanaged traffic.
    const MOST_SHARE: f64 = 0.5;

    /// Nothing seen yet; the last `slots` (1 to 32) will count.
    pub fn new(slots: usize) -> CrossTraffic {
        CrossTraffic {
            seen: [Rate::ZERO; CrossTraffic::MOST_SLOTS],
            full: [false; CrossTraffic::MOST_SLOTS],
            next: 0,
            slots: slots.clamp(1, CrossTraffic::MOST_SLOTS),
        }
    }

    /// Takes one slot in: all traffic of the link, what of it was managed, and the link's rate.
    pub fn record(&mut self, total: Rate, managed: Rate, capacity: Rate) {
        self.seen[self.next] = total.minus(managed).min(capacity);
        self.full[self.next] = total >= capacity.times(CrossTraffic::FULL);
        self.next = (self.next + 1) % self.slots;
    }

    /// The largest rate of unmanaged traffic in the last slots.
    pub fn seen(&self) -> Rate {
        self.seen[..self.slots].iter().copied().max().unwrap_or(Rate::ZERO)
    }

    /// What managed flows should leave free of a link of this rate.
    pub fn reserved(&self, capacity: Rate) -> Rate {
        self.wanted(capacity).min(capacity.times(CrossTraffic::MOST_SHARE))
    }

    /// What unmanaged traffic seems to want of a link of this rate, at most all of it. Whoever knows how many managed
    /// flows it competes with leaves it the lesser of this and an equal share.
    pub fn wanted(&self, capacity: Rate) -> Rate {
        let wants = |(&seen, &full): (&Rate, &bool)| {
            let growing = full && seen > capacity.times(CrossTraffic::NOISE);
            if growing { seen.times(CrossTraffic::GROWTH) } else { seen }
        };
        let slots = self.seen[..self.slots].iter().zip(&self.full[..self.slots]);
        slots.map(wants).max().unwrap_or(Rate::ZERO).min(capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LINK: Rate = Rate::mbps(10_000);

    #[test]
    fn a_quiet_link_needs_nothing() {
        let mut cross = CrossTraffic::new(4);
        cross.record(LINK, LINK, LINK);
        assert_eq!((cross.seen(), cross.reserved(LINK)), (Rate::ZERO, Rate::ZERO));
    }

    #[test]
    fn it_is_the_largest_of_the_last_slots() {
        let mut cross = CrossTraffic::new(4);
        for mbps in [100, 300, 200, 100] {
            cross.record(Rate::mbps(5_000 + mbps), Rate::mbps(5_000), LINK);
        }
        assert_eq!(cross.reserved(LINK), Rate::mbps(300));
        for _ in 0..3 {
            cross.record(Rate::mbps(5_000), Rate::mbps(5_000), LINK);
        }
        assert_eq!(cross.seen(), Rate::mbps(100));
        cross.record(Rate::mbps(5_000), Rate::mbps(5_000), LINK);
        assert_eq!(cross.seen(), Rate::ZERO);
    }

    #[test]
    fn more_managed_than_total_is_a_measuring_error_not_a_debt() {
        let mut cross = CrossTraffic::new(4);
        cross.record(Rate(10), Rate(20), LINK);
        assert_eq!(cross.seen(), Rate::ZERO);
    }

    #[test]
    fn an_elastic_flow_gets_half_of_the_link_within_four_slots() {
        // Managed flows take all but the estimate, the elastic flow all they leave; in the first slot it wins a sixth.
        let (mut cross, mut elastic) = (CrossTraffic::new(4), LINK.times(1.0 / 6.0));
        for _ in 0..4 {
            cross.record(LINK, LINK.minus(elastic), LINK);
            elastic = elastic.max(cross.reserved(LINK));
        }
        assert_eq!(elastic, LINK.times(0.5));
        assert_eq!(LINK.minus(cross.reserved(LINK)), LINK.times(0.5), "and managed flows keep the other half");
    }

    #[test]
    fn traffic_that_is_satisfied_gets_what_it_takes() {
        let mut cross = CrossTraffic::new(4);
        let steady = Rate::mbps(3_000);
        for _ in 0..20 {
            let managed = Rate::mbps(5_500);
            cross.record(managed.plus(steady), managed, LINK);
        }
        assert_eq!(cross.reserved(LINK), steady);
    }

    #[test]
    fn a_link_taken_over_in_a_pause_is_shared_again() {
        let mut cross = CrossTraffic::new(4);
        cross.record(LINK, Rate::ZERO, LINK);
        assert_eq!(cross.reserved(LINK), LINK.times(0.5));
    }

    proptest! {
        #[test]
        fn it_stays_within_the_link(samples in prop::collection::vec((0_u64.., 0_u64.., 0_u64..), 0..20), rate: u64) {
            let mut cross = CrossTraffic::new(4);
            for (total, managed, capacity) in samples {
                cross.record(Rate(total), Rate(managed), Rate(capacity));
            }
            prop_assert!(cross.reserved(Rate(rate)).0 <= rate);
        }
    }
}
