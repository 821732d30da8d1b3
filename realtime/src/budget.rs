//! How much of a core a real-time thread has taken lately, and how long it stays an ordinary one after too much. No I/O, no clock.

use sluice_schedule::Nanos;

/// A share of a core is judged over this time at least.
const WINDOW: Nanos = Nanos::from_millis(1_000);

/// What a real-time thread may take before it goes back among the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// So long without a sleep. The kernel counts it, in its ticks.
    pub slice: Nanos,
    /// So many percent of a core, over a second.
    pub percent: u64,
}

impl Bound {
    /// Of a daemon's deciding loop: more than it needs, and little enough that nobody else waits long.
    pub const DECIDING: Bound = Bound { slice: Nanos::from_millis(100), percent: 50 };
}

/// What was taken since the last judgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// The two clocks at its begin.
    from: Option<(Nanos, Nanos)>,
}

impl Window {
    /// Percent of a core taken, if that was more than may be; `mono` and `cpu` are the time and the thread's processor time.
    pub fn over(&mut self, mono: Nanos, cpu: Nanos, bound: &Bound) -> Option<u64> {
        let (since, before) = *self.from.get_or_insert((mono, cpu));
        let long = mono.minus(since);
        if long < WINDOW {
            return None;
        }
        self.from = Some((mono, cpu));
        let percent = cpu.minus(before).0 / (long.0 / 100);
        (percent > bound.percent).then_some(percent)
    }
}

/// How long a thread is an ordinary one after it has taken too much: a second, twice as long each further time.
///
/// A burst of work, such as thousands of flows that begin at once, costs a second of late decisions; who takes too much
/// all the time is a real-time thread for a second of each minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backoff {
    /// How long the last one was; zero: there was none.
    wait: Nanos,
    /// When it was over.
    until: Nanos,
}

impl Backoff {
    /// The first.
    pub const MIN: Nanos = Nanos::from_millis(1_000);
    /// The longest.
    pub const MAX: Nanos = Nanos::from_millis(60_000);
    /// Who has kept to its bounds for so many times as long as the last one took begins anew.
    const GOOD: u64 = 10;

    /// It took too much just now: when it may ask again.
    pub fn begin(&mut self, now: Nanos) -> Nanos {
        let again = now.minus(self.until) < self.wait.times(Backoff::GOOD);
        self.wait = if again { self.wait.times(2).min(Backoff::MAX) } else { Backoff::MIN };
        self.until = now.plus(self.wait);
        self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: Bound = Bound::DECIDING;

    fn ms(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    #[test]
    fn a_share_is_judged_over_a_second_and_each_second_anew() {
        let mut window = Window::default();
        assert_eq!(window.over(ms(5_000), ms(70), &BOUND), None, "what was before does not count");
        assert_eq!(window.over(ms(5_900), ms(970), &BOUND), None, "too short to say");
        assert_eq!(window.over(ms(6_000), ms(970), &BOUND), Some(90));
        assert_eq!(window.over(ms(7_000), ms(1_470), &BOUND), None, "half of a core is what it may");
        assert_eq!(window.over(ms(8_000), ms(1_980), &BOUND), Some(51));
        assert_eq!(window.over(ms(60_000), ms(9_000), &BOUND), None, "a long sleep counts as sleep");
        // Clocks that stand still or go back are no overrun.
        assert_eq!(window.over(ms(1), ms(0), &BOUND), None);
        assert_eq!(window.over(Nanos::MAX, Nanos::MAX, &BOUND), Some(100));
    }

    #[test]
    fn who_takes_too_much_again_and_again_waits_longer_each_time_up_to_a_minute() {
        let (mut backoff, mut now) = (Backoff::default(), ms(5_000));
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            let until = backoff.begin(now);
            assert_eq!(until.minus(now), ms(seconds * 1_000));
            now = until.plus(ms(seconds * 10_000 - 1));
        }
        now = now.plus(ms(1));
        assert_eq!(backoff.begin(now).minus(now), Backoff::MIN, "it kept to its bounds for ten minutes");
        now = now.plus(ms(1_000 + 10_000));
        assert_eq!(backoff.begin(now).minus(now), Backoff::MIN, "and for ten times the first");
        assert_eq!(backoff.begin(Nanos::MAX), Nanos::MAX, "no overflow");
    }
}
