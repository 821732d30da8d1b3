//! The best U for a fixed k against the next smaller fractions.

use super::*;
use crate::forestcoll::optimum::{Trees, newton};
use crate::forestcoll::testing::rings;

#[test]
fn no_smaller_fraction_feeds_everybody() {
    let run = Run::quiet(1);
    for seed in 0..50 {
        let graph = rings(2 + seed as usize % 5, seed as usize % 3, seed);
        let optimum = newton(&graph, &run).expect("an optimum");
        for k in [1, 2, 3, 7] {
            let u = best(&graph, &optimum, k, &run).expect("a best");
            assert!(feeds(&graph, &floored(&graph, u), k, &run).expect("flows"), "seed {seed} k {k}");
            // All fractions n/b below it, from the largest down: the first already fails, and so do the next ones.
            let next = |under: i64| Ratio { over: (u.over * under - 1).div_euclid(u.under), under };
            let mut below: Vec<_> = graph.arcs.iter().map(|arc| next(arc.capacity)).collect();
            below.sort_by(|a, b| b.compare(*a));
            for fewer in below.into_iter().take(4) {
                assert!(!feeds(&graph, &floored(&graph, fewer), k, &run).expect("flows"), "seed {seed} k {k}");
            }
        }
    }
}

#[test]
fn at_a_multiple_of_the_best_k_nothing_is_lost() {
    let run = Run::quiet(1);
    for seed in 0..30 {
        let graph = rings(2 + seed as usize % 5, seed as usize % 3, seed);
        let optimum = newton(&graph, &run).expect("an optimum");
        let Trees { k, u } = optimum.trees(&graph);
        assert_eq!(best(&graph, &optimum, k, &run), Ok(u));
        let double = Ratio { over: 2 * u.over, under: u.under };
        assert_eq!(best(&graph, &optimum, 2 * k, &run), Ok(double.lowest()));
    }
}

#[test]
fn links_that_round_to_nothing_are_left_out() {
    let graph = rings(4, 1, 3);
    assert!(floored(&graph, Ratio { over: 1, under: 1_000_000 }).is_empty());
    assert_eq!(floored(&graph, Ratio { over: 1, under: 1 }), graph.arcs);
}
