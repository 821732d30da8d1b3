use proptest::prelude::*;

use super::*;

const INTERVAL: Nanos = Nanos::from_millis(100);
const TIME_CONSTANT: Nanos = Nanos::from_millis(300);
/// What a reading is apart from the one before, and what the counter moves by in between.
type Step = (Nanos, Bytes);

fn settings() -> Settings {
    Settings { interval: INTERVAL, time_constant: TIME_CONSTANT, ceiling: Rate::mbps(10_000_000), interfaces: 4 }
}

fn at(ms: u64, octets: u64) -> Sample {
    Sample { octets, taken: Nanos::from_millis(ms), heard: Nanos::from_millis(ms) }
}

/// Distances below the time after which a source is lost, and steps below half of a counter of 32 bits.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (1_000_000_u64..500_000_000, 0_u64..1 << 27).prop_map(|(time, octets)| (Nanos(time), Bytes(octets)));
    prop::collection::vec(step, 1..60)
}

/// The readings of a counter of so many bits that begins at `start`.
fn readings(steps: &[Step], start: u64, bits: u32) -> Vec<Sample> {
    let kept = |octets: u64| octets & (u64::MAX >> (64 - bits));
    let mut last = Sample { octets: kept(start), taken: Nanos(7), heard: Nanos(1_000_000_007) };
    let mut readings = vec![last];
    for (time, octets) in steps {
        last.octets = kept(last.octets.wrapping_add(octets.0));
        last.taken = last.taken.plus(*time);
        last.heard = last.heard.plus(*time);
        readings.push(last);
    }
    readings
}

/// The load after each of the readings, and what was measured by each.
fn loads(readings: &[Sample]) -> Vec<(Load, Outcome)> {
    let mut meter = Meter::new(settings());
    let taken = readings.iter().map(|sample| {
        let outcome = meter.record(1, *sample);
        (meter.load(&1, sample.heard), outcome)
    });
    taken.collect()
}

/// The load at the end, from all measured rates at once: each by the share of its interval in the weight of the past.
fn reference(steps: &[Step]) -> f64 {
    let ends: Vec<f64> = steps
        .iter()
        .scan(0.0, |end, (time, _)| {
            *end += time.as_secs_f64();
            Some(*end)
        })
        .collect();
    let last = ends[ends.len() - 1];
    let weight = |end: f64| (-(last - end) / TIME_CONSTANT.as_secs_f64()).exp();
    let rates: Vec<f64> = steps.iter().map(|(time, octets)| octets.0 as f64 * 8.0 / time.as_secs_f64()).collect();
    let later = (1..rates.len()).map(|i| rates[i] * (weight(ends[i]) - weight(ends[i - 1])));
    rates[0] * weight(ends[0]) + later.sum::<f64>()
}

