//! A switch that says nothing any more: what its silence does to the orders of a host whose flows go on as before.

use super::*;

const HOLDER: HolderId = HolderId::of("s0");
const CAPACITY: Rate = Rate::mbps(1000);
/// When the switch was heard last.
const LAST: u64 = 60;

/// What is seen of three flows at the end of a slot.
struct Seen {
    orders: [Rate; 3],
    why: [Why; 3],
}

/// What the switch says of its link: another host's round goes first, with less than a third of it.
fn view_of_a_round() -> crate::LinkView {
    let other = crate::FlowPromise {
        flow: FlowId(7),
        key: Nanos(1),
        rates: vec![Rate::mbps(300); 10],
        ..crate::FlowPromise::default()
    };
    crate::LinkView {
        link: LinkId::new(HOLDER.0, 0),
        capacity: CAPACITY,
        load: vec![Rate::mbps(300); 10],
        flows: vec![other],
        ..crate::LinkView::default()
    }
}

/// The ends of this many slots, the first of them just before the silence begins of a switch that said this.
fn by_slot(view: &crate::LinkView, slots: u64) -> Vec<Seen> {
    let mut host = lone_host();
    for n in 0..3 {
        let (id, job) = (FlowId(u64::from(HostId::of("h0").0) << 32 | n), JobId::of(&format!("j{n}")));
        let egress = crate::Hop { link: LinkId::egress(HostId::of("h0")), capacity: CAPACITY, holder: None };
        let down = crate::Hop { link: LinkId::new(HOLDER.0, 0), capacity: CAPACITY, holder: Some(HOLDER) };
        let spec = FlowSpec { flow: id, job, path: vec![egress, down], ..FlowSpec::default() };
        host.handle(at(0), Event::FlowOpened(spec));
        host.handle(at(0), Event::RoundBegan { job, flows: vec![(id, Bytes((n + 1) * 500_000_000))] });
    }
    let (mut seen, mut last) = (Vec::new(), 0);
    for ms in (0..LAST + slots * 60).step_by(15) {
        if ms.is_multiple_of(60) {
            host.handle(at(ms), Event::SlotEdge);
        }
        keep_up(&mut host, &mut last, ms);
        if ms <= LAST {
            let (warm, slot, links) = (true, at(ms).slot, vec![view.clone()]);
            let feedback = Feedback { warm, slot, links, ..Feedback::default() };
            host.handle(at(ms), Event::Feedback { holder: HOLDER, feedback });
        }
        orders(&mut host, at(ms));
        if ms >= LAST && ms.is_multiple_of(60) {
            let mut flows = host.flows().map(|flow| (flow.order, flow.why));
            let all = [(); 3].map(|()| flows.next().expect("three flows"));
            seen.push(Seen { orders: all.map(|(order, _)| order), why: all.map(|(_, why)| why) });
        }
    }
    seen
}

/// Promises: P-15
#[test]
fn a_switch_that_falls_silent_costs_no_flow_a_tenth_in_two_slots_and_halves_none() {
    let seen: Vec<[Rate; 3]> = by_slot(&view_of_a_round(), 15).iter().map(|seen| seen.orders).collect();
    let first = seen[0];
    assert!(first[0] > Rate::mbps(600) && first[1] < Rate::mbps(50), "the shortest round goes first: {first:?}");
    for slot in &seen[1..=2] {
        let kept = slot.iter().zip(&first).all(|(now, before)| *now >= before.times(0.9));
        assert!(kept, "within two slots: {slot:?} of {first:?}");
    }
    // Whoever had less than his equal share of the path may have that at once, as he would beside no switch at all.
    let equal = CAPACITY.share(3);
    for pair in seen.windows(2) {
        for (before, now) in pair[0].iter().zip(&pair[1]) {
            assert!(*now >= before.times(0.5), "halved within a slot: {pair:?}");
            assert!(*now <= before.times(2.0).max(equal), "more than doubled within a slot: {pair:?}");
        }
    }
    let steady = &seen[seen.len() - 3..];
    let moves = |pair: &[[Rate; 3]]| {
        pair[0].iter().zip(&pair[1]).any(|(before, now)| before.0.abs_diff(now.0) > before.0 / 100)
    };
    assert!(!steady.windows(2).any(moves), "not steady after the horizon: {steady:?}");
}

