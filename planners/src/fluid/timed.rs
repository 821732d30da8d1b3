//! A fabric step by step: which nodes the data of a block can be at after how many steps, how many steps there must be, and
//! how short a step can be.
//!
//! In one step data crosses one link, or waits where it can be stored. A place is a node after a number of steps; data of a
//! block begins at its root after none and is at every end after all of them.

use super::demand::{Block, Demand, Direction};
use super::instance::Instance;
use super::network::Network;
use super::refusal::Refusal;
use sluice_formats::quantity::Rational;

/// Places of a block, and waits and crossings between them, at most.
const MAX_PLACES: usize = 4_000_000;

/// The fabric as blocks see it: as it is, or with its links turned round, where data comes from the ends; and the blocks.
///
/// # Errors
/// `BadParameter` for an all-reduce, which has two phases.
pub fn side(instance: &Instance<'_>) -> Result<(Network, Vec<Block>), Refusal> {
    let Demand::Blocks(blocks) = &instance.demand else {
        return Err(Refusal::BadParameter {
            name: "collective",
            found: instance.asked.collective.word().into(),
            allowed: "a collective of one phase; an all-reduce is a reduce_scatter and then an allgather",
        });
    };
    // All blocks of a collective go the same way.
    let inward = blocks.iter().any(|block| block.direction == Direction::In);
    let network = if inward { instance.network.reversed() } else { instance.network.clone() };
    Ok((network, blocks.clone()))
}

/// The places that lie between a beginning and what is reached from it, or that reach it.
#[derive(Clone, Debug)]
pub struct Reach {
    nodes: usize,
    places: Vec<bool>,
}

impl Reach {
    /// Where data can be that is at this node before the first step.
    pub fn from(network: &Network, root: u32, steps: usize) -> Reach {
        let nodes = network.nodes();
        let mut reach = Reach { nodes, places: vec![false; nodes * (steps + 1)] };
        if let Some(start) = reach.places.get_mut(root as usize) {
            *start = true;
        }
        for step in 0..steps {
            let (before, after) = reach.places[step * nodes..].split_at_mut(nodes);
            advance(network, before, after);
        }
        reach
    }

    /// Where data can be that is to be at this node after the last step.
    pub fn to(network: &Network, end: u32, steps: usize) -> Reach {
        let nodes = network.nodes();
        let mut reach = Reach { nodes, places: vec![false; nodes * (steps + 1)] };
        if let Some(last) = reach.places.get_mut(steps * nodes + end as usize) {
            *last = true;
        }
        for step in (0..steps).rev() {
            let (before, after) = reach.places[step * nodes..].split_at_mut(nodes);
            for (node, can) in network.can.iter().enumerate() {
                let goes_on =
                    || network.out(node as u32).iter().any(|edge| after[network.edges[*edge as usize].to as usize]);
                before[node] = (can.store && after[node]) || goes_on();
            }
        }
        reach
    }

    /// Is this place among them?
    pub fn has(&self, node: u32, step: usize) -> bool {
        self.places.get(step * self.nodes + node as usize).copied().unwrap_or(false)
    }
}

/// Where data can be one step later.
fn advance(network: &Network, before: &[bool], after: &mut [bool]) {
    for (node, can) in network.can.iter().enumerate() {
        after[node] = can.store && before[node];
    }
    for edge in network.edges.iter().filter(|edge| before[edge.from as usize]) {
        after[edge.to as usize] = true;
    }
}

