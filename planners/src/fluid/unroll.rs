//! From fluid to steps: every route's part is cut into K chunks that follow each other at the distance of one step.
//!
//! Chunk k crosses a link in step k + pos, where pos is how many links lie before it on its way; a chunk never waits, so
//! that it does not matter who can store. Sums are the same backwards in time. Of an all-reduce every part has a tree to be
//! summed up by and one to be spread by, and the second begins when the first has ended. A step carries at most the K-th
//! part of what the fluid carries in all, so that steps of length R/K are long enough: T + K − 1 of them, where T is the
//! longest way, take R · (T + K − 1)/K.
//!
//! Parts are whole units of a shard. Where their fractions have no denominator that small, they are rounded by largest
//! remainder, and R is what the rounded parts come to.

use super::demand::{Direction, Shape};
use super::instance::Instance;
use super::refusal::Refusal;
use super::to_plan::Mixing;
use super::tree::Route;
use num_bigint::BigInt;
use sluice_formats::quantity::{Rational, common_denominator};
use sluice_plan::plan::{Collective, MAX_EDGES, Op, Shard, Step, StepSend, Steps};
use std::collections::BTreeMap;

/// Units of a shard at most, and what the shares of an all-reduce add up to at most.
const MAX_UNITS: u64 = 1 << 36;

/// Steps, and what they come to.
#[derive(Clone, Debug, PartialEq)]
pub struct Unrolled {
    /// The steps, with their length.
    pub steps: Steps,
    /// Into how many chunks every part is cut.
    pub chunks: u64,
    /// Steps that a chunk is under way at most.
    pub depth: u64,
    /// Routes of all shares, each counted once however many chunks take it.
    pub routes: usize,
    /// T/M of the fluid with these parts.
    pub fluid: Rational,
    /// T/M of all steps, each as long as what is in it needs.
    pub busy: Rational,
    /// Were the parts rounded?
    pub is_rounded: bool,
}

impl Unrolled {
    /// T/M of all steps.
    pub fn time(&self) -> Rational {
        let length = self.steps.step_length.clone().unwrap_or(Rational::ZERO);
        &length * &Rational::from(self.steps.steps.len() as u64)
    }
}

/// A link that a chunk crosses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Crossing {
    /// Steps after the first in which the chunk could be anywhere.
    after: u32,
    link: u32,
    /// Does it carry a sum to be added to?
    adds: bool,
}

/// A part of a shard and how it goes.
struct Lane {
    shard: Shard,
    /// The share of all data that the shard is, in parts of [`Lanes::total`].
    share: u64,
    /// The first unit of it, in P/K-ths of the shard, and how many.
    lo: u64,
    units: u64,
    crossings: Vec<Crossing>,
}

/// Everything that is moved, once for each chunk.
struct Lanes {
    list: Vec<Lane>,
    /// Units of a shard over K.
    units: u64,
    /// What the shares are parts of.
    total: u64,
    /// By rank, of an all-reduce that is not summed up everywhere alike.
    shares: Option<Vec<u64>>,
    is_rounded: bool,
}

/// Steps that do in chunks what routes do as a fluid.
///
/// # Errors
/// `BadParameter` for no chunk at all, `TooLarge` where there would be too many sends.
pub fn unroll(instance: &Instance<'_>, mixing: &Mixing<'_>, chunks: u64) -> Result<Unrolled, Refusal> {
    if chunks == 0 {
        return Err(Refusal::BadParameter { name: "steps", found: "0".into(), allowed: "1 or more" });
    }
    let crossings = crossings(mixing);
    let allowed = MAX_EDGES.checked_div(crossings).unwrap_or(MAX_EDGES);
    if allowed == 0 {
        let (found, allowed) = (crossings as usize, MAX_EDGES as usize);
        return Err(Refusal::TooLarge { what: "links that routes cross", found, allowed });
    }
    if chunks > allowed {
        return Err(Refusal::TooManyChunks { found: chunks, allowed });
    }
    let depths = Depths::of(mixing);
    let lanes = Lanes::of(instance, mixing, &depths, chunks);
    let (fluid, busy) = times(instance, &lanes, depths.all(), chunks);
    let length = fluid.checked_div(&Rational::from(chunks)).unwrap_or(Rational::ZERO);
    let steps = Steps {
        p: lanes.units * chunks,
        step_length: Some(length),
        steps: steps(&lanes, &depths, chunks),
        shares: lanes.shares,
    };
    let (depth, routes, is_rounded) = (depths.all(), lanes.list.len(), lanes.is_rounded);
    Ok(Unrolled { steps, chunks, depth, routes, fluid, busy, is_rounded })
}

