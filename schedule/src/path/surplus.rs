//! What a flow takes beyond its order where that is allowed: it grows while nothing is lost and halves when something is, as
//! TCP does; one that yields halves when a queue grows, so that it has only what is idle. Capacity that nobody uses is then taken within round trips, without a message and without a decision.
//!
//! The kernel program does this, in `bpf/sluice_surplus.h` of `sluice-ebpf`; this is its twin in the same arithmetic, on
//! which the properties are tested. A test over there runs both on the same traces.

use crate::units::{Nanos, Rate};

/// What one flow takes beyond its order, and what it knows of that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Surplus {
    extra: Rate,
    /// The order and the extra when the path last lost something; zero: not known, or outgrown.
    peak: Rate,
    /// When it was last looked at.
    looked: Nanos,
    /// Segments lost by then.
    lost: u32,
    /// The last look found a loss, or a queue to yield to.
    cut: bool,
}

/// What the path shows at a look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signs {
    /// The time.
    pub now: Nanos,
    /// Smoothed round-trip time.
    pub rtt: Nanos,
    /// The last round trip less the shortest one of late.
    pub queue: Nanos,
    /// Segments lost since the connection began; it may wrap.
    pub lost: u32,
    /// The application, not the pacing, set the rate of late.
    pub app_limited: bool,
    /// It may take only what is idle.
    pub yields: bool,
}

impl Surplus {
    /// The least time between two looks.
    pub const PERIOD: Nanos = Nanos::from_millis(2);
    /// A queue that one that yields gives way to. With half of that it grows no more.
    pub const QUEUE: Nanos = Nanos::from_millis(1);
    /// The step of one that yields, as a part of the link: the queue that it makes itself ends its growth before anybody else
    /// notices.
    const IDLE: u64 = 8;
    /// Where the order leaves less than this part of the link there is no surplus.
    const ALL_BUT: u64 = 16;
    /// Not so far below the rate at which something was lost growth is slow, as a part of the link.
    const NEAR: u64 = 2;
    /// So far beyond that rate it is forgotten, as a part of the link.
    const OUTGROWN: u64 = 16;
    /// A quick step, as a part of the rate and of the link; the larger counts.
    const QUICK: Step = Step { of_rate: 8, of_link: 64 };
    /// A slow step, as a part of the order and of the link.
    const SLOW: Step = Step { of_rate: 256, of_link: 2048 };

    /// Nothing is taken yet; `seen` is when the connection was first looked at.
    pub fn new(seen: Signs) -> Surplus {
        Surplus { looked: seen.now, lost: seen.lost, ..Surplus::default() }
    }

    /// What it takes beyond an order, with which that is at most `link`. Nothing where no more is allowed (a link of zero),
    /// and where the order is nearly all of the link.
    pub fn look(&mut self, order: Rate, link: Rate, seen: Signs) -> Rate {
        let room = if order < link.minus(link.share(Surplus::ALL_BUT)) { link.minus(order) } else { Rate::ZERO };
        self.extra = self.extra.min(room);
        if room > Rate::ZERO && seen.now.0.wrapping_sub(self.looked.0) < seen.rtt.max(Surplus::PERIOD).0 {
            return self.extra;
        }
        let gives_way = seen.yields && seen.queue > Surplus::QUEUE;
        let waits = seen.yields && seen.queue > Nanos(Surplus::QUEUE.0 / 2);
        if room > Rate::ZERO && (seen.lost != self.lost || gives_way) {
            if !self.cut {
                self.peak = order.plus(self.extra);
            }
            self.cut = true;
            self.extra = self.extra.share(2);
        } else {
            self.cut = false;
            if room > Rate::ZERO && !seen.app_limited && !waits {
                let step = if seen.yields { link.share(Surplus::IDLE) } else { self.step(order, link) };
                self.extra = self.extra.plus(step).min(room);
            }
        }
        (self.looked, self.lost) = (seen.now, seen.lost);
        self.extra
    }

    /// The flow begins to send after a pause: what was left over before may be gone.
    pub fn pause(&mut self) {
        self.extra = Rate::ZERO;
    }

    /// By how much the extra grows at a look without a loss: by an eighth of the rate while that is half a link below the one
    /// at which something was lost last, or nobody knows of one; slowly from there on; and that is forgotten once it is
    /// outgrown by a sixteenth of the link. The slow step is in proportion to the order, so that who goes first also takes most
    /// of what is over.
    fn step(&mut self, order: Rate, link: Rate) -> Rate {
        let (rate, near) = (order.plus(self.extra), link.share(Surplus::NEAR));
        let quick = Surplus::QUICK.of(rate, link);
        if rate >= self.peak.plus(link.share(Surplus::OUTGROWN)) {
            self.peak = Rate::ZERO;
        }
        match self.peak {
            Rate::ZERO => quick,
            peak if rate.plus(near) >= peak => Surplus::SLOW.of(order, link),
            peak => quick.min(peak.minus(near).minus(rate)),
        }
    }
}

/// A step, as the larger of two parts.
struct Step {
    of_rate: u64,
    of_link: u64,
}

