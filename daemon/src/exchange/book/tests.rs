use std::net::SocketAddr;

use proptest::prelude::*;
use sluice_schedule::{Announcement, BootId, Connection, Feedback, FlowPromise, HostId, Rate, Refusal};

use super::*;
use crate::exchange::model::Model;

mod along_paths;

const UP: LinkId = LinkId(0x0a00_0000_0001);
const CAPACITY: Rate = Rate::mbps(1000);
const NOW: Slot = Slot(1000);

/// The link that leads to a host: its number is the last one of its address.
fn down(to: u8) -> LinkId {
    LinkId(0x0a00_0001_0000 | u64::from(to))
}

fn one_hop(tuple: &Tuple) -> Vec<LinkId> {
    vec![down(tuple.destination.octets()[3])]
}

/// To 10.0.0.9 nothing leads; to all others a link that all share, and the last one.
fn two_hops(tuple: &Tuple) -> Vec<LinkId> {
    let to = tuple.destination.octets()[3];
    match to {
        9 => vec![],
        _ if tuple.source == tuple.destination => vec![down(to)],
        _ => vec![UP, down(to)],
    }
}

fn id(host: &str, flow: u32) -> FlowId {
    FlowId(u64::from(HostId::of(host).0) << 32 | u64::from(flow))
}

/// Flow n of a host goes to 10.0.0.(n % 4 + 2).
fn ends(from: u8, flow: FlowId) -> Option<Connection> {
    let to = (flow.0 as u32 % 4) as u8 + 2;
    let end = |host: u8, port: u16| SocketAddr::from((Ipv4Addr::new(10, 0, 0, host), port));
    Some(Connection { source: end(from, 1000 + flow.0 as u16), destination: end(to, 80), protocol: 6 })
}

struct Side {
    name: &'static str,
    address: u8,
    book: Book,
    path: fn(&Tuple) -> Vec<LinkId>,
    seq: u64,
}

impl Side {
    fn new(name: &'static str, address: u8, path: fn(&Tuple) -> Vec<LinkId>, slot: Slot) -> Side {
        let capacities = (0..32).map(down).chain([UP]).map(|link| (link, CAPACITY)).collect();
        let ingress = BTreeMap::from([(down(address), Ipv4Addr::new(10, 0, 0, address))]);
        let ground =
            Ground { host: HostId::of(name), unit: 0, capacities, ingress, along_paths: false, ways_only: false };
        Side { name, address, book: Book::new(Arc::new(ground), 2, slot), path, seq: 0 }
    }

    /// Announces these flows, each with the same rate in all slots.
    fn announce(&mut self, slot: Slot, flows: &[(u32, u64)]) -> Vec<Datagram> {
        self.seq += 1;
        let promise = |&(flow, mbps): &(u32, u64)| {
            let flow = id(self.name, flow);
            let tuple = ends(self.address, flow).as_ref().and_then(said_tuple).expect("IPv4");
            FlowPromise { flow, rates: vec![Rate::mbps(mbps)], links: (self.path)(&tuple), ..FlowPromise::default() }
        };
        let flows: Vec<FlowPromise> = flows.iter().map(promise).collect();
        let mut watch: Vec<LinkId> =
            flows.iter().flat_map(|flow| flow.links.clone()).chain([down(self.address)]).collect();
        watch.sort_unstable();
        watch.dedup();
        let host = HostId::of(self.name);
        let announcement = Announcement { host, seq: self.seq, slot, flows, watch, ..Announcement::default() };
        let address = self.address;
        let said = Said::new(announcement, &|flow| ends(address, flow));
        let mut out = Vec::new();
        self.book.announce(slot, BTreeMap::from([(HolderId(1), said)]), &mut out);
        out
    }

    fn probe(&mut self, slot: Slot) -> Vec<Datagram> {
        let mut out = Vec::new();
        self.book.probe(slot, &mut out);
        out
    }

