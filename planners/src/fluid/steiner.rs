//! The cheapest routing tree from a root to given ends, which may branch at other nodes that copy as well.
//!
//! Wong's dual ascent (1984) gives a bound from below, and reduced costs that rule most of the other nodes out. Where the
//! bound is reached the tree is the cheapest. Otherwise all sets of the other nodes that are left are tried, up to 12 of
//! them; beyond that nodes are added and dropped while that helps, and the bound stays below the cost.

mod ascent;
mod dense;
#[cfg(test)]
mod tests;

use self::ascent::Ascent;
use self::dense::{Dense, Found, TOLERANCE};
use super::arborescence;
use super::closure::Closure;
use super::tree::Tree;

/// Nodes that are neither root nor ends of which every set is tried, at most.
pub const MAX_OPTIONAL: usize = 12;
/// Arcs that may be looked at to better a tree that is not known to be the cheapest.
const MAX_ARCS_TRIED: usize = 1 << 26;

/// A routing tree and what is known of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Cheapest {
    /// The tree over arcs of the closure, from the root to all ends.
    pub tree: Tree,
    /// The sum of its arcs' costs.
    pub cost: f64,
    /// No tree costs less than this; the cost itself if it is exact.
    pub bound: f64,
    /// Is it the cheapest?
    pub exact: bool,
}

/// The cheapest tree from `root` to all `ends` over arcs of the closure; `None`: some end cannot be reached.
pub fn cheapest(closure: &Closure<'_>, root: u32, ends: &[u32]) -> Option<Cheapest> {
    let dense = Dense::of(closure, root, ends);
    let ascent = Ascent::of(&dense)?;
    let mut search = Search { dense: &dense, best: None, arcs_left: MAX_ARCS_TRIED };
    search.offer(Vec::new());
    search.offer(ascent.support(&dense));
    // The bound is of floats: it may stand a rounding above what it bounds.
    let met = |best: f64| best <= ascent.bound + TOLERANCE * best.abs();
    let mut useful = ascent.useful(&dense, search.least());
    let mut exact = met(search.least()) || useful.is_empty();
    if !exact {
        search.improve(&useful);
        useful.retain(|node| ascent.can_be_below(*node, search.least()));
        exact = met(search.least());
    }
    if !exact && useful.len() <= MAX_OPTIONAL {
        search.try_all(&useful);
        exact = true;
    }
    let found = search.best?;
    let bound = if exact { found.cost } else { ascent.bound.min(found.cost) };
    Some(Cheapest { tree: dense.tree(closure, &found)?, cost: found.cost, bound, exact })
}

struct Search<'a> {
    dense: &'a Dense,
    best: Option<Found>,
    arcs_left: usize,
}

impl Search<'_> {
    fn least(&self) -> f64 {
        self.best.as_ref().map_or(f64::INFINITY, |found| found.cost)
    }

    /// Takes the cheapest tree over root, ends and these others if it is cheaper; says whether it did.
    fn offer(&mut self, optional: Vec<usize>) -> bool {
        let nodes: Vec<usize> = (0..self.dense.terminals).chain(optional).collect();
        self.arcs_left = self.arcs_left.saturating_sub(nodes.len() * nodes.len());
        let cost = |from: usize, to: usize| self.dense.cost(nodes[from], nodes[to]);
        let Some(tree) = arborescence::cheapest(nodes.len(), 0, cost) else { return false };
        let mut parents = vec![None; self.dense.count()];
        let mut children = vec![0_usize; self.dense.count()];
        for (node, parent) in tree.iter().enumerate().skip(1) {
            parents[nodes[node]] = Some(nodes[*parent]);
            children[nodes[*parent]] += 1;
        }
        // Nothing is wanted at a leaf that is no end.
        for leaf in &nodes[self.dense.terminals..] {
            let mut node = *leaf;
            while node >= self.dense.terminals
                && children[node] == 0
                && let Some(parent) = parents[node].take()
            {
                children[parent] -= 1;
                node = parent;
            }
        }
        let arcs = parents.iter().enumerate().filter_map(|(node, parent)| Some(self.dense.cost((*parent)?, node)));
        let cost: f64 = arcs.sum();
        let least = self.least();
        let better = least.is_infinite() || cost < least - TOLERANCE * least.abs();
        if better {
            let optional = nodes[self.dense.terminals..].iter().copied().filter(|node| parents[*node].is_some());
            self.best = Some(Found { optional: optional.collect(), parents, cost });
        }
        better
    }

    /// Adds and drops nodes while that makes the tree cheaper.
    fn improve(&mut self, useful: &[usize]) {
        if self.best.is_none() {
            self.offer(useful.to_vec());
        }
        loop {
            let mut better = false;
            for node in useful {
                let Some(best) = &self.best else { return };
                let mut optional = best.optional.clone();
                match optional.binary_search(node) {
                    Ok(place) => drop(optional.remove(place)),
                    Err(place) => optional.insert(place, *node),
                }
                let size = self.dense.terminals + optional.len();
                if self.arcs_left < size * size {
                    return;
                }
                better |= self.offer(optional);
            }
            if !better {
                return;
            }
        }
    }

    /// Tries every set of these nodes.
    fn try_all(&mut self, useful: &[usize]) {
        for set in 1_usize..1 << useful.len() {
            let chosen = useful.iter().enumerate().filter(|(bit, _)| set >> bit & 1 == 1);
            self.offer(chosen.map(|(_, node)| *node).collect());
        }
    }
}
