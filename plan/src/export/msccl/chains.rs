//! A tree cut into chains: a block has one peer on each side, so data can run through without stopping only in a row.

use crate::export::lower::RankTree;

/// Chains of a tree, each from a rank that earlier chains have reached (at first the root) down to a leaf.
///
/// The deepest leaf comes first; of equally deep ones the one that the tree reaches first. So every rank's first chain
/// leads to its deepest leaf. A chain of more than `hops` hops is cut into several, each beginning where the one before
/// it ends.
pub fn chains(tree: &RankTree, hops: usize) -> Vec<Vec<u32>> {
    let mut depth = vec![0_u32; tree.parents.len()];
    let mut is_leaf = vec![true; tree.parents.len()];
    for rank in &tree.order {
        let parent = tree.parents[*rank as usize] as usize;
        depth[*rank as usize] = depth[parent] + 1;
        is_leaf[parent] = false;
    }
    let mut leaves: Vec<u32> = tree.order.iter().copied().filter(|rank| is_leaf[*rank as usize]).collect();
    leaves.sort_by_key(|leaf| std::cmp::Reverse(depth[*leaf as usize]));
    let mut visited = vec![false; tree.parents.len()];
    visited[tree.root as usize] = true;
    let mut chains = Vec::with_capacity(leaves.len());
    for leaf in leaves {
        let (mut chain, mut at) = (vec![leaf], leaf);
        while !std::mem::replace(&mut visited[at as usize], true) {
            at = tree.parents[at as usize];
            chain.push(at);
        }
        chain.reverse();
        while chain.len() - 1 > hops {
            let rest = chain.split_off(hops);
            chain.push(rest[0]);
            chains.push(std::mem::replace(&mut chain, rest));
        }
        chains.push(chain);
    }
    chains
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_leaf_comes_first_and_every_edge_once() {
        // 0 → 1 → 2 → 3, 1 → 4, 0 → 5 → 6
        let tree = RankTree { root: 0, parents: vec![0, 0, 1, 2, 1, 0, 5], order: vec![1, 5, 2, 4, 6, 3] };
        assert_eq!(chains(&tree, usize::MAX), [vec![0, 1, 2, 3], vec![1, 4], vec![0, 5, 6]]);
        assert_eq!(chains(&tree, 2), [vec![0, 1, 2], vec![2, 3], vec![1, 4], vec![0, 5, 6]]);
        assert_eq!(chains(&tree, 1), [[0, 1], [1, 2], [2, 3], [1, 4], [0, 5], [5, 6]]);
    }
}