#[test]
fn what_holds_a_flow_on_a_link_of_a_silent_switch_is_the_hosts_own_table() {
    let seen = by_slot(&view_of_a_round(), 15);
    let local = |seen: &Seen| seen.why.iter().filter(|why| **why == Why::LocalTable).count();
    assert_eq!(local(&seen[0]), 0, "{:?}", seen[0].why);
    let last = seen.last().expect("fifteen slots");
    assert!(local(last) > 0 && !last.why.contains(&Why::LinkCap), "{:?}", last.why);
}

/// Promises: P-15
#[test]
fn unmanaged_traffic_that_a_silent_switch_spoke_of_counts_less_and_less_and_then_no_more() {
    let view = crate::LinkView { flows: Vec::new(), load: Vec::new(), cross: Rate::mbps(800), ..view_of_a_round() };
    let sums: Vec<Rate> =
        by_slot(&view, 20).iter().map(|seen| seen.orders.into_iter().fold(Rate::ZERO, Rate::plus)).collect();
    assert!(sums[0] <= Rate::mbps(200), "beside 800 Mbit/s of others: {sums:?}");
    assert!(sums[2] <= Rate::mbps(200), "held while the view is: {sums:?}");
    assert!(sums.windows(2).all(|pair| pair[1] >= pair[0].times(0.99)), "{sums:?}");
    let (half, last) = (sums[7], sums[19]);
    assert!(half > Rate::mbps(250) && half < Rate::mbps(800), "on the way: {sums:?}");
    assert!(last >= Rate::mbps(900), "nobody is known to send there any more: {sums:?}");
}

/// What the only flow of a host is ordered when it ends and begins anew in one moment, so many milliseconds after the switch was
/// heard last, which knew of two flows of others.
fn order_of_a_flow_that_connects_anew(silence: u64) -> Rate {
    let mut host = lone_host();
    let other = |n| crate::FlowPromise {
        flow: FlowId(n),
        job: JobId::of("other"),
        key: Nanos(1),
        rates: vec![Rate::mbps(300); 10],
        ..crate::FlowPromise::default()
    };
    let view = crate::LinkView {
        link: LinkId::new(HOLDER.0, 0),
        capacity: CAPACITY,
        load: vec![Rate::mbps(600); 10],
        flows: vec![other(7), other(8)],
        ..crate::LinkView::default()
    };
    let (id, job) = (FlowId(u64::from(HostId::of("h0").0) << 32), JobId::of("j"));
    let egress = crate::Hop { link: LinkId::egress(HostId::of("h0")), capacity: CAPACITY, holder: None };
    let down = crate::Hop { link: LinkId::new(HOLDER.0, 0), capacity: CAPACITY, holder: Some(HOLDER) };
    let spec = FlowSpec { flow: id, job, path: vec![egress, down], ..FlowSpec::default() };
    host.handle(at(0), Event::FlowOpened(spec.clone()));
    host.handle(at(0), Event::RoundBegan { job, flows: vec![(id, Bytes(500_000_000))] });
    let feedback = Feedback { warm: true, slot: at(0).slot, links: vec![view], ..Feedback::default() };
    host.handle(at(0), Event::Feedback { holder: HOLDER, feedback });
    orders(&mut host, at(0));
    host.handle(at(silence), Event::SlotEdge);
    host.handle(at(silence), Event::FlowClosed(id));
    host.handle(at(silence), Event::FlowOpened(spec));
    host.handle(at(silence), Event::DemandChanged { flow: id, demand: Bytes(500_000_000) });
    orders(&mut host, at(silence));
    host.flows().map(|flow| flow.order).next().unwrap()
}

/// Promises: P-15
#[test]
fn a_flow_that_connects_anew_finds_whom_the_switch_spoke_of_last() {
    assert_eq!(order_of_a_flow_that_connects_anew(10), Rate::mbps(400), "what the others leave");
    let held = order_of_a_flow_that_connects_anew(110);
    assert_eq!(
        held,
        CAPACITY.share(3),
        "on an old view no more than an equal share, nobody having said that they are gone"
    );
}
