//! A tree of a plan in the order in which it grows from its root, whatever the order of its edges in the file.

use std::collections::HashMap;

use crate::plan::{Direction, Edge, NodeId, Tree};

/// An edge of a tree as seen from the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// The end near the root.
    pub parent: NodeId,
    /// The end far from it.
    pub child: NodeId,
    /// Its place among the edges of the tree.
    pub edge: usize,
    /// Edges from the root to the child.
    pub depth: u32,
}

/// The edges breadth-first from the root, children of a node in file order; `None` if it is no tree.
pub fn grow(direction: Direction, tree: &Tree) -> Option<Vec<Branch>> {
    let ends = |edge: &Edge| match direction {
        Direction::Out => (edge.src, edge.dst),
        Direction::In => (edge.dst, edge.src),
    };
    let mut children: HashMap<NodeId, Vec<(NodeId, usize)>> = HashMap::with_capacity(tree.edges.len());
    for (place, edge) in tree.edges.iter().enumerate() {
        let (parent, child) = ends(edge);
        children.entry(parent).or_default().push((child, place));
    }
    let mut branches: Vec<Branch> = Vec::with_capacity(tree.edges.len());
    let mut next = 0;
    let (mut parent, mut depth) = (tree.root, 0);
    loop {
        // Taken out, so that an edge back to a node seen before finds nothing and no circle is walked twice.
        for (child, edge) in children.remove(&parent).into_iter().flatten() {
            branches.push(Branch { parent, child, edge, depth: depth + 1 });
        }
        let Some(branch) = branches.get(next) else { break };
        (parent, depth, next) = (branch.child, branch.depth, next + 1);
    }
    let mut seen: Vec<NodeId> = branches.iter().map(|branch| branch.child).chain([tree.root]).collect();
    seen.sort_unstable();
    let twice = seen.windows(2).any(|pair| pair[0] == pair[1]);
    (branches.len() == tree.edges.len() && !twice).then_some(branches)
}