    /// Everything arrives; what the holder would have said.
    fn exchange(&mut self, model: &mut Model, datagrams: &[Datagram]) -> Option<Feedback> {
        for datagram in datagrams {
            let echo = model.answer(datagram).expect("an echo");
            assert!(self.book.echo(model.slot, &echo));
        }
        assert!(self.book.is_settled());
        Some(self.book.feedback(model.slot)?.pop()?.1)
    }
}

fn said_tuple(ends: &Connection) -> Option<Tuple> {
    super::said::tuple(ends)
}

/// Of each link, what others have there now, in Mbit/s.
fn others(feedback: &Feedback) -> BTreeMap<LinkId, u64> {
    feedback.links.iter().map(|view| (view.link, view.load[0].0 / 1_000_000)).collect()
}

fn model(path: fn(&Tuple) -> Vec<LinkId>, slot: Slot) -> Model {
    Model { slot, ..Model::new(CAPACITY, path) }
}

#[test]
fn own_flows_are_taken_off_and_others_stay() {
    let mut model = model(one_hop, NOW);
    let (mut a, mut b) = (Side::new("a", 20, one_hop, NOW), Side::new("b", 3, one_hop, NOW));
    let said = a.announce(NOW, &[(0, 100), (4, 50), (1, 10)]);
    // Three flows, and the own ingress, which no own flow crosses.
    assert_eq!(said.len(), 4);
    let heard = a.exchange(&mut model, &said).expect("feedback");
    assert_eq!(others(&heard), BTreeMap::from([(down(2), 0), (down(3), 0), (down(20), 0)]));
    assert_eq!((heard.seq, heard.warm, heard.refused), (1, false, None));
    let said = b.announce(NOW, &[(0, 300)]);
    let heard = b.exchange(&mut model, &said).expect("feedback");
    // What is sent to b, by the link that a's second kind of flow takes, and what a has where b's flow goes.
    assert_eq!(others(&heard), BTreeMap::from([(down(2), 150), (down(3), 10)]));
    // In the next slot a reads before it says anything, and again after that.
    model.slot = NOW.offset(1);
    let read = a.probe(NOW.offset(1));
    let heard = a.exchange(&mut model, &read).expect("feedback");
    assert_eq!(others(&heard)[&down(2)], 300);
    let said = a.announce(NOW.offset(1), &[(0, 700), (4, 0)]);
    let heard = a.exchange(&mut model, &said).expect("feedback");
    assert_eq!(others(&heard)[&down(2)], 300);
    assert!(heard.links.iter().all(|view| view.capacity == Rate::ZERO && view.cross == Rate::ZERO));
}

#[test]
fn who_came_first_in_a_slot_is_not_held_up_by_who_came_second() {
    let mut model = model(one_hop, NOW);
    let (mut a, mut b) = (Side::new("a", 20, one_hop, NOW), Side::new("b", 21, one_hop, NOW));
    let said = a.announce(NOW, &[(0, 900)]);
    a.exchange(&mut model, &said);
    let said = b.announce(NOW, &[(0, 900)]);
    let heard = b.exchange(&mut model, &said).expect("feedback");
    assert_eq!(others(&heard)[&down(2)], 900, "the second sees the first");
    let read = a.probe(NOW);
    let heard = a.exchange(&mut model, &read).expect("feedback");
    assert_eq!(others(&heard)[&down(2)], 0, "the first goes on");
    // The second has less in the next slot, and the first sees just that.
    model.slot = NOW.offset(1);
    let said = b.announce(NOW.offset(1), &[(0, 10)]);
    b.exchange(&mut model, &said);
    let read = a.probe(NOW.offset(1));
    assert_eq!(others(&a.exchange(&mut model, &read).expect("feedback"))[&down(2)], 10);
}