/// Links that all routes cross together.
fn crossings(mixing: &Mixing<'_>) -> u64 {
    let of_route = |route: &Route| -> u64 {
        match route {
            Route::Tree(tree) => tree.arcs.iter().map(|arc| arc.path.len() as u64).sum(),
            Route::Paths(paths) => paths.iter().map(|path| path.edges.len() as u64).sum(),
        }
    };
    let of_mixed = |mixed: &super::to_plan::Mixed| {
        let images = mixing.folding.classes[mixed.class].images.len() as u64;
        images.saturating_mul(mixed.routes.iter().map(of_route).sum())
    };
    mixing.mixed.iter().map(of_mixed).fold(0, u64::saturating_add)
}

/// The longest ways: of what moves inward, and of what moves outward.
struct Depths {
    inward: u64,
    outward: u64,
    /// Is what moves inward added up?
    adds: bool,
}

impl Depths {
    fn of(mixing: &Mixing<'_>) -> Depths {
        let mut depths = Depths { inward: 0, outward: 0, adds: false };
        for mixed in &mixing.mixed {
            let blocks = &mixing.folding.classes[mixed.class].job.blocks;
            for (block, route) in blocks.iter().zip(&mixed.routes) {
                let of_direction = match block.direction {
                    Direction::In => &mut depths.inward,
                    Direction::Out => &mut depths.outward,
                };
                *of_direction = (*of_direction).max(route.depth() as u64);
                depths.adds |= block.direction == Direction::In && block.shape == Shape::Tree;
            }
        }
        depths
    }
    fn all(&self) -> u64 {
        self.inward + self.outward
    }

    /// In which step of its chunk a link is crossed that is so many links from the root.
    fn crossing(&self, link: u32, position: usize, direction: Direction) -> Crossing {
        let position = position as u64;
        let after = match direction {
            Direction::Out => self.inward + position,
            Direction::In => self.inward.saturating_sub(1 + position),
        };
        Crossing { after: after as u32, link, adds: self.adds && direction == Direction::In }
    }

    /// The links of a tree.
    fn tree(&self, tree: &super::tree::Tree, direction: Direction) -> Vec<Crossing> {
        let mut positions = BTreeMap::from([(tree.root, 0)]);
        let mut crossings = Vec::new();
        for arc in &tree.arcs {
            let begin = positions.get(&arc.from).copied().unwrap_or(0);
            positions.insert(arc.to, begin + arc.path.len());
            crossings.extend(arc.path.iter().zip(begin..).map(|(link, at)| self.crossing(*link, at, direction)));
        }
        crossings
    }
}

/// By shard its ways, each with its part.
type Ways = BTreeMap<Shard, BTreeMap<Vec<Crossing>, Rational>>;

impl Lanes {
    fn of(instance: &Instance<'_>, mixing: &Mixing<'_>, depths: &Depths, chunks: u64) -> Lanes {
        let ways = ways(instance, mixing, depths);
        let n = instance.asked.participants.len();
        let sums: Vec<Rational> = ways.values().map(|ways| ways.values().sum()).collect();
        let of_root = |(ways, sum): (&BTreeMap<_, Rational>, &Rational)| -> Vec<Rational> {
            ways.values().map(|part| part.checked_div(sum).unwrap_or(Rational::ZERO)).collect()
        };
        let parts: Vec<Vec<Rational>> = ways.values().zip(&sums).map(of_root).collect();
        let most = (MAX_UNITS / chunks).max(1);
        let needed = denominator(parts.iter().flatten());
        let units = needed.filter(|units| *units <= most).unwrap_or(most);
        let (mut total, mut shares, mut is_rounded) = (n as u64, vec![1; n], needed != Some(units));
        match instance.asked.collective {
            Collective::AllReduce => {
                let needed = denominator(&sums);
                total = needed.filter(|total| *total <= MAX_UNITS).unwrap_or(MAX_UNITS);
                is_rounded |= needed != Some(total);
                shares = vec![0; n];
                for (shard, share) in ways.keys().zip(apportioned(&sums, total)) {
                    if let Shard::Of(rank) = shard {
                        shares[*rank as usize] = share;
                    }
                }
            }
            Collective::Broadcast | Collective::Reduce => (total, shares) = (1, vec![1; n]),
            _ => {}
        }
        let mut list = Vec::new();
        for ((shard, ways), parts) in ways.into_iter().zip(&parts) {
            let share = match shard {
                Shard::Of(rank) => shares[rank as usize],
                Shard::Between(..) => 1,
            };
            let mut lo = 0;
            for (crossings, units) in ways.into_keys().zip(apportioned(parts, units)) {
                if units > 0 && share > 0 {
                    list.push(Lane { shard, share, lo, units, crossings });
                }
                lo += units;
            }
        }
        let uneven = shares.iter().any(|share| *share != shares[0]);
        Lanes { list, units, total, shares: uneven.then_some(shares), is_rounded }
    }
}

