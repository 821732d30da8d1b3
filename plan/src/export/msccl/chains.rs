//! A tree cut into chains: a block has one peer on each side, so data can run through without stopping only in a row.

use crate::export::lower::RankTree;
use crate::export::rails::Rail;

/// Ranks that data runs over without stopping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// From one that earlier chains have reached, at first the root, down.
    pub ranks: Vec<u32>,
    /// What some of its edges need of a channel.
    pub rail: Option<Rail>,
}

/// The chains of a tree, each from a rank that earlier ones have reached down to a leaf.
///
/// The deepest leaf comes first; of equally deep ones the one that the tree reaches first. So every rank's first chain
/// leads to its deepest leaf. Where a chain has `hops` hops, and where its next edge needs another rail than those before
/// it, it ends, and another one begins.
pub fn chains(tree: &RankTree, hops: usize) -> Vec<Chain> {
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
        let mut part = Chain { ranks: chain.pop().into_iter().collect(), rail: None };
        while let Some(rank) = chain.pop() {
            let rail = tree.rails[rank as usize];
            if part.ranks.len() > hops || (rail.is_some() && part.rail.is_some() && rail != part.rail) {
                let head = part.ranks.last().copied();
                chains.push(std::mem::replace(&mut part, Chain { ranks: head.into_iter().collect(), rail: None }));
            }
            part.ranks.push(rank);
            part.rail = part.rail.or(rail);
        }
        chains.push(part);
    }
    chains
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 0 → 1 → 2 → 3, 1 → 4, 0 → 5 → 6
    fn tree() -> RankTree {
        RankTree { root: 0, parents: vec![0, 0, 1, 2, 1, 0, 5], order: vec![1, 5, 2, 4, 6, 3], rails: vec![None; 7] }
    }

    fn ranks(tree: &RankTree, hops: usize) -> Vec<Vec<u32>> {
        chains(tree, hops).into_iter().map(|chain| chain.ranks).collect()
    }

    #[test]
    fn the_deepest_leaf_comes_first_and_every_edge_once() {
        assert_eq!(ranks(&tree(), usize::MAX), [vec![0, 1, 2, 3], vec![1, 4], vec![0, 5, 6]]);
        assert_eq!(ranks(&tree(), 2), [vec![0, 1, 2], vec![2, 3], vec![1, 4], vec![0, 5, 6]]);
        assert_eq!(ranks(&tree(), 1), [[0, 1], [1, 2], [2, 3], [1, 4], [0, 5], [5, 6]]);
    }

    #[test]
    fn a_chain_ends_where_the_rail_changes() {
        let [first, second] = [0, 1].map(|index| Some(Rail { index, of: 2 }));
        // The edge to 2 stays inside a machine and does with any channel.
        let rails = vec![None, first, None, second, second, None, first];
        let found = chains(&RankTree { rails, ..tree() }, usize::MAX);
        let expected = [(vec![0, 1, 2], first), (vec![2, 3], second), (vec![1, 4], second), (vec![0, 5, 6], first)];
        assert_eq!(found, expected.map(|(ranks, rail)| Chain { ranks, rail }));
    }
}
