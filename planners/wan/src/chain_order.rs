//! `chain_order`: strict priority by a fixed order of single flows, found by simulated annealing.
//!
//! `perm` ranks whole collectives. Here every flow has a rank of its own, before all later flows of its chain. The search
//! begins with the better of what `perm` and `prio` make and lets one flow overtake others, or be overtaken: only others that
//! it competes with for a link at that time. It is the same on every machine for the same seed, and its work is bounded.

mod judge;
#[cfg(test)]
mod tests;
mod timeline;

use crate::instance::Instance;
use crate::perm;
use crate::random::Random;
use crate::refusal::Refusal;
use crate::rules::{Priority, Recomputed};
use crate::simulate::{Outcome, simulate, simulate_with};
use judge::Judge;

/// Flows at most: for more no search would come far.
pub const MAX_FLOWS: usize = 20_000;
/// What a second of the sum of the groups' times counts beside one of the sum of the collectives' times: among orders that
/// are as good those are preferred that leave room.
const MINOR: f64 = 1e-3;
/// How much worse an order may be, relative to the value, to be kept with a chance of 1/e: at first and at last.
const HEAT: (f64, f64) = (5e-4, 2e-5);
/// The chance that a flow passes one more of those that it competes with.
const FURTHER: f64 = 0.5;
/// Orders between two questions whether to stop.
const ASK_EVERY: u64 = 32;

/// How much to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The seed of the search.
    pub seed: u64,
    /// Orders to try for each flow of the instance.
    pub tries_per_flow: u64,
    /// Work at most, in pieces of links looked at; 3·10⁷ are about a second.
    pub work: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options { seed: 1, tries_per_flow: 300, work: 30_000_000 }
    }
}

/// An order of flows, and what it achieves.
#[derive(Clone, Debug, PartialEq)]
pub struct ChainOrder {
    /// The flows, the first with the highest priority.
    pub order: Vec<usize>,
    /// By flow, its place in the order.
    pub rank: Vec<usize>,
    /// What is achieved.
    pub outcome: Outcome,
    /// Orders that were tried.
    pub tried: u64,
}

/// Searches from what `perm` and `prio` make, until `stop` says so.
///
/// # Errors
/// `NotAChain`, `TooLarge`, and what the simulator refuses.
pub fn search(instance: &Instance, options: Options, stop: &mut dyn FnMut() -> bool) -> Result<ChainOrder, Refusal> {
    check(instance)?;
    let perm = perm::search(instance, stop)?;
    search_from(instance, &perm, options, stop)
}

/// Searches from what `perm` made and from what `prio` makes, until `stop` says so.
///
/// # Errors
/// As [`search`].
pub fn search_from(
    instance: &Instance,
    perm: &perm::Perm,
    options: Options,
    stop: &mut dyn FnMut() -> bool,
) -> Result<ChainOrder, Refusal> {
    check(instance)?;
    let mut judge = Judge::new(instance, MINOR);
    let mut starts = vec![by_ends(instance, &perm.outcome, |flow| perm.rank.get(flow).copied().unwrap_or(0))];
    if let Ok(prio) = simulate_with(instance, &mut Recomputed::new(instance), &[], stop) {
        starts.push(by_ends(instance, &prio, |_| 0));
    }
    let (mut best, mut value) = (Vec::new(), f64::INFINITY);
    for start in starts {
        // Finite for the first: the numbers of an instance are within bounds.
        let found = judge.value(&start, 0, value);
        if found < value {
            judge.keep();
            (best, value) = (start, found);
        }
    }
    let tried = anneal(&mut judge, &mut best, value, options, stop);
    let mut rank = vec![0; instance.flows().len()];
    let mut placed = vec![0; instance.groups().len()];
    let mut order = Vec::with_capacity(best.len());
    for (place, group) in best.into_iter().enumerate() {
        let flow = instance.groups()[group].flows[placed[group]];
        placed[group] += 1;
        rank[flow] = place;
        order.push(flow);
    }
    let outcome = simulate(instance, &mut Priority::new(instance, rank.clone())?)?;
    Ok(ChainOrder { order, rank, outcome, tried })
}

fn check(instance: &Instance) -> Result<(), Refusal> {
    instance.chains()?;
    let found = instance.flows().len();
    if found > MAX_FLOWS { Err(Refusal::TooLarge { what: "flows", found, allowed: MAX_FLOWS }) } else { Ok(()) }
}

/// The groups of the flows, by rank and then by when they ended.
fn by_ends(instance: &Instance, outcome: &Outcome, rank: impl Fn(usize) -> usize) -> Vec<usize> {
    let mut flows: Vec<usize> = (0..instance.flows().len()).collect();
    let ends = &outcome.ends;
    flows.sort_by(|&a, &b| rank(a).cmp(&rank(b)).then(ends[a].total_cmp(&ends[b])).then(a.cmp(&b)));
    flows.into_iter().map(|flow| instance.group_of(flow)).collect()
}

/// Makes the sequence better, which is the one that is kept and has this value; how many were tried.
fn anneal(
    judge: &mut Judge,
    best: &mut Vec<usize>,
    mut best_value: f64,
    options: Options,
    stop: &mut dyn FnMut() -> bool,
) -> u64 {
    let mut random = Random::new(options.seed);
    let length = best.len();
    let tries = options.tries_per_flow.saturating_mul(length as u64);
    let (mut sequence, mut value) = (best.clone(), best_value);
    let (mut tried, mut drawn, begun) = (0, 0, judge.work());
    // Most draws are a try; where nothing competes none ever is.
    while tried < tries && drawn < tries.saturating_mul(10) {
        let work = judge.work() - begun;
        if work >= options.work || (drawn % ASK_EVERY == 0 && stop()) {
            break;
        }
        drawn += 1;
        let Some((from, to)) = pass(judge, &mut random, length) else { continue };
        tried += 1;
        let gone = (tried as f64 / tries as f64).max(work as f64 / options.work as f64);
        let heat = value * HEAT.0 * (HEAT.1 / HEAT.0).powf(gone);
        let allowed = value - heat * (1.0 - random.unit()).ln();
        shift(&mut sequence, from, to);
        let found = judge.value(&sequence, from.min(to), allowed);
        if found < allowed {
            judge.keep();
            value = found;
            if value < best_value {
                best_value = value;
                best.clone_from(&sequence);
            }
        } else {
            shift(&mut sequence, to, from);
        }
    }
    tried
}

/// Moves what stands at one place to another, and what is between up or down.
fn shift(sequence: &mut [usize], from: usize, to: usize) {
    if from < to {
        sequence[from..=to].rotate_left(1);
    } else {
        sequence[to..=from].rotate_right(1);
    }
}

/// A place, and another one to which its flow moves past one or more that it competes with, and none of its own chain.
fn pass(judge: &Judge, random: &mut Random, length: usize) -> Option<(usize, usize)> {
    let from = random.below(length);
    let forward = random.unit() < 0.5;
    let mut more = true;
    let mut to = None;
    let mut place = from;
    while more {
        place = if forward { place + 1 } else { place.wrapping_sub(1) };
        if place >= length || judge.group(place) == judge.group(from) {
            break;
        }
        if judge.compete(from, place) {
            to = Some(place);
            more = random.unit() < FURTHER;
        }
    }
    Some((from, to?))
}