/// What goes which way.
fn ways(instance: &Instance<'_>, mixing: &Mixing<'_>, depths: &Depths) -> Ways {
    let folding = mixing.folding;
    let ranks: BTreeMap<u32, u32> = instance.asked.participants.iter().map(|node| *node as u32).zip(0..).collect();
    let rank = |node: u32| ranks.get(&node).copied().unwrap_or(0);
    let mut ways = Ways::new();
    let mut add = |shard: Shard, mut crossings: Vec<Crossing>, part: &Rational| {
        crossings.sort_unstable();
        *ways.entry(shard).or_default().entry(crossings).or_insert(Rational::ZERO) += part;
    };
    for mixed in &mixing.mixed {
        let class = &folding.classes[mixed.class];
        for image in &class.images {
            let element = &folding.elements[*image];
            // The blocks of an all-reduce have one root, and their trees belong together.
            let (mut together, mut owner) = (Vec::new(), None);
            for (block, route) in class.job.blocks.iter().zip(&mixed.routes) {
                let root = element.nodes[block.root as usize];
                match route.moved(&element.nodes, &element.edges) {
                    Route::Tree(tree) => {
                        together.extend(depths.tree(&tree, block.direction));
                        owner = Some(root);
                    }
                    Route::Paths(paths) => {
                        for path in paths {
                            let crossings = path.edges.iter().zip(0..);
                            let crossings = crossings.map(|(link, at)| depths.crossing(*link, at, block.direction));
                            let shard = match instance.asked.collective {
                                Collective::AllToAll => Shard::Between(rank(root), rank(path.end)),
                                _ => Shard::Of(rank(path.end)),
                            };
                            add(shard, crossings.collect(), &mixed.part);
                        }
                    }
                }
            }
            if let Some(root) = owner {
                add(Shard::Of(rank(root)), together, &mixed.part);
            }
        }
    }
    ways
}

/// What all of these are whole numbers of, if it is a number that small.
fn denominator<'a>(parts: impl IntoIterator<Item = &'a Rational>) -> Option<u64> {
    u64::try_from(common_denominator(parts)?).ok()
}

/// So many units in these proportions, which add up to one: first what is whole, then the rest to the largest remainders.
fn apportioned(parts: &[Rational], units: u64) -> Vec<u64> {
    let exact = |part: &Rational| part.numerator() * BigInt::from(units);
    let whole = |part: &Rational| u64::try_from(exact(part) / part.denominator()).unwrap_or(0);
    let mut counts: Vec<u64> = parts.iter().map(whole).collect();
    let rest = |place: usize| &(&parts[place] * &Rational::from(units)) - &Rational::from(counts[place]);
    let mut by_rest: Vec<(Rational, usize)> = (0..parts.len()).map(|place| (rest(place), place)).collect();
    by_rest.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    let left = units.saturating_sub(counts.iter().sum());
    for (_, place) in by_rest.into_iter().cycle().take(left as usize) {
        counts[place] += 1;
    }
    counts
}

