//! Times of unequal links: the vector, the equal case, the naive way, and what more or less of a link may do.

use proptest::prelude::*;

use super::*;
use crate::direct::bfb::{Options, all_gather, all_reduce, cost, reference, samples::*};
use crate::direct::replay::replay;

fn time(latency: u64, shard: Rational) -> LinkTime {
    LinkTime { latency: Rational::from(latency), shard }
}

fn whole(number: u64) -> Rational {
    Rational::from(number)
}

/// The times of the best all-gather's steps, in whole units.
fn planned(graph: &Graph, times: &[LinkTime], units: u32) -> Vec<Rational> {
    let options = Options { units: Some(units), times: Some(times) };
    all_gather(graph, &options, &Run::quiet(2)).unwrap().times.unwrap()
}

fn total(graph: &Graph, times: &[LinkTime]) -> Rational {
    planned(graph, times, 3).iter().sum()
}

#[test]
fn one_slow_start_is_gone_round() {
    let graph = graph(4, [(0, 2), (2, 0), (0, 3), (3, 0), (1, 2), (2, 1), (1, 3), (3, 1)]);
    // Bandwidth 2, shards of 8: 4 for a shard.
    let times: Vec<LinkTime> = (0..8).map(|edge| time(if edge == 7 { 40 } else { 1 }, whole(4))).collect();
    assert_eq!(planned(&graph, &times, 2), [whole(44), whole(5)]);
}

#[test]
fn times_that_cannot_be_are_refused() {
    let graph = directed(3, &[1]);
    let good = vec![time(0, whole(1)); 3];
    let refused = |times: &[LinkTime]| {
        let options = Options { units: None, times: Some(times) };
        all_gather(&graph, &options, &Run::quiet(1)).unwrap_err()
    };
    for (edge, bad) in [(0, time(0, Rational::ZERO)), (1, LinkTime { latency: -&Rational::ONE, shard: whole(1) })] {
        let mut times = good.clone();
        times[edge as usize] = bad;
        let refusal = refused(&times);
        assert!(matches!(&refusal, Refusal::InvalidLinkParameter { edge: at, .. } if *at == edge), "{refusal}");
    }
    assert!(matches!(refused(&good[1..]), Refusal::InvalidLinkParameter { edge: 2, .. }));
}

/// Random graphs with random times.
fn timed() -> impl Strategy<Value = (Graph, Vec<LinkTime>)> {
    multigraphs().prop_flat_map(|(n, pairs)| {
        let one = (0..4_u64, 1..5_i128, 1..4_i128);
        let times = proptest::collection::vec(one, pairs.len());
        times.prop_map(move |times| {
            let times = times.into_iter().map(|(latency, p, q)| time(latency, Rational::new(p, q).unwrap()));
            (graph(n, pairs.clone()), times.collect())
        })
    })
}

/// Per step, over all receivers and all sets of links: the time within which the set carries the jobs confined to it, in
/// `units` to a shard, found by trying every time at which some link has carried another unit; and the same for parts as
/// small as one likes.
fn naive(graph: &Graph, times: &[LinkTime], units: u32) -> (Vec<Rational>, Vec<Rational>) {
    let far = reference::distances(graph);
    let steps = far.iter().flatten().flatten().max().copied().unwrap_or(0);
    let (mut slowest, mut divisible) = (vec![Rational::ZERO; steps as usize], vec![Rational::ZERO; steps as usize]);
    for (step, (slowest, divisible)) in (1..).zip(slowest.iter_mut().zip(&mut divisible)) {
        for receiver in 0..graph.n() {
            let (links, jobs) = reference::jobs(graph, &far, receiver, step);
            for set in 1..1_u32 << links.len() {
                let inside = |id: &u32| links.iter().position(|link| link == id).is_some_and(|at| set >> at & 1 == 1);
                let needed = jobs.iter().filter(|job| job.iter().all(inside)).count() as u64 * u64::from(units);
                let of: Vec<&LinkTime> = links.iter().filter(|id| inside(id)).map(|id| &times[*id as usize]).collect();
                if needed == 0 {
                    continue;
                }
                let unit = Rational::from(u64::from(units)).recip().unwrap();
                let moments = of.iter().flat_map(|link| {
                    (1..=needed).map(|count| &link.latency + &(&(&whole(count) * &unit) * &link.shard))
                });
                let carried = |within: &Rational| of.iter().map(|link| link.units(within, units)).sum::<u64>();
                let first = moments.filter(|within| carried(within) >= needed).min().unwrap();
                *slowest = first.max(slowest.clone());
                *divisible = root(&(&whole(needed) * &unit), of.iter()).max(divisible.clone());
            }
        }
    }
    (slowest, divisible)
}

proptest! {
    /// P10: equal links give latency and load of every step.
    #[test]
    fn equal_links_are_the_equal_case((n, pairs) in multigraphs(), latency in 0..5_u64, p in 1..9_i128, q in 1..9_i128) {
        let shard = Rational::new(p, q).unwrap();
        let times = vec![time(latency, shard.clone()); pairs.len()];
        let graph = graph(n, pairs);
        let equal = all_gather(&graph, &Options::default(), &Run::quiet(1)).unwrap();
        prop_assert_eq!(&equal.cost, &cost(&graph, &Run::quiet(1)).unwrap());
        let steps: Vec<Rational> = equal.cost.loads.iter().map(|load| &whole(latency) + &(load * &shard)).collect();
        prop_assert_eq!(planned(&graph, &times, equal.schedule.units), steps);
    }

    /// In whole units as by trying everything; never faster than in parts as small as one likes; and the schedule keeps
    /// within the times.
    #[test]
    fn whole_units_agree_with_trying((graph, times) in timed(), units in 1..5_u32) {
        let options = Options { units: Some(units), times: Some(&times) };
        let planned = all_gather(&graph, &options, &Run::quiet(2)).unwrap();
        let (slowest, divisible) = naive(&graph, &times, units);
        prop_assert_eq!(planned.times.unwrap(), slowest.clone());
        prop_assert!(slowest.iter().zip(&divisible).all(|(whole, best)| whole >= best));
        prop_assert_eq!(&replay(&graph, &planned.schedule).unwrap().loads, &planned.cost.loads);
        let both = all_reduce(&graph, &options, &Run::quiet(2)).unwrap();
        prop_assert_eq!(&replay(&graph, &both.schedule).unwrap().loads, &both.cost.loads);
        prop_assert_eq!(both.times.unwrap().len(), both.cost.loads.len());
    }

    /// P10: more latency never helps, and a link more never harms as long as distances stay.
    #[test]
    fn worse_links_are_never_better((graph, mut times) in timed(), edge: prop::sample::Index, more in 1..9_u64) {
        let before = total(&graph, &times);
        let at = edge.index(times.len());
        let without: Vec<u32> = (0..times.len() as u32).filter(|id| *id as usize != at).collect();
        let edges = without.iter().map(|id| graph.edges()[*id as usize]).collect();
        let fewer = Graph::new(graph.n(), edges).unwrap();
        if reference::distances(&fewer) == reference::distances(&graph) {
            let times: Vec<LinkTime> = without.iter().map(|id| times[*id as usize].clone()).collect();
            prop_assert!(before <= total(&fewer, &times));
        }
        times[at].latency += &whole(more);
        prop_assert!(before <= total(&graph, &times));
    }
}
