//! A host that did nothing for about as long as its orders live: what it had before counts as long as they do, and no longer.

use super::*;

const HOLDER: HolderId = HolderId::of("s0");
/// Jobs of one flow each, the first one the shortest.
const JOBS: u64 = 8;
/// When the host looked last.
const LAST: u64 = 60;

/// The first flow's orders when the host last looked, after a gap of so many milliseconds in which it delivered as before, and
/// a slot later. At the end of the gap each flow delivers 150 Mbit/s, and nothing was heard of the switch in it.
fn orders_around(gap: u64) -> [Rate; 3] {
    let mut host = lone_host();
    let capacity = Rate::mbps(1000);
    let view = crate::LinkView { link: LinkId::new(HOLDER.0, 0), capacity, ..crate::LinkView::default() };
    let hear = |host: &mut Host, ms| {
        let feedback = Feedback { warm: true, slot: at(ms).slot, links: vec![view.clone()], ..Feedback::default() };
        host.handle(at(ms), Event::Feedback { holder: HOLDER, feedback });
    };
    for n in 0..JOBS {
        let (id, job) = (FlowId(u64::from(HostId::of("h0").0) << 32 | n), JobId::of(&format!("j{n}")));
        let egress = crate::Hop { link: LinkId::egress(HostId::of("h0")), capacity, holder: None };
        let down = crate::Hop { link: LinkId::new(HOLDER.0, 0), capacity, holder: Some(HOLDER) };
        host.handle(
            at(0),
            Event::FlowOpened(FlowSpec { flow: id, job, path: vec![egress, down], ..FlowSpec::default() }),
        );
        host.handle(at(0), Event::RoundBegan { job, flows: vec![(id, Bytes((n + 1) * 100_000_000))] });
    }
    hear(&mut host, 0);
    orders(&mut host, at(0));
    let mut looked = 0;
    for ms in (15..=LAST).step_by(15) {
        keep_up(&mut host, &mut looked, ms);
        hear(&mut host, ms);
        orders(&mut host, at(ms));
    }
    let first = FlowId(u64::from(HostId::of("h0").0) << 32);
    let order = |host: &Host| host.flows().find(|f| f.spec.flow == first).map_or(Rate::ZERO, |f| f.order);
    let before = order(&host);
    let after = [LAST + gap, LAST + gap + 60].map(|ms| {
        let passed = Nanos::from_millis(ms - std::mem::replace(&mut looked, ms));
        host.handle(at(ms), Event::SlotEdge);
        let progress = host.flows().map(|f| FlowProgress {
            flow: f.spec.flow,
            delivered: f.delivered.plus(f.order.over(passed)),
            rate: Rate::mbps(150),
            ..FlowProgress::default()
        });
        let progress = progress.collect();
        host.handle(at(ms), Event::Progress(progress));
        orders(&mut host, at(ms));
        order(&host)
    });
    [before, after[0], after[1]]
}

#[test]
fn within_the_life_of_its_orders_a_flow_keeps_what_it_had() {
    let [before, after, _] = orders_around(179);
    assert_eq!(before, Rate::mbps(930), "the shortest round goes first");
    assert!(after > Rate::mbps(700), "{after}");
}

/// Promises: P-22
#[test]
fn when_orders_have_run_out_a_flow_is_taken_over_at_what_it_delivers_and_doubles_with_each_slot() {
    for gap in [180, 600] {
        let [before, after, next] = orders_around(gap);
        assert_eq!(before, Rate::mbps(930));
        assert!(after <= Rate::mbps(300), "after {gap} ms: {after}, of 150 Mbit/s that it delivered");
        assert!(after >= Rate::mbps(125), "after {gap} ms: {after}, of an equal share of 125 Mbit/s");
        assert!(next <= after.times(2.0), "a slot later: {next}, from {after}");
    }
}

/// The floor of a flow without demand comes on top of what the own link carries. When it has something to send it does not any
/// more, and who did not look for a while may find that its order has run out, but not that of the flow that has the rest.
///
/// Promises: P-9
#[test]
fn an_order_that_is_said_again_comes_after_those_that_make_room_for_it() {
    let mut host = lone_host();
    let (idle, busy) = (flow(&mut host, 1, "idle", 1000), flow(&mut host, 2, "busy", 1000));
    host.handle(at(1), Event::RoundBegan { job: JobId::of("busy"), flows: vec![(busy, Bytes(10_000_000))] });
    assert_eq!(orders(&mut host, at(1)), [(idle, Rate::mbps(10)), (busy, Rate::mbps(1000))]);
    host.handle(at(60), Event::RoundBegan { job: JobId::of("idle"), flows: vec![(idle, Bytes(90_000_000))] });
    host.handle(at(60), Event::SlotEdge);
    assert_eq!(orders(&mut host, at(60)), [(busy, Rate::mbps(990)), (idle, Rate::mbps(10))]);
}

/// One that is lowered makes room, unless it has run out: then it takes some anew.
///
/// Promises: P-9
#[test]
fn a_lowered_order_that_ran_out_comes_after_those_that_make_room_and_before_those_that_take_it() {
    let mut host = lone_host();
    let begins = |host: &mut Host, ms, flow, job: &str| {
        host.handle(at(ms), Event::RoundBegan { job: JobId::of(job), flows: vec![(flow, Bytes(90_000_000))] });
    };
    let (idle, busy) = (flow(&mut host, 1, "idle", 1000), flow(&mut host, 2, "busy", 1000));
    begins(&mut host, 1, busy, "busy");
    assert_eq!(orders(&mut host, at(1)), [(idle, Rate::mbps(10)), (busy, Rate::mbps(1000))]);
    let second = flow(&mut host, 3, "second", 1000);
    begins(&mut host, 40, second, "second");
    assert_eq!(
        orders(&mut host, at(40)),
        [(busy, Rate::mbps(10)), (second, Rate::mbps(990))],
        "the idle one keeps its order"
    );
    // So many that begin lower every floor, after the idle one's order has run out.
    begins(&mut host, 185, idle, "idle");
    let more: Vec<FlowId> = (4..24).map(|n| flow(&mut host, n, &format!("j{n}"), 1000)).collect();
    (4..24).zip(&more).for_each(|(n, flow)| begins(&mut host, 185, *flow, &format!("j{n}")));
    let said = orders(&mut host, at(185));
    let place = |flow: FlowId| said.iter().position(|(said, _)| *said == flow).expect("it is lowered");
    let rate = |flow: FlowId| said[place(flow)].1;
    assert!([idle, busy].iter().all(|flow| rate(*flow) < Rate::mbps(10)) && rate(second) < Rate::mbps(990), "{said:?}");
    assert!(place(busy) < place(idle) && place(second) < place(idle), "{said:?}");
    assert!(more.iter().all(|flow| place(idle) < place(*flow)), "{said:?}");
}
