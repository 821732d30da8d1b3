//! What was turned into the wire format and back is what it was, and what cannot be is refused by its field.

use std::net::SocketAddr;

use proptest::prelude::*;
use prost::Message;
use sluice_schedule::{Connection, Route, RouteQuestion};

use super::*;

fn rate() -> impl Strategy<Value = Rate> {
    prop_oneof![Just(Rate::ZERO), Just(Rate::MAX), (0_u64..400_000_000_000).prop_map(Rate)]
}

fn rates() -> impl Strategy<Value = Vec<Rate>> {
    prop_oneof![prop::collection::vec(rate(), 0..=32), (rate(), 0_usize..=32).prop_map(|(r, n)| vec![r; n])]
}

fn promise() -> impl Strategy<Value = FlowPromise> {
    let link = (0_u32..3, 0_u32..70).prop_map(|(node, port)| LinkId::new(node, port));
    let ids = (any::<u8>(), 0_u64..3, any::<bool>(), 0_u64..3, 0_u64..3);
    let numbers = (rate(), any::<u64>(), any::<u64>(), any::<u64>());
    (ids, numbers, rates(), prop::collection::vec(link, 0..=16)).prop_map(|(ids, numbers, rates, links)| FlowPromise {
        flow: FlowId(u64::from(ids.0) << 30),
        job: JobId(ids.1),
        promoted: ids.2,
        key: Nanos(ids.3),
        t0: Nanos(ids.4),
        takes: numbers.0,
        // After the round's start, or not known.
        until: Nanos(if numbers.3 > ids.4 { numbers.3 } else { 0 }),
        rates,
        demand: Bytes(numbers.1),
        delivered: Bytes(numbers.2),
        links,
    })
}

fn status() -> impl Strategy<Value = JobStatus> {
    (any::<[u64; 4]>(), any::<[u32; 3]>(), rate()).prop_map(|(a, b, offer)| JobStatus {
        job: JobId(a[0]),
        origin: HostId(b[0]),
        boot: BootId(a[1]),
        seq: a[2],
        round: b[1].into(),
        t0: Nanos(a[3]),
        key: Nanos(b[2].into()),
        round_time: Nanos(a[2]),
        period: Nanos(a[0]),
        offer,
        promoted: b[0] % 2 == 1,
    })
}

fn question(host: u32) -> impl Strategy<Value = RouteQuestion> {
    let v4 = any::<([u8; 4], [u8; 4])>().prop_map(|(a, b)| (a.into(), b.into()));
    let v6 = any::<([u8; 16], [u8; 16])>().prop_map(|(a, b)| (a.into(), b.into()));
    let ends = prop_oneof![v4, v6].boxed();
    (ends, any::<(u32, u16, u16, u8)>()).prop_map(move |((a, b), (flow, from, to, protocol))| RouteQuestion {
        flow: FlowId(u64::from(host) << 32 | u64::from(flow)),
        connection: Connection { source: SocketAddr::new(a, from), destination: SocketAddr::new(b, to), protocol },
    })
}

prop_compose! {
    fn any_announcement()(host in any::<u32>())(
        routes in prop::collection::vec(question(host), 0..4),
        host in Just(host),
        (boot, seq, slot) in any::<(u64, u64, u32)>(),
        flows in prop::collection::vec(promise(), 0..12),
        jobs in prop::collection::vec(status(), 0..4),
        watch in prop::collection::vec(any::<u64>().prop_map(LinkId), 0..8),
        measured in prop::collection::vec((any::<u64>().prop_map(LinkId), rate()), 0..3),
    ) -> Announcement {
        let host = HostId(host);
        Announcement { host, boot: BootId(boot), seq, slot: Slot(slot), flows, jobs, watch, measured, routes }
    }
}

fn promise_sum() -> impl Strategy<Value = PromiseSum> {
    let nothing = FlowPromise::default;
    let sum = move |sum| FlowPromise { flow: nothing().flow, until: nothing().until, links: Vec::new(), ..sum };
    (any::<u32>(), any::<bool>(), promise()).prop_map(move |(flows, of_job, promise)| PromiseSum {
        flows,
        of_job,
        sum: sum(promise),
    })
}

prop_compose! {
    fn view()(link in any::<u64>(), capacity in rate(), cross in rate(), load in rates(),
        flows in prop::collection::vec(promise(), 0..9), rest in prop::collection::vec(promise_sum(), 0..4)) -> LinkView
    {
        LinkView { link: LinkId(link), capacity, cross, load, flows, rest }
    }
}

