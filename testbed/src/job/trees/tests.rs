//! Whole jobs in memory: forests planned on random fabrics, sent through queues that hold little, in any order.

use std::collections::VecDeque;

use proptest::prelude::*;
use sluice_formats::topology::Topology;
use sluice_planners::forestcoll::{Instance, Options, Way, make};
use sluice_planners::{Request, Run};

use super::*;
use crate::job::exchange::Stream;

pub const COLLECTIVES: [Collective; 3] = [Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter];

/// Numbers that look random, from a seed.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n.max(1)
    }
}

/// Hosts and switches in one piece, links of 1 to 4; hosts may hold unequal parts of the data.
fn fabric(hosts: usize, switches: usize, more: usize, shares: bool, dice: &mut Dice) -> Topology {
    let name = |i: usize| if i < hosts { format!("h{i}") } else { format!("s{}", i - hosts) };
    let nodes: Vec<_> = (0..hosts + switches)
        .map(|i| match i < hosts {
            true => serde_json::json!({"id": name(i), "kind": "host", "weight": if shares { dice.below(3) + usize::from(i == 0) } else { 1 }}),
            false => serde_json::json!({"id": name(i), "kind": "switch"}),
        })
        .collect();
    let mut links = Vec::new();
    let mut link = |a: usize, b: usize, dice: &mut Dice| {
        let capacity = (1 + dice.below(4)).to_string();
        links.push(serde_json::json!({"from": name(a), "to": name(b), "capacity": capacity, "duplex": true}));
    };
    for i in 1..hosts + switches {
        let to = dice.below(i);
        link(i, to, dice);
    }
    for _ in 0..more {
        let (a, b) = (dice.below(hosts + switches), dice.below(hosts + switches));
        if a != b {
            link(a, b, dice);
        }
    }
    let text = serde_json::json!({"sluice_topology": 1, "nodes": nodes, "links": links}).to_string();
    Topology::read(text.as_bytes(), "t").expect("valid")
}

/// The plan as every rank reads it from the file.
fn planned(topology: &Topology, collective: Collective, fixed_k: Option<i64>) -> Followed {
    let request = Request::of_all(collective);
    let problem = Instance::new(topology, &request, "t").expect("planned for");
    let options = Options { fixed_k, ..Options::default() };
    let made = make(&problem, &options, Way::Auto, &Run::quiet(1)).expect("a plan");
    Followed::read(made.plan.to_text().as_bytes(), "p", None, None).expect("followed")
}

fn job(plan: &Followed, bytes: u64) -> Vec<Trees> {
    (0..plan.participants.len() + plan.relays.len()).map(|rank| Trees::new(plan, rank, bytes)).collect()
}

/// Hosts around a memory that copies and adds up; every tree branches there.
fn around_a_memory(hosts: usize, collective: Collective) -> Followed {
    let names: Vec<String> = (0..hosts).map(|host| format!("h{host}")).collect();
    let mut nodes: Vec<_> = names.iter().map(|id| serde_json::json!({"id": id, "kind": "host"})).collect();
    nodes.push(serde_json::json!({"id": "m", "kind": "memory", "can": {"reduce": true}}));
    let link = |id| serde_json::json!({"from": id, "to": "m", "capacity": "1", "duplex": true});
    let links: Vec<_> = names.iter().map(link).collect();
    let topology = serde_json::json!({"sluice_topology": 1, "nodes": nodes, "links": links});
    let digest = Topology::read(topology.to_string().as_bytes(), "t").expect("valid").digest();
    let forest = |direction: &str| {
        let edge = |parent: &str, child: &str| {
            let (src, dst) = if direction == "out" { (parent, child) } else { (child, parent) };
            serde_json::json!({"src": src, "dst": dst, "path": [src, dst]})
        };
        let tree = |root: &String| {
            let others = names.iter().filter(|id| *id != root).map(|id| edge("m", id));
            let edges: Vec<_> = std::iter::once(edge(root, "m")).chain(others).collect();
            serde_json::json!({"root": root, "weight": 1, "edges": edges})
        };
        let trees: Vec<_> = names.iter().map(tree).collect();
        serde_json::json!({"direction": direction, "k": 1, "trees": trees})
    };
    let forests = match collective {
        Collective::AllGather => vec![forest("out")],
        Collective::ReduceScatter => vec![forest("in")],
        _ => vec![forest("in"), forest("out")],
    };
    let plan = serde_json::json!({"sluice_plan": 1, "collective": collective.word(), "claim": {},
        "topology": {"sha256": digest, "inline": topology}, "content": {"kind": "trees", "forests": forests}});
    Followed::read(plan.to_string().as_bytes(), "p", None, None).expect("followed")
}

