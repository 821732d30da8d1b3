//! Whether unmanaged traffic uses a link, as far as that matters for seconds and not for one slot.

use crate::path::CrossTraffic;
use crate::units::{Nanos, Rate};

/// How long a link counts as one with unmanaged traffic after that was last seen: short flows come back.
const MEMORY: Nanos = Nanos::from_millis(10_000);
/// Slots over which it is averaged, about a second. Counters are read while bytes are in flight, so that single slots show
/// unmanaged traffic where there is none; who is left 8 % of a link as a newcomer is seen in the fifth.
const SLOTS: u64 = 16;

/// What unmanaged traffic takes of a link, on average, and when that was last worth mention.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unmanaged {
    average: Rate,
    seen: Option<Nanos>,
}

impl Unmanaged {
    /// A slot has passed in which it took so much of the link.
    pub fn slot(&mut self, now: Nanos, cross: Rate, capacity: Rate) {
        self.average = self.average.minus(self.average.share(SLOTS)).plus(cross.share(SLOTS));
        if self.average > capacity.times(CrossTraffic::NOISE) {
            self.seen = Some(now);
        }
    }

    /// Was it seen in the last ten seconds?
    pub fn lately(&self, now: Nanos) -> bool {
        self.seen.is_some_and(|seen| now.minus(seen) <= MEMORY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LINK: Rate = Rate::mbps(1000);

    /// In which of these slots it was seen first.
    fn first_seen(percent: impl Iterator<Item = u64>) -> Option<usize> {
        let mut unmanaged = Unmanaged::default();
        let mut slots = percent.enumerate();
        slots.find_map(|(n, percent)| {
            let now = Nanos::from_millis(60 * (n as u64 + 1));
            unmanaged.slot(now, LINK.times(percent as f64 / 100.0), LINK);
            unmanaged.lately(now).then_some(n)
        })
    }

    #[test]
    fn a_newcomer_is_seen_within_a_third_of_a_second_and_bursts_are_not() {
        assert_eq!(first_seen(std::iter::repeat_n(8, 17)), Some(4));
        assert_eq!(first_seen(std::iter::repeat_n(50, 17)), Some(0));
        assert_eq!(first_seen([8, 8].into_iter().chain(std::iter::repeat_n(0, 60))), None);
        assert_eq!(first_seen((0..600).map(|n| if n % 10 == 0 { 10 } else { 0 })), None, "a tenth of the slots");
        assert_eq!(first_seen(std::iter::repeat_n(2, 600)), None, "what acknowledgements take");
    }

    #[test]
    fn it_is_remembered_for_ten_seconds() {
        let (mut unmanaged, ms) = (Unmanaged::default(), Nanos::from_millis);
        unmanaged.slot(ms(60), LINK, LINK);
        unmanaged.slot(ms(120), Rate::ZERO, LINK);
        assert!(unmanaged.lately(ms(10_000)));
        let mut now = 180;
        while now < 20_000 {
            unmanaged.slot(ms(now), Rate::ZERO, LINK);
            now += 60;
        }
        assert!(!unmanaged.lately(ms(20_000)));
    }

    proptest! {
        /// What is always there is seen if it is more than noise, whatever the link's rate.
        #[test]
        fn what_stays_is_seen(capacity in 1_000_000_u64..1 << 40, percent in 3_u64..100) {
            let (capacity, mut unmanaged) = (Rate(capacity), Unmanaged::default());
            for n in 1..40 {
                unmanaged.slot(Nanos::from_millis(60 * n), capacity.times(percent as f64 / 100.0), capacity);
            }
            prop_assert!(unmanaged.lately(Nanos::from_millis(60 * 40)));
        }
    }
}