proptest! {
    #[test]
    fn a_constant_rate_comes_out(mbps in 1_u64..800_000, times in prop::collection::vec(100_000_u64..500_000, 15..40)) {
        let rate = Rate::mbps(mbps);
        let mut meter = Meter::new(settings());
        let mut now = Nanos::ZERO;
        meter.record(1, Sample::default());
        for micros in times {
            now = now.plus(Nanos(micros * 1000));
            meter.record(1, Sample { octets: rate.over(now).0, taken: now, heard: now });
        }
        prop_assert!(now >= TIME_CONSTANT.times(5));
        let load = meter.load(&1, now).rate();
        prop_assert!(load.0.abs_diff(rate.0) <= rate.0 / 1000, "{load} for {rate}");
    }

    #[test]
    fn a_rate_that_changed_takes_over(before in 1_u64..800_000, after in 1_u64..800_000) {
        let (before, after) = (Rate::mbps(before), Rate::mbps(after));
        let mut meter = Meter::new(settings());
        let mut sample = Sample::default();
        meter.record(1, sample);
        for rate in [vec![before; 20], vec![after; 15]].concat() {
            sample.octets += rate.over(INTERVAL).0;
            sample.taken = sample.taken.plus(INTERVAL);
            sample.heard = sample.heard.plus(INTERVAL);
            meter.record(1, sample);
        }
        // Fifteen intervals are five time constants, which leave 0.7 % of what was.
        let left = before.0.abs_diff(after.0) * 7 / 1000 + after.0 / 1000;
        let load = meter.load(&1, sample.heard).rate();
        prop_assert!(load.0.abs_diff(after.0) <= left, "{load} after {before} and {after}");
    }

    #[test]
    fn a_load_is_what_all_measured_rates_say_and_within_them(steps in steps(), start in any::<u64>()) {
        let mut largest = Rate::ZERO;
        let loads = loads(&readings(&steps, start, 64));
        for (load, outcome) in &loads[1..] {
            let Outcome::Measured(rate) = outcome else { return Err(TestCaseError::fail(format!("{outcome:?}"))) };
            largest = largest.max(*rate);
            prop_assert!(load.rate() <= largest, "{load:?} above {largest:?}");
        }
        let (load, reference) = (loads[steps.len()].0.rate().0 as f64, reference(&steps));
        // Rates are rounded up to whole bit/s, loads down.
        prop_assert!((load - reference).abs() <= 2.0 + reference / 1e9, "{load} is not {reference}");
    }

    #[test]
    fn wraps_do_not_show(steps in steps(), before in 1_u64..1 << 20) {
        let plain = loads(&readings(&steps, 0, 64));
        prop_assert_eq!(&loads(&readings(&steps, 0_u64.wrapping_sub(before), 64)), &plain);
        prop_assert_eq!(&loads(&readings(&steps, (1 << 32) - before, 32)), &plain);
    }

    #[test]
    fn what_was_overtaken_does_not_show(steps in steps(), again in prop::collection::vec(0_usize..2, 60)) {
        let readings = readings(&steps, 0, 64);
        let mut meter = Meter::new(settings());
        for (i, sample) in readings.iter().enumerate() {
            meter.record(1, *sample);
            let late = readings[i.saturating_sub(again[i % again.len()])];
            prop_assert_eq!(meter.record(1, Sample { heard: sample.heard, ..late }), Outcome::Ignored);
            prop_assert_eq!(meter.load(&1, sample.heard), loads(&readings[..=i])[i].0);
        }
    }

    #[test]
    fn any_numbers_are_answered(
        samples in prop::collection::vec(any::<(u8, u64, u64, u64)>(), 0..100),
        now in any::<u64>(),
    ) {
        let mut meter = Meter::new(settings());
        for (interface, octets, taken, heard) in samples {
            meter.record(interface, Sample { octets, taken: Nanos(taken), heard: Nanos(heard) });
            prop_assert!(meter.load(&interface, Nanos(now)).rate() <= settings().ceiling);
        }
        prop_assert!(meter.loads(Nanos(now)).count() <= settings().interfaces);
    }
}

#[test]
fn a_load_that_nobody_renews_is_held_and_then_dropped() {
    let mut meter = Meter::new(settings());
    assert_eq!(meter.load(&1, Nanos::ZERO), Load::Unknown);
    assert_eq!(meter.record(1, at(0, 0)), Outcome::Begun);
    assert_eq!(meter.load(&1, Nanos::ZERO), Load::Unknown);
    // 1 MB in 100 ms.
    let rate = Rate::mbps(80);
    assert_eq!(meter.record(1, at(100, 1_000_000)), Outcome::Measured(rate));
    let told = [(399, Load::Fresh(rate)), (400, Load::Held(rate)), (1099, Load::Held(rate)), (1100, Load::Lost)];
    for (ms, load) in told {
        assert_eq!(meter.load(&1, Nanos::from_millis(ms)), load, "after {ms} ms");
    }
    assert!(Load::Lost.is_stale() && Load::Held(rate).is_stale() && !Load::Fresh(rate).is_stale());
    assert_eq!((Load::Lost.rate(), Load::Held(rate).rate()), (Rate::ZERO, rate));
    // A gap that only held the load is measured across; one that lost it is not.
    assert_eq!(meter.record(1, at(1000, 10_000_000)), Outcome::Measured(rate));
    assert_eq!(meter.load(&1, Nanos::from_millis(1000)), Load::Fresh(rate));
    assert_eq!(meter.record(1, at(2000, 20_000_000)), Outcome::Begun);
    assert_eq!(meter.load(&1, Nanos::from_millis(2000)), Load::Unknown);
}

