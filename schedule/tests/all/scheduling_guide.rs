//! Every worked example of `docs/scheduling.md`, in its order, with its numbers.

use sluice_schedule::graph::{PredecessorProgress, Progress, Step, adjust, bound, excess, ring_lead};
use sluice_schedule::greedy::{Request, schedule};
use sluice_schedule::host::config::NEWCOMER_SHARE;
use sluice_schedule::host::{Host, HostConfig};
use sluice_schedule::path::{Ceiling, CrossTraffic, Sample, Signs, Surplus, floor};
use sluice_schedule::price::{Curve, Price, Weight};
use sluice_schedule::*;

const SLOT: Nanos = Nanos::from_millis(60);
const LINK: Rate = Rate::mbps(1000);

fn at(ms: u64) -> Now {
    let time = Nanos::from_millis(ms);
    Now { mono: time, wall: time, slot: Slot((ms / 60) as u32), into_slot: Nanos::from_millis(ms % 60) }
}

fn me() -> HostId {
    HostId::of("h0")
}

fn host() -> Host {
    host_with_floor(0.0)
}

fn host_with_floor(fair_floor: f64) -> Host {
    Host::new(HostConfig {
        reserve: 0.0,
        work_conserving: false,
        fair_floor_alone: fair_floor,
        ..HostConfig::new(me(), BootId(1))
    })
}

fn open(host: &mut Host, name: u64, job: JobId, to: Option<HostId>) -> FlowId {
    let flow = FlowId((u64::from(me().0) << 32) | name);
    let mut path = vec![Hop { link: LinkId::egress(me()), capacity: LINK, holder: None }];
    path.extend(to.map(|to| Hop { link: LinkId::ingress(to), capacity: LINK, holder: Some(to.holder()) }));
    host.handle(at(0), Event::FlowOpened(FlowSpec { flow, job, path, ..FlowSpec::default() }));
    flow
}

fn order(actions: &[Action], of: FlowId) -> Rate {
    let rate = actions.iter().rev().find_map(|action| match action {
        Action::Order { flow, rate, .. } if *flow == of => Some(*rate),
        _ => None,
    });
    rate.expect("every flow has an order after the first decision")
}

#[test]
fn sharing_against_turns() {
    let (small, large) = (Bytes(12_500_000), Bytes(25_000_000));
    // Equal shares: both at 500 Mbit/s until the small one is done, then the large one alone.
    let first = small.at(Rate::mbps(500));
    let second = first.plus(large.minus(Rate::mbps(500).over(first)).at(LINK));
    assert_eq!((first, second), (Nanos::from_millis(200), Nanos::from_millis(300)));
    // Turns.
    let first = small.at(LINK);
    assert_eq!((first, first.plus(large.at(LINK))), (Nanos::from_millis(100), Nanos::from_millis(300)));

    for (fair_floor, expected) in [(0.0, (990, 10)), (0.5, (750, 250))] {
        let mut host = host_with_floor(fair_floor);
        let (a, b) = (JobId::of("small"), JobId::of("large"));
        let (of_a, of_b) = (open(&mut host, 1, a, None), open(&mut host, 2, b, None));
        host.handle(at(1), Event::RoundBegan { job: b, flows: vec![(of_b, large)] });
        host.handle(at(1), Event::RoundBegan { job: a, flows: vec![(of_a, small)] });
        let mut actions = Vec::new();
        host.decide(at(1), &mut actions);
        let (small, large) = expected;
        assert_eq!((order(&actions, of_a), order(&actions, of_b)), (Rate::mbps(small), Rate::mbps(large)));
    }
}

