//! Trees as a runtime sees them: over ranks, without switches, in whole chunks.
//!
//! Every shard is cut into as many chunks as its root's trees weigh together, and every tree owns consecutive chunks.
//! A node that copies or adds up and is no rank is merged away: its parent and its children meet directly.

use std::collections::HashMap;
use std::rc::Rc;

use num_bigint::BigInt;
use num_integer::Integer as _;
use num_traits::{ToPrimitive as _, Zero as _};

use super::INTERNAL_INVARIANT;
use super::grow::grow;
use super::rails::{Rail, Rails};
use crate::plan::{Direction, Forest, NodeId, Plan, Tree, Trees};
use sluice_formats::problem::{E_LIMIT, Problem, Problems};
use sluice_formats::quantity::{Rational, common_denominator};
use sluice_formats::topology::Topology;

/// Chunks of one instance at most.
const MAX_CHUNKS: u64 = 1 << 24;

/// A tree over ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankTree {
    pub root: u32,
    /// Per rank its parent; the root's own.
    pub parents: Vec<u32>,
    /// All ranks but the root, parents before children, breadth-first.
    pub order: Vec<u32>,
    /// Per rank what the edge to its parent needs of a channel; the root's is without meaning.
    pub rails: Vec<Option<Rail>>,
}

/// Consecutive chunks of a shard, and the tree they take.
#[derive(Clone, Debug)]
pub struct Piece {
    /// The tree; its root owns the shard.
    pub tree: Rc<RankTree>,
    /// The first chunk, from the beginning of the shard.
    pub first: u32,
    pub count: u32,
}

/// A forest over ranks.
#[derive(Clone, Debug)]
pub struct RankForest {
    /// Which way data flows.
    pub direction: Direction,
    /// By root and chunk, without gaps.
    pub pieces: Vec<Piece>,
    /// Per tree of the plan how many chunks it carries.
    pub chunks: Vec<u32>,
}

/// A plan over ranks.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// How many ranks there are.
    pub ranks: u32,
    /// Per rank the chunks of its shard.
    pub shards: Vec<u32>,
    /// As in the plan.
    pub forests: Vec<RankForest>,
    /// Was copying or adding in switches given up?
    pub lossy: bool,
}

impl Lowered {
    /// Chunks of all shards together.
    pub fn total(&self) -> u64 {
        self.shards.iter().map(|chunks| u64::from(*chunks)).sum()
    }
}

/// Puts a plan that the checker found right into ranks and chunks.
pub fn lower(plan: &Plan, topology: &Topology, trees: &Trees) -> Result<Lowered, Problems> {
    let participants: Vec<&str> = match &plan.body.participants {
        Some(list) => list.iter().map(|node| plan.id(*node)).collect(),
        None => topology.compute().into_iter().map(|node| &*topology.nodes()[node].id).collect(),
    };
    let numbered = participants.iter().zip(0..).filter_map(|(id, rank)| Some((plan.names.find(id)?, rank)));
    let ranks: HashMap<NodeId, u32> = numbered.collect();
    if ranks.len() != participants.len() {
        return Err(defect("a participant is in no tree"));
    }
    let scales = scales(trees)?;
    let rails = Rails::new(plan, topology, &ranks);
    let mut lowered = Lowered { ranks: ranks.len() as u32, shards: Vec::new(), forests: Vec::new(), lossy: false };
    for (forest, scale) in trees.forests.iter().zip(&scales) {
        lowered.forest(forest, scale, &ranks, &rails)?;
    }
    Ok(lowered)
}

/// Per forest what makes all its weights whole, and both forests of an all-reduce weigh the same.
fn scales(trees: &Trees) -> Result<Vec<Rational>, Problems> {
    let mut whole = Vec::new();
    for forest in &trees.forests {
        let scale = common_denominator(forest.trees.iter().map(|tree| &tree.weight));
        let scale = scale.and_then(|scale| Rational::from_big(scale, 1.into()));
        let sum: Rational = forest.trees.iter().map(|tree| &tree.weight).sum();
        let Some(scale) = scale.filter(|_| sum.is_positive()) else { return Err(too_fine("no common denominator")) };
        whole.push(((&scale * &sum).numerator(), scale));
    }
    let common = whole.iter().fold(BigInt::from(1), |common, (sum, _)| common.lcm(sum));
    if common.is_zero() || common.to_u64().is_none_or(|common| common > MAX_CHUNKS) {
        return Err(too_fine(&format!("{common} chunks")));
    }
    let up = |(sum, scale): (BigInt, Rational)| {
        Rational::from_big(&common / &sum, 1.into()).map(|factor| &factor * &scale).ok_or_else(|| defect("no chunks"))
    };
    whole.into_iter().map(up).collect()
}

