//! Root, ends and what may lie between them under indices of their own, and trees over these.

use crate::fluid::closure::Closure;
use crate::fluid::tree::Tree;
use std::collections::VecDeque;

/// Costs that differ by less, relative to the larger, are equal.
pub(super) const TOLERANCE: f64 = 1e-12;

/// The arcs between root, ends and others, in one matrix.
pub(super) struct Dense {
    /// First the root, then the ends, then all others that copy.
    nodes: Vec<u32>,
    /// So many of them must be reached; the root is among them.
    pub terminals: usize,
    /// By node and node what it costs to enter the first from the second.
    pub into: Vec<f64>,
}

impl Dense {
    pub fn of(closure: &Closure<'_>, root: u32, ends: &[u32]) -> Dense {
        let mut terminals: Vec<u32> = ends.iter().filter(|end| **end != root).copied().collect();
        terminals.sort_unstable();
        terminals.dedup();
        let others = closure.nodes.iter().filter(|node| **node != root && terminals.binary_search(node).is_err());
        let others: Vec<u32> = others.copied().collect();
        let count = 1 + terminals.len();
        let nodes = [vec![root], terminals, others].concat();
        let mut into = Vec::with_capacity(nodes.len() * nodes.len());
        for to in &nodes {
            into.extend(nodes.iter().map(|from| if from == to { f64::INFINITY } else { closure.cost(*from, *to) }));
        }
        Dense { nodes, terminals: count, into }
    }

    pub fn count(&self) -> usize {
        self.nodes.len()
    }
    pub fn cost(&self, from: usize, to: usize) -> f64 {
        self.into[to * self.count() + from]
    }

    /// A tree over indices as one over nodes, parents first.
    pub fn tree(&self, closure: &Closure<'_>, found: &Found) -> Option<Tree> {
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); self.count()];
        for (node, parent) in found.parents.iter().enumerate() {
            if let Some(parent) = parent {
                children[*parent].push(node);
            }
        }
        let mut arcs = Vec::new();
        let mut queue = VecDeque::from([0]);
        while let Some(node) = queue.pop_front() {
            for child in &children[node] {
                arcs.push(closure.arc(self.nodes[node], self.nodes[*child])?);
                queue.push_back(*child);
            }
        }
        Some(Tree { root: self.nodes[0], arcs })
    }
}

/// A tree over indices.
pub(super) struct Found {
    /// By node; the root and nodes outside the tree have none.
    pub parents: Vec<Option<usize>>,
    /// The nodes in it that are neither root nor ends, ascending.
    pub optional: Vec<usize>,
    pub cost: f64,
}
