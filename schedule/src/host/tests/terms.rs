//! A host whose flows follow a plan of rates or an order.

use super::*;
use crate::event::{Arrival, Term, Terms};
use crate::message::Rank;
use crate::{FlowPromise, LinkView};

fn term(end: u64, mbps: u64, place: Option<u64>, after: &[(FlowId, u64)]) -> Term {
    let after = after.iter().map(|(flow, bytes)| Arrival { flow: *flow, bytes: Bytes(*bytes) }).collect();
    Term { end: Bytes(end), rate: Rate::mbps(mbps), place, after }
}

/// A flow of `job` over the own egress of 1 Gbit/s, with these terms and a round of two megabytes.
fn planned(host: &mut Host, name: u64, job: &str, terms: Vec<Term>, fills: bool) -> FlowId {
    // Places are told to others, so somebody keeps the link's table.
    let holder = (!terms[0].after.is_empty() || terms[0].place.is_some()).then(|| HolderId::of("s0"));
    let id = FlowId(u64::from(HostId::of("h0").0) << 32 | name);
    let egress = crate::Hop { link: LinkId::egress(HostId::of("h0")), capacity: Rate::mbps(1000), holder };
    let spec = FlowSpec {
        flow: id,
        job: JobId::of(job),
        path: vec![egress],
        terms: Terms { terms, fills, by_round: false },
        ..FlowSpec::default()
    };
    host.handle(at(0), Event::FlowOpened(spec));
    host.handle(at(0), Event::RoundBegan { job: JobId::of(job), flows: vec![(id, Bytes(2_000_000))] });
    id
}

fn moved(host: &mut Host, now: Now, flow: FlowId, delivered: u64, queued: u64) {
    let progress = FlowProgress {
        flow,
        delivered: Bytes(delivered),
        rate: Rate::ZERO,
        queued: Bytes(queued),
        ..Default::default()
    };
    host.handle(now, Event::Progress(vec![progress]));
}

fn order(host: &mut Host, now: Now, flow: FlowId) -> Rate {
    orders(host, now);
    host.flows().find(|status| status.spec.flow == flow).map(|status| status.order).expect("there")
}

/// The holder says that it is there.
fn warm(host: &mut Host, now: Now, flows: Vec<FlowPromise>) {
    let link = LinkId::egress(HostId::of("h0"));
    let view = LinkView { link, capacity: Rate::mbps(1000), flows, ..LinkView::default() };
    let feedback = Feedback { slot: now.slot, warm: true, links: vec![view], ..Feedback::default() };
    host.handle(now, Event::Feedback { holder: HolderId::of("s0"), feedback });
}

#[test]
fn the_next_flow_of_a_plan_has_its_own_rate_within_the_slot() {
    let mut host = lone_host();
    let terms = vec![term(1_000_000, 300, None, &[]), term(2_000_000, 100, None, &[])];
    let flow = planned(&mut host, 1, "a", terms, false);
    warm(&mut host, at(1), vec![]);
    assert_eq!(order(&mut host, at(1), flow), Rate::mbps(300));
    moved(&mut host, at(20), flow, 999_999, 0);
    assert_eq!(order(&mut host, at(20), flow), Rate::mbps(300));
    moved(&mut host, at(21), flow, 1_000_000, 0);
    assert_eq!(order(&mut host, at(21), flow), Rate::mbps(100), "still in the first slot");
    // Between rounds a rate that stays as it is is that of the first flow.
    moved(&mut host, at(40), flow, 2_000_000, 0);
    assert_eq!(order(&mut host, at(61), flow), Rate::mbps(300));
}

