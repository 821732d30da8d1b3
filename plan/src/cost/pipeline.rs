//! The longest way of data that flows everywhere at once, along trees or paths.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::check::{Fabric, Violation};
use crate::plan::{Direction, NodeId, Paths, Plan, Tree, Trees};
use sluice_formats::quantity::Rational;

/// Trees: the deepest tree of a root, of an all-reduce the deepest on the way in and on the way out.
pub fn of_trees(plan: &Plan, fabric: &Fabric<'_>, trees: &Trees) -> Result<Rational, Violation> {
    let ways = Ways { plan, fabric, latencies: latencies(fabric) };
    let mut by_root: HashMap<NodeId, Rational> = HashMap::new();
    for forest in &trees.forests {
        let mut deepest: HashMap<NodeId, Rational> = HashMap::new();
        for tree in &forest.trees {
            let depth = match &tree.hops {
                None => ways.along_edges(tree, forest.direction)?,
                Some(_) => ways.along_hops(tree, forest.direction)?,
            };
            let known = deepest.entry(tree.root).or_insert(Rational::ZERO);
            *known = depth.max(known.clone());
        }
        for (root, depth) in deepest {
            *by_root.entry(root).or_insert(Rational::ZERO) += &depth;
        }
    }
    Ok(by_root.into_values().max().unwrap_or(Rational::ZERO))
}

/// The latency of the longest path.
pub fn of_paths(plan: &Plan, fabric: &Fabric<'_>, paths: &Paths) -> Result<Rational, Violation> {
    let ways = Ways { plan, fabric, latencies: latencies(fabric) };
    let mut longest = Rational::ZERO;
    for pair in &paths.pairs {
        longest = longest.max(ways.path(&pair.path)?);
    }
    Ok(longest)
}

/// Latency from node to node; data over parallel links has arrived with the slowest.
fn latencies(fabric: &Fabric<'_>) -> HashMap<(usize, usize), Rational> {
    let mut latencies: HashMap<(usize, usize), Rational> = HashMap::new();
    for link in fabric.topology.links() {
        let known = latencies.entry((link.from, link.to)).or_insert(Rational::ZERO);
        if link.latency > *known {
            *known = link.latency.clone();
        }
    }
    latencies
}

struct Ways<'a> {
    plan: &'a Plan,
    fabric: &'a Fabric<'a>,
    latencies: HashMap<(usize, usize), Rational>,
}

impl Ways<'_> {
    fn node(&self, node: NodeId) -> Result<usize, Violation> {
        self.fabric.node(self.plan, node, || "/content".into())
    }
    fn link(&self, from: NodeId, to: NodeId) -> Result<Rational, Violation> {
        let ends = (self.node(from)?, self.node(to)?);
        Ok(self.latencies.get(&ends).cloned().unwrap_or(Rational::ZERO))
    }
    fn path(&self, path: &[NodeId]) -> Result<Rational, Violation> {
        path.windows(2).try_fold(Rational::ZERO, |sum, hop| Ok(&sum + &self.link(hop[0], hop[1])?))
    }

    /// From edge to edge, which may stand in any order.
    fn along_edges(&self, tree: &Tree, direction: Direction) -> Result<Rational, Violation> {
        let mut next: HashMap<NodeId, Vec<(NodeId, Rational)>> = HashMap::new();
        for edge in &tree.edges {
            let nodes: Vec<NodeId> = edge.path().collect();
            let (near, far) = match direction {
                Direction::Out => (edge.src, edge.dst),
                Direction::In => (edge.dst, edge.src),
            };
            next.entry(near).or_default().push((far, self.path(&nodes)?));
        }
        let (mut deepest, mut open) = (Rational::ZERO, vec![(tree.root, Rational::ZERO)]);
        while let Some((node, depth)) = open.pop() {
            // Every node is the far end of one edge; each edge is gone along once.
            for (far, latency) in next.remove(&node).unwrap_or_default() {
                open.push((far, &depth + &latency));
            }
            deepest = deepest.max(depth);
        }
        Ok(deepest)
    }

    /// Where switches copy or add up: the shortest way of the hops to each node.
    fn along_hops(&self, tree: &Tree, direction: Direction) -> Result<Rational, Violation> {
        let mut next: HashMap<usize, BTreeMap<usize, Rational>> = HashMap::new();
        for hop in tree.hops.iter().flatten() {
            let latency = self.link(hop.0, hop.1)?;
            let (from, to) = (self.node(hop.0)?, self.node(hop.1)?);
            let (near, far) = if direction == Direction::Out { (from, to) } else { (to, from) };
            next.entry(near).or_default().insert(far, latency);
        }
        let root = self.node(tree.root)?;
        let (mut done, mut deepest) = (BTreeSet::new(), Rational::ZERO);
        let mut open = BTreeSet::from([(Rational::ZERO, root)]);
        while let Some((depth, node)) = open.pop_first() {
            if !done.insert(node) {
                continue;
            }
            for (far, latency) in next.get(&node).into_iter().flatten().filter(|(far, _)| !done.contains(far)) {
                open.insert((&depth + latency, *far));
            }
            deepest = deepest.max(depth);
        }
        Ok(deepest)
    }
}
