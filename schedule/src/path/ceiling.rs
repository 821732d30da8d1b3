//! B_f: the highest rate worth trying, from what the flow delivered in the last slots.
//!
//! The plain rule, "best delivered rate of the last slots × gain", locks in: a flow that was ordered little delivers
//! little and is then held to little, long after the cross traffic has gone. So a slot counts as a limit only if the
//! flow had bytes waiting and still delivered clearly less than ordered. Without such a slot in the history there is
//! no ceiling at all, headroom is the only cap. And once the flow delivers what the ceiling let it try, the ceiling
//! opens fourfold, and after a second such slot it is gone. From the floor (1 % of a link) back to the full link that
//! is three slots, whatever the gain.

use crate::units::Rate;

/// What one slot showed of one flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The rate that was in force, averaged over the slot.
    pub ordered: Rate,
    /// What was delivered, averaged over the slot.
    pub delivered: Rate,
    /// The flow had bytes to send, and was allowed to send them, all through the slot.
    pub busy: bool,
}

impl Sample {
    /// A part of the order above which it counts as delivered; pacing is not finer than a few percent.
    const DELIVERED: f64 = 0.95;

    /// True if something on the path, not the order and not the application, set the rate.
    fn limited(self) -> bool {
        self.busy && self.delivered < self.ordered.times(Sample::DELIVERED)
    }
}

/// The ceiling of one flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceiling {
    samples: [Sample; Ceiling::MAX_SLOTS],
    next: usize,
    filled: usize,
    slots: usize,
    gain: f64,
    /// Slots in a row in which the path carried more than it ever did while it was the limit.
    opened: u8,
}

impl Ceiling {
    /// The longest history, in slots.
    pub const MAX_SLOTS: usize = 32;
    /// The least gain in use: with less, a flow could never find out that its path has become free.
    const MIN_GAIN: f64 = 1.05;
    /// By how much the ceiling opens after one slot without a limit.
    const OPENING: f64 = 4.0;

    /// No history: `slots` (`schedule.history_slots`, 1 to 32) will be kept, `gain` is `schedule.probe_gain`.
    pub fn new(slots: usize, gain: f64) -> Ceiling {
        Ceiling {
            samples: [Sample::default(); Ceiling::MAX_SLOTS],
            next: 0,
            filled: 0,
            slots: slots.clamp(1, Ceiling::MAX_SLOTS),
            gain: gain.max(Ceiling::MIN_GAIN),
            opened: 0,
        }
    }

    /// Takes one slot in. Call it once per slot in which the flow existed.
    pub fn record(&mut self, sample: Sample) {
        // Half of the gain: what is above the old limit by less is noise.
        let above = self.limit().map(|limit| limit.times(1.0 + (self.gain - 1.0) / 2.0));
        if sample.limited() {
            self.opened = 0;
        } else if sample.busy && above.is_some_and(|above| sample.delivered > above) {
            self.opened = self.opened.saturating_add(1);
        }
        self.samples[self.next] = sample;
        self.next = (self.next + 1) % self.slots;
        self.filled = (self.filled + 1).min(self.slots);
    }

    /// Forgets everything: another path, another round after a long pause.
    pub fn reset(&mut self) {
        *self = Ceiling::new(self.slots, self.gain);
    }

    /// The best delivered rate in the history; also good for other flows on the same bottleneck.
    pub fn best(&self) -> Rate {
        self.history().map(|sample| sample.delivered).max().unwrap_or(Rate::ZERO)
    }

    /// B_f. `peers` is the best delivered rate of this host's other managed flows on the same bottleneck (zero if
    /// there are none): what one of them got, this one may try. [`Rate::MAX`]: nothing is known against it.
    pub fn rate(&self, peers: Rate) -> Rate {
        match (self.limit(), self.opened) {
            (None, _) | (_, 2..) => Rate::MAX,
            (Some(_), 0) => self.best().max(peers).times(self.gain),
            (Some(_), _) => self.best().max(peers).times(self.gain * Ceiling::OPENING),
        }
    }

