//! Step schedules of real plans, moved in pieces of any size: every float right, nothing waits for ever.

use proptest::prelude::*;
use sluice_formats::topology::Topology;
use sluice_planners::direct::{Instance, Options, make};
use sluice_planners::{Request, Run};

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
