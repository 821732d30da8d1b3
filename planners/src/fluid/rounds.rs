//! Whole pieces step by step: from how often an integer program crosses links to sends that serve somebody, their exact
//! figures, and a plan of steps.
//!
//! Every block's data is cut into equally large pieces. A send takes one piece over one link in one step. Blocks that move
//! inward were planned with links turned round, so their steps are written backwards, and what was copied is added up.

use super::demand::{Block, Direction, Shape};
use super::instance::Instance;
use super::network::Network;
use super::refusal::Refusal;
use super::to_plan::{Made, Proofs, proven};
use super::view::View;
use sluice_formats::problem::Problems;
use sluice_formats::quantity::Rational;
use sluice_plan::plan::{Collective, Content, Names, Op, Shard, Step, StepSend, Steps};
use std::collections::BTreeMap;

/// How often a program crosses links, and waits at nodes, in each step: whole numbers.
#[derive(Clone, Debug)]
pub struct Crossed {
    /// By step and link of a view.
    pub links: Vec<Vec<u32>>,
    /// By step and node of a view: of trees only at nodes that cannot copy, elsewhere waiting is free.
    pub waits: Vec<Vec<u32>>,
}

/// A piece over a link in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Crossing {
    /// The step, counted from 0.
    pub step: u32,
    /// The block's place in the demand.
    pub block: u32,
    /// The end that the piece is for, where each has data of its own.
    pub end: Option<u32>,
    /// The piece's number in its block.
    pub piece: u64,
    /// The link's place in the network.
    pub edge: u32,
}

/// A schedule of pieces.
#[derive(Clone, Debug, PartialEq)]
pub struct Rounds {
    /// Steps, empty ones too.
    pub steps: usize,
    /// Pieces of a block's data; of paths, for each end.
    pub pieces: u64,
    /// All sends, ascending. Of blocks that move inward with steps counted from the end.
    pub crossings: Vec<Crossing>,
}

fn broken() -> Refusal {
    Refusal::Solver { status: "crossings that are no schedule".into() }
}

/// One piece of a tree: of what was crossed what serves the ends. In the view nodes that cannot copy are taken apart.
///
/// # Errors
/// `Solver` where some end is not served.
pub fn of_tree(view: &View, network: &Network, block: &Block, crossed: &Crossed) -> Result<Vec<(u32, u32)>, Refusal> {
    let there = held(view, network, block.root, crossed);
    let seen = &view.network;
    let copies = |node: u32| network.copies(view.node(node));
    let mut sends = Vec::new();
    let mut needed = vec![0_u32; seen.nodes()];
    block.ends.iter().for_each(|end| needed[*end as usize] = 1);
    for step in (0..crossed.links.len()).rev() {
        let mut before = vec![0_u32; seen.nodes()];
        // Of what can be copied one is as good as many.
        let need = |before: &mut Vec<u32>, node: u32, times: u32| {
            let of = &mut before[node as usize];
            *of = if copies(node) { (*of).max(times.min(1)) } else { *of + times };
        };
        for node in 0..seen.nodes() as u32 {
            let mut open = needed[node as usize];
            let held = there[step][node as usize];
            let waits = match copies(node) {
                true => u32::from(seen.can[node as usize].store && held > 0),
                false => crossed.waits[step][node as usize].min(held),
            };
            let waits = waits.min(open);
            need(&mut before, node, waits);
            open -= waits;
            for edge in seen.into(node) {
                let from = seen.edges[*edge as usize].from;
                let there = match (there[step][from as usize], copies(from)) {
                    (1.., true) => u32::MAX,
                    (held, _) => held,
                };
                let times = open.min(crossed.links[step][*edge as usize]).min(there);
                open -= times;
                sends.extend((0..times).map(|_| (step as u32, view.original[*edge as usize])));
                need(&mut before, from, times);
            }
            if open > 0 {
                return Err(broken());
            }
        }
        needed = before;
    }
    let elsewhere = needed.iter().enumerate().any(|(node, needed)| *needed > 0 && node != block.root as usize);
    if elsewhere { Err(broken()) } else { Ok(sends) }
}

/// By step and node how many of a piece can be there before it: one is as good as many where it can be copied.
fn held(view: &View, network: &Network, root: u32, crossed: &Crossed) -> Vec<Vec<u32>> {
    let seen = &view.network;
    let mut there = vec![vec![0_u32; seen.nodes()]];
    there[0][root as usize] = 1;
    for (links, waits) in crossed.links.iter().zip(&crossed.waits) {
        let before = &there[there.len() - 1];
        let next = (0..seen.nodes() as u32).map(|node| {
            let copies = network.copies(view.node(node));
            let over = seen.into(node).iter().filter(|edge| before[seen.edges[**edge as usize].from as usize] > 0);
            let over: u32 = over.map(|edge| links[*edge as usize]).sum();
            let held = before[node as usize];
            match copies {
                true => u32::from(over > 0 || (seen.can[node as usize].store && held > 0)),
                false => over + waits[node as usize].min(held),
            }
        });
        let next = next.collect();
        there.push(next);
    }
    there
}

