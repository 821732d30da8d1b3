//! The parts of an equal share that flows keep behind better rounds: beside unmanaged traffic, and behind brief ones.

use super::*;

#[test]
fn equal_shares_are_kept_in_part_where_unmanaged_traffic_was_seen_of_late() {
    let mut host = lone_host();
    let (long, short) = (flow(&mut host, 1, "long", 1000), flow(&mut host, 2, "short", 1000));
    host.handle(at(0), Event::RoundBegan { job: JobId::of("long"), flows: vec![(long, Bytes(90_000_000_000))] });
    host.handle(at(0), Event::RoundBegan { job: JobId::of("short"), flows: vec![(short, Bytes(10_000_000_000))] });
    let mut last = 0;
    let mut order = |slot: u64, cross| {
        let ms = slot * 60;
        keep_up(&mut host, &mut last, ms);
        let (link, managed) = (LinkId::egress(HostId::of("h0")), Rate::mbps(500));
        host.handle(at(ms), Event::Measured { link, total: managed.plus(Rate::mbps(cross)), managed });
        host.handle(at(ms), Event::SlotEdge);
        orders(&mut host, at(ms));
        host.flows().find(|f| f.spec.flow == long).map_or(Rate::ZERO, |f| f.order)
    };
    let alone = (1..20).map(|slot| order(slot, 15));
    assert!(alone.into_iter().all(|order| order == Rate::mbps(10)), "acknowledgements are no traffic");
    assert_eq!(order(20, 60), Rate::mbps(10), "nor is what shows for a moment");
    (21..29).for_each(|slot| _ = order(slot, 60));
    // Of 940 Mbit/s each keeps a quarter.
    assert_eq!(order(29, 60), Rate::mbps(235));
    assert_eq!(order(30, 0), Rate::mbps(235), "of the last two slots the larger");
    let after: Vec<Rate> = (31..230).map(|slot| order(slot, 0)).collect();
    assert_eq!(after[160], Rate::mbps(250), "short flows come back");
    assert_eq!(after.last(), Some(&Rate::mbps(10)));
}

#[test]
fn behind_a_brief_round_a_part_of_an_equal_share_is_kept() {
    // The first round takes 200 ms of the link; 120 of them are left after 80.
    let mut host = lone_host();
    host.config.fair_floor_brief = 0.5;
    let (long, short) = (flow(&mut host, 1, "long", 1000), flow(&mut host, 2, "short", 1000));
    host.handle(at(0), Event::RoundBegan { job: JobId::of("long"), flows: vec![(long, Bytes(90_000_000))] });
    host.handle(at(0), Event::RoundBegan { job: JobId::of("short"), flows: vec![(short, Bytes(25_000_000))] });
    let mut last = 0;
    let mut order = |ms| {
        keep_up(&mut host, &mut last, ms);
        orders(&mut host, at(ms));
        host.flows().find(|f| f.spec.flow == long).map_or(Rate::ZERO, |f| f.order)
    };
    assert_eq!(order(1), Rate::mbps(10), "it lasts for longer than two slots");
    assert_eq!(order(60), Rate::mbps(10));
    assert_eq!(order(110), Rate::mbps(250));
    assert_eq!(order(300), Rate::mbps(1000), "over");
}