    /// The best delivered rate among the slots in which the path was the limit.
    fn limit(&self) -> Option<Rate> {
        self.history().filter(|sample| sample.limited()).map(|sample| sample.delivered).max()
    }

    fn history(&self) -> impl Iterator<Item = Sample> + '_ {
        self.samples[..self.filled].iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LINK: Rate = Rate::mbps(25_000);

    /// One slot of a flow on a link of which unmanaged traffic takes `cross`; the host cannot see that traffic.
    fn slot(ceiling: &mut Ceiling, floor: Rate, cross: Rate) -> Rate {
        let ordered = LINK.min(ceiling.rate(Rate::ZERO)).max(floor);
        let delivered = ordered.min(LINK.minus(cross));
        ceiling.record(Sample { ordered, delivered, busy: true });
        delivered
    }

    #[test]
    fn a_new_flow_has_no_ceiling() {
        assert_eq!(Ceiling::new(4, 1.25).rate(Rate::ZERO), Rate::MAX);
    }

    #[test]
    fn a_path_that_carries_less_than_ordered_sets_the_ceiling() {
        let mut ceiling = Ceiling::new(4, 1.25);
        ceiling.record(Sample { ordered: Rate(1000), delivered: Rate(400), busy: true });
        assert_eq!(ceiling.rate(Rate::ZERO), Rate(500));
        assert_eq!(ceiling.rate(Rate(480)), Rate(600), "a peer got more");
        ceiling.record(Sample { ordered: Rate(500), delivered: Rate(400), busy: true });
        assert_eq!(ceiling.rate(Rate::ZERO), Rate(500), "it stays while the path stays as it is");
    }

    #[test]
    fn being_ordered_little_or_having_little_to_send_is_no_limit() {
        let mut ceiling = Ceiling::new(4, 1.25);
        for _ in 0..8 {
            ceiling.record(Sample { ordered: Rate(10), delivered: Rate(10), busy: true });
            ceiling.record(Sample { ordered: Rate(1000), delivered: Rate(10), busy: false });
        }
        assert_eq!(ceiling.rate(Rate::ZERO), Rate::MAX);
    }

    #[test]
    fn a_limit_is_forgotten_after_the_history() {
        let mut ceiling = Ceiling::new(4, 1.25);
        ceiling.record(Sample { ordered: Rate(1000), delivered: Rate(400), busy: true });
        for _ in 0..4 {
            assert_ne!(ceiling.rate(Rate::ZERO), Rate::MAX);
            ceiling.record(Sample { ordered: Rate(10), delivered: Rate(10), busy: true });
        }
        assert_eq!(ceiling.rate(Rate::ZERO), Rate::MAX);
    }

    proptest! {
        #[test]
        fn it_never_locks_below_the_path(
            cross in 0.0_f64..=1.0, before in 1_usize..50, gain in 1.0_f64..2.0, history in 1_usize..=32,
        ) {
            let mut ceiling = Ceiling::new(history, gain);
            let floor = crate::path::floor(LINK, Rate::mbps(10), 0.01, 1);
            for _ in 0..before {
                slot(&mut ceiling, floor, LINK.times(cross));
            }
            // The cross traffic leaves. In the fourth slot from here the flow is back.
            let mut delivered = Rate::ZERO;
            for _ in 0..4 {
                delivered = slot(&mut ceiling, floor, Rate::ZERO);
            }
            prop_assert!(delivered >= LINK.times(0.95), "{} after {} with gain {}", delivered, cross, gain);
        }

        #[test]
        fn it_never_orders_far_more_than_the_path_carries_for_long(cross in 0.1_f64..0.9, gain in 1.1_f64..2.0) {
            let mut ceiling = Ceiling::new(4, gain);
            let mut over = 0;
            for _ in 0..100 {
                if ceiling.rate(Rate::ZERO).min(LINK) > LINK.minus(LINK.times(cross)).times(gain * 1.01) {
                    over += 1;
                }
                slot(&mut ceiling, Rate::ZERO, LINK.times(cross));
            }
            prop_assert!(over <= 1, "{over} slots, the first is the only one without history");
        }
    }
}