impl Lowered {
    fn forest(
        &mut self,
        forest: &Forest,
        scale: &Rational,
        ranks: &HashMap<NodeId, u32>,
        rails: &Rails,
    ) -> Result<(), Problems> {
        let mut shards = vec![0; self.ranks as usize];
        let mut pieces: Vec<Vec<Piece>> = vec![Vec::new(); self.ranks as usize];
        let mut chunks = Vec::with_capacity(forest.trees.len());
        for tree in &forest.trees {
            let count = (&tree.weight * scale).to_u64().and_then(|count| u32::try_from(count).ok());
            let count = count.ok_or_else(|| defect("a tree without whole chunks"))?;
            let tree = self.tree(forest.direction, tree, ranks, rails).ok_or_else(|| defect("a tree that is none"))?;
            chunks.push(count);
            let (root, first) = (tree.root as usize, shards[tree.root as usize]);
            shards[root] += count;
            match pieces[root].last_mut() {
                // Batches that differ only in their way through switches are one.
                Some(last) if *last.tree == tree => last.count += count,
                _ => pieces[root].push(Piece { tree: Rc::new(tree), first, count }),
            }
        }
        if !self.shards.is_empty() && self.shards != shards {
            return Err(defect("two forests that share the data differently"));
        }
        self.shards = shards;
        let pieces = pieces.into_iter().flatten().collect();
        self.forests.push(RankForest { direction: forest.direction, pieces, chunks });
        Ok(())
    }

    fn tree(
        &mut self,
        direction: Direction,
        tree: &Tree,
        ranks: &HashMap<NodeId, u32>,
        rails: &Rails,
    ) -> Option<RankTree> {
        let root = *ranks.get(&tree.root)?;
        let mut parents = vec![u32::MAX; self.ranks as usize];
        parents[root as usize] = root;
        let mut order = Vec::with_capacity(self.ranks as usize - 1);
        let mut chosen = vec![None; self.ranks as usize];
        let mut merged: HashMap<NodeId, Merged> = HashMap::new();
        for branch in grow(direction, tree)? {
            let mut path: Vec<NodeId> = tree.edges[branch.edge].path().collect();
            if direction == Direction::In {
                path.reverse();
            }
            let above = match ranks.get(&branch.parent) {
                Some(rank) => *rank,
                None => {
                    let parent = merged.get_mut(&branch.parent)?;
                    parent.hanging += 1;
                    path.splice(..1, parent.path.iter().copied());
                    parent.above
                }
            };
            match ranks.get(&branch.child) {
                Some(rank) => {
                    parents[*rank as usize] = above;
                    order.push(*rank);
                    if direction == Direction::In {
                        path.reverse();
                    }
                    chosen[*rank as usize] = rails.rail(&path);
                }
                None => {
                    merged.insert(branch.child, Merged { above, path, hanging: 0 });
                }
            }
        }
        self.lossy |= tree.hops.is_some() || merged.values().any(|merged| merged.hanging > 1);
        let whole = order.len() + 1 == self.ranks as usize;
        whole.then_some(RankTree { root, parents, order, rails: chosen })
    }
}

/// A node of a tree that is no rank.
struct Merged {
    /// The rank above it.
    above: u32,
    /// The nodes from that rank to this node, both included.
    path: Vec<NodeId>,
    /// How many hang on it.
    hanging: u32,
}

fn too_fine(found: &str) -> Problems {
    let error = Problem::new(E_LIMIT, "/content/forests", "the weights need too many chunks").found(found);
    error.allowed(format!("at most {MAX_CHUNKS} chunks")).help("plan with a fixed k").into()
}

fn defect(what: &str) -> Problems {
    Problem::new(INTERNAL_INVARIANT, "/content/forests", format!("the checker let pass {what}")).into()
}