/// T/M of the fluid, and of all steps if each is as long as what is in it needs.
fn times(instance: &Instance<'_>, lanes: &Lanes, depth: u64, chunks: u64) -> (Rational, Rational) {
    let topology = instance.asked.topology;
    // By link, and by how many steps after the first of its chunk it is crossed: units times shares.
    let mut on_links: BTreeMap<(u32, u32), u128> = BTreeMap::new();
    for lane in &lanes.list {
        let amount = u128::from(lane.units) * u128::from(lane.share);
        for crossing in &lane.crossings {
            *on_links.entry((crossing.link, crossing.after)).or_default() += amount;
        }
    }
    let single = topology.links().iter().enumerate().filter_map(|(link, of)| {
        let capacity = of.capacity.finite()?;
        Some((capacity, vec![link]))
    });
    let joint = topology.groups().iter().filter_map(|group| Some((group.capacity.finite()?, group.links.clone())));
    // By limit what is on it after so many steps.
    let limits: Vec<(&Rational, Vec<u128>)> = single
        .chain(joint)
        .map(|(capacity, links)| {
            let mut amounts = vec![0; depth as usize];
            for link in links {
                let link = link as u32;
                for ((_, after), amount) in on_links.range((link, 0)..=(link, u32::MAX)) {
                    amounts[*after as usize] += amount;
                }
            }
            (capacity, amounts)
        })
        .filter(|(_, amounts)| amounts.iter().any(|amount| *amount > 0))
        .collect();
    let one = &Rational::from(lanes.total) * &Rational::from(lanes.units);
    let slowest = |after: std::ops::Range<usize>| {
        let time = |(capacity, amounts): &(&Rational, Vec<u128>)| {
            let amount = Rational::from_big(amounts[after.clone()].iter().sum::<u128>().into(), 1.into())?;
            amount.checked_div(&(&one * *capacity))
        };
        limits.iter().filter_map(time).max().unwrap_or(Rational::ZERO)
    };
    // Step t carries what crosses t, t − 1 … t − (K − 1) steps after a chunk's first: from K ≥ T on most of them all.
    let all = slowest(0..depth as usize);
    let full = (chunks + 1).saturating_sub(depth);
    let partial = (0..depth + chunks - 1).filter(|step| *step + 1 < depth || *step >= chunks);
    let window = |step: u64| (step + 1).saturating_sub(chunks) as usize..(step + 1).min(depth) as usize;
    let all_full = &all * &Rational::from(full);
    let busy = partial.map(|step| slowest(window(step))).fold(all_full, |sum, time| &sum + &time);
    let of_chunks = busy.checked_div(&Rational::from(chunks)).unwrap_or(Rational::ZERO);
    (all, of_chunks)
}

/// Every chunk at its time.
fn steps(lanes: &Lanes, depths: &Depths, chunks: u64) -> Vec<Step> {
    let count = depths.all() + chunks - 1;
    let summing = if depths.adds { depths.inward + chunks - 1 } else { 0 };
    let op = |step: u64| if step < summing { Op::Reduce } else { Op::Copy };
    let mut steps: Vec<Step> = (0..count).map(|step| Step { copies: None, op: op(step), sends: Vec::new() }).collect();
    for lane in &lanes.list {
        for crossing in &lane.crossings {
            for chunk in 0..chunks {
                let step = &mut steps[(chunk + u64::from(crossing.after)) as usize];
                let sends = match step.op {
                    Op::Reduce if !crossing.adds => step.copies.get_or_insert_default(),
                    _ => &mut step.sends,
                };
                let lo = lane.lo * chunks + lane.units * chunk;
                sends.push(StepSend { shard: lane.shard, lo, hi: lo + lane.units, link: crossing.link });
            }
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// All units are given, none of them more than one from its exact part.
        #[test]
        fn units_are_given_by_largest_remainder(list in proptest::collection::vec(0_u32..50, 1..9), units in 0_u64..1000) {
            let sum: u32 = list.iter().sum();
            prop_assume!(sum > 0);
            let parts: Vec<Rational> = list.iter().filter_map(|part| Rational::new(*part, sum)).collect();
            let counts = apportioned(&parts, units);
            prop_assert_eq!(counts.iter().sum::<u64>(), units);
            let mut rests = Vec::new();
            for (count, part) in counts.iter().zip(&list) {
                let exact = u64::from(*part) * units;
                let (whole, rest) = (exact / u64::from(sum), exact % u64::from(sum));
                prop_assert!(*count == whole || *count == whole + 1 && rest > 0, "{count} of {exact}/{sum}");
                rests.push((*count > whole, rest));
            }
            let least = rests.iter().filter(|(given, _)| *given).map(|(_, rest)| *rest).min();
            let most = rests.iter().filter(|(given, _)| !*given).map(|(_, rest)| *rest).max();
            prop_assert!(least.zip(most).is_none_or(|(least, most)| least >= most));
        }
    }
}