prop_compose! {
    fn any_feedback()(
        (boot, seq, slot, warm) in any::<(u64, u64, u32, bool)>(),
        refused in prop::option::of(prop::sample::select(vec![
            Refusal::SlotGuard, Refusal::Old, Refusal::Quota, Refusal::UnknownLink, Refusal::ForeignFlow,
            Refusal::LinkNotYours, Refusal::UnknownHost,
        ])),
        links in prop::collection::vec(view(), 0..6),
        again in any::<bool>(),
        jobs in prop::collection::vec(status(), 0..4),
        crowds in prop::collection::vec(any::<(u64, u32)>().prop_map(|(job, hosts)| Crowd { job: JobId(job), hosts }), 0..3),
        routes in prop::collection::vec(any::<(u64, u64)>().prop_map(|(flow, link)| Route { flow: FlowId(flow), link: LinkId(link) }), 0..5),
    ) -> Feedback {
        let mut links = links;
        // The usual case: several links list the same promises.
        if again && let [first, rest @ ..] = links.as_mut_slice() {
            rest.iter_mut().for_each(|view| view.flows.clone_from(&first.flows));
        }
        Feedback { boot: BootId(boot), seq, slot: Slot(slot), warm, refused, links, jobs, crowds, routes }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn announcements_survive_the_wire(holder in any::<u32>(), a in any_announcement()) {
        let bytes = from_announcement(HolderId(holder), &a).encode_to_vec();
        let wire = pb::Announcement::decode(bytes.as_slice()).unwrap();
        prop_assert_eq!(announcement(wire).unwrap(), (HolderId(holder), a));
    }

    #[test]
    fn feedback_survives_the_wire(holder in any::<u32>(), f in any_feedback()) {
        let bytes = from_feedback(HolderId(holder), &f).encode_to_vec();
        let wire = pb::Feedback::decode(bytes.as_slice()).unwrap();
        prop_assert_eq!(feedback(wire).unwrap(), (HolderId(holder), f));
    }
}

/// Ids as hashes give them, times as clocks give them.
fn usual(flows: u64) -> (HolderId, Announcement) {
    let (holder, host) = (HolderId::of("leaf0"), HostId::of("host3"));
    let (t0, key) = (Nanos(1_795_253_293_123_456_789), Nanos(231_456_789));
    let promise = |n: u64| FlowPromise {
        flow: FlowId(u64::from(host.0) << 32 | ((0x9e37_79b9_u64 * (n + 1)) & 0xffff_ffff)),
        job: JobId::of("job-7"),
        key,
        t0,
        takes: Rate(3_121_987_123),
        until: Nanos(t0.0 + 200_123_456 + n),
        rates: vec![Rate(3_121_987_123); 10],
        demand: Bytes(574_668_960),
        delivered: Bytes(123_456_789),
        links: vec![LinkId::new(holder.0, 3), LinkId::new(holder.0, 4 + n as u32)],
        ..Default::default()
    };
    let announcement = Announcement {
        host,
        boot: BootId(0x0123_4567_89ab_cdef),
        seq: 70_000,
        slot: Slot(1_234_567_890),
        flows: (0..flows).map(promise).collect(),
        jobs: Vec::new(),
        watch: (3..7).map(|port| LinkId::new(holder.0, port)).collect(),
        measured: Vec::new(),
        routes: Vec::new(),
    };
    (holder, announcement)
}

#[test]
fn messages_stay_small() {
    let (holder, announcement) = usual(4);
    let four = from_announcement(holder, &announcement).encoded_len();
    assert!(four <= 150, "an announcement of 4 flows takes {four} bytes");
    let flows: Vec<_> =
        usual(8).1.flows.into_iter().map(|f| FlowPromise { links: Vec::new(), rates: vec![f.rates[0]], ..f }).collect();
    let view = |port| LinkView {
        link: LinkId::new(holder.0, port),
        capacity: Rate::mbps(25_000),
        cross: Rate::ZERO,
        load: (0..10).map(|n| Rate(9_000_000_123 + n / 5)).collect(),
        flows: flows.clone(),
        rest: Vec::new(),
    };
    let feedback = Feedback { links: (3..7).map(view).collect(), ..Default::default() };
    let size = from_feedback(holder, &feedback).encoded_len();
    assert!(size <= 400, "feedback on 4 links with 8 flows takes {size} bytes");
}

#[test]
fn what_breaks_a_bound_is_refused_by_name() {
    let (holder, mut a) = usual(1);
    a.flows[0].links = vec![LinkId(1); 17];
    let text = announcement(from_announcement(holder, &a)).unwrap_err().to_string();
    assert_eq!(text, "message-malformed: rounds.promises.links is 17; allowed 0 to 16 links.");
    let mut wire = from_announcement(holder, &usual(1).1);
    wire.rounds[0].slots = u32::MAX;
    assert_eq!(announcement(wire).unwrap_err().field, "rounds.slots");
    let mut wire = from_announcement(holder, &usual(1).1);
    wire.watch = vec![0; 4097];
    assert_eq!(announcement(wire).unwrap_err().field, "announcement.watch");
    let view = pb::LinkView { promises: vec![5], ..Default::default() };
    let wire = pb::Feedback { links: vec![view], ..Default::default() };
    assert_eq!(feedback(wire).unwrap_err().found, 5);
    let wire = pb::Feedback { refused: 9, ..Default::default() };
    assert_eq!(feedback(wire).unwrap_err().field, "feedback.refused");
    let wrong = |question: pb::RouteQuestion| {
        let mut wire = from_announcement(holder, &usual(1).1);
        wire.routes = vec![question];
        announcement(wire).unwrap_err().field
    };
    let good = || pb::RouteQuestion { source: vec![1; 4], destination: vec![2; 4], ..Default::default() };
    assert_eq!(wrong(pb::RouteQuestion { source: vec![1; 5], ..good() }), "announcement.routes.source");
    assert_eq!(wrong(pb::RouteQuestion { destination: vec![1; 16], ..good() }), "announcement.routes.destination");
    assert_eq!(wrong(pb::RouteQuestion { source_port: 65_536, ..good() }), "announcement.routes.source_port");
    assert_eq!(wrong(pb::RouteQuestion { protocol: 256, ..good() }), "announcement.routes.protocol");
    let mut wire = from_announcement(holder, &usual(1).1);
    wire.routes = vec![good(); 65];
    assert_eq!(announcement(wire).unwrap_err().field, "announcement.routes");
    let wire = pb::Feedback { routes: vec![pb::Route::default(); 65], ..Default::default() };
    assert_eq!(feedback(wire).unwrap_err().field, "feedback.routes");
}
