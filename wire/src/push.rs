//! How often a holder of tables tells hosts what others changed: what comes together is told together, and no host is
//! told more often than it could act on.

use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Unasked feedback waits so long for what comes together with it.
const GATHER: Duration = Duration::from_millis(2);
/// Unasked feedback to one host is at least this far apart.
const GAP: Duration = Duration::from_millis(4);
/// Unasked feedback in all is at most one per this time: beyond that, answers carry the news.
const COST: Duration = Duration::from_micros(200);

/// Pushes for as long as it is polled: `changed` is told that something is new, `push` tells whoever has to hear of it and
/// gives how many hosts are connected.
pub async fn run(changed: &Notify, push: impl Fn() -> usize) {
    let mut hosts = 0;
    let mut pushed = Instant::now();
    loop {
        changed.notified().await;
        sleep_until(next(pushed, Instant::now(), hosts)).await;
        pushed = Instant::now();
        hosts = push();
    }
}

/// When to tell what changed now, where so many hosts were told last at `pushed`.
fn next(pushed: Instant, now: Instant, hosts: usize) -> Instant {
    let gap = GAP.max(COST * u32::try_from(hosts).unwrap_or(u32::MAX));
    (now + GATHER).max(pushed + gap)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn what_comes_together_is_gathered_and_many_hosts_hear_less_often() {
        let ms = Duration::from_millis;
        let begun = Instant::now();
        for (since, hosts, expected) in [(1, 3, 4), (3, 3, 5), (1_000, 3, 1_002), (0, 100, 20), (0, 10_000, 2_000)] {
            assert_eq!(next(begun, begun + ms(since), hosts), begun + ms(expected), "{since} ms, {hosts} hosts");
        }
    }

    #[tokio::test]
    async fn what_changes_meanwhile_is_in_one_push() {
        let (news, told, done) = (Notify::new(), Cell::new(0), Notify::new());
        let push = || {
            told.set(told.get() + 1);
            done.notify_one();
            1
        };
        let bursts = async {
            for expected in 1..=2 {
                (0..5).for_each(|_| news.notify_one());
                done.notified().await;
                assert_eq!(told.get(), expected);
            }
        };
        tokio::select! {
            () = run(&news, push) => unreachable!("it has no end"),
            () = bursts => {}
        }
    }
}