#[test]
fn an_up_link_nobody_knows_of() {
    let mut host = host();
    let (a, b) = (JobId::of("first"), JobId::of("other"));
    let (first, other) = (open(&mut host, 1, a, None), open(&mut host, 2, b, None));
    host.handle(at(0), Event::RoundBegan { job: a, flows: vec![(first, Bytes(50_000_000))] });
    host.handle(at(0), Event::RoundBegan { job: b, flows: vec![(other, Bytes(90_000_000))] });
    let mut orders = [Rate::ZERO; 2];
    // A step is a millisecond: both have sent as ordered, the first no more than the up-link lets through.
    let mut step = |ms, up_link: Rate| {
        let sent = host.flows().zip([orders[0].min(up_link), orders[1]]).map(|(flow, rate)| FlowProgress {
            flow: flow.spec.flow,
            delivered: flow.delivered.plus(rate.over(at(1).mono)),
            rate,
            queued: Bytes::ZERO,
            rtt: Nanos::ZERO,
        });
        let sent = sent.collect();
        host.handle(at(ms), Event::Progress(sent));
        host.decide(at(ms), &mut Vec::new());
        orders = [first, other].map(|id| host.flows().find(|f| f.spec.flow == id).map_or(Rate::ZERO, |f| f.order));
        orders.map(|rate| rate.0 / 1_000_000)
    };
    let crowded: Vec<_> = (0..=21).map(|ms| step(ms, Rate::mbps(250))).collect();
    assert_eq!(crowded[20], [990, 10], "the first window began when it was first seen to send");
    assert_eq!(crowded[21], [312, 687]);
    let free: Vec<_> = (22..=40).map(|ms| step(ms, LINK)).collect();
    assert_eq!(free[0], [312, 687]);
    assert_eq!(free[18], [990, 10]);
}

#[test]
fn one_rate_per_job() {
    let (mut host, x) = (host(), HostId::of("x"));
    let (a, b) = (JobId::of("a"), JobId::of("b"));
    let (free, tight) = (open(&mut host, 1, a, None), open(&mut host, 2, a, Some(x)));
    let promise = FlowPromise {
        flow: FlowId(1),
        job: b,
        key: Nanos::from_millis(10),
        rates: vec![Rate::mbps(700)],
        demand: Bytes(1_000_000),
        ..FlowPromise::default()
    };
    let view = LinkView {
        link: LinkId::ingress(x),
        capacity: LINK,
        load: vec![Rate::mbps(700); 10],
        flows: vec![promise],
        ..LinkView::default()
    };
    let feedback = Feedback { warm: true, links: vec![view], ..Feedback::default() };
    host.handle(at(1), Event::Feedback { holder: x.holder(), feedback });
    let flows = vec![(free, Bytes(50_000_000)), (tight, Bytes(50_000_000))];
    host.handle(at(1), Event::RoundBegan { job: a, flows });
    let mut actions = Vec::new();
    host.decide(at(1), &mut actions);
    let offers: Vec<Rate> = host.flows().map(|flow| flow.offer).collect();
    assert_eq!(offers, [Rate::mbps(500), Rate::mbps(300)]);
    assert_eq!((order(&actions, free), order(&actions, tight)), (Rate::mbps(300), Rate::mbps(300)));
}

#[test]
fn when_a_round_is_promoted() {
    let (kappa, m) = (4.0, Nanos::from_millis(100));
    // Two jobs that each compute for 150 and fill the link for 100 ms.
    let density = 2.0 * 100.0 / 250.0;
    assert_eq!(m.scaled(kappa * (1.0 + density)), Nanos::from_millis(720));
}

#[test]
fn what_a_loaded_link_costs() {
    let curve = Curve::exponential(100.0);
    for (percent, price) in [(0, 0.0), (25, 0.022), (50, 0.091), (75, 0.309), (90, 0.627), (100, 1.0)] {
        let seen = curve.link(Rate::mbps(10 * percent), LINK).units() as f64 / Price::ONE.units() as f64;
        assert!((seen - price).abs() < 5e-4, "{percent} %: {seen}");
    }
}

#[test]
fn now_or_later() {
    let full = LINK.over(SLOT);
    let price = [Price::ONE, Price::ONE, Price::ZERO];
    let mut rates = [Rate::ZERO; 3];
    let mut decide = |weight: f64| {
        let request = Request {
            demand: full.plus(full),
            price: &price,
            headroom: &[LINK; 3],
            slot: SLOT,
            first: SLOT,
            weight: Weight::new(weight),
        };
        let chosen = schedule(&request, &mut rates);
        (chosen.completion, chosen.cost, chosen.one_later, rates)
    };
    assert_eq!(decide(1.0), (Some(2), 3.0, Some(3.5), [LINK, LINK, Rate::ZERO]));
    assert_eq!(decide(3.0), (Some(3), 4.5, None, [LINK, Rate::ZERO, LINK]));
}