#[test]
fn a_flow_that_ends_is_taken_back_in_the_next_slot() {
    let mut model = model(one_hop, NOW);
    let mut a = Side::new("a", 20, one_hop, NOW);
    let said = a.announce(NOW, &[(0, 100), (1, 100)]);
    a.exchange(&mut model, &said);
    assert!(a.announce(NOW, &[(1, 100)]).is_empty(), "a switch counts a flow once a slot");
    assert!(a.book.is_known_there(NOW));
    model.slot = NOW.offset(1);
    let mut out = Vec::new();
    a.book.withdraw(NOW.offset(1), &mut out);
    assert_eq!(out.len(), 1);
    a.exchange(&mut model, &out);
    assert_eq!(model.load(down(2), 0, |_| true), Rate::ZERO);
    assert_eq!(model.load(down(3), 0, |_| true), Rate::mbps(100));
    let said = a.announce(NOW.offset(1), &[]);
    a.exchange(&mut model, &said);
    assert!(!a.book.is_known_there(NOW.offset(1)));
    assert_eq!(model.load(down(3), 0, |_| true), Rate::ZERO);
}

#[test]
fn on_a_path_of_several_links_none_is_thought_emptier_than_it_is() {
    let mut model = model(two_hops, NOW);
    let (mut a, mut b) = (Side::new("a", 20, two_hops, NOW), Side::new("b", 21, two_hops, NOW));
    // b fills the link to the second host to nine tenths.
    let said = b.announce(NOW, &[(0, 900)]);
    b.exchange(&mut model, &said);
    let said = a.announce(NOW, &[(0, 50), (1, 20)]);
    let heard = a.exchange(&mut model, &said).expect("feedback");
    let heard = others(&heard);
    // The shared link has 900 of b's; the way to the second host says as much of its last link, the way to the third at most that.
    assert_eq!((heard[&UP], heard[&down(2)]), (900, 900));
    assert!(heard[&down(3)] >= model.load(down(3), 0, |host| host != HostId::of("a")).0 / 1_000_000);
    // A flow that crosses only one of them tells it apart: here the way to the host itself.
    assert_eq!(heard[&down(20)], 0);
}

#[test]
fn unmanaged_traffic_is_told_apart_where_a_link_is_alone() {
    let mut model = Model { cross: Rate::mbps(250), ..model(one_hop, NOW) };
    let mut a = Side::new("a", 20, one_hop, NOW);
    let said = a.announce(NOW, &[(0, 100)]);
    let heard = a.exchange(&mut model, &said).expect("feedback");
    let view = heard.links.iter().find(|view| view.link == down(2)).expect("watched");
    assert_eq!((view.cross, view.load[0]), (Rate::mbps(250), Rate::ZERO));
}

#[test]
fn a_switch_that_began_anew_has_another_boot_and_is_not_warm() {
    let mut model = model(one_hop, NOW);
    let mut a = Side::new("a", 20, one_hop, NOW);
    let mut slot = NOW;
    let mut heard = Vec::new();
    for turn in 0..8 {
        model.slot = slot;
        if turn == 4 {
            model.restart();
        }
        let said = a.announce(slot, &[(0, 100), (1, 100)]);
        heard.push(a.exchange(&mut model, &said).expect("feedback"));
        slot = slot.offset(1);
    }
    let warm: Vec<bool> = heard.iter().map(|feedback| feedback.warm).collect();
    assert_eq!(warm, [false, false, true, true, false, false, true, true]);
    let boots: BTreeSet<BootId> = heard.iter().map(|feedback| feedback.boot).collect();
    assert_eq!(boots.len(), 2);
    assert!(heard[..4].iter().all(|feedback| feedback.boot == heard[0].boot));
}

#[test]
fn other_slots_unknown_paths_and_uncounted_flows_are_refusals() {
    let mut model = model(two_hops, NOW.offset(5));
    let mut a = Side::new("a", 20, two_hops, NOW);
    let said = a.announce(NOW, &[(0, 100)]);
    for datagram in &said {
        let echo = model.answer(datagram).expect("an echo");
        assert!(a.book.echo(NOW, &echo));
    }
    assert!(a.book.guarded);
    let heard = a.book.feedback(NOW).expect("news").pop().expect("of the holder").1;
    assert_eq!((heard.refused, heard.links.len()), (Some(Refusal::SlotGuard), 0));
    // A host with another way to speak, or over its quota, is not counted.
    model.slot = NOW.offset(1);
    model.deaf_to = Some(HostId::of("a"));
    let said = a.announce(NOW.offset(1), &[(0, 100)]);
    assert_eq!(a.exchange(&mut model, &said).expect("feedback").refused, Some(Refusal::Quota));
    // The switch is on no path of a flow of which the topology says that it is.
    let mut lost = Side::new("l", 9, |_| vec![UP], NOW.offset(1));
    let mut nowhere = Model { path: |_| vec![], ..Model::new(CAPACITY, one_hop) };
    nowhere.slot = NOW.offset(1);
    let said = lost.announce(NOW.offset(1), &[(0, 100)]);
    assert_eq!(lost.exchange(&mut nowhere, &said).expect("feedback").refused, Some(Refusal::UnknownLink));
}

