//! How fast the other end of a connection is read. Whoever says more than anybody asked for waits, by TCP's own means: what
//! is said has to be read before it can be refused, in a thread that others give way to.

use std::time::Duration;

use sluice_schedule::Nanos;

/// What reading one message costs, and each link in it that nobody asked for: 256 of them are paid for in 60 ms, where an
/// honest holder says some thirty things.
const UNIT: Nanos = Nanos(60_000_000 / 256);
/// So much may be owed before the reader waits.
const CREDIT: Nanos = Nanos::from_millis(60);
/// So many messages in a row, each of which was too much, end a connection: behind them nothing is heard in time.
const MAX_IN_A_ROW: u32 = 4;

/// What follows from a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// The next may be read.
    Goes,
    /// Nothing is to be read for so long.
    Waits(Duration),
    /// Nothing on this connection is worth reading.
    Ends,
}

/// What was read and is not yet paid for.
#[derive(Debug, Default)]
pub(super) struct Quota {
    paid: Nanos,
    /// Messages in a row that were too much.
    too_much: u32,
}

impl Quota {
    /// Counts a message that was read now, with so many links beyond those that were asked for.
    pub fn read(&mut self, now: Nanos, unasked: usize) -> Reading {
        self.paid = self.paid.max(now).plus(UNIT.times(unasked as u64 + 1));
        let owed = self.paid.minus(now);
        if owed <= CREDIT {
            self.too_much = 0;
            return Reading::Goes;
        }
        self.too_much += u32::from(unasked > 0);
        if self.too_much >= MAX_IN_A_ROW {
            Reading::Ends
        } else {
            Reading::Waits(Duration::from_nanos(owed.minus(CREDIT).0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Nanos {
        Nanos::from_millis(1_000 + ms)
    }

    #[test]
    fn whoever_speaks_of_what_nobody_asked_for_waits_until_that_is_paid_for() {
        let mut quota = Quota::default();
        assert_eq!(quota.read(at(0), 200), Reading::Goes);
        let Reading::Waits(wait) = quota.read(at(0), 4_000) else { panic!("far too much") };
        assert!(wait > Duration::from_millis(900) && wait < Duration::from_millis(1_000), "{wait:?}");
        assert_eq!(quota.read(at(wait.as_millis() as u64 + 60), 100), Reading::Goes, "paid for");
    }

    #[test]
    fn whoever_goes_on_with_it_is_left() {
        let mut quota = Quota::default();
        let mut now = at(0);
        for _ in 0..3 {
            let Reading::Waits(wait) = quota.read(now, 4_000) else { panic!("not yet") };
            now = now.plus(Nanos(wait.as_nanos() as u64));
        }
        assert_eq!(quota.read(now, 4_000), Reading::Ends);
    }

    #[test]
    fn five_hundred_answers_a_second_wait_for_nothing_and_ten_thousand_do() {
        let mut quota = Quota::default();
        assert!((0..1_000).all(|n| quota.read(at(2 * n), 0) == Reading::Goes));
        let (mut now, mut heard) = (at(10_000), 0);
        while now < at(11_000) {
            // Ten thousand would come in this second.
            now = now.plus(Nanos(100_000));
            match quota.read(now, 0) {
                Reading::Goes => {}
                Reading::Waits(wait) => now = now.plus(Nanos(wait.as_nanos() as u64)),
                Reading::Ends => panic!("it was asked for"),
            }
            heard += 1;
        }
        assert!((4_000..5_000).contains(&heard), "{heard}");
    }
}
