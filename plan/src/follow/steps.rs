//! A step schedule in ranks: who sends which part when, and the trees that its parts travel by.
//!
//! A follower keeps one buffer and sends from it what has arrived, so a part may enter a rank once only: a schedule that
//! copies a part to where it is already, or moves a sum on and brings another, is refused. Then the ways of every part
//! are a tree, which is what daemons want to know of a plan.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use super::{Tree, UNSUPPORTED_FIELD, WHOLE};
use crate::plan::{Direction, Op, Plan, Shard, Steps};
use sluice_formats::problem::{E_LIMIT, E_RANGE, Problem, Problems};
use sluice_formats::topology::Topology;

/// Edges of all trees at most.
const MAX_EDGES: usize = 1 << 22;

/// A part of the data from one rank to another in a step, or in epochs of which this is the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sent {
    /// The step or the epoch, from 0.
    pub step: u32,
    /// Rank that sends.
    pub from: u32,
    /// Rank that receives.
    pub to: u32,
    /// The first unit of the part, counted over the shards of all ranks.
    pub first: u64,
    /// The unit after the last.
    pub end: u64,
    /// Is it added to what is there?
    pub adds: bool,
    /// Index of the link that it leaves by.
    pub link: u32,
}

/// What a part waits for before it leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waits {
    /// For all that earlier steps bring its sender.
    #[default]
    Step,
    /// For all that brings it to its sender, and for what leaves by the same link before it.
    Chunk,
}

/// A schedule of steps, or of chunks in epochs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stepped {
    /// Units of a shard; 0: the plan is no schedule.
    pub shard: u64,
    /// What parts wait for.
    pub waits: Waits,
    /// By step, ranks and unit: both ends of a connection see the same order.
    pub sent: Vec<Sent>,
}

/// Reads the steps of a plan that the checker found right. `owners` are the ranks of the job by rank of the plan.
pub fn follow(
    plan: &Plan,
    topology: &Topology,
    steps: &Steps,
    owners: &[u32],
    ranks: &HashMap<usize, u32>,
) -> Result<(Vec<Tree>, Stepped), Problems> {
    let refuse = |key: &str, message: &str, allowed: &str| {
        Err(Problems::from(Problem::new(UNSUPPORTED_FIELD, key, message).allowed(allowed)))
    };
    if steps.step_length.is_some() {
        return refuse(
            "/content/step_length",
            "steps through switches cannot be followed",
            "steps between participants",
        );
    }
    if ranks.keys().any(|node| topology.nodes()[*node].weight != 1) {
        return refuse("/topology/inline/nodes", "steps of unequal shards cannot be followed", "weight 1");
    }
    let mut sent = Vec::new();
    for (number, step) in (0_u32..).zip(&steps.steps) {
        for (s, send) in step.sends.iter().enumerate() {
            let link = topology.links().get(send.link as usize);
            let ends = link.and_then(|link| Some((*ranks.get(&link.from)?, *ranks.get(&link.to)?)));
            let owner = match send.shard {
                Shard::Of(rank) => owners.get(rank as usize),
                Shard::Between(..) => None,
            };
            let (Some((from, to)), Some(owner)) = (ends, owner) else {
                let key = format!("/content/steps/{number}/sends/{s}");
                return refuse(&key, "a send that cannot be followed", "shards and links of participants");
            };
            let first = u64::from(*owner) * steps.p;
            let adds = step.op == Op::Reduce;
            let (first, end, link) = (first + send.lo, first + send.hi, send.link);
            sent.push(Sent { step: number, from, to, first, end, adds, link });
        }
    }
    sent.sort_unstable();
    let trees = trees(plan, &sent, owners.len(), steps.p, "/content/steps")?;
    Ok((trees, Stepped { shard: steps.p, waits: Waits::Step, sent }))
}

/// The ways of all parts: neighbouring units with the same way are one tree. `at`: where they stand in the plan.
pub fn trees(plan: &Plan, sent: &[Sent], n: usize, shard: u64, at: &str) -> Result<Vec<Tree>, Problems> {
    let mut of_shards: BTreeMap<(bool, u64), Vec<&Sent>> = BTreeMap::new();
    for one in sent {
        // In-trees first, as for plans of trees.
        of_shards.entry((!one.adds, one.first / shard.max(1))).or_default().push(one);
    }
    let (mut trees, mut edges_of_all) = (Vec::<Tree>::new(), 0);
    for ((copies, owner), mut ways) in of_shards {
        ways.sort_unstable_by_key(|way| way.first);
        let mut borders: Vec<u64> = ways.iter().flat_map(|way| [way.first, way.end]).collect();
        borders.sort_unstable();
        borders.dedup();
        let mut open: Vec<&Sent> = Vec::new();
        let mut next = ways.iter().peekable();
        for pair in borders.windows(2) {
            open.retain(|way| way.end > pair[0]);
            while let Some(way) = next.next_if(|way| way.first <= pair[0]) {
                open.push(way);
            }
            let mut edges: Vec<(u32, u32)> = open.iter().map(|way| (way.from, way.to)).collect();
            edges.sort_unstable();
            let ends: HashSet<u32> = edges.iter().map(|edge| if copies { edge.1 } else { edge.0 }).collect();
            if edges.len() + 1 != n || ends.len() != edges.len() || ends.contains(&(owner as u32)) {
                let message = format!("units {} to {} of the data enter or leave a rank twice", pair[0], pair[1]);
                let error = Problem::new(UNSUPPORTED_FIELD, at, message);
                return Err(error.allowed("sends that bring every part to every rank once").into());
            }
            let scaled = |unit: u64| (u128::from(unit) * u128::from(WHOLE) / (n as u128 * u128::from(shard))) as u64;
            let part: Range<u64> = scaled(pair[0])..scaled(pair[1]);
            let direction = if copies { Direction::Out } else { Direction::In };
            match trees.last_mut() {
                Some(last)
                    if last.direction == direction
                        && last.part.end == part.start
                        && last.root == owner as u32
                        && last.edges == edges =>
                {
                    last.part.end = part.end;
                }
                _ => {
                    edges_of_all += edges.len();
                    trees.push(Tree { direction, root: owner as u32, part, edges });
                }
            }
            if edges_of_all > MAX_EDGES {
                let error = Problem::new(E_LIMIT, at, "the ways of all parts are too many to be followed");
                return Err(error.allowed(format!("{MAX_EDGES} edges")).help("plan with fewer units: --chunks").into());
            }
        }
    }
    let phases = if plan.body.collective == crate::plan::Collective::AllReduce { 2 } else { 1 };
    let covered: u128 = trees.iter().map(|tree| u128::from(tree.part.end - tree.part.start)).sum();
    if covered != phases * u128::from(WHOLE) {
        let error = Problem::new(E_RANGE, at, "the parts do not add up to the data");
        return Err(error.found(covered.to_string()).allowed((phases * u128::from(WHOLE)).to_string()).into());
    }
    Ok(trees)
}

#[cfg(test)]
mod tests;