/// The fewest steps, not below `least`, after exactly which data of every root can be at every end. Where roots or ends
/// store, that is how many links the farthest end is away, and any number above it does too.
///
/// # Errors
/// `Unreachable` where there is no such number; `TooLarge` for more places than can be followed.
pub fn fewest_steps(network: &Network, blocks: &[Block], least: usize) -> Result<usize, Refusal> {
    let nodes = network.nodes();
    let mut roots: Vec<u32> = blocks.iter().map(|block| block.root).collect();
    roots.sort_unstable();
    roots.dedup();
    fits(network, least)?;
    let start = |root: &u32| (0..nodes as u32).map(|node| node == *root).collect::<Vec<bool>>();
    let mut now: Vec<Vec<bool>> = roots.iter().map(start).collect();
    let mut next = vec![false; nodes];
    // Where data is repeats sooner or later; two rounds over all nodes show all repetitions but contrived ones.
    let last = least.saturating_add(2 * nodes);
    for step in 0.. {
        let missing = |block: &&Block| {
            let at = roots.binary_search(&block.root).map_or(&[][..], |place| &now[place][..]);
            block.ends.iter().any(|end| !at.get(*end as usize).copied().unwrap_or(false))
        };
        match blocks.iter().find(missing) {
            _ if step < least => {}
            None => return Ok(step),
            Some(block) if step == last => {
                let at = roots.binary_search(&block.root).map_or(&[][..], |place| &now[place][..]);
                let end = block.ends.iter().find(|end| !at.get(**end as usize).copied().unwrap_or(false));
                let (root, end) = (block.root, end.copied().unwrap_or(block.root));
                let (origin, destination) = match block.direction {
                    Direction::Out => (root, end),
                    Direction::In => (end, root),
                };
                return Err(Refusal::Unreachable { origin, destination });
            }
            Some(_) => {}
        }
        for places in &mut now {
            advance(network, places, &mut next);
            std::mem::swap(places, &mut next);
        }
    }
    Ok(last)
}

/// Are so many steps enough?
///
/// # Errors
/// `HorizonTooShort`, with the fewest that are enough; those of [`fewest_steps`].
pub fn are_enough(network: &Network, blocks: &[Block], steps: usize) -> Result<(), Refusal> {
    match fewest_steps(network, blocks, steps)? {
        fewest if fewest == steps => Ok(()),
        need => Err(Refusal::HorizonTooShort { horizon: steps, need }),
    }
}

/// Can the places of so many steps be followed?
///
/// # Errors
/// `TooLarge`.
pub fn fits(network: &Network, steps: usize) -> Result<(), Refusal> {
    let places = steps.saturating_add(1).saturating_mul(network.nodes() + network.edges.len());
    if places > MAX_PLACES {
        return Err(Refusal::TooLarge { what: "nodes and links, times steps", found: places, allowed: MAX_PLACES });
    }
    Ok(())
}

/// No step is shorter in which a piece of each block moves, where blocks are cut into `chunks` pieces: some piece must go all
/// of a way, and this is what the slowest limit on the widest way needs for it. Steps of this length are long enough to move
/// one piece at a time.
pub fn shortest_step(network: &Network, blocks: &[Block], chunks: u64) -> f64 {
    let mut rates = vec![f64::INFINITY; network.edges.len()];
    for (_, group) in network.limits() {
        group.edges.iter().for_each(|edge| rates[*edge as usize] = rates[*edge as usize].min(group.rate));
    }
    let of = |block: &Block| {
        let widest = widest(network, &rates, block.root);
        let rate = block.ends.iter().map(|end| widest[*end as usize]).fold(f64::INFINITY, f64::min);
        let piece = block.units.checked_div(&Rational::from(chunks)).unwrap_or(Rational::ZERO).to_f64();
        if rate.is_finite() { piece / rate } else { 0.0 }
    };
    blocks.iter().map(of).fold(0.0, f64::max)
}

/// By node the rate of the widest way from a root.
fn widest(network: &Network, rates: &[f64], root: u32) -> Vec<f64> {
    let mut widest = vec![0.0; network.nodes()];
    let mut done = vec![false; network.nodes()];
    widest[root as usize] = f64::INFINITY;
    for _ in 0..network.nodes() {
        let open = (0..done.len()).filter(|node| !done[*node]);
        let Some(node) = open.max_by(|a, b| widest[*a].total_cmp(&widest[*b])) else { break };
        done[node] = true;
        for edge in network.out(node as u32) {
            let (to, rate) = (network.edges[*edge as usize].to as usize, rates[*edge as usize]);
            widest[to] = f64::max(widest[to], f64::min(widest[node], rate));
        }
    }
    widest
}

