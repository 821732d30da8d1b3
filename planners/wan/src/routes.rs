//! The route between two nodes: the fewest hops, and among those the lexicographically smallest sequence of nodes.

use std::collections::{BTreeMap, VecDeque};

use crate::instance::Link;
use crate::refusal::Refusal;

/// Finds routes over given links. Distances to a node are kept once they were asked for.
#[derive(Clone, Debug)]
pub struct Router {
    /// For each node its neighbours and the first link there, ascending.
    next: Vec<Vec<(usize, usize)>>,
    /// For each node the nodes with a link to it, ascending.
    before: Vec<Vec<usize>>,
    /// For each destination asked for the hops from every node.
    hops: BTreeMap<usize, Vec<usize>>,
}

const FAR: usize = usize::MAX;

impl Router {
    /// A router over nodes numbered from 0; a link from or to any other node is never used.
    pub fn new(nodes: usize, links: &[Link]) -> Router {
        let (mut next, mut before) = (vec![Vec::new(); nodes], vec![Vec::new(); nodes]);
        for (index, link) in links.iter().enumerate().filter(|(_, link)| link.from.max(link.to) < nodes) {
            next[link.from].push((link.to, index));
            before[link.to].push(link.from);
        }
        for list in &mut next {
            list.sort_unstable();
            list.dedup_by_key(|&mut (node, _)| node);
        }
        Router { next, before, hops: BTreeMap::new() }
    }

    /// The links of the route from one node to another, in order; none from a node to itself.
    ///
    /// # Errors
    /// `Unreachable`, also for nodes that do not exist.
    pub fn route(&mut self, src: usize, dst: usize) -> Result<Vec<usize>, Refusal> {
        let unreachable = Refusal::Unreachable { src, dst };
        if src.max(dst) >= self.next.len() {
            return Err(unreachable);
        }
        let before = &self.before;
        let hops = self.hops.entry(dst).or_insert_with(|| distances(before, dst));
        let mut left = hops[src];
        if left == FAR {
            return Err(unreachable);
        }
        let (mut at, mut route) = (src, Vec::with_capacity(left));
        while left > 0 {
            // Of all nodes one hop nearer the smallest: the sequence is the smallest from its front on.
            let nearer = self.next[at].iter().find(|&&(node, _)| hops[node] == left - 1);
            let Some(&(node, link)) = nearer else { return Err(unreachable) };
            route.push(link);
            (at, left) = (node, left - 1);
        }
        Ok(route)
    }
}

/// The hops from every node to `dst`.
fn distances(before: &[Vec<usize>], dst: usize) -> Vec<usize> {
    let mut hops = vec![FAR; before.len()];
    hops[dst] = 0;
    let mut left = VecDeque::from([dst]);
    while let Some(node) = left.pop_front() {
        for &from in &before[node] {
            if hops[from] == FAR {
                hops[from] = hops[node] + 1;
                left.push_back(from);
            }
        }
    }
    hops
}