/// Moves bytes in pieces of any size, in any order, through connections that hold `room` bytes, until all is done.
/// Something must move in every turn over all streams: else the job would wait for ever.
pub fn exchange<E: Exchange>(members: &mut [E], room: usize, dice: &mut Dice) {
    let mut wires: Vec<Vec<VecDeque<u8>>> = members.iter().map(|m| vec![VecDeque::new(); m.outs().len()]).collect();
    let mut sent: Vec<Vec<u64>> = members.iter().map(|m| vec![0; m.outs().len()]).collect();
    let streams: Vec<(usize, usize)> =
        wires.iter().enumerate().flat_map(|(m, outs)| (0..outs.len()).map(move |out| (m, out))).collect();
    loop {
        let mut moved = false;
        let first = dice.below(streams.len());
        for i in 0..streams.len() {
            let (m, out) = streams[(first + i) % streams.len()];
            let wire = &mut wires[m][out];
            let free = (room - wire.len()).min(1 + dice.below(2 * room));
            let mut taken = 0;
            while taken < free {
                let [head, body] = members[m].next(out, sent[m][out] + taken as u64, free - taken);
                let piece: Vec<u8> = head.iter().chain(body).copied().take(free - taken).collect();
                if piece.is_empty() {
                    break;
                }
                taken += piece.len();
                wire.extend(piece);
            }
            sent[m][out] += taken as u64;
            let whole = wire.len() / 4 * 4;
            let take = whole.min(4 * (1 + dice.below(room / 4)));
            let floats: Vec<f32> = bytemuck::pod_collect_to_vec(&wire.drain(..take).collect::<Vec<u8>>());
            let Stream { peer: to, kind, lane, .. } = members[m].outs()[out];
            let same = |s: &Stream| (s.peer, s.kind, s.lane) == (m, kind, lane);
            let input = members[to].ins().iter().position(same).expect("both ends know the stream");
            members[to].accept(input, &floats).expect("as the plan says");
            moved |= taken > 0 || take > 0;
        }
        if !moved {
            break;
        }
    }
    for (m, member) in members.iter().enumerate() {
        for (out, stream) in member.outs().iter().enumerate() {
            assert_eq!(sent[m][out], stream.bytes, "rank {m} to {}", stream.peer);
        }
    }
}

