//! Which hops remain where switches copy.

use super::*;

fn tree(root: u32, paths: &[&[u32]]) -> Tree {
    let edge = |path: &&[u32]| Edge { src: path[0], dst: path[path.len() - 1], path: (*path).into() };
    Tree { root, weight: 1, edges: paths.iter().map(edge).collect(), hops: None }
}

/// Compute nodes 0 to 3; switches 4 to 6.
fn pruned(able: &[u32], paths: &[&[u32]]) -> Option<Vec<(u32, u32)>> {
    let able: Vec<bool> = (0..7).map(|node| able.contains(&node)).collect();
    let mut trees = [tree(0, paths)];
    prune(&mut trees, 7, &able);
    trees[0].hops.clone()
}

#[test]
fn one_stream_to_a_switch_is_enough() {
    let star: &[&[u32]] = &[&[0, 4, 1], &[0, 4, 2], &[1, 4, 3]];
    assert_eq!(pruned(&[4], star), Some(vec![(0, 4), (4, 1), (4, 2), (4, 3)]));
    assert_eq!(pruned(&[5], star), None);
    assert_eq!(pruned(&[], star), None);
}

#[test]
fn a_switch_passed_by_is_not_fed() {
    // The second path enters at switch 5, which is fed; its hop over 4 is dropped, so that 4 is not fed and the third
    // path keeps its own.
    let paths: &[&[u32]] = &[&[0, 5, 1], &[0, 4, 5, 2], &[0, 4, 3]];
    assert_eq!(pruned(&[4, 5], paths), Some(vec![(0, 5), (5, 1), (5, 2), (0, 4), (4, 3)]));
}

#[test]
fn the_node_nearest_to_the_root_feeds_a_switch() {
    // In order of growth the far node 2 would use switch 4 first.
    let paths: &[&[u32]] = &[&[0, 1], &[1, 4, 2], &[0, 4, 3]];
    assert_eq!(pruned(&[4], paths), Some(vec![(0, 1), (0, 4), (4, 3), (4, 2)]));
}

#[test]
fn trees_do_not_feed_each_other() {
    let able: Vec<bool> = (0..7).map(|node| node == 4).collect();
    let mut trees = [tree(0, &[&[0, 4, 1], &[0, 4, 2]]), tree(1, &[&[1, 4, 0], &[0, 4, 2]])];
    prune(&mut trees, 7, &able);
    assert_eq!(trees[1].hops, Some(vec![(1, 4), (4, 0), (4, 2)]));
}
