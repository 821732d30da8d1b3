//! The four properties of `srpt-p`, on random sets of rings.

use proptest::prelude::*;

use super::world::{Ring, World};
use super::{at, flow, lone_host, orders};
use crate::event::{ClockTrust, Event, FlowProgress};
use crate::units::{Bytes, JobId, Nanos, Rate};

const LINK: Rate = Rate::mbps(1000);

/// Two to four different hosts out of six.
fn members() -> impl Strategy<Value = Vec<usize>> {
    proptest::sample::subsequence((0..6).collect::<Vec<usize>>(), 2..=4).prop_shuffle()
}

fn jobs(most: usize) -> impl Strategy<Value = Vec<(Vec<usize>, u64)>> {
    proptest::collection::vec((members(), 1_u64..40), 1..=most)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// P1: with fixed keys the rates settle, at most 2 × the longest chain of better-ranked jobs exchanges later.
    /// P4: at rest no link is promised more than it has, but for the floors.
    #[test]
    fn with_fixed_keys_rates_settle_and_fit(jobs in jobs(6), delay in 1_u64..6) {
        let mut world = World::star(6, LINK, Nanos::from_millis(delay));
        for (i, (members, size)) in jobs.iter().enumerate() {
            // So large that no key moves by a quarter within the test.
            world.add(Ring::new(&format!("j{i}"), members, Bytes(size * 10_000_000_000), Nanos::ZERO));
        }
        let exchange = 2 * delay + 3;
        let chain = 2 * jobs.len() as u64;
        world.run(Nanos::from_millis(120 + exchange * chain));
        let settled: Vec<_> = (0..jobs.len()).map(|i| world.promises(&format!("j{i}"))).collect();
        for _ in 0..5 {
            world.run(Nanos::from_millis(47));
            let now: Vec<_> = (0..jobs.len()).map(|i| world.promises(&format!("j{i}"))).collect();
            // Changes below 1 % of a link wait for the next slot's repetition, so that much may still move.
            let moved = |(a, b): (&Rate, &Rate)| a.0.abs_diff(b.0) > LINK.0 / 50;
            let any = now.iter().flatten().zip(settled.iter().flatten()).any(moved);
            prop_assert!(!any, "{:?} became {:?}", settled, now);
        }
        for (link, promised) in world.promised() {
            prop_assert!(promised <= LINK, "{}: {}", link, promised);
        }
    }

    /// P2: while a round is served its key is published about ten times per tenfold reduction, not at every step.
    #[test]
    fn a_round_publishes_few_keys(size in 5_u64..50) {
        let mut world = World::star(2, LINK, Nanos::from_millis(1));
        world.add(Ring::new("a", &[0, 1], Bytes(size * 1_000_000), Nanos::from_millis(50)));
        world.run(Nanos::from_millis(10));
        let (mut keys, mut last) = (0, Nanos::ZERO);
        for _ in 0..size * 8 + 40 {
            world.run(Nanos::from_millis(1));
            let key = world.key("a");
            keys += u32::from(key != last && key > Nanos::ZERO);
            last = key;
        }
        // From the whole round down to a thousandth of it: 3 × ln 10 / ln (4/3) = 24 steps, and the next round's first. The
        // shortest have three; with none at all nobody would hear that a round comes to its end.
        prop_assert!((2..=26).contains(&keys), "{} keys", keys);
    }

    /// P3: nobody starves on a shared link: κ(1+D)m, then at most one round of every other job, then the own one.
    #[test]
    fn a_round_ends_within_its_bound(rounds in proptest::collection::vec(2_u64..30, 2..5)) {
        let mut world = World::star(2, LINK, Nanos::from_millis(1));
        let alone = |megabytes: u64| Bytes(megabytes * 1_000_000).at(LINK);
        for (i, megabytes) in rounds.iter().enumerate() {
            world.add(Ring::new(&format!("j{i}"), &[0, 1], Bytes(megabytes * 1_000_000), Nanos::from_millis(5)));
        }
        let density = rounds.len() as f64; // More rounds than the link carries: D is at most one per job.
        let all = rounds.iter().fold(Nanos::ZERO, |sum, r| sum.plus(alone(*r)));
        let bound = |megabytes: u64| {
            let m = alone(megabytes);
            // Exchange, detection and the floors of the others stretch the fluid bound a little.
            m.scaled(4.0 * (1.0 + density)).plus(all).plus(m).scaled(1.15).plus(Nanos::from_millis(30))
        };
        // A round that has not ended counts until now: whoever starves is seen only after the bound of his.
        let last = rounds.iter().map(|megabytes| bound(*megabytes)).max().unwrap_or_default();
        world.run(last.scaled(1.5));
        for (i, megabytes) in rounds.iter().enumerate() {
            let bound = bound(*megabytes);
            let longest = world.longest_iteration(&format!("j{i}"));
            prop_assert!(longest <= bound, "j{}: {} > {}", i, longest, bound);
        }
    }

    /// A plan that is kept because nothing has happened is the plan that would be made anew.
    #[test]
    fn what_is_not_planned_anew_would_be_the_same(
        sizes in proptest::collection::vec(1_u64..40, 1..6),
        steps in proptest::collection::vec((1_u64..20, 0_usize..6, 0.0_f64..1.0), 1..60),
    ) {
        // The other host hears at every step what it knew before, and plans for that.
        let mut hosts = [lone_host(), lone_host()];
        let flows: Vec<_> = (0..sizes.len() as u64).map(|i| hosts.each_mut().map(|h| flow(h, i, &format!("j{i}"), 1000))).collect();
        let mut left = vec![0_u64; sizes.len()];
        let mut ms = 0;
        for (pause, which, part) in steps {
            ms += pause;
            let (i, now) = (which % sizes.len(), at(ms));
            let id = flows[i][0];
            let began = left[i] == 0;
            left[i] = if began { sizes[i] * 1_000_000 } else { left[i] - (left[i] as f64 * part) as u64 };
            let delivered = Bytes(sizes[i] * 1_000_000 - left[i]);
            let said = hosts.each_mut().map(|host| {
                if began {
                    let flows = vec![(id, Bytes(sizes[i] * 1_000_000))];
                    host.handle(now, Event::RoundBegan { job: JobId::of(&format!("j{i}")), flows });
                }
                let progress = FlowProgress { flow: id, delivered, ..FlowProgress::default() };
                host.handle(now, Event::Progress(vec![progress]));
                now
            });
            hosts[1].handle(said[1], Event::Clock(ClockTrust::Trusted));
            let [kept, anew] = hosts.each_mut().map(|host| orders(host, now));
            prop_assert_eq!(kept, anew, "at {} ms", ms);
        }
    }
}