impl Step {
    fn of(&self, rate: Rate, link: Rate) -> Rate {
        rate.share(self.of_rate).max(link.share(self.of_link))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LINK: Rate = Rate(1_000_000);

    /// A look each period, from the first on.
    fn looks(surplus: &mut Surplus, order: Rate, from: u64, losses: &[u32]) -> Vec<Rate> {
        let mut lost = surplus.lost;
        let look = |(n, losses): (usize, &u32)| {
            lost = lost.wrapping_add(*losses);
            let now = Nanos::from_millis(2 * (from + n as u64 + 1));
            surplus.look(order, LINK, Signs { now, lost, ..Signs::default() })
        };
        losses.iter().enumerate().map(look).collect()
    }

    #[test]
    fn an_idle_link_is_taken_within_a_few_round_trips() {
        let order = LINK.share(10);
        let taken = looks(&mut Surplus::default(), order, 0, &[0; 24]);
        assert_eq!(taken.last(), Some(&LINK.minus(order)));
        assert!(taken[0] >= LINK.share(64), "{taken:?}");
    }

    #[test]
    fn after_losses_it_comes_back_quickly_to_half_a_link_below_and_slowly_from_there() {
        let (order, mut surplus) = (LINK.share(10), Surplus::default());
        let before = looks(&mut surplus, order, 0, &[0; 19]);
        let peak = order.plus(before[18]);
        let cut = looks(&mut surplus, order, 19, &[3, 2, 1]);
        assert_eq!(cut, [2, 4, 8].map(|part| before[18].share(part)), "one half for each look with losses");
        let after = looks(&mut surplus, order, 22, &[0; 60]);
        let near =
            after.iter().position(|extra| order.plus(*extra) >= peak.minus(LINK.share(2))).expect("it comes back");
        assert!(near < 10, "{after:?}");
        let steps: Vec<Rate> = after[near..].windows(2).map(|two| two[1].minus(two[0])).collect();
        let slow = steps.iter().take_while(|step| **step == Rate(LINK.0 / 2048)).count();
        assert!(slow > 30, "{steps:?}");
    }

    #[test]
    fn one_that_yields_takes_an_idle_link_at_once_and_gives_way_to_a_queue() {
        let (order, mut surplus, mut at) = (LINK.share(10), Surplus::default(), 0);
        let mut look = |queue_us: u64| {
            at += 2;
            let queue = Nanos(queue_us * 1000);
            surplus.look(order, LINK, Signs { now: Nanos::from_millis(at), queue, yields: true, ..Signs::default() })
        };
        let taken: Vec<Rate> = (0..8).map(|_| look(100)).collect();
        assert_eq!(taken[7], LINK.minus(order), "{taken:?}");
        assert_eq!(look(700), taken[7], "it waits and sees");
        let given: Vec<Rate> = (0..3).map(|_| look(1_500)).collect();
        assert_eq!(given, [2, 4, 8].map(|part| taken[7].share(part)));
        assert!(look(0) > given[2]);
    }

    #[test]
    fn what_is_long_outgrown_is_forgotten() {
        let (order, mut surplus) = (LINK.share(2), Surplus::default());
        looks(&mut surplus, order, 0, &[1]);
        let after = looks(&mut surplus, order, 1, &[0; 60]);
        assert_eq!(after.last(), Some(&LINK.minus(order)), "{after:?}");
    }

    #[test]
    fn who_has_more_to_begin_with_grows_faster_near_the_limit() {
        let step = |order: Rate| {
            let mut surplus =
                Surplus { peak: LINK, extra: LINK.share(32).times(31.0).minus(order), ..Surplus::default() };
            let before = surplus.extra;
            surplus.look(order, LINK, Signs { now: Surplus::PERIOD, ..Signs::default() }).minus(before)
        };
        assert!(step(LINK.share(2)) > step(LINK.share(4)) && step(LINK.share(4)) > step(LINK.share(20)));
    }

    #[test]
    fn who_pauses_begins_anew_and_still_knows_where_it_lost() {
        let (order, mut surplus) = (LINK.share(10), Surplus::default());
        looks(&mut surplus, order, 0, &[0, 0, 0, 0, 1]);
        surplus.pause();
        assert_eq!(surplus.extra, Rate::ZERO);
        assert!(surplus.peak > Rate::ZERO);
    }

    proptest! {
        /// Whatever comes, in any order: with the order it is never more than the link, and none where none is allowed.
        #[test]
        fn it_stays_within_what_is_allowed(
            steps in prop::collection::vec((0_u64..1 << 40, 0_u64..1 << 40, any::<bool>(), any::<[u32; 4]>(), any::<[bool; 2]>()), 1..80)
        ) {
            let (mut surplus, mut now) = (Surplus::default(), Nanos::ZERO);
            for (order, link, allowed, [passed, rtt, lost, queue], [app_limited, yields]) in steps {
                now = now.plus(Nanos(u64::from(passed % 10_000_000)));
                let link = if allowed { Rate(link) } else { Rate::ZERO };
                let (rtt, queue) = (Nanos(u64::from(rtt % 10_000_000)), Nanos(u64::from(queue % 2_000_000)));
                let seen = Signs { now, rtt, queue, lost: lost % 4, app_limited, yields };
                let before = surplus;
                let extra = surplus.look(Rate(order), link, seen);
                prop_assert!(extra == Rate::ZERO || Rate(order).plus(extra) <= link);
                if link.minus(link.share(16)) <= Rate(order) {
                    prop_assert_eq!(extra, Rate::ZERO);
                }
                let room = Rate(order) < link.minus(link.share(16));
                let looked = room && now.minus(before.looked) >= seen.rtt.max(Surplus::PERIOD);
                if looked && (seen.lost != before.lost || (yields && queue > Surplus::QUEUE)) {
                    prop_assert!(extra <= before.extra.share(2), "it halves");
                } else if app_limited {
                    prop_assert!(extra <= before.extra, "it does not grow");
                } else if room {
                    prop_assert!(extra >= before.extra.min(link.minus(Rate(order))), "it never falls without a loss");
                }
            }
        }
    }
}
