//! Whose turn it is: some connections at once, then one after the other. The time is given.
//!
//! Who comes when its turn would be too late is closed at once and dials again later, each at a time of its own. Left to wait it
//! would have given up before its turn came, and its connection, closed by then, would have taken that turn all the same: of
//! a thousand hosts that lose a switch together most would never come back.

use std::time::Duration;

use tokio::time::Instant;

/// Connections that may come at once before they are spread out.
const BURST: u32 = 100;
/// Their distance after that, 333 a second: a thousand hosts are back within five seconds.
const SPACING: Duration = Duration::from_millis(3);
/// How long a turn is waited for at most: half as long as whoever connects waits for an answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// When the next connection has its turn.
#[derive(Debug)]
pub(super) struct Turns {
    /// It runs ahead of the present by what was taken.
    next: Instant,
}

impl Turns {
    /// Nobody has come yet.
    pub(super) fn new(now: Instant) -> Turns {
        Turns { next: now }
    }

    /// How long somebody who comes now waits for its turn, which is taken with this; `None`: too long.
    pub(super) fn take(&mut self, now: Instant) -> Option<Duration> {
        self.next = self.next.max(now);
        let wait = self.next.duration_since(now).saturating_sub(SPACING * BURST);
        if wait > PATIENCE {
            return None;
        }
        self.next += SPACING;
        Some(wait)
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use sluice_schedule::backoff::Backoff;
    use sluice_schedule::units::mixed;

    use super::*;

    /// What became of hosts that lost their switch in the same moment.
    struct Herd {
        /// When each was let in after the switch had come back, the first one first.
        back: Vec<Duration>,
        /// Dials that were closed at once.
        closed: usize,
    }

    /// So many of them, whose switch was gone for so long; they dial as daemons do.
    fn herd(hosts: usize, gone: Duration, seed: u64) -> Herd {
        let (mut backoffs, mut drawn) = (vec![Backoff::default(); hosts], seed << 32);
        let mut wait = |host: usize| {
            drawn += 1;
            Duration::from_nanos(backoffs[host].next(mixed(drawn)).0)
        };
        let mut dials: BinaryHeap<_> = (0..hosts).map(|host| Reverse((wait(host), host))).collect();
        let begin = Instant::now();
        let (mut turns, mut herd) = (Turns::new(begin + gone), Herd { back: Vec::new(), closed: 0 });
        while let Some(Reverse((at, host))) = dials.pop() {
            let turn = if at < gone { None } else { turns.take(begin + at) };
            if let Some(turn) = turn {
                herd.back.push(at + turn - gone);
            } else {
                herd.closed += usize::from(at >= gone);
                dials.push(Reverse((at + wait(host), host)));
            }
        }
        herd.back.sort();
        herd
    }

    #[test]
    fn a_first_burst_comes_at_once_the_next_wait_and_who_would_wait_too_long_is_closed() {
        let now = Instant::now();
        let mut turns = Turns::new(now);
        let waits: Vec<Duration> = std::iter::from_fn(|| turns.take(now)).collect();
        let waiting = u32::try_from(waits.len()).expect("a few") - BURST;
        assert!(waits.iter().take(BURST as usize).all(Duration::is_zero));
        assert_eq!(waits.last(), Some(&(SPACING * (waiting - 1))));
        assert!(SPACING * waiting > PATIENCE && SPACING * (waiting - 1) <= PATIENCE);
        // Whoever was closed has taken nothing from who comes later.
        assert_eq!(turns.take(now + PATIENCE), Some(SPACING * waiting - PATIENCE));
        assert_eq!(turns.take(now + 10 * PATIENCE), Some(Duration::ZERO));
    }

    /// Promises: P-16
    #[test]
    fn a_thousand_hosts_that_lost_a_switch_together_are_back_within_five_seconds() {
        const HOSTS: usize = 1000;
        // Their views are fresh so much later.
        const FRESH: Duration = Duration::from_millis(120);
        for (gone_ms, seed) in
            [100, 300, 1_000, 4_000, 30_000].into_iter().flat_map(|gone| (1..=3).map(move |seed| (gone, seed)))
        {
            let Herd { back, closed } = herd(HOSTS, Duration::from_millis(gone_ms), seed);
            let (most, last) = (back[HOSTS * 99 / 100 - 1], back[HOSTS - 1]);
            println!(
                "gone for {gone_ms} ms, seed {seed}: 99 of 100 after {most:?}, all after {last:?}, {closed} closed"
            );
            assert!(most + FRESH <= Duration::from_secs(5), "{most:?}");
        }
    }

    /// More of them come back as fast as they are let in, however many there are.
    #[test]
    fn as_many_hosts_as_a_switch_serves_come_back_without_a_turn_that_is_lost() {
        const HOSTS: usize = 4096;
        for gone in [Duration::from_millis(300), Duration::from_secs(30)] {
            let Herd { back, .. } = herd(HOSTS, gone, 1);
            assert!(back[HOSTS - 1] <= SPACING * HOSTS as u32 + Duration::from_secs(3), "{:?}", back[HOSTS - 1]);
        }
    }
}
