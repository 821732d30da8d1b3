//! The cluster's clock is set back: slots stand still until it is where it was, and orders go on to be renewed.

use super::*;

/// Promises: P-19
#[test]
fn orders_are_renewed_while_slots_stand_still() {
    let mut host = lone_host();
    let (sends, idle) = (flow(&mut host, 1, "a", 1000), flow(&mut host, 2, "b", 1000));
    host.handle(at(0), Event::RoundBegan { job: JobId::of("a"), flows: vec![(sends, Bytes(10_000_000_000))] });
    assert_eq!(orders(&mut host, at(0)).len(), 2);
    // Set back by five seconds: the slot stays, monotonic time does not.
    let slot = host.config().slot.0 / 1_000_000;
    let still = |ms: u64| Now { mono: at(ms).mono, ..at(0) };
    let mut last = 0;
    for ms in (0..=5_000).step_by(15) {
        let renewed = orders(&mut host, still(ms));
        if renewed.iter().any(|order| order.0 == sends) && renewed.iter().any(|order| order.0 == idle) {
            last = ms;
        }
        // The least lease is two slots.
        assert!(ms - last < 2 * slot, "not renewed from {last} ms to {ms} ms");
    }
    assert!(last > 4_800, "{last}");
    // It goes on as before.
    assert_eq!(orders(&mut host, at(5_040)).len(), 2);
    assert_eq!(orders(&mut host, at(5_100)).len(), 2);
}
