//! Units handed out once, batches cut where paths change, loops removed.

use super::*;

/// Nodes 0 to 3 are compute nodes; 4 and 5 are switches, 4 removed before 5.
fn units() -> Units {
    let arcs = [(0, 4, 3), (4, 5, 3), (5, 1, 5), (2, 5, 2), (0, 1, 1)];
    let splits = [
        Split { from: 0, switch: 4, to: 5, amount: 3 },
        Split { from: 0, switch: 5, to: 1, amount: 3 },
        Split { from: 2, switch: 5, to: 1, amount: 2 },
    ];
    Units::new(&arcs.map(|(from, to, capacity)| network::Arc { from, to, capacity }), &splits)
}

#[test]
fn units_lead_through_the_switches_they_were_split_off_at() {
    let mut units = units();
    assert_eq!(units.take(0, 1, 2), Ok(vec![(vec![0, 1], 1), (vec![0, 4, 5, 1], 1)]));
    assert_eq!(units.take(0, 1, 2), Ok(vec![(vec![0, 4, 5, 1], 2)]));
    assert_eq!(units.take(2, 1, 2), Ok(vec![(vec![2, 5, 1], 2)]));
    assert!(units.take(0, 1, 1).is_err(), "every unit is handed out once");
}

#[test]
fn a_batch_is_cut_where_a_path_changes() {
    let batch = Batch { root: 0, weight: 2, edges: vec![(0, 1)] };
    let trees = recover(&[batch], units(), &Run::quiet(1)).expect("paths");
    let seen: Vec<(u64, Vec<u32>)> = trees.iter().map(|tree| (tree.weight, tree.edges[0].path.to_vec())).collect();
    assert_eq!(seen, [(1, vec![0, 1]), (1, vec![0, 4, 5, 1])]);
}

#[test]
fn lists_are_swept_together() {
    let mut pieces = Vec::new();
    sweep(&[vec![('a', 3), ('b', 2)], vec![('x', 1), ('y', 4)]], |parts, units| {
        pieces.push((*parts[0], *parts[1], units))
    });
    assert_eq!(pieces, [('a', 'x', 1), ('a', 'y', 2), ('b', 'y', 2)]);
}

#[test]
fn loops_are_cut_out() {
    assert_eq!(without_loops(vec![0, 5, 6, 5, 1]), [0, 5, 1]);
    assert_eq!(without_loops(vec![0, 5, 6, 7, 6, 5, 1]), [0, 5, 1]);
    assert_eq!(without_loops(vec![0, 5, 6, 1]), [0, 5, 6, 1]);
}
