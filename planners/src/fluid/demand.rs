//! A collective as blocks: data of one node for others, or of others for one.

use super::network::Network;
use super::refusal::Refusal;
use crate::teccl;
use sluice_formats::quantity::Rational;
use sluice_plan::plan::Collective;
use std::collections::BTreeMap;

/// Which way the data of a block moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the root to its ends.
    Out,
    /// From its ends to the root. Planned as outward over all links turned round.
    In,
}

/// What a block's ends have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shape {
    /// The same data for all ends (or one sum of all their data): trees.
    Tree,
    /// Data of its own for every end: paths.
    Paths,
}

/// Data of one node for others, or of others for one.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Where it begins, or ends.
    pub root: u32,
    /// Where it is wanted, or comes from; ascending, without the root.
    pub ends: Vec<u32>,
    /// How much: of trees in all, of paths for each end.
    pub units: Rational,
    /// Does the data go out from the root, or come together there?
    pub direction: Direction,
    /// The same for all ends, or not.
    pub shape: Shape,
}

/// What is to be moved.
#[derive(Clone, Debug, PartialEq)]
pub enum Demand {
    /// These blocks, all at once.
    Blocks(Vec<Block>),
    /// One unit, each part of which is first summed up at one of the roots and then spread: who takes part, and who can be
    /// such a root, both ascending.
    AllReduce {
        /// All of them give and get everything.
        members: Vec<u32>,
        /// Those that can copy and add up.
        roots: Vec<u32>,
    },
}

impl Demand {
    /// What a collective of these nodes asks for, in the units of the method: an all-gather moves a unit of every node, an
    /// all-to-all a unit for every pair; all others share one unit.
    ///
    /// # Errors
    /// `EmptyCollective`, `EndpointCannotCopy`, `EndpointCannotReduce`, `NoRoot`, `Unreachable`.
    pub fn of(
        network: &Network,
        collective: Collective,
        participants: &[usize],
        root: Option<usize>,
    ) -> Result<Demand, Refusal> {
        let mut members: Vec<u32> = participants.iter().map(|node| *node as u32).collect();
        let root = root.map(|rank| members[rank]);
        members.sort_unstable();
        if members.len() < 2 {
            return Err(Refusal::EmptyCollective { found: members.len() });
        }
        let part = Rational::new(1, members.len() as i128).unwrap_or(Rational::ONE);
        let block = |root: u32, units: &Rational, direction, shape| Block {
            root,
            ends: members.iter().copied().filter(|member| *member != root).collect(),
            units: units.clone(),
            direction,
            shape,
        };
        let every = |units: &Rational, direction, shape| -> Vec<Block> {
            members.iter().map(|root| block(*root, units, direction, shape)).collect()
        };
        let one = |units: &Rational, direction, shape| -> Vec<Block> {
            root.iter().map(|root| block(*root, units, direction, shape)).collect()
        };
        let demand = match collective {
            Collective::AllGather => Demand::Blocks(every(&Rational::ONE, Direction::Out, Shape::Tree)),
            Collective::ReduceScatter => Demand::Blocks(every(&part, Direction::In, Shape::Tree)),
            Collective::AllToAll => Demand::Blocks(every(&Rational::ONE, Direction::Out, Shape::Paths)),
            Collective::Broadcast => Demand::Blocks(one(&Rational::ONE, Direction::Out, Shape::Tree)),
            Collective::Reduce => Demand::Blocks(one(&Rational::ONE, Direction::In, Shape::Tree)),
            Collective::Scatter => Demand::Blocks(one(&part, Direction::Out, Shape::Paths)),
            Collective::Gather => Demand::Blocks(one(&part, Direction::In, Shape::Paths)),
            Collective::AllReduce => {
                let able = |node: &u32| network.can[*node as usize].copy && network.can[*node as usize].reduce;
                let roots = members.iter().copied().filter(able).collect();
                Demand::AllReduce { members, roots }
            }
            Collective::Custom => Demand::Blocks(Vec::new()),
        };
        demand.valid(network)?;
        Ok(demand)
    }

    /// What tenants want: a unit for every chunk, chunks of one source for the same nodes in one block.
    ///
    /// # Errors
    /// As [`Demand::of`].
    pub fn of_chunks(network: &Network, wanted: &teccl::demand::Demand) -> Result<Demand, Refusal> {
        let mut units: BTreeMap<(u32, Vec<u32>), u64> = BTreeMap::new();
        for chunk in &wanted.chunks {
            let ends = chunk.wanted_by.iter().map(|node| *node as u32).collect();
            *units.entry((chunk.source as u32, ends)).or_default() += 1;
        }
        let block = |((root, ends), units): ((u32, Vec<u32>), u64)| Block {
            root,
            ends,
            units: units.into(),
            direction: Direction::Out,
            shape: Shape::Tree,
        };
        let demand = Demand::Blocks(units.into_iter().map(block).collect());
        demand.valid(network)?;
        Ok(demand)
    }

    /// Nodes that must copy or add up can, and every way exists.
    fn valid(&self, network: &Network) -> Result<(), Refusal> {
        let mut turned = None;
        let blocks: Vec<Block> = match self {
            Demand::Blocks(blocks) if blocks.is_empty() => return Err(Refusal::EmptyCollective { found: 0 }),
            Demand::Blocks(blocks) => blocks.clone(),
            Demand::AllReduce { roots, .. } if roots.is_empty() => return Err(Refusal::NoRoot),
            Demand::AllReduce { members, roots } => both(members, roots[0]),
        };
        for block in &blocks {
            let side = match block.direction {
                Direction::Out => network,
                Direction::In => turned.get_or_insert_with(|| network.reversed()),
            };
            if block.shape == Shape::Tree
                && let Some(node) = std::iter::once(&block.root).chain(&block.ends).find(|node| !side.copies(**node))
                && !matches!(self, Demand::AllReduce { .. })
            {
                return Err(match block.direction {
                    Direction::Out => Refusal::EndpointCannotCopy { node: *node },
                    Direction::In => Refusal::EndpointCannotReduce { node: *node },
                });
            }
            let hops = side.hops(block.root);
            if let Some(end) = block.ends.iter().find(|end| hops[**end as usize].is_none()) {
                let (origin, destination) = match block.direction {
                    Direction::Out => (block.root, *end),
                    Direction::In => (*end, block.root),
                };
                return Err(Refusal::Unreachable { origin, destination });
            }
        }
        Ok(())
    }

    /// The blocks; of an all-reduce those of both phases for every root, each of a whole unit.
    pub fn blocks(&self) -> Vec<Block> {
        match self {
            Demand::Blocks(blocks) => blocks.clone(),
            Demand::AllReduce { members, roots } => roots.iter().flat_map(|root| both(members, *root)).collect(),
        }
    }
}

/// Both phases of an all-reduce whose whole unit is summed up at one node: first in, then out.
fn both(members: &[u32], root: u32) -> Vec<Block> {
    let block = |direction| Block {
        root,
        ends: members.iter().copied().filter(|member| *member != root).collect(),
        units: Rational::ONE,
        direction,
        shape: Shape::Tree,
    };
    vec![block(Direction::In), block(Direction::Out)]
}
