//! The optimum passes its own flows, nothing below does; its scaling feeds everybody, by all cuts.

use super::*;
use crate::forestcoll::fixed::floored;
use crate::forestcoll::testing::{least_cut, rings};

#[test]
fn no_smaller_ratio_passes() {
    for seed in 0..60 {
        let graph = rings(2 + seed as usize % 6, seed as usize % 3, seed);
        let best = newton(&graph, &Run::quiet(1)).expect("an optimum");
        assert_eq!(ratio(&graph, &best.cut), best.ratio);
        assert_eq!(refute(&graph, best.ratio, &Run::quiet(1)).expect("flows"), None);
        // Just below, by half of what two fractions of such denominators differ.
        let Ratio { over, under } = best.ratio;
        let fine = 2 * under * graph.arcs.iter().map(|arc| arc.capacity).sum::<i64>();
        let below = Ratio { over: over * fine - 1, under: under * fine }.lowest();
        assert!(refute(&graph, below, &Run::quiet(1)).expect("flows").is_some(), "seed {seed}");
    }
}

#[test]
fn trees_fill_all_links_in_whole_numbers_and_feed_everybody() {
    for seed in 0..60 {
        let graph = rings(2 + seed as usize % 5, seed as usize % 3, seed);
        let Trees { k, u } = newton(&graph, &Run::quiet(1)).expect("an optimum").trees(&graph);
        assert!(graph.arcs.iter().all(|arc| arc.capacity % u.under == 0));
        let supply = vec![k; graph.compute];
        let all = (1 << graph.compute) - 1;
        let least = least_cut(graph.nodes, &floored(&graph, u), &supply, |cut| cut & all != all);
        assert_eq!(least, Some(k * graph.compute as i64), "seed {seed}");
    }
}