/// Every float of every rank is right in every iteration, and every byte that was announced went.
fn run(plan: &Followed, bytes: u64, room: usize, dice: &mut Dice) {
    let mut members = job(plan, bytes);
    for iteration in 0..2 {
        members.iter_mut().for_each(|m| m.begin(iteration));
        exchange(&mut members, room, dice);
        for (rank, m) in members.iter().enumerate() {
            assert!(m.complete(), "rank {rank} of {} misses something", plan.collective.word());
            assert_eq!(m.wrong(iteration), None, "rank {rank} of {}", plan.collective.word());
        }
    }
    // What a rank checks, it would see: one lost float shows.
    if let Some(m) = members.iter_mut().find(|m| m.collective == Collective::AllReduce && !m.buffer.is_empty()) {
        m.buffer[0] += 1.0;
        assert!(m.wrong(1).is_some());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_forest_gets_through_with_every_float_right(
        hosts in 2_usize..7, switches in 0_usize..4, more in 0_usize..8, shares: bool, which in 0_usize..3,
        bytes in prop_oneof![1_u64..200, 30_000_u64..400_000], room in 4_usize..40_000, seed: u64,
    ) {
        let mut dice = Dice(seed);
        let topology = fabric(hosts, switches, more, shares, &mut dice);
        let plan = planned(&topology, COLLECTIVES[which], None);
        run(&plan, bytes, room, &mut dice);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_relay_passes_everything_on_with_every_float_right(
        hosts in 2_usize..6, which in 0_usize..3, bytes in prop_oneof![1_u64..200, 30_000_u64..200_000],
        room in 4_usize..40_000, seed: u64,
    ) {
        let plan = around_a_memory(hosts, COLLECTIVES[which]);
        prop_assert_eq!(&plan.relays, &["m"]);
        let relay = &job(&plan, bytes)[hosts];
        // Of a few bytes not every host has a share.
        let all = bytes < 30_000 || relay.ins().len() == hosts && relay.outs().len() == hosts;
        prop_assert!(relay.is_relay() && all);
        run(&plan, bytes, room, &mut Dice(seed));
    }
}

#[test]
fn a_rank_may_be_named_by_another_order() {
    let mut dice = Dice(7);
    let topology = fabric(4, 2, 3, false, &mut dice);
    let request = Request::of_all(Collective::AllReduce);
    let problem = Instance::new(&topology, &request, "t").expect("planned for");
    let made = make(&problem, &Options::default(), Way::Auto, &Run::quiet(1)).expect("a plan");
    let ranks = ["h2", "h0", "h3", "h1"].map(str::to_owned);
    let plan = Followed::read(made.plan.to_text().as_bytes(), "p", Some(&ranks), None).expect("followed");
    run(&plan, 100_000, 5_000, &mut dice);
}

#[test]
fn a_chunk_of_no_edge_ends_the_job_with_the_peer() {
    let mut dice = Dice(3);
    let topology = fabric(3, 1, 0, false, &mut dice);
    let plan = planned(&topology, Collective::AllGather, Some(1));
    let mut members = job(&plan, 4_000);
    let rank = members.iter().position(|m| !m.ins().is_empty()).expect("somebody receives");
    members[rank].begin(0);
    for word in [999_u32, u32::MAX, 1 << 31] {
        let error = members[rank].accept(0, &[f32::from_bits(word)]).expect_err("refused");
        assert!(error.to_string().contains("nothing more to come"), "{error}");
    }
    // The same edge twice over is refused as well.
    let edge = members[rank].receiving[0].edges[0].elements.len();
    let chunk: Vec<f32> = std::iter::once(f32::from_bits(0)).chain(std::iter::repeat_n(1.0, edge)).collect();
    members[rank].accept(0, &chunk).expect("as the plan says");
    assert!(members[rank].accept(0, &chunk).is_err());
}

#[test]
fn the_edge_that_is_least_far_goes_first() {
    let mut dice = Dice(11);
    let topology = fabric(4, 0, 6, true, &mut dice);
    let plan = planned(&topology, Collective::AllGather, None);
    let mut members = job(&plan, 4_000_000);
    let (member, out) = members
        .iter_mut()
        .find_map(|m| {
            let out = m.sending.iter().position(|s| {
                s.edges.iter().filter(|e| m.places[e.place].inputs.is_empty() && e.elements.len() > 4 * CHUNK).count()
                    > 1
            })?;
            Some((m, out))
        })
        .expect("two own trees over one connection");
    member.begin(0);
    let mut at = 0;
    // Every tree of its own has had a chunk before any has its third.
    for _ in 0..member.sending[out].edges.len() * 2 {
        let [head, body] = member.next(out, at, usize::MAX);
        at += (head.len() + body.len()) as u64;
    }
    let own: Vec<usize> = member.sending[out]
        .edges
        .iter()
        .filter(|e| member.places[e.place].inputs.is_empty() && e.elements.len() > 4 * CHUNK)
        .map(|e| e.done)
        .collect();
    assert!(own.iter().all(|done| *done > 0), "{own:?}");
}
