//! The parts of an equal share that flows keep behind better rounds: beside unmanaged traffic, and behind brief ones.

use super::*;
use crate::message::Rank;
use crate::policy::{LinkScene, Other};

/// A host whose first flow stands behind a round of so many bytes, and that flow.
fn behind(bytes: u64) -> (Host, FlowId) {
    let mut host = lone_host();
    for (name, job, bytes) in [(1, "long", 9 * bytes), (2, "short", bytes)] {
        let id = flow(&mut host, name, job, 1000);
        host.handle(at(0), Event::RoundBegan { job: JobId::of(job), flows: vec![(id, Bytes(bytes))] });
    }
    let long = host.flows().find(|f| f.spec.job == JobId::of("long")).map(|f| f.spec.flow);
    (host, long.expect("opened"))
}

#[test]
fn equal_shares_are_kept_in_part_where_unmanaged_traffic_was_seen_of_late() {
    let (mut host, long) = behind(10_000_000_000);
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
    let (mut host, long) = behind(25_000_000);
    host.config.fair_floor_brief = 0.5;
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

#[test]
fn a_round_of_another_host_may_be_the_brief_one_and_promoted_ones_and_sums_are_not() {
    let rank = |ordinary, ms| Rank { ordinary, key: Nanos::from_millis(ms), job: JobId(1) };
    let brief = |own: Option<Rank>, other: Option<Rank>| {
        let others = other.map(|rank| Other { rank, ..Other::default() }).into_iter().collect();
        LinkScene { first: own, others, ..LinkScene::default() }.is_brief(Nanos::from_millis(120))
    };
    assert!(brief(None, Some(rank(true, 120))) && !brief(None, Some(rank(true, 121))));
    assert!(brief(Some(rank(true, 500)), Some(rank(true, 40))), "the other one goes first");
    assert!(
        !brief(Some(rank(true, 40)), Some(rank(false, 1))),
        "it is promoted, and nobody knows how much it has left"
    );
    assert!(!brief(Some(rank(true, 40)), Some(Rank::OF_SUMS)) && !brief(None, None));
}