/// All pieces of a block whose ends have data of their own: by end and piece the links of its way, with their steps.
///
/// # Errors
/// `Solver` where some way has a gap.
pub fn of_paths(network: &Network, block: &Block, pieces: u64, mut crossed: Crossed) -> Result<Vec<Crossing>, Refusal> {
    let mut sends = Vec::new();
    let steps = crossed.links.len();
    for end in &block.ends {
        for piece in 0..pieces {
            let mut node = *end;
            for step in (0..steps).rev() {
                let waits = crossed.waits[step].get_mut(node as usize).filter(|waits| **waits > 0);
                if let Some(waits) = waits {
                    *waits -= 1;
                    continue;
                }
                let edge = network.into(node).iter().find(|edge| crossed.links[step][**edge as usize] > 0);
                let edge = *edge.ok_or_else(broken)?;
                crossed.links[step][edge as usize] -= 1;
                sends.push(Crossing { step: step as u32, block: 0, end: Some(*end), piece, edge });
                node = network.edges[edge as usize].from;
            }
            if node != block.root {
                return Err(broken());
            }
        }
    }
    Ok(sends)
}

impl Rounds {
    /// What the fullest limit needs for its fullest step, per base unit of data; a unit of the method is one.
    pub fn step_length(&self, instance: &Instance<'_>, blocks: &[Block]) -> Rational {
        let topology = instance.asked.topology;
        let mut of_link: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (number, group) in topology.groups().iter().enumerate() {
            group.links.iter().for_each(|link| of_link.entry(*link).or_default().push(number));
        }
        let mut longest = Rational::ZERO;
        for step in self.crossings.chunk_by(|a, b| a.step == b.step) {
            let mut links: BTreeMap<usize, Rational> = BTreeMap::new();
            for crossing in step {
                *links.entry(crossing.edge as usize).or_insert(Rational::ZERO) += &self.amount(blocks, crossing);
            }
            let mut groups: BTreeMap<usize, Rational> = BTreeMap::new();
            for (link, amount) in &links {
                for group in of_link.get(link).into_iter().flatten() {
                    *groups.entry(*group).or_insert(Rational::ZERO) += amount;
                }
            }
            let single = links.iter().map(|(link, amount)| (&topology.links()[*link].capacity, amount));
            let joint = groups.iter().map(|(group, amount)| (&topology.groups()[*group].capacity, amount));
            for (capacity, amount) in single.chain(joint) {
                let time = capacity.finite().and_then(|rate| amount.checked_div(rate));
                longest = time.into_iter().fold(longest, Rational::max);
            }
        }
        longest
    }

    /// What all sends cost together, in units of the method.
    pub fn cost(&self, instance: &Instance<'_>, blocks: &[Block]) -> Rational {
        let links = instance.asked.topology.links();
        let cost = |crossing: &Crossing| &self.amount(blocks, crossing) * &links[crossing.edge as usize].cost;
        self.crossings.iter().map(cost).fold(Rational::ZERO, |sum, cost| &sum + &cost)
    }

    fn amount(&self, blocks: &[Block], crossing: &Crossing) -> Rational {
        let units = &blocks[crossing.block as usize].units;
        units.checked_div(&Rational::from(self.pieces)).unwrap_or(Rational::ZERO)
    }

    /// Is there a plan for it? Plans of steps are of collectives, whose participants keep what they have.
    pub fn can_be_planned(instance: &Instance<'_>) -> bool {
        let asked = &instance.asked;
        let store = |node: &usize| asked.topology.nodes()[*node].can.store;
        instance.wanted.is_none() && asked.collective != Collective::Custom && asked.participants.iter().all(store)
    }

    /// The plan with steps of this length, per base unit of data, which claims what the checker finds of it.
    ///
    /// # Errors
    /// `Solver` where the checker refuses it.
    pub fn plan(
        &self,
        instance: &Instance<'_>,
        blocks: &[Block],
        length: &Rational,
        proofs: Proofs<'_>,
    ) -> Result<Made, Problems> {
        let asked = &instance.asked;
        let rank = |node: u32| asked.participants.iter().position(|other| *other == node as usize).unwrap_or(0) as u32;
        let inward = blocks.iter().any(|block| block.direction == Direction::In);
        let reduces = inward && blocks.iter().all(|block| block.shape == Shape::Tree);
        let op = if reduces { Op::Reduce } else { Op::Copy };
        let mut steps: Vec<Step> = (0..self.steps).map(|_| Step { copies: None, op, sends: Vec::new() }).collect();
        for crossing in &self.crossings {
            let root = rank(blocks[crossing.block as usize].root);
            let shard = match (crossing.end.map(rank), asked.collective) {
                (Some(end), Collective::AllToAll) => Shard::Between(root, end),
                (Some(end), _) => Shard::Of(end),
                (None, _) => Shard::Of(root),
            };
            let step = crossing.step as usize;
            let step = if inward { self.steps.saturating_sub(step + 1) } else { step };
            let send = StepSend { shard, lo: crossing.piece, hi: crossing.piece + 1, link: crossing.edge };
            steps[step].sends.push(send);
        }
        for step in &mut steps {
            step.sends.sort_unstable_by_key(|send| (send.shard, send.lo, send.link));
        }
        let length = length.checked_div(&instance.units()).unwrap_or(Rational::ZERO);
        let content = Steps { p: self.pieces, shares: None, step_length: Some(length), steps };
        proven(instance, Names::default(), Content::Steps(content), self.crossings.len(), proofs)
    }
}
