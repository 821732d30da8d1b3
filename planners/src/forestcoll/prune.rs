//! Switches that copy: a stream that already reached such a switch need not be sent to it again.
//!
//! Capabilities do not change the optimum of an all-gather, they only take away load between nodes and switches
//! (section 4.5.6 of the ForestColl paper). Adding switches of a reduce-scatter are the same on the transposed fabric.

use super::forest::{Edge, Tree};

#[cfg(test)]
mod tests;

/// Gives every out-tree that gains by it the hops that are left.
pub(super) fn prune(trees: &mut [Tree], nodes: usize, able: &[bool]) {
    if !able.contains(&true) {
        return;
    }
    let mut fed = vec![usize::MAX; nodes];
    for (number, tree) in trees.iter_mut().enumerate() {
        let mut hops = Vec::new();
        let mut all = 0;
        for edge in by_depth(tree, nodes) {
            let (path, last) = (&edge.path, edge.path.len().saturating_sub(1));
            let can = |node: u32| able.get(node as usize).copied().unwrap_or(false);
            let from = (1..last).rev().find(|&at| can(path[at]) && fed[path[at] as usize] == number).unwrap_or(0);
            all += last;
            hops.extend(path[from..].windows(2).map(|hop| (hop[0], hop[1])));
            // Only switches whose hop is kept have the stream: one before `from` was passed by.
            for &node in path.get(from + 1..last).unwrap_or_default() {
                if can(node) {
                    fed[node as usize] = number;
                }
            }
        }
        tree.hops = (hops.len() < all).then_some(hops);
    }
}

/// The edges nearest to the root first, so that a switch is fed by the node nearest to the root and nobody waits in a
/// circle.
fn by_depth(tree: &Tree, nodes: usize) -> Vec<&Edge> {
    let mut depth = vec![0_usize; nodes];
    for edge in &tree.edges {
        depth[edge.dst as usize] = depth[edge.src as usize] + 1;
    }
    let mut edges: Vec<&Edge> = tree.edges.iter().collect();
    edges.sort_by_key(|edge| depth[edge.dst as usize]);
    edges
}