#[test]
fn a_counter_or_clock_that_begins_anew_leaves_the_load() {
    let rate = Rate::mbps(80);
    let begun = || {
        let mut meter = Meter::new(settings());
        meter.record(1, at(0, 5 << 32));
        meter.record(1, at(100, (5 << 32) + 1_000_000));
        meter
    };
    // The switch restarted its counters.
    let mut meter = begun();
    assert_eq!(meter.record(1, at(200, 500)), Outcome::Restarted);
    assert_eq!(meter.load(&1, Nanos::from_millis(200)), Load::Fresh(rate));
    assert_eq!(meter.record(1, at(300, 1_000_500)), Outcome::Measured(rate));
    // Restarts that go on renew nothing.
    let mut meter = begun();
    for ms in [200, 300, 400] {
        assert_eq!(meter.record(1, at(ms, 500_000 - ms)), Outcome::Restarted);
    }
    assert_eq!(meter.load(&1, Nanos::from_millis(400)), Load::Held(rate));
    // Its clock was set back or forward by half an hour.
    for taken in [Nanos::ZERO, Nanos::from_millis(3_600_000)] {
        let mut meter = Meter::new(settings());
        let sample = |octets, taken: Nanos, ms| Sample { octets, taken, heard: Nanos::from_millis(ms) };
        let before = Nanos::from_millis(1_800_000);
        meter.record(1, sample(0, before, 0));
        meter.record(1, sample(1_000_000, before.plus(INTERVAL), 100));
        assert_eq!(meter.record(1, sample(2_000_000, taken, 200)), Outcome::Restarted);
        assert_eq!(meter.record(1, sample(3_000_000, taken.plus(INTERVAL), 300)), Outcome::Measured(rate));
        assert_eq!(meter.load(&1, Nanos::from_millis(300)), Load::Fresh(rate));
    }
}

#[test]
fn a_narrow_counter_that_goes_back_less_than_half_its_range_began_anew() {
    let mut meter = Meter::new(settings());
    meter.record(1, at(0, 100_000_000));
    assert_eq!(meter.record(1, at(100, 0)), Outcome::Restarted);
    meter.record(1, at(200, (1 << 32) - 500_000));
    // Further back than that it wrapped.
    assert_eq!(meter.record(1, at(300, 500_000)), Outcome::Measured(Rate::mbps(80)));
}

#[test]
fn a_jump_is_believed_for_as_long_as_the_counter_stood_still() {
    let ceiling = Rate::mbps(1000);
    let mut meter = Meter::new(Settings { ceiling, ..settings() });
    // The switch looks at its counters every 500 ms: 50 MB at once are 800 Mbit/s over that time.
    meter.record(1, at(0, 0));
    for ms in [100, 200, 300, 400] {
        assert_eq!(meter.record(1, at(ms, 0)), Outcome::Measured(Rate::ZERO));
    }
    assert_eq!(meter.record(1, at(500, 50_000_000)), Outcome::Measured(Rate::mbps(4000)));
    assert_eq!(meter.load(&1, Nanos::from_millis(500)), Load::Fresh(ceiling));
    // At once it cannot be.
    assert_eq!(meter.record(1, at(600, 100_000_000)), Outcome::Restarted);
}

#[test]
fn what_is_lost_makes_room() {
    let mut meter = Meter::new(settings());
    for interface in 0..4 {
        assert_eq!(meter.record(interface, at(0, 0)), Outcome::Begun);
    }
    assert_eq!(meter.record(4, at(0, 0)), Outcome::Full);
    assert_eq!(meter.record(3, at(900, 0)), Outcome::Measured(Rate::ZERO));
    assert_eq!(meter.record(4, at(1000, 0)), Outcome::Begun);
    let known: Vec<i32> = meter.loads(Nanos::from_millis(1000)).map(|(interface, _)| *interface).collect();
    assert_eq!(known, [3, 4]);
}

#[test]
fn background_is_never_negative() {
    assert_eq!(background(Rate::mbps(5), Rate::mbps(3)), Rate::mbps(2));
    assert_eq!(background(Rate::mbps(3), Rate::mbps(5)), Rate::ZERO);
}
