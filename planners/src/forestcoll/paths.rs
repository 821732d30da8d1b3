//! Stage E: the way through switches that each tree edge takes.
//!
//! A logical link consists of original units and of units that were split off at some switch, which are pairs of units
//! of links that existed before (end of appendix B.5.3 of the ForestColl paper). Trees consume units, and every unit is
//! handed out once: that keeps every physical link within its capacity.

use super::Refusal;
use super::forest::{Edge, Tree};
use super::network;
use super::pack::Batch;
use super::split::Split;
use crate::run::{Run, Stage};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// Units of one link, in the order in which they are handed out.
type Pool = VecDeque<(i64, Origin)>;

/// What units of a link really are.
#[derive(Clone, Debug)]
enum Origin {
    /// Units of a physical link.
    Link,
    /// Pairs of units, into this switch and out of it.
    Switch(u32),
    /// Units of all links along a way that somebody else found.
    Way(Vec<u32>),
}

/// A way through switches, and how many units go there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub nodes: Vec<u32>,
    pub units: i64,
}

/// All units not handed out yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Units {
    pools: HashMap<(u32, u32), Pool>,
    shared: HashSet<Arc<[u32]>>,
}

impl Units {
    /// The units of the original arcs and those that splitting made of them.
    pub fn new(arcs: &[network::Arc], splits: &[Split]) -> Self {
        let mut pools: HashMap<_, Pool> = HashMap::new();
        for arc in arcs.iter().filter(|arc| arc.capacity > 0) {
            pools.entry((arc.from, arc.to)).or_default().push_back((arc.capacity, Origin::Link));
        }
        for split in splits.iter().filter(|split| split.from != split.to) {
            pools.entry((split.from, split.to)).or_default().push_back((split.amount, Origin::Switch(split.switch)));
        }
        Self { pools, shared: HashSet::new() }
    }

    /// Units of pairs whose ways are known.
    pub fn of_ways(ways: Vec<Way>) -> Self {
        let mut pools: HashMap<_, Pool> = HashMap::new();
        for Way { nodes, units } in ways {
            if let (Some(&from), Some(&to)) = (nodes.first(), nodes.last()) {
                pools.entry((from, to)).or_default().push_back((units, Origin::Way(nodes)));
            }
        }
        Self { pools, shared: HashSet::new() }
    }

    /// Hands out `amount` units of a link, as walks with how many units each.
    fn take(&mut self, from: u32, to: u32, mut amount: i64) -> Result<Vec<(Vec<u32>, i64)>, Refusal> {
        let mut walks = Vec::new();
        while amount > 0 {
            let missing = Refusal::InternalInvariant { what: "a link has fewer units than its trees use" };
            let Some(pool) = self.pools.get_mut(&(from, to)) else { return Err(missing) };
            let Some((left, via)) = pool.front_mut() else { return Err(missing) };
            let (taken, via) = (amount.min(*left), via.clone());
            *left -= taken;
            if *left == 0 {
                pool.pop_front();
            }
            amount -= taken;
            let switch = match via {
                Origin::Link => {
                    walks.push((vec![from, to], taken));
                    continue;
                }
                Origin::Way(way) => {
                    walks.push((way, taken));
                    continue;
                }
                Origin::Switch(switch) => switch,
            };
            let first = self.take(from, switch, taken)?;
            let second = self.take(switch, to, taken)?;
            sweep(&[first, second], |parts, units| {
                walks.push((parts[0].iter().chain(&parts[1][1..]).copied().collect(), units));
            });
        }
        Ok(walks)
    }

    /// One copy of each path, however many trees use it.
    fn share(&mut self, path: &[u32]) -> Arc<[u32]> {
        if let Some(known) = self.shared.get(path) {
            return known.clone();
        }
        let new: Arc<[u32]> = path.into();
        self.shared.insert(new.clone());
        new
    }

    /// Physical trees for a batch: one wherever all edges keep their path.
    fn trees(&mut self, batch: &Batch, trees: &mut Vec<Tree>) -> Result<(), Refusal> {
        let mut ways = Vec::with_capacity(batch.edges.len());
        for &(from, to) in &batch.edges {
            let walks = self.take(from, to, batch.weight)?;
            let way = walks.into_iter().map(|(walk, units)| (self.share(&without_loops(walk)), units));
            ways.push(way.collect::<Vec<_>>());
        }
        sweep(&ways, |paths, units| {
            let edge = |(&(src, dst), path): (&(u32, u32), &&Arc<[u32]>)| Edge { src, dst, path: (*path).clone() };
            let edges = batch.edges.iter().zip(paths).map(edge).collect();
            trees.push(Tree { root: batch.root, weight: units as u64, edges, hops: None });
        });
        Ok(())
    }
}

/// The physical trees of all batches.
pub(super) fn recover(batches: &[Batch], mut units: Units, run: &Run) -> Result<Vec<Tree>, Refusal> {
    let mut trees = Vec::with_capacity(batches.len());
    for (done, batch) in batches.iter().enumerate() {
        run.report(Stage::PathRecovery, done, batches.len())?;
        units.trees(batch, &mut trees)?;
    }
    run.report(Stage::PathRecovery, batches.len(), batches.len())?;
    Ok(trees)
}

/// Walks along several lists of equal total at once and cuts wherever one of them changes.
fn sweep<T>(lists: &[Vec<(T, i64)>], mut piece: impl FnMut(&[&T], i64)) {
    let mut at: Vec<(usize, i64)> = lists.iter().map(|list| (0, list.first().map_or(0, |first| first.1))).collect();
    loop {
        let current: Option<Vec<&T>> =
            lists.iter().zip(&at).map(|(list, at)| list.get(at.0).map(|item| &item.0)).collect();
        let Some((current, units)) = current.zip(at.iter().map(|at| at.1).min()) else { return };
        piece(&current, units);
        for (list, at) in lists.iter().zip(&mut at) {
            at.1 -= units;
            if at.1 == 0 {
                *at = (at.0 + 1, list.get(at.0 + 1).map_or(0, |next| next.1));
            }
        }
    }
}

/// A walk that comes back to a switch goes on from its first visit: that only lowers the load.
fn without_loops(walk: Vec<u32>) -> Vec<u32> {
    let mut path: Vec<u32> = Vec::with_capacity(walk.len());
    for node in walk {
        if let Some(before) = path.iter().position(|&seen| seen == node) {
            path.truncate(before);
        }
        path.push(node);
    }
    path
}
