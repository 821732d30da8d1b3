//! Which sockets are captured, and when.

use sluice_ebpf::SocketEventKind;

use sluice_ebpf::NotTaken;

use super::*;
use crate::monitor::shares::may_take;
use crate::testing::{cookie, known};

/// Host 0 with a process whose connection nobody has captured yet.
fn plain(answer: Result<(), NotTaken>) -> Site {
    let mut site = Site::new(0, 1, "vgg");
    site.kernel.rows().events.clear();
    site.kernel.rows().stats.clear();
    let known = known(7, at(0, 4000), at(1, 5000));
    site.core.monitor.processes.values_mut().for_each(|process| process.pid = Some(7));
    site.core.monitor.sockets.know(Nanos::ZERO, HostId::of("h0"), known);
    site.kernel.rows().plain.insert(cookie(at(0, 4000), at(1, 5000)), answer);
    site
}

#[test]
fn a_socket_is_captured_with_its_first_order_and_not_before() {
    let mut site = plain(Ok(()));
    site.turn(5);
    let wanted = site.kernel.rows().wanted.clone();
    assert_eq!(wanted.len(), 1, "{wanted:?}");
    assert!(wanted[0].rate > Rate::ZERO && wanted[0].expires > Nanos::from_millis(5 + 60), "{wanted:?}");
    site.turn(10);
    let rows = site.kernel.rows();
    assert_eq!(rows.wanted.len(), 1, "asked twice: {:?}", rows.wanted);
    let order = rows.orders.values().next().copied().expect("it has a row");
    assert!(order.1 >= Nanos::from_millis(5 + 180), "{order:?}");
}

#[test]
fn one_that_refuses_is_left_alone_for_longer_and_longer() {
    let mut site = plain(Err(NotTaken::NotOurs));
    let mut asked = Vec::new();
    for ms in (5..60_000).step_by(20) {
        site.turn(ms);
        if !std::mem::take(&mut site.kernel.rows().wanted).is_empty() {
            asked.push(ms / 1_000);
        }
    }
    assert_eq!(asked, [0, 5, 15, 35], "seconds");
    assert!(site.core.host.flows().next().is_none(), "nothing is promised for it");
}

#[test]
fn one_whose_order_came_late_is_asked_for_with_the_next() {
    let mut site = plain(Err(NotTaken::Late));
    (0..4).for_each(|slot| site.turn(5 + slot * 60));
    assert_eq!(site.kernel.rows().wanted.len(), 4, "once in each slot");
    assert!(site.core.host.flows().next().is_some(), "it stays a flow");
}

#[test]
fn what_an_expired_order_gave_back_is_taken_again_with_the_next() {
    let mut site = plain(Ok(()));
    site.turn(5);
    site.turn(10);
    let row = *site.kernel.rows().orders.keys().next().expect("captured");
    site.kernel.close(row, SocketEventKind::Expired);
    site.turn(70);
    assert_eq!(site.kernel.rows().wanted.len(), 2);
    assert!(site.core.host.flows().next().is_some(), "its flow and its round go on");
}

#[test]
fn neither_bypass_nor_observing_touches_a_socket() {
    for mode in [Mode::Bypass, Mode::Observe] {
        let mut site = plain(Ok(()));
        site.core.set_mode(now(0), mode, None);
        (1..20).for_each(|n| site.turn(n * 20));
        assert!(site.kernel.rows().wanted.is_empty(), "{mode:?}");
    }
}

#[test]
fn no_user_shuts_others_out_of_a_table() {
    // One user alone may have nearly all of it.
    assert!(may_take(895, 1024, 895, 1) && !may_take(896, 1024, 896, 1));
    // The rest is for others, up to an equal share each.
    assert!(may_take(896, 1024, 0, 1) && may_take(1000, 1024, 104, 2) && !may_take(1000, 1024, 400, 2));
    assert!(!may_take(1024, 1024, 0, 5));
}

#[test]
fn a_flow_that_a_reload_excludes_is_given_back_and_taken_again_when_it_is_excluded_no_more() {
    type Exclude = fn(&mut Config);
    let ways: [Exclude; 3] = [
        |config| config.capture.ports_exclude = vec![4000..=4000],
        |config| config.capture.ports_exclude = vec![4999..=5001],
        |config| config.capture.peers = vec!["192.0.2.0/24".parse().expect("a network")],
    ];
    for (way, exclude) in ways.into_iter().enumerate() {
        let mut site = plain(Ok(()));
        site.kernel.rows().lets_go = true;
        site.turn(5);
        site.turn(10);
        let row = *site.kernel.rows().orders.keys().next().expect("captured");
        let before = site.core.loaded().clone();
        let mut loaded = before.clone();
        exclude(&mut loaded.config);
        let excludes = fabric(0, &loaded.config);
        site.core.reload(loaded, excludes);
        assert_eq!(site.kernel.rows().released, [row], "{way}");
        assert!(site.core.host.flows().next().is_none(), "{way}: nothing is promised for it");
        (1..20).for_each(|n| site.turn(10 + n * 20));
        let rows = site.kernel.rows();
        assert!(rows.orders.is_empty() && rows.wanted.len() == 1, "{way}: {:?}, {:?}", rows.orders, rows.wanted);
        drop(rows);
        let includes = fabric(0, &before.config);
        site.core.reload(before, includes);
        // A search by the process's descriptors finds the socket again.
        site.core.monitor.sockets.know(Nanos::ZERO, HostId::of("h0"), known(7, at(0, 4000), at(1, 5000)));
        site.turn(410);
        site.turn(415);
        assert_eq!(site.kernel.rows().wanted.len(), 2, "{way}");
        assert!(!site.kernel.rows().orders.is_empty() && site.core.host.flows().next().is_some(), "{way}");
    }
}
