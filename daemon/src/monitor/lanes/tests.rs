use proptest::prelude::*;
use sluice_plan::follow::Arrival as Comes;
use sluice_schedule::HostId;

use super::*;
use crate::testing::{at, config, fabric};

const SLOT: Nanos = Nanos::from_millis(60);

fn transfer(end: u64, mbps: Option<u64>, after: &[(usize, u64)]) -> Transfer {
    let after = after.iter().map(|(lane, bytes)| Comes { lane: *lane, bytes: *bytes }).collect();
    Transfer { end, bits_per_second: mbps.map(|mbps| mbps * 1_000_000), place: None, after }
}

fn lane(from: u32, to: u32, flows: Vec<Transfer>) -> Lane {
    Lane { from, to, flows }
}

/// Rank 0 sends to rank 1 in two groups; the second flow of the first waits for the second lane of rank 2.
fn transfers() -> Transfers {
    let lanes = vec![
        lane(0, 1, vec![transfer(9_000_000, Some(100), &[]), transfer(27_000_000, Some(50), &[(3, 8_000_000)])]),
        lane(0, 1, vec![transfer(9_000_000, Some(30), &[(2, 1_000_000)])]),
        lane(2, 0, vec![transfer(9_000_000, Some(10), &[])]),
        lane(2, 0, vec![transfer(9_000_000, Some(20), &[])]),
    ];
    Transfers { lanes, fills: true, by_round: false }
}

fn peer(rank: u32, kind: PeerKind, local: u16, to: usize, remote: u16) -> Peer {
    Peer { rank: Some(rank), kind, local: at(0, local), remote: at(to, remote), cookie: 0, tx_bytes: 0 }
}

fn view(peers: Vec<Peer>) -> PageView {
    PageView { job_id: "wan".into(), rank: Some(0), nranks: 3, nnodes: 3, peers, ..PageView::default() }
}

fn connections(peers: Vec<Peer>, round: u64) -> Vec<Connection> {
    let lanes = Lanes::new(transfers(), SLOT);
    assert_eq!((lanes.len(), lanes.joined), (4, 0));
    lanes.connections(&view(peers), &fabric(0, &config(0, true)), Bytes(round)).expect("a rank")
}

/// End, rate in Mbit/s of payload, and what must have come.
type Told = (u64, u64, Vec<(FlowId, u64)>);

fn told(connection: &Connection) -> Vec<Told> {
    let after = |term: &Term| term.after.iter().map(|of| (of.flow, of.bytes.0)).collect();
    let terms = connection.terms.terms.iter();
    terms.map(|term| (term.end.0, (term.rate.0 as f64 / 956_406.0).round() as u64, after(term))).collect()
}

fn incoming(local: u16, remote: u16) -> FlowId {
    Tuple::of(at(0, local), at(2, remote)).incoming(HostId::of("h2"))
}

#[test]
fn the_nth_connection_carries_the_nth_lane() {
    let peers = vec![
        peer(1, PeerKind::Connected, 4000, 1, 5000),
        peer(1, PeerKind::Connected, 4001, 1, 5000),
        peer(2, PeerKind::Accepted, 6000, 2, 4100),
        peer(2, PeerKind::Accepted, 6000, 2, 4101),
    ];
    let found = connections(peers.clone(), 0);
    assert_eq!(found.iter().map(|of| of.sends).collect::<Vec<_>>(), [true, true, false, false]);
    let (first, second) = (incoming(6000, 4100), incoming(6000, 4101));
    assert_eq!(told(&found[0]), [(9_000_000, 100, vec![]), (27_000_000, 50, vec![(second, 8_000_000)])]);
    assert_eq!(told(&found[1]), [(9_000_000, 30, vec![(first, 1_000_000)])]);
    assert!(found[0].terms.fills && found[0].share == Share::FULL && found[1].share == Share::of(1, 3));
    // A job that sends a third of what the plan says reaches everything after a third.
    let found = connections(peers, 12_000_000);
    assert_eq!(told(&found[0]), [(3_000_000, 100, vec![]), (9_000_000, 50, vec![(second, 2_666_666)])]);
}

#[test]
fn lanes_without_a_connection_ride_with_others() {
    let peers = vec![peer(1, PeerKind::Connected, 4000, 1, 5000), peer(2, PeerKind::Accepted, 6000, 2, 4100)];
    let found = connections(peers, 0);
    assert_eq!(told(&found[0]), [(36_000_000, 130, vec![])]);
    assert_eq!(found[0].share, Share::FULL);
    // Connections beyond the lanes carry nothing of the plan.
    let found = connections((0..3).map(|n| peer(1, PeerKind::Connected, 4000 + n, 1, 5000)).collect(), 0);
    assert_eq!(found.iter().map(|of| of.sends).collect::<Vec<_>>(), [true, true, false]);
}

#[test]
fn flows_too_short_for_slots_are_joined_and_take_as_long_together() {
    // 240 ms at least: 1 MB at 80 Mbit/s takes 100 ms, 4 MB at 80 Mbit/s 400 ms, 1 MB at 40 Mbit/s 200 ms.
    let flows = vec![
        transfer(1_000_000, Some(80), &[(7, 1)]),
        transfer(2_000_000, Some(40), &[(8, 2)]),
        transfer(6_000_000, Some(80), &[]),
        transfer(7_000_000, Some(80), &[]),
    ];
    let lanes = Lanes::new(Transfers { lanes: vec![lane(0, 1, flows)], fills: false, by_round: false }, SLOT);
    assert_eq!(lanes.joined, 2);
    let joined: Vec<_> = lanes.lanes[0].flows.iter().map(|flow| (flow.end, flow.bits_per_second)).collect();
    // 2 MB in 300 ms, then 5 MB in 500 ms.
    assert_eq!(joined, [(2_000_000, Some(53_333_333)), (7_000_000, Some(80_000_000))]);
    assert_eq!(lanes.lanes[0].flows[0].after, [Comes { lane: 7, bytes: 1 }]);
    // Without rates nobody knows how long a flow takes.
    let placed = vec![transfer(10, None, &[]), transfer(20, None, &[])];
    assert_eq!(Lanes::new(Transfers { lanes: vec![lane(0, 1, placed)], fills: true, by_round: false }, SLOT).joined, 0);
}

proptest! {
    /// Joined or not, a lane ends where it ended and takes as long, and no flow with a rate is too short unless all are.
    #[test]
    fn joining_keeps_bytes_and_time(flows in prop::collection::vec((1_u64..20_000_000, 1_u64..200), 1..9)) {
        let mut end = 0;
        let of = |(bytes, mbps): &(u64, u64)| { end += bytes; transfer(end, Some(*mbps), &[]) };
        let flows: Vec<Transfer> = flows.iter().map(of).collect();
        let all = |flows: &[Transfer]| {
            let begins = std::iter::once(0).chain(flows.iter().map(|flow| flow.end));
            begins.zip(flows).map(|(begin, flow)| took(begin, flow).expect("a rate") as f64).collect::<Vec<_>>()
        };
        let whole: f64 = all(&flows).iter().sum();
        let mut joined = lane(0, 1, flows);
        let bytes = joined.bytes();
        join(&mut joined, SLOT.times(LEAST_SLOTS));
        let times = all(&joined.flows);
        prop_assert_eq!(joined.bytes(), bytes);
        prop_assert!((times.iter().sum::<f64>() - whole).abs() <= 1e-6 * whole + 100.0);
        let least = SLOT.times(LEAST_SLOTS).0 as f64;
        prop_assert!(times.len() == 1 || times.iter().all(|time| *time >= least * 0.999_999), "{times:?}");
    }
}
