//! What a policy is told of dependencies: `primal-dual` of progress with the plans for the current slot, of what is watched,
//! and of what other flows got on the same bottleneck; `srpt-p` of what a flow can use without leaving its lead.

use super::*;
use crate::event::{PredKind, Predecessor, Role};
use crate::{FlowPromise, Hop, JobStatus, LinkView};

const GBIT: Rate = Rate::mbps(1000);
const JOB: JobId = JobId(7);
/// Of the round of every flow here.
const WHOLE: Bytes = Bytes(100_000_000);

fn leaf() -> HolderId {
    HolderId::of("leaf")
}

fn port(n: u32) -> Hop {
    Hop { link: LinkId::new(leaf().0, n), capacity: GBIT, holder: Some(leaf()) }
}

fn egress() -> Hop {
    Hop { link: LinkId::egress(HostId::of("h0")), capacity: GBIT, holder: None }
}

fn id(name: u64) -> FlowId {
    FlowId(u64::from(HostId::of("h0").0) << 32 | name)
}

/// A host that takes what comes to it by port 0 of its leaf.
fn host() -> Host {
    let config = HostConfig::new(HostId::of("h0"), crate::BootId(1));
    Host::new(HostConfig { policy: PolicyName::PrimalDual, reserve: 0.0, ingress: vec![port(0)], ..config })
}

/// Opens a flow by port 1 of the leaf and begins its round.
fn open(host: &mut Host, spec: FlowSpec) {
    let flow = spec.flow;
    host.handle(at(0), Event::FlowOpened(FlowSpec { job: JOB, path: vec![egress(), port(1)], ..spec }));
    host.handle(at(0), Event::RoundBegan { job: JOB, flows: vec![(flow, WHOLE)] });
}

/// The leaf says what another host promises on this host's ingress: (flow, delivered, rate of the current slot).
fn promised(host: &mut Host, ms: u64, flows: &[(u64, Bytes, Rate)]) {
    let promise = |&(flow, delivered, rate): &(u64, Bytes, Rate)| FlowPromise {
        flow: FlowId(flow),
        job: JOB,
        rates: vec![rate],
        demand: WHOLE,
        delivered,
        ..FlowPromise::default()
    };
    let flows = flows.iter().map(promise).collect();
    let view = LinkView { link: port(0).link, capacity: GBIT, flows, ..LinkView::default() };
    let feedback = Feedback { warm: true, slot: at(ms).slot, links: vec![view], ..Feedback::default() };
    host.handle(at(ms), Event::Feedback { holder: leaf(), feedback });
}

fn delivered(host: &mut Host, ms: u64, flow: FlowId, bytes: Bytes) {
    let progress = FlowProgress { flow, delivered: bytes, ..FlowProgress::default() };
    host.handle(at(ms), Event::Progress(vec![progress]));
}

fn follows(flow: u64, lead: u64) -> Predecessor {
    Predecessor { flow: FlowId(flow), kind: PredKind::Pipelined, lead: Bytes(lead) }
}

/// (bytes allowed, bytes behind before the own plan) of the only flow that sends, as the policy sees it.
fn drawn(host: &Host) -> (Bytes, Bytes) {
    (host.scene.flows[0].allowed, host.scene.flows[0].behind)
}

#[test]
fn what_a_predecessor_plans_for_the_rest_of_the_slot_is_its_progress() {
    let mut host = host();
    open(
        &mut host,
        FlowSpec { flow: id(1), role: Role::RingNext, preds: vec![follows(9, 1_000)], ..Default::default() },
    );
    promised(&mut host, 0, &[(9, Bytes(5_000_000), Rate::mbps(400))]);
    orders(&mut host, at(20));
    // 40 ms are left of the slot: 2 MB at 400 Mbit/s.
    assert_eq!(drawn(&host), (Bytes(7_001_000), Bytes(7_000_000)));
    // 7 MB in 40 ms are more than the link has, and no more than the link is planned.
    assert_eq!(host.flows().next().map(|f| f.order), Some(GBIT));
    delivered(&mut host, 40, id(1), Bytes(6_000_000));
    orders(&mut host, at(40));
    assert_eq!(
        drawn(&host),
        (Bytes(6_001_000), Bytes::ZERO),
        "20 ms are left, 1 MB: it is level, and a chunk may lead"
    );
    assert_eq!(
        host.flows().next().map(|f| f.order),
        Some(Rate::needed(Bytes(1_000), Nanos::from_millis(20)).max(Rate::mbps(10)))
    );
}