#[test]
fn what_is_lost_is_said_again_and_a_late_echo_is_nobodys() {
    let mut model = model(one_hop, NOW);
    let mut a = Side::new("a", 20, one_hop, NOW);
    let said = a.announce(NOW, &[(0, 100), (1, 100)]);
    // The first is lost on its way, of the second the echo.
    let late = model.answer(&said[1]).expect("an echo");
    let mut again = Vec::new();
    a.book.repeat(NOW, &mut again);
    assert_eq!(again.len(), 2);
    for datagram in &again {
        let echo = model.answer(datagram).expect("an echo");
        assert!(a.book.echo(NOW, &echo));
    }
    assert!(!a.book.echo(NOW, &late), "one echo is enough");
    let mut third = Vec::new();
    a.book.repeat(NOW, &mut third);
    assert!(third.is_empty());
    let tally = a.book.take_tally().expect("counted");
    assert_eq!((tally.sent, tally.repeated, tally.answered, tally.unexpected), (5, 2, 2, 1));
    assert_eq!(model.counted, 2);
}

#[test]
fn a_datagram_that_may_be_lost_does_not_prolong_what_the_switch_had() {
    let mut model = model(one_hop, NOW);
    let (mut a, mut b) = (Side::new("a", 20, one_hop, NOW), Side::new("b", 21, one_hop, NOW));
    let said = a.announce(NOW, &[(0, 100)]);
    a.exchange(&mut model, &said);
    // Of the second announcement nobody hears.
    a.announce(NOW.offset(1), &[(0, 100)]);
    model.slot = NOW.offset(2);
    let said = b.announce(model.slot, &[(0, 50)]);
    b.exchange(&mut model, &said);
    // The switch has forgotten the first one by now, so what is there is b's.
    let said = a.announce(model.slot, &[(4, 10)]);
    let heard = said.iter().filter_map(|datagram| model.answer(datagram)).collect::<Vec<_>>();
    heard.iter().for_each(|echo| assert!(a.book.echo(model.slot, echo)));
    let heard = a.book.feedback(model.slot).expect("news").pop().expect("of the holder").1;
    assert_eq!(others(&heard)[&down(2)], 50);
}

#[test]
fn rates_are_never_rounded_down() {
    let above = |bits| super::said::above(Rate(bits), 0);
    assert_eq!((above(0), above(1), above(1_000_000), above(1_000_001), above(u64::MAX)), (0, 1, 1, 2, 65_535));
    assert_eq!(super::said::above(Rate(1 << 40), 16), 17);
}

#[test]
fn ipv6_connections_have_no_datagram() {
    let end = |text: &str| text.parse().expect("an address");
    let ends = |source: &str, destination: &str| Connection {
        source: end(source),
        destination: end(destination),
        protocol: 6,
    };
    assert!(said_tuple(&ends("[fd00::1]:1", "[fd00::2]:2")).is_none());
    assert!(said_tuple(&ends("10.0.0.1:1", "10.0.0.2:2")).is_some());
}

/// What becomes of one datagram and its echo.
#[derive(Clone, Copy, Debug)]
enum Fortune {
    Arrives,
    Lost,
    EchoLost,
    Twice,
    EchoTwice,
    /// The echo comes after the next one.
    EchoLate,
}

