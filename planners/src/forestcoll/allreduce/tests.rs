//! Cuts found one by one give the same optimum as all cuts at once.

use super::*;
use crate::forestcoll::testing::rings;

/// The rows of all sets of nodes at once, which the method of cuts must not need.
fn with_all_cuts(graph: &Graph, commodities: &Commodities) -> Rational {
    let mut gain = vec![Rational::ZERO; commodities.variables()];
    gain[..graph.compute].fill(Rational::ONE);
    let mut program = Program::new(gain);
    for (row, bound) in commodities.rows(graph) {
        program.add(&row, Rational::from(bound as u64));
    }
    for cut in 1_u32..(1 << graph.compute) - 1 {
        let inside: Vec<bool> = (0..graph.compute).map(|node| cut >> node & 1 == 1).collect();
        for kind in [Kind::Reduce, Kind::Broadcast] {
            program.add(&commodities.cut(kind, &inside), Rational::ZERO);
        }
    }
    program.solve(&Run::quiet(1)).expect("an optimum");
    program.objective()
}

#[test]
fn cuts_found_one_by_one_are_enough() {
    for seed in 0..16 {
        let graph = rings(2 + seed as usize % 4, seed as usize % 3, seed);
        let commodities = Commodities::new(&graph);
        let sum = solve(&graph, &commodities, &Run::quiet(1)).expect("an optimum").sum;
        assert_eq!(sum, with_all_cuts(&graph, &commodities), "seed {seed}");
    }
}
