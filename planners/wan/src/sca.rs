//! WeightAlloc by successive approximation, as the paper does it: freeze the sums of weights on the links, find the best
//! weights for those, and again.
//!
//! With frozen sums Dₑ the time of a group is A/w with A = Σ F·max(Dₑ/Cₑ). What bounds the new weights is left open by the
//! paper: `Capacity` takes Σ w ≤ Dₑ on every link, under which the true time never rises; `Simplex` takes Σ w = 1 alone,
//! which has a closed form. The best weights seen are given, which need not be the last.

use std::collections::BTreeMap;

use crate::instance::Instance;
use crate::reciprocal::{self, Row};
use crate::refusal::Refusal;
use crate::weights;

/// What bounds the weights of the subproblem.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reading {
    /// The frozen sum of every link.
    #[default]
    Capacity,
    /// The sum of all weights.
    Simplex,
}

/// The weights to begin with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// The reciprocals of the groups' smallest capacities.
    #[default]
    InverseBottleneck,
    /// All the same.
    Equal,
}

/// How to iterate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// What bounds the weights.
    pub reading: Reading,
    /// Where to begin.
    pub start: Start,
    /// A change of the mean time below this ends it, in s.
    pub epsilon: f64,
    /// Iterations at most.
    pub most: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { reading: Reading::Capacity, start: Start::InverseBottleneck, epsilon: 1e-4, most: 50 }
    }
}

/// What the iteration found.
#[derive(Clone, Debug, PartialEq)]
pub struct Sca {
    /// The best weights seen, by group, with a sum of 1.
    pub weights: Vec<f64>,
    /// Their mean time, in s.
    pub mean: f64,
    /// The mean time at the start and after each iteration, in s.
    pub history: Vec<f64>,
}

impl Sca {
    /// How many iterations were made.
    pub fn iterations(&self) -> usize {
        self.history.len().saturating_sub(1)
    }
}

/// Iterates until the mean time changes by less than ε, or `stop` says so.
///
/// # Errors
/// `NotAChain`, and for `Capacity` what [`reciprocal::solve`] refuses.
pub fn run(instance: &Instance, options: Options, stop: &mut dyn FnMut() -> bool) -> Result<Sca, Refusal> {
    instance.chains()?;
    let mut now = match options.start {
        Start::InverseBottleneck => weights::inverse_bottleneck(instance),
        Start::Equal => weights::equal(instance),
    };
    let value = |now: &[f64]| Ok(weights::mean_time(instance, &weights::rates(instance, now)?));
    let mut history = vec![value(&now)?];
    let mut best = Sca { weights: now.clone(), mean: history[0], history: Vec::new() };
    for _ in 0..options.most {
        if stop() {
            break;
        }
        let frozen = weights::sums(instance, &now);
        let costs = costs(instance, &frozen);
        now = weights::normalised(&match options.reading {
            Reading::Capacity => by_capacity(instance, &frozen, &costs)?,
            Reading::Simplex => by_simplex(instance, &costs),
        });
        let (before, mean) = (history.last().copied().unwrap_or(f64::INFINITY), value(&now)?);
        history.push(mean);
        if mean < best.mean {
            (best.weights, best.mean) = (now.clone(), mean);
        }
        if (mean - before).abs() < options.epsilon {
            break;
        }
    }
    best.history = history;
    Ok(best)
}

/// What each group's time would be with a weight of 1.
fn costs(instance: &Instance, frozen: &[f64]) -> Vec<f64> {
    let of = |flow: &usize| {
        let flow = &instance.flows()[*flow];
        let slowest = flow.path.iter().map(|&link| frozen[link] / instance.links()[link].capacity).fold(0.0, f64::max);
        flow.size * slowest
    };
    instance.groups().iter().map(|group| group.flows.iter().map(of).sum()).collect()
}

/// Every group of a collective ends with it: its weight is its cost over the collective's time, and the reciprocals of the
/// times are what remains to be found.
fn by_capacity(instance: &Instance, frozen: &[f64], costs: &[f64]) -> Result<Vec<f64>, Refusal> {
    let row = |link: usize| {
        let mut takes: BTreeMap<usize, f64> = BTreeMap::new();
        for &group in instance.groups_on(link) {
            *takes.entry(instance.groups()[group].collective).or_default() += costs[group];
        }
        Row { takes: takes.into_iter().collect(), limit: frozen[link] }
    };
    let used = (0..instance.links().len()).filter(|&link| !instance.groups_on(link).is_empty());
    let rows: Vec<Row> = used.map(row).collect();
    let solution = reciprocal::solve(&vec![1.0; instance.collectives()], &rows)?;
    let pairs = instance.groups().iter().zip(costs);
    Ok(pairs.map(|(group, cost)| cost * solution.x[group.collective]).collect())
}

fn by_simplex(instance: &Instance, costs: &[f64]) -> Vec<f64> {
    let mut sums = vec![0.0; instance.collectives()];
    for (group, cost) in instance.groups().iter().zip(costs) {
        sums[group.collective] += cost;
    }
    let pairs = instance.groups().iter().zip(costs);
    pairs.map(|(group, cost)| cost / sums[group.collective].sqrt()).collect()
}