fn ways() -> impl Strategy<Value = Fortune> {
    use Fortune::*;
    prop_oneof![6 => Just(Arrives), 1 => Just(Lost), 1 => Just(EchoLost), 1 => Just(Twice), 1 => Just(EchoTwice), 1 => Just(EchoLate)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// However datagrams are lost and doubled and echoes come late: others are never thought less than they are, and two
    /// quiet slots later what is thought is what is.
    #[test]
    fn others_are_never_thought_less_than_they_are(
        turns in prop::collection::vec((prop::collection::vec((0_u32..6, 0_u64..120), 0..5), 0_u64..300), 1..12),
        fates in prop::collection::vec(ways(), 200),
        start in prop::sample::select(vec![NOW, Slot(u32::MAX - 2)]),
    ) {
        let mut model = model(one_hop, start);
        let (mut a, mut b) = (Side::new("a", 20, one_hop, start), Side::new("b", 21, one_hop, start));
        let mut fates = fates.into_iter();
        let quiet = turns.len();
        let still = vec![(vec![(0, 10), (1, 20)], 77); 3];
        for (turn, (mut flows, foreign)) in turns.into_iter().chain(still).enumerate() {
            flows.sort_unstable();
            flows.dedup_by_key(|flow| flow.0);
            model.slot = start.offset(turn as i32);
            let slot = model.slot;
            let said = b.announce(slot, &[(0, foreign), (1, foreign / 2)]);
            b.exchange(&mut model, &said);
            let mut datagrams = a.announce(slot, &flows);
            for round in 0..3 {
                let mut late: Vec<Vec<u8>> = Vec::new();
                for datagram in std::mem::take(&mut datagrams) {
                    let fate = if turn < quiet { fates.next().unwrap_or(Fortune::Arrives) } else { Fortune::Arrives };
                    if matches!(fate, Fortune::Lost) {
                        continue;
                    }
                    let echo = model.answer(&datagram).expect("an echo");
                    let second = matches!(fate, Fortune::Twice).then(|| model.answer(&datagram).expect("an echo"));
                    match fate {
                        Fortune::EchoLost => {}
                        Fortune::EchoLate => late.push(echo),
                        _ => {
                            a.book.echo(slot, &echo);
                            if matches!(fate, Fortune::EchoTwice) {
                                prop_assert!(!a.book.echo(slot, &echo), "an echo counts once");
                            }
                        }
                    }
                    if let Some(second) = second {
                        a.book.echo(slot, &second);
                    }
                }
                for echo in late {
                    a.book.echo(slot, &echo);
                }
                match round {
                    0 => a.book.repeat(slot, &mut datagrams),
                    _ => datagrams = a.probe(slot),
                }
            }
            let heard = a.book.feedback(slot).and_then(|mut all| all.pop());
            for view in heard.iter().flat_map(|(_, feedback)| &feedback.links) {
                let truth = model.load(view.link, 0, |host| host == HostId::of("b"));
                prop_assert!(view.load[0] >= truth, "{} < {} on {:?}", view.load[0].0, truth.0, view.link);
                if turn == quiet + 2 {
                    prop_assert_eq!(view.load[0], truth);
                }
            }
            prop_assert!(turn < quiet || heard.is_some());
        }
    }

    /// Whatever comes by the socket is taken or left.
    #[test]
    fn any_bytes_are_survived(
        flips in prop::collection::vec((0_usize..LENGTH, any::<u8>()), 0..6), cut in 0_usize..LENGTH + 2, whole in any::<bool>(),
    ) {
        let mut model = model(two_hops, NOW);
        let mut a = Side::new("a", 20, two_hops, NOW);
        let said = a.announce(NOW, &[(0, 100), (1, 5)]);
        for datagram in &said {
            let mut echo = model.answer(datagram).expect("an echo");
            for (at, value) in &flips {
                echo[*at] ^= value;
            }
            echo.push(0);
            let length = if whole { LENGTH } else { cut };
            a.book.echo(NOW, &echo[..length]);
        }
        let _ = a.book.feedback(NOW);
        let mut out = Vec::new();
        a.book.repeat(NOW.offset(1), &mut out);
        a.book.probe(NOW.offset(1), &mut out);
        let _ = a.book.feedback(NOW.offset(1));
    }
}
