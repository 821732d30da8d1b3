//! A host that decides at slots' edges only, and what comes in between.

use super::*;

#[test]
fn a_flow_that_came_within_a_slot_is_ordered_nothing_until_an_edge_decides() {
    let config = HostConfig { events: false, ..HostConfig::new(HostId::of("h0"), crate::BootId(1)) };
    let mut host = Host::new(config);
    let first = flow(&mut host, 1, "first", 1000);
    assert_eq!(orders(&mut host, at(0)).iter().map(|order| order.0).collect::<Vec<_>>(), [first]);
    let late = flow(&mut host, 2, "late", 1000);
    let within = orders(&mut host, at(10));
    assert!(within.iter().all(|(id, rate)| *id != late && *rate > Rate::ZERO), "an order of nothing: {within:?}");
    let edge = orders(&mut host, at(60));
    assert!(edge.iter().any(|(id, rate)| *id == late && *rate > Rate::ZERO), "{edge:?}");
}