#[cfg(test)]
mod tests {
    use super::super::demand::Shape;
    use super::super::testing::networks;
    use super::*;
    use proptest::prelude::*;

    fn block(root: u32, ends: Vec<u32>) -> Block {
        Block { root, ends, units: Rational::ONE, direction: Direction::Out, shape: Shape::Tree }
    }

    /// All places of all walks, one by one.
    fn walks(network: &Network, root: u32, steps: usize) -> Vec<(u32, usize)> {
        let mut places = vec![(root, 0)];
        let mut at = 0;
        while let Some((node, step)) = places.get(at).copied() {
            let over = network.out(node).iter().map(|edge| network.edges[*edge as usize].to);
            let waits = network.can[node as usize].store.then_some(node);
            for next in over.chain(waits).filter(|_| step < steps) {
                if !places.contains(&(next, step + 1)) {
                    places.push((next, step + 1));
                }
            }
            at += 1;
        }
        places
    }

    proptest! {
        #[test]
        fn places_are_those_of_walks(network in networks(5), steps in 0_usize..6) {
            let from = Reach::from(&network, 0, steps);
            let walks = walks(&network, 0, steps);
            for node in 0..network.nodes() as u32 {
                let to = Reach::to(&network, node, steps);
                for step in 0..=steps {
                    prop_assert_eq!(from.has(node, step), walks.contains(&(node, step)));
                }
                prop_assert_eq!(to.has(0, 0), from.has(node, steps));
            }
        }

        #[test]
        fn the_fewest_steps_are_the_links_to_the_farthest_end(network in networks(6)) {
            let hops = network.hops(0);
            let ends: Vec<u32> = (1..network.nodes() as u32).filter(|node| hops[*node as usize].is_some()).collect();
            let far = ends.iter().filter_map(|end| hops[*end as usize]).max().unwrap_or(0) as usize;
            let blocks = [block(0, ends)];
            // The root stores.
            prop_assert_eq!(fewest_steps(&network, &blocks, 0), Ok(far));
            for steps in 0..far + 3 {
                let said = are_enough(&network, &blocks, steps);
                let expected = if steps < far { Err(Refusal::HorizonTooShort { horizon: steps, need: far }) } else { Ok(()) };
                prop_assert_eq!(said, expected);
            }
        }

        #[test]
        fn widest_ways_are_those_of_all_ways(network in networks(5)) {
            let mut rates = vec![f64::INFINITY; network.edges.len()];
            for (_, group) in network.limits() {
                group.edges.iter().for_each(|edge| rates[*edge as usize] = rates[*edge as usize].min(group.rate));
            }
            let mut plain = vec![0.0; network.nodes()];
            plain[0] = f64::INFINITY;
            for _ in 0..network.nodes() {
                for (edge, rate) in network.edges.iter().zip(&rates) {
                    plain[edge.to as usize] = f64::max(plain[edge.to as usize], f64::min(plain[edge.from as usize], *rate));
                }
            }
            prop_assert_eq!(widest(&network, &rates, 0), plain);
        }
    }

    #[test]
    fn what_never_waits_must_arrive_in_time() {
        // A circle of three nodes that cannot store: node 1 is reached after 1, 4, 7 … steps.
        let can = vec![sluice_formats::topology::Can { store: false, copy: true, reduce: true }; 3];
        let edge = |from: u32, to: u32| super::super::network::Edge { from, to, cost: 1.0 };
        let network = Network::new(can, vec![edge(0, 1), edge(1, 2), edge(2, 0)], Vec::new());
        assert_eq!(fewest_steps(&network, &[block(0, vec![1])], 2), Ok(4));
        let short = Refusal::HorizonTooShort { horizon: 2, need: 4 };
        assert_eq!(are_enough(&network, &[block(0, vec![1])], 2), Err(short));
        let never = Refusal::Unreachable { origin: 0, destination: 2 };
        assert_eq!(fewest_steps(&network, &[block(0, vec![1, 2])], 1), Err(never));
        assert_eq!(fits(&network, usize::MAX).map_err(|refusal| refusal.code()), Err("TooLarge"));
    }
}