#[test]
fn an_own_flow_s_plan_for_the_slot_is_that_of_its_schedule() {
    // Both flows are this host's: the first one's schedule says what the second may have sent.
    let mut host = host();
    open(&mut host, FlowSpec { flow: id(1), ..Default::default() });
    let by = Predecessor { flow: id(1), ..follows(0, 0) };
    let spec = FlowSpec { flow: id(2), role: Role::RingNext, preds: vec![by], ..Default::default() };
    host.handle(at(0), Event::FlowOpened(FlowSpec { job: JOB, path: vec![egress(), port(2)], ..spec }));
    host.handle(at(0), Event::RoundBegan { job: JOB, flows: vec![(id(1), WHOLE), (id(2), WHOLE)] });
    orders(&mut host, at(0));
    let rates = host.flows().next().map(|f| f.rates.to_vec()).unwrap_or_default();
    assert!(rates[0] > Rate::ZERO && rates[1] > Rate::ZERO, "{rates:?}");
    let second = |host: &Host| host.scene.flows.iter().find(|f| f.flow == id(2)).map(|f| f.allowed);
    orders(&mut host, at(30));
    assert_eq!(second(&host), Some(rates[0].over(Nanos::from_millis(30))));
    // In the next slot the schedule's second rate counts.
    let next = host.flows().next().map(|f| f.rates[1]).unwrap_or_default();
    orders(&mut host, at(60));
    assert_eq!(second(&host), Some(next.over(Nanos::from_millis(60))));
}

#[test]
fn a_flow_to_a_server_catches_up_with_what_comes_back_and_is_not_bound_by_it() {
    let mut host = host();
    let watches = vec![FlowId(9), FlowId(10), FlowId(11)];
    open(&mut host, FlowSpec { flow: id(1), role: Role::Aggregate, watches, ..Default::default() });
    // The third is not heard of. The second is furthest: 4 MB and 60 ms at 200 Mbit/s.
    let heard = [(9, Bytes(5_000_000), Rate::ZERO), (10, Bytes(4_000_000), Rate::mbps(200))];
    promised(&mut host, 0, &heard);
    orders(&mut host, at(0));
    assert_eq!(drawn(&host), (WHOLE, Bytes(5_500_000)));
    delivered(&mut host, 10, id(1), Bytes(5_400_000));
    orders(&mut host, at(30));
    // 30 ms are left: 4.75 MB against 5 MB.
    assert_eq!(drawn(&host), (WHOLE, Bytes::ZERO));
}

#[test]
fn a_flow_from_a_server_catches_up_with_the_slowest_that_comes_in() {
    let mut host = host();
    let preds = vec![follows(9, 0), follows(10, 0)];
    open(&mut host, FlowSpec { flow: id(1), role: Role::Broadcast, preds, ..Default::default() });
    promised(&mut host, 0, &[(9, Bytes(5_000_000), Rate::ZERO), (10, Bytes(3_000_000), Rate::mbps(200))]);
    orders(&mut host, at(0));
    assert_eq!(drawn(&host), (Bytes(4_500_000), Bytes(4_500_000)));
}