#[test]
fn catching_up_in_the_current_slot() {
    let (initial, behind) = (Rate::mbps(100), Bytes(750_000));
    let rate = |behind, ceiling| {
        let adjusted = adjust(initial, behind, SLOT, Rate::mbps(ceiling));
        (adjusted.rate, adjusted.step)
    };
    assert_eq!(rate(Bytes::ZERO, 150), (Rate::mbps(100), Step::Kept));
    assert_eq!(rate(behind, 250), (Rate::mbps(200), Step::CaughtUp));
    assert_eq!(rate(behind, 150), (Rate::mbps(150), Step::AtCeiling));
}

#[test]
fn a_ring_of_four() {
    let (chunk, demand) = (Bytes(100_000_000), Bytes(600_000_000));
    let by = Predecessor { flow: FlowId(1), kind: PredKind::Pipelined, lead: ring_lead(chunk, 0) };
    let with = |delivered| {
        let progress = Progress::with_plan(Bytes(delivered), demand, Rate::ZERO, Nanos::ZERO);
        (bound(demand, [PredecessorProgress { by, progress }]), progress)
    };
    assert_eq!(with(0).0, chunk);
    assert_eq!(with(250_000_000).0, Bytes(350_000_000));
    assert_eq!(with(550_000_000).0, demand);
    let ahead = Progress { bytes: Bytes(380_000_000), demand, ended: false };
    assert_eq!(excess(ahead, [PredecessorProgress { by, progress: with(250_000_000).1 }]), Bytes(30_000_000));
    assert_eq!(ring_lead(chunk, 1), Bytes(200_000_000));
}

#[test]
fn a_ceiling_that_opens_again() {
    let mut ceiling = Ceiling::new(4, 1.25);
    let mut slot = |ordered, delivered| {
        ceiling.record(Sample { ordered: Rate::mbps(ordered), delivered: Rate::mbps(delivered), busy: true });
        ceiling.rate(Rate::ZERO)
    };
    assert_eq!(slot(1000, 400), Rate::mbps(500), "cross traffic takes 600");
    assert_eq!(slot(500, 400), Rate::mbps(500));
    assert_eq!(slot(500, 500), Rate::mbps(2500), "it has gone");
    assert_eq!(slot(1000, 1000), Rate::MAX);
}

#[test]
fn the_floor_of_three_links() {
    let of = |mbps, flows| floor(Rate::mbps(mbps), Rate::mbps(10), 0.01, flows);
    assert_eq!([of(25_000, 1), of(500, 1), of(50, 1)], [Rate::mbps(250), Rate::mbps(10), Rate::mbps(5)]);
    assert_eq!(of(25_000, 100), Rate::mbps(25));
}

#[test]
fn a_newcomer_grows_into_its_share() {
    let mut cross = CrossTraffic::default();
    let mut left = Vec::new();
    for _ in 0..100 {
        let elastic = cross.reserved(LINK).max(LINK.times(NEWCOMER_SHARE));
        cross.record(LINK, LINK.minus(elastic), LINK, NEWCOMER_SHARE);
        left.push(cross.reserved(LINK).ratio_of(LINK));
    }
    let after = |ms: u64| left[usize::try_from(ms / 60).unwrap()];
    for (ms, part) in [(0, 0.14), (1_440, 0.20), (2_340, 0.25), (5_160, 0.50)] {
        assert!((after(ms) - part).abs() < 0.005, "after {ms} ms: {}", after(ms));
    }
}

#[test]
fn a_late_decision() {
    let mut surplus = Surplus::default();
    let order = Rate::mbps(100);
    let looks = (1..=15).map(|look| {
        let signs = Signs { now: Nanos::from_millis(2 * look), ..Signs::default() };
        order.plus(surplus.look(order, LINK, signs))
    });
    let sent: Vec<u64> = looks.map(|rate| (rate.0 + 500_000) / 1_000_000).collect();
    assert_eq!([sent[0], sent[3], sent[14]], [116, 166, 607]);
    let mut idle = Surplus::default();
    let looks = (1..=8).map(|look| {
        let signs = Signs { now: Nanos::from_millis(2 * look), yields: true, ..Signs::default() };
        order.plus(idle.look(order, LINK, signs))
    });
    assert_eq!(looks.map(|rate| rate == LINK).collect::<Vec<_>>(), [[false; 7].as_slice(), &[true]].concat());
}
