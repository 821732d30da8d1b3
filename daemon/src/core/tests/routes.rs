//! Probes in the loop: what they find redraws a flow's path, and only that; what is counted and shown of it.

use std::cell::RefCell;
use std::io;
use std::net::Ipv4Addr;

use sluice_ebpf::Sequence;
use sluice_wire::snapshot::PathSource;

use super::*;
use crate::conditions::ConditionCode;
use crate::hops::{Outside, segment};
use crate::monitor::tuple::Tuple;
use crate::testing::leaf_spine_site;

/// A network that sends back what ends in it.
#[derive(Default)]
struct Network {
    spine: u8,
    back: Vec<Vec<u8>>,
    limits: Vec<u8>,
}

thread_local! {
    static NETWORK: RefCell<Network> = RefCell::default();
}

struct Wire;

impl Outside for Wire {
    fn send(&self, from: Ipv4Addr, to: Ipv4Addr, packet: &[u8]) -> io::Result<()> {
        assert_eq!((from, to), (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)));
        NETWORK.with_borrow_mut(|network| {
            let router = match packet[8] {
                1 => 1,
                2 => network.spine,
                more => panic!("a probe for {more} switches"),
            };
            network.limits.push(packet[8]);
            network.back.push(vec![0; 3]);
            network.back.push(segment::exceeded(Ipv4Addr::new(10, 9, 0, router), packet));
        });
        Ok(())
    }
    fn receive(&self, buffer: &mut [u8]) -> Option<usize> {
        let answer = NETWORK.with_borrow_mut(|network| network.back.pop())?;
        buffer[..answer.len()].copy_from_slice(&answer);
        Some(answer.len())
    }
}

fn site() -> Site {
    site_with(|_| {})
}

/// The same with other settings.
fn site_with(change: impl FnOnce(&mut Config)) -> Site {
    let (mut config, fabric) = leaf_spine_site();
    config.probe.routes = true;
    change(&mut config);
    let mut site = Site::on(config, fabric, (0, 1), "a");
    site.core.hops.opened_by(|| Ok(Box::new(Wire)));
    let row = site.row;
    let sequence = Some(Sequence { unacknowledged: 7, expected: 9 });
    site.kernel.rows().stats.get_mut(&row).expect("open").sequence = sequence;
    site
}

fn run(site: &mut Site, from: u64, to: u64) {
    (from..to).step_by(20).for_each(|ms| site.turn(ms));
    site.said.0.borrow_mut().clear();
}

/// The switches that keep the links of the flow's path.
fn holders(site: &Site) -> Vec<HolderId> {
    let flow = site.core.host.flows().next().expect("one");
    flow.spec.path.iter().filter_map(|hop| hop.holder).collect()
}

fn source(site: &Site) -> PathSource {
    let tuple = Tuple::of(at(0, 4000), at(1, 5000));
    let fabric = &site.core.monitor.fabric;
    fabric.way(tuple.outgoing(fabric.host), &tuple).expect("covered").source
}

/// Promises: P-32
#[test]
fn probes_find_the_path_and_notice_another_without_matching_everything_again() {
    NETWORK.with_borrow_mut(|network| network.spine = 4);
    let mut site = site();
    run(&mut site, 0, 1_000);
    assert_eq!((holders(&site), source(&site)), (vec![HolderId::of("l1")], PathSource::Unknown));
    let matchings = site.core.monitor.matchings;
    run(&mut site, 1_000, 8_000);
    assert_eq!(holders(&site), ["l0", "s1", "l1"].map(HolderId::of));
    assert_eq!(source(&site), PathSource::Probe);
    NETWORK.with_borrow_mut(|network| network.spine = 3);
    run(&mut site, 8_000, 40_000);
    assert_eq!(holders(&site), ["l0", "s0", "l1"].map(HolderId::of), "redrawn");
    assert_eq!(site.core.monitor.matchings, matchings);
    assert_eq!(NETWORK.with_borrow(|network| network.limits.clone()), [1, 2, 2]);
    let counters = &site.core.counters;
    assert_eq!((counters.route_asked_probe, counters.route_answered_probe, counters.route_unanswered_probe), (3, 3, 0));
    // The switches were asked too, and did not answer.
    assert!(counters.route_asked_switch > 5 && counters.route_answered_switch == 0);
    assert_eq!(counters.route_unanswered_switch, counters.route_asked_switch - 1, "the last may yet be");
    site.core.config.probe.routes = false;
    run(&mut site, 40_000, 40_200);
    assert_eq!((holders(&site), source(&site)), (vec![HolderId::of("l1")], PathSource::Unknown), "forgotten");
    assert!(!site.core.conditions.holds(ConditionCode::RoutesUnprobed));
}

#[test]
fn a_known_path_is_looked_for_again_after_the_time_that_the_key_says_also_once_it_is_another() {
    let probes = || NETWORK.with_borrow(|network| network.limits.len());
    for (repeat_s, looks) in [(5, 6..=8), (30, 1..=2)] {
        NETWORK.with_borrow_mut(|network| *network = Network { spine: 4, ..Network::default() });
        let mut site = site_with(|config| config.probe.repeat_s = repeat_s);
        run(&mut site, 0, 8_000);
        assert_eq!(holders(&site), ["l0", "s1", "l1"].map(HolderId::of));
        let before = probes();
        run(&mut site, 8_000, 44_000);
        let seen = probes() - before;
        assert!(looks.contains(&seen), "every {repeat_s} s: {seen} in 36 s");
        // A reload changes it, as of the next time that the path is found.
        let mut loaded = site.core.loaded.clone();
        loaded.config.probe.repeat_s = 3_600;
        site.core.reload(loaded, site.core.monitor.fabric.clone());
        run(&mut site, 44_000, 84_000);
        let before = probes();
        run(&mut site, 84_000, 184_000);
        assert_eq!(probes(), before, "every hour, and not every {repeat_s} s");
    }
}

#[test]
fn who_may_not_probe_says_so_and_goes_on() {
    let mut site = site();
    site.core.hops.opened_by(|| Err(io::Error::from_raw_os_error(libc::EPERM)));
    run(&mut site, 0, 3_000);
    let said = site.core.conditions.iter().find(|condition| condition.code == ConditionCode::RoutesUnprobed);
    assert!(said.expect("said").sentence.contains("Operation not permitted"));
    assert_eq!(holders(&site), [HolderId::of("l1")]);
    assert_eq!(site.core.counters.route_asked_probe, 0);
    // With the capability and a reload it begins.
    site.core.hops.opened_by(|| Ok(Box::new(Wire)));
    site.core.reload(site.core.loaded.clone(), site.core.monitor.fabric.clone());
    run(&mut site, 3_000, 3_200);
    assert!(!site.core.conditions.holds(ConditionCode::RoutesUnprobed));
}