/// A host whose flow 1 delivers 400 of 1000 Mbit/s for three slots, and flow 2, by this path, `other`; B_f of flow 1.
fn ceiling_beside(path: Vec<Hop>, other: Rate) -> Rate {
    let mut host = host();
    open(&mut host, FlowSpec { flow: id(1), ..Default::default() });
    host.handle(at(0), Event::FlowOpened(FlowSpec { flow: id(2), job: JobId(8), path, ..Default::default() }));
    host.handle(at(0), Event::RoundBegan { job: JobId(8), flows: vec![(id(2), WHOLE)] });
    for slot in 0..4_u64 {
        host.handle(at(slot * 60), Event::SlotEdge);
        orders(&mut host, at(slot * 60));
        let flows = [(id(1), Rate::mbps(40)), (id(2), other)];
        flows.iter().for_each(|(flow, rate)| {
            delivered(&mut host, slot * 60 + 60, *flow, rate.over(Nanos::from_millis(60 * (slot + 1))));
        });
    }
    host.handle(at(240), Event::SlotEdge);
    orders(&mut host, at(240));
    host.scene.flows.iter().find(|f| f.flow == id(1)).map_or(Rate::ZERO, |f| f.ceiling)
}

#[test]
fn what_another_flow_got_on_the_same_bottleneck_may_be_tried() {
    let alone = Rate::mbps(40).times(1.25);
    assert_eq!(ceiling_beside(vec![egress(), port(2)], Rate::mbps(80)), alone, "it goes another way");
    assert_eq!(ceiling_beside(vec![egress(), port(1)], Rate::mbps(20)), alone, "it got less");
    assert_eq!(ceiling_beside(vec![egress(), port(1)], Rate::mbps(80)), Rate::mbps(80).times(1.25));
    // Where the egress is the tighter one, all flows of the host share it.
    let slow = Hop { capacity: Rate::mbps(900), ..egress() };
    assert_eq!(ceiling_beside(vec![slow, port(2)], Rate::mbps(80)), Rate::mbps(80).times(1.25));
}

#[test]
fn what_the_own_job_promised_elsewhere_is_taken_off_slot_by_slot() {
    let mut host = host();
    open(&mut host, FlowSpec { flow: id(1), role: Role::RingNext, ..Default::default() });
    let rates = |mbps: [u64; 3]| mbps.map(Rate::mbps).to_vec();
    let promise = |flow, job, rates| FlowPromise {
        flow: FlowId(flow),
        job,
        rates,
        key: Nanos(1000),
        demand: WHOLE,
        ..FlowPromise::default()
    };
    // The own job's other flow sends in the first slot only, another job's in the second.
    let flows = vec![promise(8, JOB, rates([600, 0, 0])), promise(9, JobId(8), rates([0, 300, 0]))];
    let load = rates([600, 300, 0]);
    let view = LinkView { link: port(1).link, capacity: GBIT, load, flows, ..LinkView::default() };
    let feedback = Feedback { warm: true, slot: at(0).slot, links: vec![view], ..Feedback::default() };
    host.handle(at(0), Event::Feedback { holder: leaf(), feedback });
    let left = |host: &Host| {
        let link = host.scene.links.iter().find(|link| !link.own).expect("the leaf's");
        let own = link.jobs.iter().find(|of| of.job == JOB).expect("has promises");
        (own.flows, own.load.clone(), link.load[..3].to_vec())
    };
    orders(&mut host, at(0));
    assert_eq!(left(&host), (1, rates([600, 0, 0]), rates([600, 300, 0])));
    // A slot later both have moved on by one.
    orders(&mut host, at(61));
    assert_eq!(left(&host), (1, rates([0, 0, 0])[..2].to_vec(), rates([300, 0, 0])));
}

/// What a flow has, with what the fill adds and without.
#[derive(Clone, Copy, Debug)]
struct Filled {
    order: Rate,
    promised: Rate,
    why: Why,
}

