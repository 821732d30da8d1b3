//! What a flow takes of what it may: less, where something holds it back that its host does not see.
//!
//! A full link inside a fabric whose paths are not known, a receiver that is busy, a predecessor that delivers slowly, an
//! application that writes slowly: the order is not what limits the flow, and what it leaves others may have. It is offered
//! a little more than it takes. As soon as it takes that as well, it counts in full again, so that a verdict that is wrong,
//! or not right any more, costs some milliseconds. [`super::Ceiling`] is the paper's, by slots and slower.

use crate::units::{Bytes, Nanos, Rate};

/// One flow's uptake, looked at in windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uptake {
    /// How the window began; `None`: there is no window.
    began: Option<Began>,
    /// The order in force.
    order: Rate,
    /// Until when `allowed` counts it.
    counted: Nanos,
    /// What the orders of the window have allowed.
    allowed: Bytes,
    /// What the flow took in the last window, if that was clearly less.
    taken: Option<Rate>,
}

/// The begin of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Began {
    at: Nanos,
    /// Bytes delivered by then.
    delivered: Bytes,
}

impl Uptake {
    /// The shortest time on which a flow is judged: several exchanges with holders, many round trips.
    pub const WINDOW: Nanos = Nanos::from_millis(20);
    /// The shortest time after which a flow that was found to take less may count in full again.
    const ACQUITTAL: Nanos = Nanos::from_millis(5);
    /// The part of what it was allowed that it has to take for that.
    const SURELY_ALL: f64 = 0.95;
    /// Acknowledgements come in portions of this size, so that as much may have been sent and not be counted yet.
    const GRAIN: Bytes = Bytes(32 << 10);
    /// A flow is judged only when its orders have allowed it at least this many bytes.
    const ENOUGH: Bytes = Bytes(8 * Uptake::GRAIN.0);
    /// An order that is more than this many times the one before begins a new window.
    const MUCH: f64 = 2.0;
    /// A part of what it was allowed above which a flow counts as taking it; pacing is not finer than a few percent.
    const ALL: f64 = 0.9;
    /// The least gain in use: with less, an offer just above what the flow took would seem to be taken whole.
    const MIN_GAIN: f64 = 1.2;
    /// A rate that changed by less is the same one.
    const SAME: f64 = 0.1;

    /// The order is `rate` from now on. A much higher one begins a new window, since connections take time to speed up.
    pub fn ordered(&mut self, now: Nanos, rate: Rate) {
        self.count(now);
        if rate > self.order.times(Uptake::MUCH) {
            self.interrupt();
        }
        self.order = rate;
    }

    /// The round began or ended: what is delivered means something else now. What the flow was found to take stays.
    pub fn interrupt(&mut self) {
        self.began = None;
    }

    /// The flow has something to send again in the middle of a round. That it had nothing before is no limit of its path,
    /// so an earlier verdict goes. True if there was one.
    pub fn resume(&mut self) -> bool {
        let changed = self.began.is_some() && self.taken.take().is_some();
        self.interrupt();
        changed
    }

    /// It takes another path: nothing is known.
    pub fn forget(&mut self) {
        *self = Uptake { order: self.order, counted: self.counted, ..Uptake::default() };
    }

    /// Looks at a flow that has had something to send since the last call. True if the verdict has changed.
    pub fn look(&mut self, now: Nanos, delivered: Bytes) -> bool {
        let Some(began) = self.began else {
            self.begin(now, delivered);
            return false;
        };
        self.count(now);
        let length = now.minus(began.at);
        let took = delivered.minus(began.delivered);
        if self.taken.is_some() && length >= Uptake::WINDOW && self.allowed < Uptake::ENOUGH {
            // Held to next to nothing: it must neither gather evidence for ever nor answer for the time it stood still.
            let all = took.0 as f64 >= self.allowed.0 as f64 * Uptake::ALL;
            self.begin(now, delivered);
            return all && self.taken.take().is_some();
        }
        if length < Uptake::ACQUITTAL || self.allowed < Uptake::ENOUGH {
            return false;
        }
        let takes = |part: f64| took.plus(Uptake::GRAIN).0 as f64 >= self.allowed.0 as f64 * part;
        if length < Uptake::WINDOW && !(self.taken.is_some() && takes(Uptake::SURELY_ALL)) {
            return false;
        }
        let rate = Rate::needed(took, length);
        let verdict = match self.taken {
            _ if takes(Uptake::ALL) => None,
            Some(last) if rate > last.times(1.0 + Uptake::SAME) => None,
            Some(last) if rate >= last.times(1.0 - Uptake::SAME) => Some(last),
            _ => Some(rate),
        };
        self.begin(now, delivered);
        std::mem::replace(&mut self.taken, verdict) != verdict
    }

