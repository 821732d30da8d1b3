use super::group::{Element, Group};
use super::receiver::{PARTS, Receiver};
use super::*;
use crate::direct::{Edge, Graph, bfb};
use proptest::prelude::*;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Distances to vertex `u` by going back along arcs.
fn hops_to(arcs: &[(u32, u32)], n: u32, u: u32) -> Vec<u32> {
    let mut hops = vec![u32::MAX; n as usize];
    hops[u as usize] = 0;
    for distance in 0..n {
        for &(tail, head) in arcs {
            if hops[head as usize] == distance && hops[tail as usize] == u32::MAX {
                hops[tail as usize] = distance + 1;
            }
        }
    }
    hops
}

/// The definition, vertex by vertex and set by set: steps and Σλ in parts; `None` where something is not reached.
fn naive(arcs: &[(u32, u32)], n: u32) -> Option<(u32, u64)> {
    let mut loads: Vec<u64> = Vec::new();
    let all: Vec<Vec<u32>> = (0..n).map(|u| hops_to(arcs, n, u)).collect();
    for u in 0..n {
        let into: Vec<u32> = arcs.iter().filter(|arc| arc.1 == u).map(|arc| arc.0).collect();
        let hops = &all[u as usize];
        let deepest = *hops.iter().max()?;
        if deepest == u32::MAX {
            return None;
        }
        loads.resize(loads.len().max(deepest as usize), 0);
        for t in 1..=deepest {
            for links in 1u32..1 << into.len() {
                let may = |v: u32| {
                    let uses = |place: usize| all[into[place] as usize][v as usize] == t - 1;
                    (0..into.len()).filter(|&place| uses(place)).all(|place| links >> place & 1 == 1)
                };
                let jobs = (0..n).filter(|&v| hops[v as usize] == t && may(v)).count() as u64;
                let load = &mut loads[t as usize - 1];
                *load = (*load).max(jobs * PARTS / u64::from(links.count_ones()));
            }
        }
    }
    Some((loads.len() as u32, loads.iter().sum()))
}

fn arcs(group: &Group, generators: &[Element]) -> Vec<(u32, u32)> {
    let id = |x: Element| x.i * group.b + x.j;
    let all = (0..group.a).flat_map(|i| (0..group.b).map(move |j| Element { i, j }));
    all.flat_map(|x| generators.iter().map(move |&s| (id(x), id(group.times(x, s))))).collect()
}

fn score(group: &Group, generators: &[(u32, u32)]) -> Option<(u32, Rational)> {
    let generators: Vec<Element> = generators.iter().map(|&(i, j)| Element { i, j }).collect();
    let d = generators.len() as u32;
    let score = Receiver::new(group.order(), d).score(group, &generators, 0, u32::MAX)?;
    let parts = i128::from(group.order()) * i128::from(PARTS);
    Some((score.t_l, Rational::new(i128::from(d) * i128::from(score.loads), parts)?))
}

fn tau(p: i128, q: i128) -> Rational {
    Rational::new(p, q).unwrap()
}

#[test]
fn the_graphs_of_the_specification_cost_what_it_says() {
    let dc = |n: u32, offsets: &[u32]| {
        score(&Group::cyclic(n), &offsets.iter().map(|&o| (o, 0)).collect::<Vec<_>>()).unwrap()
    };
    assert_eq!(dc(8, &[1, 3]), (3, tau(7, 8)));
    assert_eq!(dc(32, &[1, 4, 9, 15]), (4, tau(31, 32)));
    assert_eq!(dc(64, &[1, 29, 49, 60]), (5, tau(63, 64)));
    assert_eq!(dc(128, &[1, 57, 111, 118]), (7, tau(127, 128)));
    assert_eq!(dc(256, &[1, 72, 99, 104]), (9, tau(255, 256)));
    assert_eq!(dc(512, &[8, 299, 325, 337]), (12, tau(511, 512)));
    assert_eq!(dc(1024, &[1, 340, 830, 1007]), (14, tau(1023, 1024)));
    assert_eq!(dc(15, &[1, 14, 4, 11, 5, 10]), (2, Rational::ONE));
    let mc = |(a, b, r, c): (u32, u32, u32, u32), generators: &[(u32, u32)]| {
        score(&Group::metacyclic(a, b, r, c).unwrap(), generators).unwrap()
    };
    assert_eq!(mc((8, 2, 3, 4), &[(5, 0), (0, 1)]), (4, tau(15, 16)));
    assert_eq!(mc((16, 4, 13, 0), &[(13, 1), (5, 0), (11, 2), (14, 3)]), (4, tau(63, 64)));
    assert_eq!(mc((8, 2, 7, 0), &[(6, 0), (1, 0), (7, 1), (2, 1)]), (2, Rational::ONE));
}