/// A flow of a server that broadcasts what flow 9 brings, and one of a longer round, on a host under `srpt-p`. Hosts of their
/// jobs have offers for no more than 200 and 100 Mbit/s, flow 9 has delivered `pred` and takes `takes`; their orders.
fn filled(chunk_lead: bool, own: Bytes, pred: Bytes, takes: Rate) -> [Filled; 2] {
    const LONG: JobId = JobId(8);
    let config = HostConfig::new(HostId::of("h0"), crate::BootId(1));
    let mut host = Host::new(HostConfig { chunk_lead, reserve: 0.0, ingress: vec![port(0)], ..config });
    host.handle(at(0), Event::JobSeen(crate::JobSpec { job: JOB, pattern: crate::Pattern::ParameterServer }));
    let fed = FlowSpec { flow: id(1), role: Role::Broadcast, preds: vec![follows(9, 0)], ..Default::default() };
    open(&mut host, fed);
    let other = FlowSpec { flow: id(2), job: LONG, path: vec![egress(), port(2)], ..Default::default() };
    host.handle(at(0), Event::FlowOpened(other));
    host.handle(at(0), Event::RoundBegan { job: LONG, flows: vec![(id(2), Bytes(10 * WHOLE.0))] });
    delivered(&mut host, 0, id(1), own);
    let flow = FlowId(9);
    let incoming =
        FlowPromise { flow, job: JOB, takes, rates: vec![takes], demand: WHOLE, delivered: pred, ..Default::default() };
    let view = |port: Hop, flows| LinkView { link: port.link, capacity: GBIT, flows, ..LinkView::default() };
    let links = vec![view(port(0), vec![incoming]), view(port(1), vec![]), view(port(2), vec![])];
    let offers = |(job, mbps)| JobStatus {
        job,
        origin: HostId::of("h9"),
        boot: crate::BootId(1),
        seq: 1,
        key: Nanos(1),
        offer: Rate::mbps(mbps),
        ..JobStatus::default()
    };
    let jobs = [(JOB, 200), (LONG, 100)].map(offers).to_vec();
    let feedback = Feedback { warm: true, slot: at(0).slot, links, jobs, ..Feedback::default() };
    host.handle(at(0), Event::Feedback { holder: leaf(), feedback });
    orders(&mut host, at(1));
    let filled = |flow: FlowStatus<'_>| Filled { order: flow.order, promised: flow.rates[0], why: flow.why };
    let filled: Vec<Filled> = host.flows().map(filled).collect();
    [filled[0], filled[1]]
}

#[test]
fn the_fill_leaves_to_others_what_a_flow_is_not_fed() {
    let level = Bytes(20_000_000);
    let orders = |chunk_lead| filled(chunk_lead, level, level, Rate::mbps(300)).map(|flow| flow.order.0 / 1_000_000);
    assert_eq!(orders(false), [900, 100]);
    // It is fed 300 Mbit/s, and flow 9 has sent for a millisecond since it was heard of: the twentieth part of that.
    assert!((300..=315).contains(&orders(true)[0]), "{:?}", orders(true));
    assert!(orders(true)[0] + orders(true)[1] >= 999);
    assert_eq!(filled(true, level, level, Rate::mbps(300))[0].why, Why::Predecessor);
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(64))]

    /// Whatever a predecessor is said to do, a flow keeps what its rank gives it; beyond that it has nothing that would put
    /// it ahead of what it is fed; and what it leaves the other flow has.
    #[test]
    fn a_lead_takes_nothing_from_what_a_rank_gives(
        own in 0_u64..90_000_000, pred in 0_u64..100_000_000, mbps in 0_u64..2_000,
    ) {
        let (own, pred, takes) = (Bytes(own), Bytes(pred), Rate::mbps(mbps));
        let [without, _] = filled(false, own, pred, takes);
        let [with, other] = filled(true, own, pred, takes);
        proptest::prop_assert!(with.order >= Rate::mbps(200) && with.promised == without.promised);
        proptest::prop_assert!(with.order <= without.order);
        if with.order > Rate::mbps(200) && with.order < without.order {
            // 20 ms from now, of which one has passed since.
            let reaches = own.plus(with.order.over(Nanos::from_millis(20)));
            let fed = pred.plus(takes.over(Nanos::from_millis(21)));
            proptest::prop_assert!(reaches <= fed.plus(Bytes(2)), "{reaches:?} of {fed:?}");
        }
        proptest::prop_assert!(with.order.plus(other.order) >= Rate::mbps(989), "{} and {}", with.order, other.order);
    }
}