#[test]
fn a_flow_of_a_plan_is_promised_before_all_rounds_in_its_place() {
    let mut host = lone_host();
    let flow = planned(&mut host, 1, "a", vec![term(2_000_000, 0, Some(4), &[])], true);
    let mut actions = Vec::new();
    host.decide(at(0), &mut actions);
    let promise = actions.iter().find_map(|action| match action {
        Action::Announce { announcement, .. } => announcement.flows.first().cloned(),
        _ => None,
    });
    let rank = promise.expect("announced").rank();
    assert_eq!(rank, Rank::of_plan(4, JobId::of("a")));
    assert!(
        rank.is_of_plan() && rank < Rank { ordinary: false, key: Nanos::from_millis(1_700_000_000_000), job: JobId(0) }
    );
    // The same under a rule that knows nothing of plans is an ordinary flow.
    let mut fair = Host::new(HostConfig { policy: PolicyName::Fair, ..host.config().clone() });
    planned(&mut fair, 1, "a", vec![term(2_000_000, 10, None, &[])], false);
    warm(&mut fair, at(1), vec![]);
    assert_eq!(order(&mut fair, at(1), flow), Rate::mbps(1000));
}

#[test]
fn whose_turn_has_not_come_leaves_the_link_to_the_next() {
    let ingress = crate::Hop {
        link: LinkId::ingress(HostId::of("h0")),
        capacity: Rate::mbps(1000),
        holder: Some(HolderId::of("s0")),
    };
    let mut host = Host::new(HostConfig { ingress: vec![ingress], ..lone_host().config().clone() });
    let before = FlowId(77);
    let first = planned(&mut host, 1, "a", vec![term(2_000_000, 0, Some(0), &[(before, 500_000)])], true);
    let second = planned(&mut host, 2, "b", vec![term(2_000_000, 0, Some(1), &[])], true);
    let incoming = |host: &mut Host, now: Now, delivered: u64| {
        warm(host, now, vec![]);
        let promise =
            FlowPromise { flow: before, demand: Bytes(1_000_000), delivered: Bytes(delivered), ..Default::default() };
        let view = LinkView { link: LinkId::ingress(HostId::of("h0")), flows: vec![promise], ..LinkView::default() };
        let feedback = Feedback { slot: now.slot, warm: true, links: vec![view], ..Feedback::default() };
        host.handle(now, Event::Feedback { holder: HolderId::of("s0"), feedback });
    };
    incoming(&mut host, at(1), 400_000);
    let floor = Rate::mbps(10);
    // Whoever waits has its rate in hand, which nobody counts on.
    let all = Rate::mbps(1000);
    assert_eq!((order(&mut host, at(1), first), order(&mut host, at(1), second)), (all, all));
    // The predecessor's host says that it has delivered enough.
    incoming(&mut host, at(5), 500_000);
    assert_eq!((order(&mut host, at(5), first), order(&mut host, at(5), second)), (Rate::mbps(990), floor));
    // It stays while there is something to send, and for a slot without.
    moved(&mut host, at(9), first, 0, 1 << 10);
    warm(&mut host, at(9), vec![]);
    assert_eq!(order(&mut host, at(9), first), Rate::mbps(990));
    moved(&mut host, at(20), first, 0, 0);
    assert_eq!(order(&mut host, at(20), first), Rate::mbps(990));
    incoming(&mut host, at(66), 500_000);
    assert_eq!((order(&mut host, at(66), first), order(&mut host, at(66), second)), (all, all));
    moved(&mut host, at(67), second, 0, 1 << 20);
    assert_eq!(order(&mut host, at(67), second), Rate::mbps(1000));
    host.handle(at(68), Event::RoundBegan { job: JobId::of("a"), flows: vec![(first, Bytes(2_000_000))] });
    incoming(&mut host, at(68), 0);
    assert_eq!((order(&mut host, at(68), first), order(&mut host, at(68), second)), (all, all));
    // What the application has to send says more than anybody's word, and a slow flow's send buffer holds little; a few
    // bytes say nothing.
    moved(&mut host, at(69), first, 0, 4 << 10);
    assert_eq!((order(&mut host, at(69), first), order(&mut host, at(69), second)), (all, all));
    moved(&mut host, at(70), first, 1 << 10, 6 << 10);
    assert_eq!((order(&mut host, at(70), first), order(&mut host, at(70), second)), (Rate::mbps(990), floor));
}

