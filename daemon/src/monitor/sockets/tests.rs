//! Marks in the kernel, and whose sockets are whose.

use sluice_schedule::{Term, Terms};

use super::*;
use crate::testing::at;

#[test]
fn a_process_has_the_sockets_that_it_claimed_and_no_others() {
    let mut sockets = Sockets::default();
    let place = |port| Place { netns: NetNs(1), tuple: Tuple::of(at(0, port), at(1, 5000)) };
    for cookie in 1..=4_u16 {
        let known = Known { cookie: cookie.into(), place: place(cookie), uid: 0, pid: 7 };
        sockets.know(Nanos::ZERO, HostId(0), known);
    }
    let (one, other) = (ProcessKey::Pid(7), ProcessKey::Pid(8));
    let of = |sockets: &Sockets, process| sockets.of(process).map(|socket| socket.cookie).collect::<Vec<_>>();
    for (cookie, process) in [(3, one), (1, one), (2, other), (99, one)] {
        sockets.claim(cookie, Some(process));
    }
    assert_eq!((of(&sockets, one), of(&sockets, other)), (vec![1, 3], vec![2]));
    sockets.claim(3, Some(other));
    sockets.claim(2, None);
    assert_eq!((of(&sockets, one), of(&sockets, other)), (vec![1], vec![3]));
    sockets.each_of(other, |socket| socket.uid = 5);
    assert_eq!(sockets.iter().map(|socket| socket.uid).collect::<Vec<_>>(), [0, 0, 5, 0]);
    sockets.forget(3);
    assert_eq!(of(&sockets, other), [0_u64; 0]);
    sockets.disown(one);
    assert!(sockets.iter().all(|socket| socket.process().is_none()) && sockets.of_process.is_empty());
}

#[test]
fn those_of_a_process_are_gone_over_in_the_order_of_all() {
    let mut sockets = Sockets::default();
    for cookie in (1..=200_u16).rev() {
        let place = Place { netns: NetNs(1), tuple: Tuple::of(at(0, cookie), at(1, 5000)) };
        sockets.know(Nanos::ZERO, HostId(0), Known { cookie: cookie.into(), place, uid: 0, pid: 7 });
        // One of a hundred, one of ten, and nearly all.
        let process = if cookie % 100 == 0 { 1 } else { 2 + u32::from(cookie % 10 > 0) };
        sockets.claim(cookie.into(), Some(ProcessKey::Pid(process)));
    }
    for (process, count) in [(1, 2), (2, 18), (3, 180), (4, 0)] {
        let key = ProcessKey::Pid(process);
        let mut changed = Vec::new();
        sockets.each_of(key, |socket| changed.push(socket.cookie));
        let theirs: Vec<u64> = sockets.of(key).map(|socket| socket.cookie).collect();
        let all = sockets.iter().filter(|socket| socket.process() == Some(key));
        assert_eq!((&changed, theirs.len()), (&theirs, count), "{process}");
        assert_eq!(theirs, all.map(|socket| socket.cookie).collect::<Vec<_>>(), "{process}");
    }
    sockets.disown(ProcessKey::Pid(3));
    assert_eq!(sockets.iter().filter(|socket| socket.process().is_some()).count(), 20);
}

#[test]
fn the_kernel_is_asked_to_tell_of_the_end_of_every_flow_of_a_plan() {
    let term = |end| Term { end: Bytes(end), ..Term::default() };
    let terms = Terms { terms: vec![term(300), term(900)], ..Terms::default() };
    let told = FlowSpec { terms, ..FlowSpec::default() };
    let mut socket = Socket { told: Some(told), base: Bytes(1000), demand: Bytes(800), ..Socket::default() };
    let mut mark = |acked| {
        socket.stats.acked = Bytes(acked);
        socket.take_mark()
    };
    assert_eq!(mark(1000), Some(Bytes(1300)), "the first flow's end");
    assert_eq!(mark(1299), None, "asked already");
    assert_eq!(mark(1300), Some(Bytes(1800)), "the round ends before the second does");
    assert_eq!(mark(1800), None);
    assert_eq!(mark(1900), None, "nothing is known of what comes after it");
    socket.told = None;
    (socket.base, socket.demand) = (Bytes(2000), Bytes(500));
    assert_eq!(socket.take_mark(), Some(Bytes(2500)), "without a plan it is the round's");
}
