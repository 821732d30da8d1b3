//! Iterations of two equal halves, the second of which waits for something, against the learner: half of an iteration is
//! as regular as the iteration.

use proptest::prelude::*;

use super::*;

/// What was told first and what is known at the end of `iterations`, of two halves with pauses as `middle` and `compute`.
fn told_of(iterations: usize, pauses: &mut dyn FnMut() -> [u64; 2]) -> (Option<Bytes>, Option<Bytes>) {
    let mut period = Period::default();
    // The model is spread first.
    let (mut ms, mut count, mut told) = (400, 3_000_001, None);
    period.look(Nanos::ZERO, Bytes::ZERO, Bytes::ZERO);
    for _ in 0..iterations {
        for pause in pauses() {
            for part in 1..=20 {
                ms += 9;
                period.look(Nanos::from_millis(ms), Bytes(count + 500_007 * part), Bytes(10_000_140 - 500_007 * part));
            }
            count += 10_000_140;
            ms += pause;
            period.look(Nanos::from_millis(ms), Bytes(count), Bytes::ZERO);
            told = told.or(period.settled());
        }
    }
    (told, period.bytes())
}

/// Of a hundred runs each: how often was a half told, how often is it known at the end?
fn halves(compute: (u64, u64), middle: (u64, u64)) -> (usize, usize) {
    let mut below = random_below(0x2545_f491_4f6c_dd1d);
    let mut run = || told_of(16, &mut || [middle.0 + below(middle.1), compute.0 + below(compute.1)]);
    let (mut first, mut last) = (0, 0);
    for (told, known) in (0..100).map(|_| run()) {
        first += usize::from(told == Some(Bytes(10_000_140)));
        last += usize::from(known == Some(Bytes(10_000_140)));
    }
    println!("{compute:?} {middle:?}: told {first}, known {last}");
    (first, last)
}

/// Pauses in the middle of an iteration are up to two thirds of those between iterations while two jobs share a link.
#[test]
fn a_half_is_not_told_where_pauses_are_long_and_short_by_turns() {
    for (compute, middle) in [((450, 30), (0, 20)), ((400, 150), (0, 120)), ((300, 250), (20, 150))] {
        assert_eq!(halves(compute, middle), (0, 0), "{compute:?} {middle:?}");
    }
    // Where they nearly touch, some are mistaken; before halves were looked for, all were told.
    let (told, known) = halves((300, 150), (100, 150));
    assert!(told < 80 && known < 50, "{told} {known}");
}

/// Two iterations are not taken for one because some pauses happen to be longer.
#[test]
fn pauses_of_one_kind_are_iterations_each() {
    for jitter in [(400, 100), (200, 400), (20, 100)] {
        let (told, known) = halves(jitter, jitter);
        assert!(told >= 95 && known >= 95, "{jitter:?} {told} {known}");
    }
}

/// Count, pause in ms and when it was over of rank 0 of a sum of Open MPI, a ring of two that shares its link with
/// another job: words of 40 to 104 bytes lie between the pauses of one boundary, and the second half waits for a third to
/// a half as long as the iteration does.
#[test]
fn a_recorded_sum_of_open_mpi_is_never_told_as_half() {
    let recorded = [
        (0, 7, 566),
        (5_625_648, 7, 799),
        (5_625_688, 4, 804),
        (15_625_808, 412, 1555),
        (15_625_848, 4, 1602),
        (25_625_968, 4, 1777),
        (25_626_072, 251, 2028),
        (35_626_128, 390, 2749),
        (35_626_168, 20, 2816),
        (45_626_288, 8, 3005),
        (45_626_392, 217, 3236),
        (55_626_448, 423, 3894),
        (55_626_488, 1, 3940),
        (65_626_608, 13, 4122),
        (75_626_768, 440, 4756),
        (75_626_808, 38, 4794),
        (75_626_872, 7, 4800),
        (85_626_968, 12, 5107),
        (95_627_088, 634, 5901),
        (115_627_408, 635, 6931),
        (125_627_608, 2, 7159),
        (135_627_728, 638, 7966),
    ];
    let mut period = Period::default();
    let mut told = Vec::new();
    for (count, length, over) in recorded {
        period.paused(Pause { count, length: Nanos::from_millis(length), over: Nanos::from_millis(over) });
        told.extend(period.settled());
    }
    assert!(!told.is_empty() && told.iter().all(|bytes| bytes.0.abs_diff(20_000_320) <= 20_000), "{told:?}");
}

/// What is known after fourteen iterations whose first pause lasts `middle` milliseconds and up to `jitter` more, and whose
/// second always lasts well above that.
fn known_of_two_by_turns(middle: u64, jitter: u64, seed: u64) -> Option<Bytes> {
    let mut below = random_below(seed);
    let (_, last) = told_of(14, &mut || [middle + below(jitter), (middle + jitter) * 9 / 5 + below(jitter)]);
    last
}

/// The pause before the first byte is the longest of all, and half of it is just above what later iterations end with, so
/// only the first iterations are among the longest pauses. They must not outweigh the later ones.
#[test]
fn a_long_start_does_not_hide_later_iterations() {
    assert_eq!(known_of_two_by_turns(52, 43, 10_330_667_546_019_806_933), Some(Bytes(20_000_280)));
}

proptest! {
    /// However long the two pauses of an iteration are, if one is always well above the other, the whole is known in the end.
    #[test]
    fn of_two_pauses_by_turns_the_longer_ends_the_iteration(
        middle in 20_u64..300,
        jitter in 1_u64..60,
        seed in 1_u64..u64::MAX,
    ) {
        prop_assert_eq!(known_of_two_by_turns(middle, jitter, seed), Some(Bytes(20_000_280)));
    }
}