    /// What is worth offering to it: `gain` times what it took (`schedule.probe_gain`), so that it can show that it would
    /// take more. `None`: no limit is known.
    pub fn worth(&self, gain: f64) -> Option<Rate> {
        self.taken.map(|taken| taken.times(gain.max(Uptake::MIN_GAIN)))
    }

    /// Was it found to take nothing, as far as can be told? It waits for something, and does not begin before that.
    pub fn stands(&self) -> bool {
        self.taken.is_some_and(|taken| taken.over(Uptake::WINDOW) < Uptake::GRAIN)
    }

    fn begin(&mut self, now: Nanos, delivered: Bytes) {
        (self.began, self.counted, self.allowed) = (Some(Began { at: now, delivered }), now, Bytes::ZERO);
    }

    fn count(&mut self, now: Nanos) {
        let since = std::mem::replace(&mut self.counted, now);
        self.allowed = self.allowed.plus(self.order.over(now.minus(since)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LINK: Rate = Rate::mbps(25_000);
    const GAIN: f64 = 1.25;

    /// A flow under a planner that offers it what it takes and a quarter more, over a path that carries `path(ms)`; gives
    /// its rate in each window.
    fn follow(windows: u64, path: impl Fn(u64) -> Rate) -> Vec<Rate> {
        let (mut uptake, mut sent) = (Uptake::default(), Bytes::ZERO);
        let mut rates = Vec::new();
        for ms in 0..windows * 20 {
            let now = Nanos::from_millis(ms);
            uptake.look(now, sent);
            let order = uptake.worth(GAIN).map_or(LINK, |worth| LINK.min(worth));
            uptake.ordered(now, order);
            let rate = order.min(path(ms));
            sent = sent.plus(rate.over(Nanos::from_millis(1)));
            if ms % 20 == 19 {
                rates.push(rate);
            }
        }
        rates
    }

    /// A flow that may send 100 MB/s.
    fn fast() -> Uptake {
        let mut uptake = Uptake::default();
        uptake.ordered(Nanos(0), Rate(800_000_000));
        assert!(!uptake.look(Nanos(0), Bytes::ZERO));
        uptake
    }

    fn look(uptake: &mut Uptake, ms: u64, kilobytes: u64) -> Option<u64> {
        uptake.look(Nanos::from_millis(ms), Bytes(kilobytes * 1000));
        uptake.taken.map(|rate| rate.0 / 1_000_000)
    }

    #[test]
    fn who_takes_all_it_may_has_no_verdict() {
        let mut uptake = fast();
        assert!((0..200).all(|ms| look(&mut uptake, ms, ms * 93).is_none()));
    }

    #[test]
    fn who_takes_less_is_found_out_after_a_window_and_counts_in_full_when_it_takes_more() {
        let mut uptake = fast();
        assert_eq!(look(&mut uptake, 19, 1), None, "too early");
        assert_eq!(look(&mut uptake, 20, 500), Some(200));
        assert_eq!(look(&mut uptake, 40, 1010), Some(200), "about the same");
        assert_eq!(look(&mut uptake, 60, 1410), Some(160), "a fifth less");
        assert_eq!(look(&mut uptake, 80, 1910), None, "a quarter more");
    }

    #[test]
    fn who_takes_all_of_what_it_is_worth_need_not_wait_for_the_window() {
        let mut uptake = fast();
        assert_eq!(look(&mut uptake, 20, 1000), Some(400));
        uptake.ordered(Nanos::from_millis(20), Rate(500_000_000));
        assert_eq!(look(&mut uptake, 24, 1250), Some(400), "too early");
        assert_eq!(look(&mut uptake, 25, 1312), None);
    }

    #[test]
    fn what_was_allowed_is_the_mean_of_the_orders() {
        let mut uptake = fast();
        uptake.ordered(Nanos::from_millis(10), Rate(80_000_000));
        // 10 ms at 100 MB/s and 10 ms at 10 MB/s: 1.1 MB were allowed.
        assert_eq!(look(&mut uptake, 20, 1010), None);
        uptake.ordered(Nanos::from_millis(20), Rate(120_000_000));
        assert_eq!(look(&mut uptake, 40, 1110), Some(40));
    }

    #[test]
    fn a_much_higher_order_is_judged_by_itself() {
        let mut uptake = fast();
        uptake.ordered(Nanos(0), Rate(80_000_000));
        uptake.ordered(Nanos::from_millis(18), Rate(800_000_000));
        assert_eq!(look(&mut uptake, 18, 180), None);
        assert_eq!(look(&mut uptake, 30, 200), None, "12 ms");
        assert_eq!(look(&mut uptake, 38, 1180), Some(400));
    }

    #[test]
    fn so_little_that_one_acknowledgement_decides_is_no_verdict() {
        let mut uptake = fast();
        uptake.ordered(Nanos(0), Rate(8_000_000));
        assert!((0..200).all(|ms| look(&mut uptake, ms, 0).is_none()));
    }

    #[test]
    fn who_stood_still_and_goes_on_has_all_again_after_two_windows() {
        let mut uptake = fast();
        assert_eq!(look(&mut uptake, 20, 0), Some(0));
        uptake.ordered(Nanos::from_millis(20), Rate(8_000_000)); // the floor, 1 kB/ms
        assert!((21..400).all(|ms| look(&mut uptake, ms, 0) == Some(0)));
        let back = (400..500).find(|&ms| look(&mut uptake, ms, ms - 400).is_none());
        assert!(back.is_some_and(|ms| ms <= 440), "{back:?}");
    }

    #[test]
    fn who_takes_nothing_stands_and_who_takes_little_does_not() {
        let mut uptake = fast();
        assert!(!uptake.stands(), "nothing is known");
        look(&mut uptake, 20, 10);
        assert!(uptake.stands(), "ten kilobytes may be anything");
        let mut slow = fast();
        look(&mut slow, 20, 100);
        assert!(!slow.stands());
        assert!(uptake.resume() && !uptake.stands());
    }

    #[test]
    fn a_round_that_ends_is_no_verdict() {
        let mut uptake = fast();
        uptake.interrupt();
        assert_eq!(look(&mut uptake, 30, 10), None, "a new window begins");
        assert_eq!(look(&mut uptake, 50, 510), Some(200));
        uptake.forget();
        assert_eq!(uptake.taken, None);
    }

    proptest! {
        /// However little the path carried, five windows after it is free the flow has all of it again.
        #[test]
        fn it_never_locks(cross in 0.0_f64..1.0, before in 1_u64..20) {
            let opens = before * 20;
            let path = |ms| if ms < opens { LINK.minus(LINK.times(cross)).max(LINK.share(100)) } else { LINK };
            let rates = follow(before + 5, path);
            prop_assert!(rates.last().is_some_and(|rate| *rate >= LINK.times(0.95)), "{rates:?}");
        }

        /// On a steady path no more than a quarter is offered that the flow cannot take, after the first window.
        #[test]
        fn what_it_leaves_is_free(cross in 0.3_f64..0.95) {
            let carries = LINK.minus(LINK.times(cross));
            let (mut uptake, mut sent, mut offered) = (Uptake::default(), Bytes::ZERO, Vec::new());
            for ms in 0..400 {
                let now = Nanos::from_millis(ms);
                uptake.look(now, sent);
                let order = uptake.worth(GAIN).map_or(LINK, |worth| LINK.min(worth));
                uptake.ordered(now, order);
                sent = sent.plus(order.min(carries).over(Nanos::from_millis(1)));
                offered.push(order);
            }
            let most = offered[21..].iter().max().copied().unwrap_or_default();
            prop_assert!(most <= carries.times(GAIN * 1.01), "{most} for {carries}");
        }

        /// Any input, in any order.
        #[test]
        fn nothing_overflows(steps in prop::collection::vec((0_u8..4, any::<u64>(), any::<u64>()), 0..50)) {
            let mut uptake = Uptake::default();
            for (what, time, value) in steps {
                match what {
                    0 => uptake.ordered(Nanos(time), Rate(value)),
                    1 => _ = uptake.look(Nanos(time), Bytes(value)),
                    2 => uptake.interrupt(),
                    _ => uptake.forget(),
                }
            }
        }
    }
}
