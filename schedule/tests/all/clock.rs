//! The slot grid under any sequence of steps, pauses and drifts of the wall clock (promise P-19, test P12).

use proptest::prelude::*;
use sluice_schedule::clock::{SlotClock, Unroll};
use sluice_schedule::units::{Nanos, Slot};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Promises: P-19
    #[test]
    fn readings_never_go_back(
        start in prop_oneof![Just(0_u64), Just(u64::from(u32::MAX) * 60_000_000), any::<u64>()],
        length_ms in 5..=200_u64,
        moves in prop::collection::vec((0..400_000_000_u64, -3_000_000_000..3_000_000_000_i64), 1..60),
    ) {
        let mut clock = SlotClock::new(Nanos::from_millis(length_ms));
        let (mut mono, mut wall) = (0_u64, start);
        let mut last = clock.read(Nanos(mono), Nanos(wall));
        for (passed, step) in moves {
            mono += passed;
            let stepped = step % 5 == 0;
            wall = wall.saturating_add(passed).saturating_add_signed(if stepped { step } else { 0 });
            let reading = clock.read(Nanos(mono), Nanos(wall));
            prop_assert!((reading.index, reading.into_slot) >= (last.index, last.into_slot));
            prop_assert!(reading.into_slot < clock.length());
            prop_assert_eq!(reading.slot, Slot(reading.index as u32));
            prop_assert!(reading.slot.since(last.slot) >= 0);
            prop_assert!(clock.until_edge(Nanos(wall)) > Nanos::ZERO || wall > u64::MAX - 400_000_000);
            if reading.waiting == Nanos::ZERO {
                prop_assert_eq!(reading.index, wall / clock.length().0);
                prop_assert!(clock.until_edge(Nanos(wall)) <= clock.length());
            }
            last = reading;
        }
    }

    #[test]
    fn a_step_is_reported_and_noise_is_not(
        step in -2_000_000_000..2_000_000_000_i64, passed in 0..100_000_000_u64,
    ) {
        let length = Nanos::from_millis(60);
        let mut clock = SlotClock::new(length);
        clock.read(Nanos(0), Nanos(10_000_000_000));
        let wall = (10_000_000_000 + passed).saturating_add_signed(step);
        let reading = clock.read(Nanos(passed), Nanos(wall));
        let reported = reading.step.map_or(0, |step| step.size().0);
        prop_assert_eq!(reported, if step.unsigned_abs() > length.0 / 4 { step.unsigned_abs() } else { 0 });
    }

    /// Promises: P-21
    #[test]
    fn counts_follow_slots_across_the_wrap(start in any::<u32>(), steps in prop::collection::vec(-5..1000_i32, 1..50)) {
        let mut unroll = Unroll::new(Slot(start));
        let mut slot = Slot(start);
        for step in steps {
            slot = slot.offset(step);
            let before = unroll.latest();
            let counted = unroll.count(slot);
            prop_assert_eq!(counted as u32, slot.0);
            prop_assert_eq!(unroll.advance(slot), before.max(counted));
        }
    }
}