#[test]
fn the_rest_of_a_flow_is_no_beginning_of_the_next() {
    let mut host = lone_host();
    let before = FlowId(77);
    let terms = vec![term(1_000_000, 0, Some(0), &[]), term(2_000_000, 0, Some(2), &[(before, 500_000)])];
    let first = planned(&mut host, 1, "a", terms, true);
    let second = planned(&mut host, 2, "b", vec![term(2_000_000, 0, Some(3), &[])], true);
    let rates = |host: &mut Host, now| (order(host, now, first), order(host, now, second));
    let floor = Rate::mbps(10);
    warm(&mut host, at(1), vec![]);
    moved(&mut host, at(1), second, 0, 1 << 20);
    // Its job sends a few bytes more than its plan says.
    moved(&mut host, at(2), first, 1_000_100, 2_000);
    assert_eq!(rates(&mut host, at(2)), (Rate::mbps(1000), Rate::mbps(1000)));
    moved(&mut host, at(3), first, 1_002_100, 6_000);
    assert_eq!(rates(&mut host, at(3)), (Rate::mbps(990), floor));
}

#[test]
fn a_flow_in_an_order_leaves_the_link_to_the_next_shortly_before_it_ends() {
    let mut host = lone_host();
    // 16 ms of work each at the link's rate.
    let (terms, next) = (vec![term(2_000_000, 0, Some(0), &[])], vec![term(2_000_000, 0, Some(1), &[])]);
    let first = planned(&mut host, 1, "a", terms, true);
    let second = planned(&mut host, 2, "b", next, true);
    warm(&mut host, at(0), vec![]);
    let rates = |host: &mut Host, ms| (order(host, at(ms), first), order(host, at(ms), second));
    let (all, floor) = (Rate::mbps(1000), Rate::mbps(10));
    moved(&mut host, at(0), first, 0, 1 << 20);
    moved(&mut host, at(0), second, 0, 1 << 20);
    assert_eq!(rates(&mut host, 0), (Rate::mbps(990), floor));
    let due = host.due_in(at(0)).expect("it ends");
    assert!(due > Nanos::from_millis(13) && due < Nanos::from_millis(15), "an eighth of its time before: {due}");
    moved(&mut host, at(11), first, 1_360_000, 600_000);
    assert_eq!(rates(&mut host, 11), (Rate::mbps(990), floor));
    // Nobody need tell: it goes on as it does, and the next has the link.
    moved(&mut host, at(15), first, 1_850_000, 150_000);
    assert_eq!(rates(&mut host, 15).1, all);
    assert!(rates(&mut host, 15).0 >= Rate::mbps(980));
    let promised = |flow| host.flows().find(|f| f.spec.flow == flow).map(|f| f.rates[0]).expect("promised");
    assert_eq!((promised(first), promised(second)), (Rate::ZERO, all), "nobody counts on what is over in a moment");
}

#[test]
fn what_a_byte_takes_to_be_acknowledged_is_no_time_on_the_link() {
    let ends = |rtt| {
        let mut host = lone_host();
        let flow = planned(&mut host, 1, "a", vec![term(2_000_000, 0, Some(0), &[])], true);
        warm(&mut host, at(0), vec![]);
        let queued = Bytes(1 << 20);
        let progress = FlowProgress { flow, queued, rtt: Nanos::from_millis(rtt), ..FlowProgress::default() };
        host.handle(at(0), Event::Progress(vec![progress]));
        order(&mut host, at(0), flow);
        host.due_in(at(0)).expect("it ends")
    };
    assert_eq!(ends(0).minus(ends(6)), Nanos::from_millis(6));
}

#[test]
fn each_flow_of_a_plan_tells_its_own_end() {
    let mut host = lone_host();
    let flow = planned(&mut host, 1, "a", vec![term(500_000, 100, None, &[]), term(2_000_000, 100, None, &[])], false);
    let mut told = |ms, delivered| {
        moved(&mut host, at(ms), flow, delivered, 0);
        order(&mut host, at(ms), flow);
        host.flows.get(&flow).map(|flow| flow.until.0 / 1_000_000).expect("there")
    };
    assert_eq!(told(0, 0), 40, "half a megabyte at 100 Mbit/s");
    assert_eq!(told(40, 500_000), 160, "and one and a half after it");
}
