//! Jobs in virtual time: with and without noise, slower, faster and changing, and a naive reference that keeps everything.

use proptest::prelude::*;

use super::*;

const SLOT: Nanos = Nanos::from_millis(60);
const MARGIN: u32 = 100;
const COMPUTE: Nanos = Nanos::from_millis(50);
const ROUND: Nanos = Nanos::from_millis(70);

fn windows() -> Windows {
    Windows::new(SLOT, 16, PART)
}

fn moment(mono: Nanos) -> Now {
    let slot = Slot((mono.0 / SLOT.0) as u32);
    Now { mono, wall: mono, slot, into_slot: Nanos(mono.0 % SLOT.0) }
}

/// Numbers that look random: uniform in [0, 1), and normal with mean 0 and deviation 1, near enough.
struct Noise(u64);

impl Noise {
    fn uniform(&mut self) -> f64 {
        self.0 = crate::units::mixed(self.0.wrapping_add(0x9e37_79b9_7f4a_7c15));
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// A round that was played: when it ended, how long it took.
#[derive(Clone, Copy, Debug)]
struct Played {
    end: Nanos,
    took: Nanos,
}

/// What became of a job.
struct Story {
    benefit: Benefit,
    /// The periods in which something changed.
    changes: Vec<(u32, Change)>,
    rounds: Vec<Played>,
    /// Time in rounds that was spent plain, and all.
    plain: Nanos,
    all: Nanos,
}

impl Story {
    fn releases(&self) -> usize {
        self.changes.iter().filter(|(_, change)| matches!(change, Change::Released { .. })).count()
    }
}

/// Plays a job for so many periods. `took`: how long a round takes that begins then, plain or not.
fn play(periods: u32, mut took: impl FnMut(Nanos, bool) -> Nanos) -> Story {
    let windows = windows();
    let benefit = Benefit::new(windows, MARGIN);
    let (plain, all) = (Nanos::ZERO, Nanos::ZERO);
    let mut story = Story { benefit, changes: Vec::new(), rounds: Vec::new(), plain, all };
    let (mut now, mut slot) = (Nanos::ZERO, None);
    while now.0 / windows.period_time().0 < u64::from(periods) {
        let began = moment(now);
        let is_plain = windows.without(began.slot) || story.benefit.released();
        let took = took(now, is_plain);
        let end = moment(now.plus(took));
        let first: u32 = slot.map_or(0, |slot: u32| slot + 1);
        for next in first..=end.slot.0 {
            let change = story.benefit.edge(Slot(next));
            story.changes.extend(change.map(|change| (next / windows.period(), change)));
        }
        slot = Some(end.slot.0);
        story.benefit.ended(end, Nanos::ZERO, took, 1);
        story.rounds.push(Played { end: end.mono, took });
        story.plain = story.plain.plus(if is_plain { took } else { Nanos::ZERO });
        story.all = story.all.plus(took);
        now = end.mono.plus(COMPUTE);
    }
    story
}

/// A job whose rounds take so much longer with Sluice, as a ratio, with noise of this deviation.
fn job(slower: f64, sigma: f64, seed: u64) -> impl FnMut(Nanos, bool) -> Nanos {
    let mut noise = Noise(seed);
    move |_, plain| {
        let ratio = if plain { 1.0 } else { 1.0 + slower };
        ROUND.scaled(ratio * (1.0 + sigma * noise.normal()).max(0.2))
    }
}

#[test]
fn a_job_that_is_not_slower_is_plain_for_less_than_a_hundredth_of_the_time() {
    for slower in [0.0, -0.3, 0.05] {
        let story = play(30, job(slower, 0.0, 1));
        assert_eq!(story.changes, [], "{slower}");
        let part = story.plain.as_secs_f64() / story.all.as_secs_f64();
        assert!(part > 0.005 && part < 0.01, "{part}");
        let standing = story.benefit.standing(Slot(0));
        assert_eq!(standing.retry, None);
        assert!((standing.slower.expect("compared") - (slower * 1000.0) as i64).abs() <= 1, "{standing:?}");
    }
}

#[test]
fn of_slots_exactly_one_in_so_many_is_without_on_every_host_and_where_numbers_wrap() {
    let lengths = [1, 16, 100, 128, 4096, 1 << 30].map(|slots| (slots, PART));
    for (slots, part) in lengths.into_iter().chain([(16, LEAST_PART), (4096, MOST_PART)]) {
        let windows = Windows::new(SLOT, slots, part);
        let from = 0_u32.wrapping_sub(windows.period());
        let without = (0..2 * windows.period()).filter(|n| windows.without(Slot(from.wrapping_add(*n)))).count();
        assert_eq!(without as u32, 2 * windows.period() / part, "{slots} {part}");
    }
}

/// Promises: P-4
#[test]
fn a_job_that_is_a_fifth_slower_is_released_within_eight_windows() {
    let story = play(12, job(0.2, 0.02, 7));
    let Some((period, Change::Released { slower, rest })) = story.changes.first().copied() else {
        panic!("{:?}", story.changes)
    };
    assert!(period <= 8, "{:?}", story.changes);
    assert!((180..=220).contains(&slower), "{slower}");
    assert!(rest > windows().period_time().times(8) && rest < windows().period_time().times(9), "{rest}");
    let standing = story.benefit.standing(Slot(12 * windows().period()));
    assert!(standing.retry.is_some_and(|retry| retry < rest), "{standing:?}");
    // One window, however bad, is no reason.
    assert_eq!(play(3, job(9.0, 0.0, 7)).changes, []);
}

#[test]
fn it_is_tried_again_ever_more_rarely_and_never_flaps() {
    let story = play(400, job(0.5, 0.05, 3));
    let mut rests = Vec::new();
    for pair in story.changes.windows(2) {
        let ((from, change), (to, next)) = (pair[0], pair[1]);
        match (change, next) {
            (Change::Released { .. }, Change::Managed) => rests.push(to - from),
            (Change::Managed, Change::Released { .. }) => assert!(to - from >= 4, "{:?}", story.changes),
            both => panic!("{both:?}"),
        }
    }
    assert_eq!(rests[..4], [9, 17, 33, 65]);
    assert!(rests[4..].iter().all(|rest| *rest == 65), "{rests:?}");
    // Most of the time it is where it is faster.
    assert!(story.plain.as_secs_f64() > 0.8 * story.all.as_secs_f64());
}

#[test]
fn a_job_that_gets_better_under_sluice_stays_with_it_and_is_forgiven() {
    let period = windows().period_time();
    let mut bad = job(0.5, 0.02, 5);
    let story = play(160, |now, plain| if now < period.times(8) { bad(now, plain) } else { ROUND });
    assert_eq!(story.releases(), 1, "{:?}", story.changes);
    assert!(!story.benefit.released());
    assert_eq!(story.benefit.next_rest, REST);
}

#[test]
fn a_job_that_changes_by_itself_is_not_compared_with_what_it_was() {
    // Longer rounds from a window on, by chance, again and again.
    let period = windows().period_time();
    let story = play(60, |now, _| if (now.0 / period.0).is_multiple_of(2) { ROUND } else { ROUND.times(2) });
    assert_eq!(story.changes, []);
    assert_eq!(story.benefit.pairs, 0);
}

#[test]
fn rounds_that_do_not_fit_into_a_window_are_never_judged() {
    let story = play(40, |_, plain| if plain { Nanos::from_millis(400) } else { Nanos::from_millis(900) });
    assert_eq!((story.changes.len(), story.benefit.pairs), (0, 0));
}

#[test]
fn rounds_that_are_told_of_late_and_together_count_where_they_were() {
    let mut benefit = Benefit::new(windows(), MARGIN);
    let (start, ms) = (windows().period_time(), Nanos::from_millis);
    for slot in 0..=windows().period() {
        benefit.edge(Slot(slot));
    }
    let mut tell = |at: Nanos, ago, took, rounds| {
        benefit.ended(moment(start.plus(at)), ago, took, rounds);
        (benefit.without.clone(), benefit.after.clone())
    };
    // Within the window that ends at 960 ms, though told of after it; two that took 100 ms each.
    assert_eq!(tell(ms(1_200), ms(300), ms(200), 2), (vec![ms(100)], vec![]));
    // They began in it and ended after it.
    assert_eq!(tell(ms(1_200), ms(100), ms(400), 4), (vec![ms(100)], vec![]));
    // In the period before.
    assert_eq!(tell(ms(100), ms(300), ms(100), 1), (vec![ms(100)], vec![]));
    assert_eq!(tell(ms(3_000), ms(50), ms(700), 7), (vec![ms(100)], vec![ms(100)]));
}

#[test]
fn what_is_interrupted_is_not_compared() {
    let mut story = play(5, job(0.2, 0.0, 1));
    let (pairs, period) = (story.benefit.pairs, windows().period());
    story.benefit.interrupt();
    assert_eq!(story.benefit.edge(Slot(5 * period + period / 2)), None);
    assert_eq!(story.benefit.pairs, pairs);
    // A host that stood still for periods begins anew.
    assert_eq!(story.benefit.edge(Slot(50 * period + period / 2)), None);
    assert_eq!(story.benefit.edge(Slot(50 * period + period / 2 + 1)), None);
    assert_eq!(story.benefit.pairs, pairs);
}

/// The same from all rounds that there ever were, by looking through them for every period.
fn naive(rounds: &[Played], periods: u32) -> Vec<(u32, bool)> {
    let windows = windows();
    let (length, period) = (SLOT.times(u64::from(windows.slots)), windows.period_time());
    let within = |from: Nanos, to: Nanos| {
        let inside = move |round: &&Played| round.end.minus(round.took) >= from && round.end < to;
        rounds.iter().filter(inside).map(|round| round.took.0).collect::<Vec<u64>>()
    };
    let middle = |list: &[u64]| {
        let mut sorted = list.to_vec();
        sorted.sort_unstable();
        let n = sorted.len();
        if n.is_multiple_of(2) { (sorted[n / 2 - 1] + sorted[n / 2]) / 2 } else { sorted[n / 2] }
    };
    let (mut changes, mut evidence, mut rest, mut next_rest, mut calm) = (Vec::new(), 0_i64, 0, REST, 0);
    let mut managed_from = 0;
    for p in 1..periods {
        if rest > 0 {
            rest -= 1;
            if rest == 0 {
                changes.push((p, false));
                managed_from = p;
            }
        } else {
            calm += 1;
            if calm >= LONGEST_REST {
                next_rest = REST;
            }
        }
        if rest > 0 || managed_from > p - 1 {
            continue;
        }
        let start = period.times(u64::from(p));
        let before = within(start.minus(period).plus(length.times(2)), start);
        let before = &before[before.len().saturating_sub(KEEP)..];
        let without = within(start.plus(SLOT.times(4)), start.plus(length));
        let after = within(start.plus(length.times(2)), start.plus(Nanos(period.0 / 2)));
        let after = &after[..after.len().min(KEEP)];
        if before.len() < LEAST || without.len() < LEAST || after.len() < LEAST {
            continue;
        }
        let (early, late) = (middle(before), middle(after));
        if early.max(late) * 1000 / early.min(late) > 1000 + DRIFT {
            continue;
        }
        let both = [before, after].concat();
        let (with, plain) = (middle(&both), middle(&without));
        let mut off: Vec<u64> = both.iter().map(|x| x.abs_diff(with) * 1000 / with).collect();
        off.extend(without.iter().map(|x| x.abs_diff(plain) * 1000 / plain));
        off.sort_unstable();
        let sigma = off[off.len() / 2] * 186 / 100;
        let square = sigma * sigma;
        let doubt = (square / without.len() as u64 + square / both.len() as u64).isqrt();
        let weight = (130_000 / doubt.max(130)) as i64;
        let slower = (with * 1000 / plain) as i64 - 1000;
        evidence = (evidence + (slower - 100).clamp(-250, 150) * weight / 1000).max(0);
        if evidence >= 600 {
            (evidence, calm, rest) = (0, 0, next_rest + 1);
            next_rest = (next_rest * 2).min(LONGEST_REST);
            changes.push((p, true));
        }
    }
    changes
}

/// The worst of many jobs: how many were released, and how often all together.
fn releases(jobs: u64, periods: u32, slower: f64, sigma: f64) -> (usize, usize) {
    let counts: Vec<usize> = (0..jobs).map(|seed| play(periods, job(slower, sigma, seed + 1)).releases()).collect();
    (counts.iter().filter(|count| **count > 0).count(), counts.iter().sum())
}

#[test]
fn noise_releases_nobody() {
    // A fifth of a round is much noise; half of one is more than any job has. In 100 windows, a day with windows as they
    // are by default, at most one of so many jobs is taken for slower by chance.
    for sigma in [0.05, 0.2, 0.5] {
        let (jobs, all) = releases(12, 100, 0.0, sigma);
        assert!(jobs <= 1 && all <= 1, "sigma {sigma}: {jobs} of 12 jobs, {all} times");
    }
}

#[test]
fn noise_hides_nobody_who_is_slower() {
    let (jobs, _) = releases(12, 40, 0.3, 0.2);
    assert_eq!(jobs, 12);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn it_decides_as_the_naive_reference(
        slower in -0.3_f64..0.6,
        sigma in 0.0_f64..0.3,
        seed in any::<u64>(),
        switch in 1_u64..30,
    ) {
        let period = windows().period_time();
        let (mut one, mut other) = (job(slower, sigma, seed), job(-slower, sigma, !seed));
        let story = play(40, |now, plain| if now < period.times(switch) { one(now, plain) } else { other(now, plain) });
        let changes: Vec<(u32, bool)> =
            story.changes.iter().map(|(p, change)| (*p, matches!(change, Change::Released { .. }))).collect();
        let expected: Vec<_> = naive(&story.rounds, 41).into_iter().filter(|(p, _)| *p < 40).collect();
        let known: Vec<_> = changes.into_iter().filter(|(p, _)| *p < 40).collect();
        prop_assert_eq!(known, expected);
    }

    #[test]
    fn any_rounds_at_any_slots_are_survived(
        events in prop::collection::vec((any::<u32>(), any::<u64>(), any::<u64>(), any::<bool>()), 0..400),
        slots in any::<u32>(),
    ) {
        let mut benefit = Benefit::new(Windows::new(SLOT, slots, PART), MARGIN);
        for (slot, into, took, near) in events {
            let slot = Slot(if near { slot % 64 } else { slot });
            let _ = benefit.edge(slot);
            let now = Now { slot, into_slot: Nanos(into), ..Now::default() };
            benefit.ended(now, Nanos(took / 3), Nanos(took), u64::from(near));
            let _ = benefit.standing(slot);
        }
    }
}
