//! Placing flows one after the other is what strict priority does; and what the search promises.

use proptest::prelude::*;

use super::judge::Judge;
use super::*;
use crate::generate::Workload;
use crate::graph::Graph;
use crate::instance::{Flow, Link};

fn ring_of(nodes: usize, collectives: usize, participants: usize, seed: u64) -> Instance {
    let graph = Graph::ring(nodes).expect("a ring");
    Workload { participants, ..Workload::new(&graph, collectives, seed) }.generate().expect("generated")
}

/// A sequence of the groups, each as often as it has flows.
fn shuffled(instance: &Instance, random: &mut Random) -> Vec<usize> {
    let mut sequence: Vec<usize> = (0..instance.flows().len()).map(|flow| instance.group_of(flow)).collect();
    for place in (1..sequence.len()).rev() {
        sequence.swap(place, random.below(place + 1));
    }
    sequence
}

fn simulated(instance: &Instance, sequence: &[usize]) -> Outcome {
    let mut placed = vec![0; instance.groups().len()];
    let mut rank = vec![0; instance.flows().len()];
    for (place, &group) in sequence.iter().enumerate() {
        rank[instance.groups()[group].flows[placed[group]]] = place;
        placed[group] += 1;
    }
    simulate(instance, &mut Priority::new(instance, rank).expect("ranks")).expect("played")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_judgement_is_the_simulators(seed: u64, nodes in 3_usize..7, collectives in 1_usize..5) {
        let instance = ring_of(nodes, collectives, 3, seed);
        let mut random = Random::new(seed);
        let mut judge = Judge::new(&instance, 0.0);
        let mut kept = shuffled(&instance, &mut random);
        judge.value(&kept, 0, f64::INFINITY);
        judge.keep();
        for _ in 0..30 {
            let Some((from, to)) = pass(&judge, &mut random, kept.len()) else { continue };
            let mut tried = kept.clone();
            shift(&mut tried, from, to);
            let value = judge.value(&tried, from.min(to), f64::INFINITY);
            let expected: f64 = simulated(&instance, &tried).t.iter().sum();
            prop_assert!((value - expected).abs() <= 1e-9 * expected, "{} and {}", value, expected);
            // A bound cuts it short only where it would not be met.
            prop_assert_eq!(judge.value(&tried, from.min(to), value * (1.0 - 1e-12)), f64::INFINITY);
            if random.unit() < 0.5 {
                judge.value(&tried, from.min(to), f64::INFINITY);
                judge.keep();
                kept = tried;
            }
        }
    }

    #[test]
    fn flows_that_do_not_compete_may_change_places(seed: u64, collectives in 1_usize..5) {
        let instance = ring_of(5, collectives, 3, seed);
        let mut random = Random::new(seed);
        let mut judge = Judge::new(&instance, 0.0);
        let sequence = shuffled(&instance, &mut random);
        let value = judge.value(&sequence, 0, f64::INFINITY);
        judge.keep();
        for place in 1..sequence.len() {
            let (before, after) = (judge.group(place - 1), judge.group(place));
            if before != after && !judge.compete(place - 1, place) {
                let mut other = sequence.clone();
                other.swap(place - 1, place);
                let same = judge.value(&other, place - 1, f64::INFINITY);
                prop_assert!((same - value).abs() <= 1e-12 * value);
            }
        }
    }
}

#[test]
fn the_search_gains_on_perm_and_is_the_same_every_time() {
    for seed in 1..=3 {
        let instance = ring_of(6, 4, 4, seed);
        let options = Options { tries_per_flow: 30, ..Options::default() };
        let found = search(&instance, options, &mut || false).expect("searched");
        let perm = perm::search(&instance, &mut || false).expect("searched");
        assert!(found.outcome.mean < perm.outcome.mean);
        assert!(found.tried > 0);
        assert_eq!(found, search(&instance, options, &mut || false).expect("searched"));
        for (place, &flow) in found.order.iter().enumerate() {
            assert_eq!(found.rank[flow], place);
            for &next in instance.successors(flow) {
                assert!(found.rank[next] > place, "a chain's flows stand in their order");
            }
        }
    }
}

#[test]
fn it_stops_when_it_is_told_to_or_its_work_is_done() {
    let instance = ring_of(6, 4, 4, 1);
    let mut asked = 0;
    let stopped = search(&instance, Options::default(), &mut || {
        asked += 1;
        asked > 5
    });
    assert!(stopped.expect("what there is until then").tried < 200);
    let little = Options { work: 1, ..Options::default() };
    assert_eq!(search(&instance, little, &mut || false).expect("searched").tried, 1);
    let none = Options { tries_per_flow: 0, ..Options::default() };
    assert_eq!(search(&instance, none, &mut || false).expect("searched").tried, 0);
}

#[test]
fn releases_are_kept() {
    let link = Link { from: 0, to: 1, capacity: 2.0 };
    let flow = |collective, release| Flow {
        collective,
        group: 0,
        order: 0,
        from: 0,
        to: 1,
        size: 4.0,
        path: vec![0],
        release,
    };
    let instance = Instance::new("late", 2, vec![link], vec![flow(0, 3.0), flow(1, 0.0)], None).expect("legal");
    let found = search(&instance, Options::default(), &mut || false).expect("searched");
    assert_eq!(found.outcome.ends, [5.0, 2.0]);
    let mut judge = Judge::new(&instance, 0.0);
    assert_eq!(judge.value(&[0, 1], 0, f64::INFINITY), 7.0);
}

#[test]
fn what_is_no_chain_or_too_large_is_refused() {
    let instance = ring_of(4, 1, 3, 1);
    let deps = vec![(0, 5)];
    let (links, flows) = (instance.links().to_vec(), instance.flows().to_vec());
    let other = Instance::new("other", 4, links, flows, Some(deps)).expect("legal");
    let refused = search(&other, Options::default(), &mut || false).expect_err("no chains");
    assert_eq!(refused.code(), "NotAChain");
    let link = Link { from: 0, to: 1, capacity: 1.0 };
    let flow = |group| Flow { collective: 0, group, order: 0, from: 0, to: 1, size: 1.0, path: vec![0], release: 0.0 };
    let many = Instance::new("many", 2, vec![link], (0..=MAX_FLOWS).map(flow).collect(), None).expect("legal");
    assert_eq!(check(&many).expect_err("too many").code(), "TooLarge");
}
