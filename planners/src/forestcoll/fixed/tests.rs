//! The best U for a fixed k against the next smaller fractions.

use super::*;
use crate::forestcoll::optimum::newton;
use crate::forestcoll::testing::rings;

#[test]
fn no_smaller_fraction_feeds_everybody() {
    let run = Run::quiet(1);
    for seed in 0..50 {
        let graph = rings(2 + seed as usize % 5, seed as usize % 3, seed);
        let optimum = newton(&graph, &run).expect("an optimum");
        for k in [1, 2, 3, 7] {
            let (over, under) = best(&graph, &optimum, k, &run).expect("a best");
            assert!(feeds(&graph, &floored(&graph, over, under), k, &run).expect("flows"), "seed {seed} k {k}");
            // All fractions n/b below it, from the largest down: the first already fails, and so do the next ones.
            let mut below: Vec<(i64, i64)> =
                graph.arcs.iter().map(|arc| ((over * arc.2 - 1).div_euclid(under), arc.2)).collect();
            below.sort_by(|a, b| (b.0 * a.1).cmp(&(a.0 * b.1)));
            for (over, under) in below.into_iter().take(4) {
                assert!(!feeds(&graph, &floored(&graph, over, under), k, &run).expect("flows"), "seed {seed} k {k}");
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
        let (k, p, divisor) = optimum.trees(&graph);
        assert_eq!(best(&graph, &optimum, k, &run), Ok((p, divisor)));
        let double = num_integer::gcd(2 * p, divisor);
        assert_eq!(best(&graph, &optimum, 2 * k, &run), Ok((2 * p / double, divisor / double)));
    }
}

#[test]
fn links_that_round_to_nothing_are_left_out() {
    let graph = rings(4, 1, 3);
    assert!(floored(&graph, 1, 1_000_000).is_empty());
    assert_eq!(floored(&graph, 1, 1), graph.arcs);
}
