//! Schedules of real plans, steps and chunks in epochs, moved in pieces of any size: every float right, nothing waits
//! for ever.

use proptest::prelude::*;
use sluice_formats::topology::Topology;
use sluice_planners::direct::{Instance, Options, make};
use sluice_planners::{Request, Run, teccl};

use super::*;
use crate::job::trees::tests::{COLLECTIVES, Dice, exchange};

/// A graph of hosts: a ring through all of them, `more` one-way links besides.
fn graph(hosts: usize, more: usize, dice: &mut Dice) -> Topology {
    let mut links: Vec<serde_json::Value> = Vec::new();
    let mut link = |a: usize, b: usize| {
        links.push(serde_json::json!({"from": format!("h{a}"), "to": format!("h{b}"), "capacity": "1"}));
    };
    (0..hosts).for_each(|host| link(host, (host + 1) % hosts));
    for _ in 0..more {
        let (a, b) = (dice.below(hosts), dice.below(hosts));
        if a != b {
            link(a, b);
        }
    }
    let nodes: Vec<_> = (0..hosts).map(|host| serde_json::json!({"id": format!("h{host}"), "kind": "host"})).collect();
    let text = serde_json::json!({"sluice_topology": 1, "nodes": nodes, "links": links}).to_string();
    Topology::read(text.as_bytes(), "t").expect("valid")
}

fn planned(topology: &Topology, collective: Collective, ranks: Option<&[String]>) -> Followed {
    let (request, options) = (Request::of_all(collective), Options::default());
    let made =
        make(&Instance::new(topology, &request, &options, "t").expect("planned for"), &Run::quiet(1)).expect("a plan");
    Followed::read(made.plan.to_text().as_bytes(), "p", ranks, None).expect("followed")
}

