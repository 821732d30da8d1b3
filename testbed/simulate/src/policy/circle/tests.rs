use proptest::prelude::*;

use super::*;

fn burst(period_s: f64, burst_s: f64, rate: f64) -> Burst {
    Burst { period_s, burst_s, rate }
}

/// Demand sampled in the middle of many small pieces: slow, and free of the step function's cleverness.
fn sampled_score(circle: &Circle, jobs: &[Burst], capacity: f64, samples: usize) -> f64 {
    let mut excess = 0.0;
    for s in 0..samples {
        let t = (s as f64 + 0.5) / samples as f64 * circle.perimeter_s;
        let demand: f64 = (jobs.iter().zip(&circle.periods_s).zip(&circle.shifts_s))
            .filter(|((j, period), shift)| (t - *shift).rem_euclid(**period) >= **period - j.burst_s)
            .map(|((j, _), _)| j.rate)
            .sum();
        excess += (demand - capacity).max(0.0);
    }
    1.0 - excess / samples as f64 / capacity
}

#[test]
fn periods_are_rounded_and_the_perimeter_is_their_multiple() {
    let c = Circle::of(&[burst(0.3, 0.1, 1.0), burst(0.2, 0.1, 1.0)]);
    // A 72nd of 0.2 s is 2.78 ms: 0.3 s is 108 of these.
    assert!((c.perimeter_s - 0.6).abs() < 1e-9, "{c:?}");
    assert_eq!(c.periods_s.iter().map(|p| (c.perimeter_s / p).round()).collect::<Vec<_>>(), [2.0, 3.0]);
    // 7 and 11 s apart by a prime factor each: 1001 and 1009 steps have no small multiple.
    let c = Circle::of(&[burst(0.072, 0.01, 1.0), burst(1.009, 0.1, 1.0), burst(0.997, 0.1, 1.0)]);
    assert!((c.perimeter_s - 64.0 * 1.009).abs() < 1e-9, "{c:?}");
    for p in &c.periods_s {
        assert!(((c.perimeter_s / p).round() - c.perimeter_s / p).abs() < 1e-6);
    }
}

#[test]
fn two_that_fit_into_one_period_do_not_collide() {
    let c = search(&[burst(1.0, 0.5, 10.0), burst(1.0, 0.4, 10.0)], 10.0);
    assert_eq!(c.score, 1.0);
    assert_eq!(c.shifts_s[0], 0.0);
    // The burst of the first fills the second half; the second's, the last 0.4 s, has to move by 0.4 s or a little more,
    // and the first angle from there on is the 29th.
    assert!((c.shifts_s[1] - 29.0 / 72.0).abs() < 1e-9, "{c:?}");
}

#[test]
fn two_that_do_not_fit_collide_for_the_rest() {
    // 0.7 + 0.5 of one second: 0.2 s of a second demand, on a link of 10: 1 − 0.2 · 10 / 10.
    let c = search(&[burst(1.0, 0.7, 10.0), burst(1.0, 0.5, 10.0)], 10.0);
    assert!((c.score - 0.8).abs() < 1e-9, "{c:?}");
}

#[test]
fn alone_and_nobody() {
    assert_eq!(search(&[burst(1.0, 0.5, 10.0)], 10.0).shifts_s, [0.0]);
    assert_eq!(search(&[], 10.0).shifts_s, Vec::<f64>::new());
}

#[test]
fn half_and_double_period_interleave() {
    // Bursts of 0.2 s every 0.5 s leave gaps of 0.3 s, room for 0.25 s every second at some angle.
    let c = search(&[burst(0.5, 0.2, 10.0), burst(1.0, 0.25, 10.0)], 10.0);
    assert!(c.score > 1.0 - 1e-9, "{c:?}");
}

fn jobs(n: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Burst>> {
    let period = prop::sample::select(vec![0.2, 0.3, 0.4, 0.6]);
    let one = (period, 1u32..10, 1u32..11).prop_map(|(t, g, d)| burst(t, t * f64::from(g) / 10.0, f64::from(d)));
    prop::collection::vec(one, n)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn score_is_what_sampling_finds(jobs in jobs(1..5), angles in prop::collection::vec(0usize..ANGLES, 5)) {
        let mut c = Circle::of(&jobs);
        for (j, a) in angles.iter().enumerate().take(jobs.len()) {
            c.shifts_s[j] = c.periods_s[j] * *a as f64 / ANGLES as f64;
        }
        let (exact, sampled) = (c.score_of(&jobs, 10.0), sampled_score(&c, &jobs, 10.0, 20_000));
        prop_assert!((exact - sampled).abs() < 0.01, "{exact} {sampled}");
    }

    /// Property 17: only where jobs stand to each other counts.
    #[test]
    fn a_common_rotation_changes_nothing(jobs in jobs(1..5), by in 0.0f64..2.0) {
        let mut c = search(&jobs, 10.0);
        c.shifts_s.iter_mut().for_each(|s| *s += by);
        prop_assert!((c.score_of(&jobs, 10.0) - c.score).abs() < 1e-9);
    }

    /// Two jobs: as good as the best of all angles, each scored from scratch. Three: as good as any of many.
    #[test]
    fn nothing_is_better_than_what_is_found(
        jobs in jobs(2..4), tries in prop::collection::vec([0usize..ANGLES, 0usize..ANGLES, 0usize..ANGLES], 100),
    ) {
        let found = search(&jobs, 10.0);
        let mut c = Circle::of(&jobs);
        let order = { let mut o: Vec<usize> = (0..jobs.len()).collect();
            o.sort_by(|&a, &b| (jobs[b].burst_s * jobs[b].rate).total_cmp(&(jobs[a].burst_s * jobs[a].rate))); o };
        let all: Vec<[usize; 3]> = if jobs.len() == 2 { (0..ANGLES).map(|a| [a, 0, 0]).collect() } else { tries };
        for angles in all {
            for (&j, angle) in order.iter().skip(1).zip(angles) {
                c.shifts_s[j] = c.periods_s[j] * angle as f64 / ANGLES as f64;
            }
            prop_assert!(c.score_of(&jobs, 10.0) <= found.score + 1e-9);
        }
    }

    /// One by one is no worse than no shift at all, and two jobs of one period that fit never collide.
    #[test]
    fn many_jobs_are_helped(jobs in jobs(5..9)) {
        let none = Circle::of(&jobs);
        let found = search(&jobs, 10.0);
        prop_assert!(found.score >= none.score_of(&jobs, 10.0) - 0.05, "{} {}", found.score, none.score);
        for (shift, period) in found.shifts_s.iter().zip(&found.periods_s) {
            prop_assert!((0.0..*period).contains(shift));
        }
    }

    #[test]
    fn what_fits_fits(g in 1u32..36, h in 1u32..36) {
        // Whole angles, so that a perfect shift is among those tried.
        let (a, b) = (f64::from(g) / 72.0, f64::from(h) / 72.0);
        prop_assert!(search(&[burst(1.0, a, 10.0), burst(1.0, b, 10.0)], 10.0).score > 1.0 - 1e-9);
    }
}