proptest! {
    /// One receiver and its sets by sums over subsets, against every receiver and every set.
    #[test]
    fn one_receiver_is_like_all(n in 4u32..=16, pick in any::<usize>(), drawn in prop::collection::vec((any::<u32>(), any::<u32>()), 2..=4)) {
        let groups: Vec<Group> = std::iter::once(Group::cyclic(n)).chain(Group::all(n)).collect();
        let group = &groups[pick % groups.len()];
        let mut generators: Vec<Element> =
            drawn.iter().map(|&(i, j)| Element { i: i % group.a, j: j % group.b }).filter(|&s| s != Element::ONE).collect();
        generators.sort_unstable();
        generators.dedup();
        prop_assume!(!generators.is_empty());
        let fast = Receiver::new(n, generators.len() as u32).score(group, &generators, 0, u32::MAX);
        let slow = naive(&arcs(group, &generators), n);
        prop_assert_eq!(fast.map(|score| (score.t_l, score.loads)), slow, "{}", group.expression(&generators));
    }

    /// The same against the planner that knows of no group.
    #[test]
    fn the_planner_agrees(n in 4u32..=60, pick in any::<usize>(), drawn in prop::collection::vec((any::<u32>(), any::<u32>()), 2..=5)) {
        let groups: Vec<Group> = std::iter::once(Group::cyclic(n)).chain(Group::all(n)).collect();
        let group = &groups[pick % groups.len()];
        let mut generators: Vec<Element> =
            drawn.iter().map(|&(i, j)| Element { i: i % group.a, j: j % group.b }).filter(|&s| s != Element::ONE).collect();
        generators.sort_unstable();
        generators.dedup();
        prop_assume!(!generators.is_empty());
        let d = generators.len() as u32;
        let fast = Receiver::new(n, d).score(group, &generators, 0, u32::MAX);
        let edges = arcs(group, &generators).into_iter().map(|(tail, head)| Edge { tail, head }).collect();
        let cost = bfb::cost(&Graph::new(n, edges).unwrap(), &Run::quiet(1)).ok();
        let sum = |loads: u64| Rational::new(i128::from(loads), i128::from(PARTS)).unwrap();
        let found = fast.map(|score| (score.t_l, sum(score.loads)));
        prop_assert_eq!(found, cost.map(|cost| (cost.t_l(), cost.load_sum)), "{}", group.expression(&generators));
    }
}

fn request(n: u32, d: u32) -> Request {
    Request { n, d, bidirectional: false, seed: 1, rounds: 1 }
}

fn searched(request: &Request) -> Vec<Found> {
    search(request, &Run::quiet(2)).unwrap()
}

fn frontier(found: &[Found]) -> Vec<(u32, Rational)> {
    found.iter().map(|found| (found.t_l, found.t_b.clone())).collect()
}

#[test]
fn finds_of_longer_searches_are_worth_what_was_found() {
    // `cargo run --release -p sluice-planners --example search -- N 4 SECONDS`, seed 1.
    let cost = |(a, b, r, c): (u32, u32, u32, u32), generators: [(u32, u32); 4]| {
        let group = Group::metacyclic(a, b, r, c).unwrap();
        let generators = generators.map(|(i, j)| Element { i, j });
        let edges = arcs(&group, &generators).into_iter().map(|(tail, head)| Edge { tail, head }).collect();
        let cost = bfb::cost(&Graph::new(a * b, edges).unwrap(), &Run::quiet(2)).unwrap();
        (cost.t_l(), cost.t_b.unwrap())
    };
    let best = |n: i128| tau(n - 1, n);
    assert_eq!(cost((32, 4, 7, 0), [(1, 0), (13, 1), (18, 1), (19, 2)]), (4, best(128)));
    assert_eq!(cost((32, 8, 7, 16), [(2, 6), (8, 7), (15, 3), (25, 6)]), (5, best(256)));
    assert_eq!(cost((32, 16, 23, 16), [(4, 9), (11, 11), (29, 8), (30, 14)]), (6, best(512)));
    assert_eq!(cost((64, 16, 27, 32), [(2, 1), (11, 15), (22, 8), (53, 5)]), (6, best(1024)));
}

#[test]
fn small_entries_of_the_specification_are_found() {
    // Moore- and bandwidth-optimal where its tables are; (3, 7/8) takes the place of Diamond.
    assert_eq!(frontier(&searched(&request(8, 2))), [(3, tau(7, 8))]);
    assert_eq!(frontier(&searched(&request(16, 2))), [(4, tau(15, 16))]);
    assert_eq!(frontier(&searched(&request(16, 4))), [(2, tau(1, 1)), (3, tau(15, 16))]);
}

#[test]
fn a_search_depends_on_seed_and_rounds_alone() {
    let two = Request { rounds: 2, ..request(27, 3) };
    let one = search(&two, &Run::quiet(1)).unwrap();
    assert_eq!(one, search(&two, &Run::quiet(3)).unwrap());
    assert!(!one.is_empty());
}

#[test]
fn bidirectional_graphs_are_closed_under_inverses() {
    let found = searched(&Request { bidirectional: true, ..request(20, 3) });
    assert!(!found.is_empty() && found.iter().all(|found| found.bidirectional && found.t_b == found.t_b_reduce));
}

#[test]
fn no_time_no_result_and_limits_are_said() {
    assert_eq!(searched(&Request { rounds: 0, ..request(16, 4) }), []);
    let late = Run { deadline: Some(Instant::now()), ..Run::quiet(1) };
    assert_eq!(search(&Request { rounds: u64::MAX, ..request(16, 4) }, &late), Ok(Vec::new()));
    let called_off = AtomicBool::new(true);
    let run = Run { cancel: &called_off, ..Run::quiet(1) };
    assert_eq!(search(&request(16, 4), &run), Err(Refusal::Stopped(crate::Stopped::Cancelled)));
    for (n, d) in [(1, 2), (1 << 20, 4), (16, 1), (16, 11), (3, 3)] {
        let refused = search(&request(n, d), &Run::quiet(1)).unwrap_err();
        assert_eq!(refused.code(), sluice_formats::problem::E_RANGE, "{refused}");
    }
}

#[test]
fn smaller_graphs_bear_on_larger_ones() {
    assert_eq!(bases(1024, 4), [(1024, 4), (512, 2), (256, 4), (64, 4), (32, 2), (16, 4)]);
    assert_eq!(bases(27, 3), [(27, 3), (9, 3)]);
    assert_eq!(bases(5, 1), []);
}