fn run(plan: &Followed, bytes: u64, room: usize, dice: &mut Dice) {
    let mut members: Vec<Steps> = (0..plan.participants.len()).map(|rank| Steps::new(plan, rank, bytes)).collect();
    for iteration in 0..2 {
        members.iter_mut().for_each(|m| m.begin(iteration));
        exchange(&mut members, room, dice);
        for (rank, m) in members.iter().enumerate() {
            assert!(m.complete(), "rank {rank} of {} misses something", plan.collective.word());
            assert_eq!(m.wrong(iteration), None, "rank {rank} of {}", plan.collective.word());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_step_schedule_gets_through_with_every_float_right(
        hosts in 2_usize..8, more in 0_usize..12, which in 0_usize..3,
        bytes in prop_oneof![1_u64..200, 30_000_u64..400_000], room in 4_usize..40_000, seed: u64,
    ) {
        let mut dice = Dice(seed);
        let topology = graph(hosts, more, &mut dice);
        run(&planned(&topology, COLLECTIVES[which], None), bytes, room, &mut dice);
    }
}

#[test]
fn a_rank_may_be_named_by_another_order() {
    let mut dice = Dice(5);
    let topology = graph(4, 5, &mut dice);
    let ranks = ["h2", "h0", "h3", "h1"].map(str::to_owned);
    for collective in COLLECTIVES {
        run(&planned(&topology, collective, Some(&ranks)), 100_000, 5_000, &mut dice);
    }
}

#[test]
fn a_step_waits_for_all_that_earlier_steps_bring() {
    let mut dice = Dice(1);
    let plan = planned(&graph(4, 0, &mut dice), Collective::AllGather, None);
    let mut member = Steps::new(&plan, 1, 1_600);
    member.begin(0);
    let own: u64 = 400;
    assert_eq!(member.next(0, 0, usize::MAX)[0].len() as u64, own);
    // The next shard is that of rank 0, which has not come.
    assert!(member.next(0, own, usize::MAX)[0].is_empty());
    member.accept(0, &[1.0; 99]).expect("as the plan says");
    assert!(member.next(0, own, usize::MAX)[0].is_empty());
    member.accept(0, &[1.0]).expect("as the plan says");
    assert_eq!(member.next(0, own, usize::MAX)[0].len() as u64, own);
    let surplus = vec![1.0; 300];
    assert!(member.accept(0, &surplus).is_err());
}

/// Hosts, the first `switches` of them on a switch besides, links of one to three chunks in an epoch or of a part of one.
fn fabric(hosts: usize, switches: usize, more: usize, dice: &mut Dice) -> Topology {
    let mut links = std::collections::BTreeMap::new();
    let name = |i: usize| if i < hosts { format!("h{i}") } else { format!("s{}", i - hosts) };
    let mut link = |a: usize, b: usize, dice: &mut Dice| {
        let rate = [20, 50, 100, 200, 300][dice.below(5)];
        links.entry((a.min(b), a.max(b))).or_insert(rate);
    };
    for node in 1..hosts + switches {
        let to = dice.below(node.min(hosts));
        link(node, to, dice);
    }
    for switch in hosts..hosts + switches {
        (0..hosts)
            .filter(|_| dice.below(3) > 0)
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|host| link(switch, host, dice));
    }
    for _ in 0..more {
        let (a, b) = (dice.below(hosts), dice.below(hosts + switches));
        if a != b {
            link(a, b, dice);
        }
    }
    let latency = ["0us", "3us", "25us"][dice.below(3)];
    let links: Vec<_> = links
        .into_iter()
        .map(|((a, b), rate)| serde_json::json!({"from": name(a), "to": name(b), "capacity": format!("{rate}MB/s"), "latency": latency, "duplex": true}))
        .collect();
    let node = |i: usize| serde_json::json!({"id": name(i), "kind": if i < hosts { "host" } else { "switch" }});
    let nodes: Vec<_> = (0..hosts + switches).map(node).collect();
    let text = serde_json::json!({"sluice_topology": 1, "nodes": nodes, "links": links}).to_string();
    Topology::read(text.as_bytes(), "t").expect("valid")
}

/// Chunks of 1 kB in epochs of 10 µs.
fn in_epochs(topology: &Topology, collective: Collective, chunks: u64, ranks: Option<&[String]>) -> Followed {
    let epoch = teccl::lane::EpochLength::Fixed("1/100000".parse().expect("a number"));
    let options = teccl::Options { chunks, epoch, ..teccl::Options::of(teccl::Volume::Chunk(1_000.into())) };
    let request = Request::of_all(collective);
    let instance = teccl::Instance::new(topology, &request, &options, "t").expect("planned for");
    let made = teccl::make(&instance, None, &Run::quiet(1)).expect("a plan");
    Followed::read(made.plan.to_text().as_bytes(), "p", ranks, None).unwrap_or_else(|errors| panic!("{errors}"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_schedule_of_chunks_gets_through_with_every_float_right(
        hosts in 2_usize..8, switches in 0_usize..3, more in 0_usize..8, which in 0_usize..3, chunks in 1_u64..4,
        bytes in prop_oneof![1_u64..200, 30_000_u64..400_000], room in 4_usize..40_000, seed: u64,
    ) {
        let mut dice = Dice(seed);
        let topology = fabric(hosts, switches, more, &mut dice);
        run(&in_epochs(&topology, COLLECTIVES[which], chunks, None), bytes, room, &mut dice);
    }
}

#[test]
fn ranks_of_a_schedule_of_chunks_may_be_named_by_another_order() {
    let mut dice = Dice(9);
    let topology = fabric(4, 1, 3, &mut dice);
    let ranks = ["h2", "h0", "h3", "h1"].map(str::to_owned);
    for collective in COLLECTIVES {
        run(&in_epochs(&topology, collective, 2, Some(&ranks)), 100_000, 5_000, &mut dice);
    }
}

/// Hosts h0 to h3 with these duplex links of a chunk an epoch.
fn hosts(links: &[(&str, &str)], switch: bool) -> Topology {
    let link = |(a, b): &(&str, &str)| serde_json::json!({"from": a, "to": b, "capacity": "100MB/s", "duplex": true});
    let mut nodes: Vec<_> = (0..4).map(|host| serde_json::json!({"id": format!("h{host}"), "kind": "host"})).collect();
    nodes.extend(switch.then(|| serde_json::json!({"id": "s", "kind": "switch"})));
    let links: Vec<_> = links.iter().map(link).collect();
    let text = serde_json::json!({"sluice_topology": 1, "nodes": nodes, "links": links}).to_string();
    Topology::read(text.as_bytes(), "t").expect("valid")
}

#[test]
fn a_chunk_waits_for_itself_and_not_for_what_else_comes() {
    // A row: h1 passes h0's chunk on to h2, and what h2 and h3 have to h0.
    let plan = in_epochs(&hosts(&[("h0", "h1"), ("h1", "h2"), ("h2", "h3")], false), Collective::AllGather, 1, None);
    let mut member = Steps::new(&plan, 1, 1_600);
    member.begin(0);
    let to = |member: &Steps, peer: usize| member.outs().iter().position(|out| out.peer == peer).expect("a stream");
    let from =
        |member: &Steps, peer: usize| member.ins().iter().position(|input| input.peer == peer).expect("a stream");
    let (up, down) = (to(&member, 2), to(&member, 0));
    let sum = |[head, body]: [&[u8]; 2]| head.len() + body.len();
    let first = plan.steps.sent.iter().find(|sent| (sent.from, sent.to) == (1, 2)).expect("there").first;
    let begins = if first == 1 { 400 } else { 0 };
    assert_eq!(sum(member.next(up, 0, usize::MAX)), begins as usize, "its own chunk needs nobody");
    assert_eq!(sum(member.next(down, 0, usize::MAX)), 400);
    // All of h2's chunk but one float, then that.
    let input = from(&member, 2);
    member.accept(input, &[1.0; 99]).expect("as the plan says");
    assert_eq!(sum(member.next(down, 400, usize::MAX)), 0);
    member.accept(input, &[1.0]).expect("as the plan says");
    // Nothing of h0's has come, which does not matter here.
    assert_eq!(sum(member.next(down, 400, usize::MAX)), 400);
    assert_eq!(sum(member.next(up, begins, usize::MAX)), 0);
    let input = from(&member, 0);
    member.accept(input, &[1.0; 100]).expect("as the plan says");
    assert_eq!(sum(member.next(up, begins, usize::MAX)), 400);
    assert!(member.accept(input, &[1.0]).is_err(), "h0 has nothing more to send");
}

#[test]
fn what_leaves_by_one_link_takes_turns() {
    let plan =
        in_epochs(&hosts(&[("h0", "s"), ("h1", "s"), ("h2", "s"), ("h3", "s")], true), Collective::AllGather, 1, None);
    let order: Vec<usize> = plan.steps.sent.iter().filter(|sent| sent.from == 0).map(|sent| sent.to as usize).collect();
    assert_eq!(order.len(), 3, "its own chunk to everybody, since the switch does not copy");
    let mut member = Steps::new(&plan, 0, 1_600);
    member.begin(0);
    let out = |member: &Steps, turn: usize| {
        member.outs().iter().position(|out| out.peer == order[turn]).expect("a stream to everybody")
    };
    let outs: Vec<usize> = (0..3).map(|turn| out(&member, turn)).collect();
    for turn in 0..3 {
        for later in &outs[turn + 1..] {
            assert!(member.next(*later, 0, usize::MAX)[0].is_empty(), "{later} before {turn}");
        }
        assert_eq!(member.next(outs[turn], 0, usize::MAX)[0].len(), 400);
        // Half of it is not all of it.
        assert_eq!(member.next(outs[turn], 200, usize::MAX)[0].len(), 200);
        assert!(turn == 2 || member.next(outs[turn + 1], 0, usize::MAX)[0].is_empty());
        assert!(member.next(outs[turn], 400, usize::MAX)[0].is_empty());
    }
}
