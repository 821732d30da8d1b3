//! The optimum passes its own flows, nothing below does; its scaling feeds everybody, by all cuts.

use super::*;
use crate::forestcoll::testing::{least_cut, rings};

#[test]
fn no_smaller_ratio_passes() {
    for seed in 0..60 {
        let graph = rings(2 + seed as usize % 6, seed as usize % 3, seed);
        let best = newton(&graph, &Run::quiet(1)).expect("an optimum");
        assert_eq!(ratio(&graph, &best.cut), (best.p, best.q));
        assert_eq!(refute(&graph, (best.p, best.q), &Run::quiet(1)).expect("flows"), None);
        // Just below, by half of what two fractions of such denominators differ.
        let fine = 2 * best.q * graph.arcs.iter().map(|arc| arc.2).sum::<i64>();
        let below = lowest(best.p * fine - 1, best.q * fine);
        assert!(refute(&graph, below, &Run::quiet(1)).expect("flows").is_some(), "seed {seed}");
    }
}

#[test]
fn trees_fill_all_links_in_whole_numbers_and_feed_everybody() {
    for seed in 0..60 {
        let graph = rings(2 + seed as usize % 5, seed as usize % 3, seed);
        let (k, p, divisor) = newton(&graph, &Run::quiet(1)).expect("an optimum").trees(&graph);
        assert!(graph.arcs.iter().all(|arc| arc.2 % divisor == 0));
        let arcs = graph.arcs.iter().map(|&(from, to, capacity)| (from, to, capacity / divisor * p)).collect();
        let supply = vec![k; graph.compute];
        let all = (1 << graph.compute) - 1;
        let least = least_cut(graph.nodes, &arcs, &supply, |cut| cut & all != all);
        assert_eq!(least, Some(k * graph.compute as i64), "seed {seed}");
    }
}
