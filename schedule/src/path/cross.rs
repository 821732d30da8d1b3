//! What unmanaged traffic takes of an own link, and how much of the link is left to it.
//!
//! The demand is the largest of the last two slots, so that a pause is not mistaken for the end, and an end is not
//! remembered for long. On a full link elastic traffic takes what is left to it, so its measured rate says nothing about
//! what it wants: there the estimate exceeds the measurement and lets it grow. And such traffic takes all of a link that
//! managed flows left for a moment; were all of it then left to it, managed flows would never come back. So no more than
//! half of the link is left; beyond that both sides compete.
//!
//! A newcomer grows into its share: a part of the link is left to it at once (`schedule.newcomer_share`, 14 %), then 1.5 %
//! more of what it has from slot to slot, so that a flow that stays has half of a full link after five seconds (with slots
//! of 60 ms). Short elastic flows pay for that, by what they would have had of links that are full of training traffic; what
//! managed flows leave idle is theirs at once.

use crate::units::Rate;

/// The estimate for one own link.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CrossTraffic {
    /// What it seemed to want in the last slot and in the one before.
    wanted: [Rate; 2],
    granted: Rate,
}

impl CrossTraffic {
    /// From this part of its rate on a link counts as full: counters and pacing are not finer.
    const FULL: f64 = 0.9;
    /// How much more than was measured is wanted on a full link.
    const GROWTH: f64 = 1.5;
    /// Below this part of the link traffic on a full link is left as measured: acknowledgements and retransmissions of
    /// managed flows look like a little cross traffic.
    pub(crate) const NOISE: f64 = 0.02;
    /// How much more it is left from slot to slot.
    const PER_SLOT: f64 = 1.015;
    /// The largest part of a link that is left to unmanaged traffic.
    pub(crate) const MAX_SHARE: f64 = 0.5;

    /// Takes one slot in: all traffic of the link, what of it was managed, the link's rate, and the part of it (0 to 0.5)
    /// that a newcomer is left at once.
    pub fn record(&mut self, total: Rate, managed: Rate, capacity: Rate, newcomer: f64) {
        let seen = total.minus(managed).min(capacity);
        let full = total >= capacity.times(CrossTraffic::FULL);
        let growing = full && seen > capacity.times(CrossTraffic::NOISE);
        self.wanted = [if growing { seen.times(CrossTraffic::GROWTH) } else { seen }, self.wanted[0]];
        let at_once = capacity.times(newcomer);
        // A link without managed traffic is all its own; only where both compete does its share grow.
        let contended = managed > capacity.times(CrossTraffic::NOISE);
        let more = if contended { CrossTraffic::PER_SLOT } else { 1.0 };
        let allowed = self.granted.times(more).max(at_once);
        let most = capacity.times(CrossTraffic::MAX_SHARE);
        self.granted = self.wanted[0].max(self.wanted[1]).min(allowed).min(most);
    }

    /// What managed flows should leave free of a link of this rate.
    pub fn reserved(&self, capacity: Rate) -> Rate {
        self.granted.min(capacity.times(CrossTraffic::MAX_SHARE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LINK: Rate = Rate::mbps(10_000);

    const NEWCOMER: f64 = 0.08;
    /// Slots until that newcomer has half of a full link: ln (0.5/0.08) / ln 1.015, rounded up, and one to begin.
    const SLOTS_TO_HALF: usize = 125;

    #[test]
    fn a_quiet_link_needs_nothing() {
        let mut cross = CrossTraffic::default();
        cross.record(LINK, LINK, LINK, NEWCOMER);
        assert_eq!(cross.reserved(LINK), Rate::ZERO);
    }

    #[test]
    fn it_is_the_larger_of_the_last_two_slots() {
        let mut cross = CrossTraffic::default();
        for mbps in [100, 300, 200] {
            cross.record(Rate::mbps(5_000 + mbps), Rate::mbps(5_000), LINK, NEWCOMER);
        }
        assert_eq!(cross.reserved(LINK), Rate::mbps(300));
        cross.record(Rate::mbps(5_000), Rate::mbps(5_000), LINK, NEWCOMER);
        assert_eq!(cross.reserved(LINK), Rate::mbps(200));
        cross.record(Rate::mbps(5_000), Rate::mbps(5_000), LINK, NEWCOMER);
        assert_eq!(cross.reserved(LINK), Rate::ZERO);
    }

    #[test]
    fn more_managed_than_total_is_a_measuring_error_not_a_debt() {
        let mut cross = CrossTraffic::default();
        cross.record(Rate(10), Rate(20), LINK, NEWCOMER);
        assert_eq!(cross.reserved(LINK), Rate::ZERO);
    }

    /// Managed flows take all but what is left to the elastic flow, which takes all it is left and `won` at least.
    fn compete(cross: &mut CrossTraffic, won: Rate, slots: usize) -> Rate {
        (0..slots).fold(won, |elastic, _| {
            cross.record(LINK, LINK.minus(elastic), LINK, NEWCOMER);
            elastic.max(cross.reserved(LINK))
        })
    }

    #[test]
    fn an_elastic_flow_has_a_little_at_once_and_half_of_the_link_in_the_end() {
        let mut cross = CrossTraffic::default();
        assert_eq!(compete(&mut cross, LINK.times(0.06), 1), LINK.times(0.08));
        assert_eq!(compete(&mut cross, LINK.times(0.08), SLOTS_TO_HALF), LINK.times(0.5));
        assert_eq!(compete(&mut cross, LINK.times(0.5), 100), LINK.times(0.5), "and managed flows keep the other half");
    }

    #[test]
    fn traffic_that_is_satisfied_gets_what_it_takes() {
        let mut cross = CrossTraffic::default();
        let steady = Rate::mbps(3_000);
        for _ in 0..SLOTS_TO_HALF {
            let managed = Rate::mbps(5_500);
            cross.record(managed.plus(steady), managed, LINK, NEWCOMER);
        }
        assert_eq!(cross.reserved(LINK), steady);
    }

    #[test]
    fn a_link_taken_over_in_a_pause_is_shared_again() {
        let mut cross = CrossTraffic::default();
        cross.record(LINK, Rate::ZERO, LINK, NEWCOMER);
        assert_eq!(cross.reserved(LINK), LINK.times(0.08));
        compete(&mut cross, LINK.times(0.08), SLOTS_TO_HALF);
        assert_eq!(cross.reserved(LINK), LINK.times(0.5));
    }

    #[test]
    fn an_end_is_forgotten_in_two_slots() {
        let mut cross = CrossTraffic::default();
        compete(&mut cross, LINK.times(0.1), 2 * SLOTS_TO_HALF);
        cross.record(LINK.times(0.5), LINK.times(0.5), LINK, NEWCOMER);
        cross.record(LINK.times(0.5), LINK.times(0.5), LINK, NEWCOMER);
        assert_eq!(cross.reserved(LINK), Rate::ZERO);
    }

    proptest! {
        #[test]
        fn it_stays_within_half_of_the_link(
            samples in prop::collection::vec((0_u64.., 0_u64.., 0_u64..), 0..20), rate: u64
        ) {
            let mut cross = CrossTraffic::default();
            for (total, managed, capacity) in samples {
                cross.record(Rate(total), Rate(managed), Rate(capacity), NEWCOMER);
            }
            prop_assert!(cross.reserved(Rate(rate)) <= Rate(rate).times(0.5));
        }
    }
}
