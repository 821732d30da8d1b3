//! WeightAlloc at its exact optimum: weights of groups, by which every link is divided, for which the mean time of
//! collectives is least.
//!
//! Source: section 5.2 of the allocation page: in logarithms the paper's program (11) is convex, with exponential
//! cones. All logarithms are of multiples of a plan that is known.

use std::collections::BTreeMap;

use crate::wan::conic::{Column, Draft, Solved, Status, Sum, Term};
use crate::wan::refusal::Refusal;
use crate::wan::units::{Units, all_positive};
use sluice_planners::Run;
use sluice_planners_wan::{Instance, Segment, weights};

/// Tolerance of the solver.
const TOLERANCE: f64 = 1e-8;
/// How far the mean time of the weights may be from the objective.
const AGREES: f64 = 1e-5;
/// How often the program is put anew, in units of the answer before, where that was not accepted.
const ATTEMPTS: usize = 4;

/// Weights of groups, and what proves them.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    /// By group; they add up to 1.
    pub weights: Vec<f64>,
    /// By flow, in MB/s: the least share on its route.
    pub rates: Vec<f64>,
    /// The least mean time of collectives as the solver found it, in s.
    pub objective: f64,
    /// The mean time of collectives at these very weights, in s.
    pub mean: f64,
    /// Steps of the solver, over all attempts.
    pub iterations: u32,
    /// The distance of the solver's value and its bound, as a share of the value.
    pub gap: f64,
}

/// Pairs of a flow and a link on its route: what the size of [`weight_gp`]'s program goes by.
pub fn flow_link_pairs(instance: &Instance) -> usize {
    instance.flows().iter().map(|flow| flow.path.len()).sum()
}

/// Weights of the least mean time.
///
/// # Errors
/// `NotAChain` for flows that are no chains, `Solver`, and what ends a run early.
pub fn weight_gp(instance: &Instance, run: &Run<'_>) -> Result<Weights, Refusal> {
    instance.chains()?;
    let segments = instance.segments();
    let mut known = weights::volumes(instance);
    let (mut attempt, mut iterations) = (1, 0);
    loop {
        let units = Units::of(instance, &segments, &weights::rates(instance, &known)?);
        let (solved, found) = attempt_in(instance, &segments, &known, &units, run)?;
        iterations += solved.iterations;
        if !all_positive(&found) {
            return Err(solved.refused());
        }
        let rates = weights::rates(instance, &found)?;
        let (mean, objective) = (weights::mean_time(instance, &rates), units.mean(solved.objective));
        let ended = matches!(solved.status, Status::Solved | Status::AlmostSolved);
        if ended && (mean - objective).abs() <= AGREES * objective {
            return Ok(Weights { weights: found, rates, objective, mean, iterations, gap: solved.gap });
        }
        if attempt == ATTEMPTS {
            return Err(solved.refused());
        }
        (known, attempt) = (found, attempt + 1);
    }
}

/// The program in units of known weights, and the weights that come of it.
fn attempt_in(
    instance: &Instance,
    segments: &[Segment],
    known: &[f64],
    units: &Units,
    run: &Run<'_>,
) -> Result<(Solved, Vec<f64>), Refusal> {
    let mut draft = Draft::default();
    let times: Vec<Column> = (0..instance.collectives()).map(|at| draft.column(units.cost(at))).collect();
    let logs: Vec<Column> = instance.groups().iter().map(|_| draft.column(0.0)).collect();
    anchor(instance, &logs, &mut draft);
    let sharings = Sharings::new(instance, known, &logs, &mut draft);
    let mut spent: Vec<Vec<Term>> = vec![Vec::new(); logs.len()];
    for (index, segment) in segments.iter().enumerate() {
        // The logarithm of its rate, and what its rate's inverse is at most.
        let (rate, inverse) = (draft.column(0.0), draft.column(0.0));
        draft.exponential(Sum::of([-1.0 * rate]), inverse);
        let collective = instance.groups()[segment.group].collective;
        spent[segment.group].push(units.part(index, segment, collective) * inverse);
        for Shared { total, capacity } in sharings.of(instance, segment) {
            let capacity = capacity / units.rates[index];
            match total {
                Some(Total { column, known: all }) => {
                    let room = (capacity * (known[segment.group] / all)).ln();
                    draft.at_most(&[1.0 * rate, 1.0 * column, -1.0 * logs[segment.group]], room);
                }
                None => draft.at_most(&[1.0 * rate], capacity.ln()),
            }
        }
    }
    for (group, mut terms) in instance.groups().iter().zip(spent) {
        terms.push(-1.0 * times[group.collective]);
        draft.at_most(&terms, 0.0);
    }
    let solved = draft.solve(TOLERANCE, run)?;
    let weight = |(log, known): (&Column, &f64)| known * solved.value(*log).exp();
    let found = weights::normalised(&logs.iter().zip(known).map(weight).collect::<Vec<f64>>());
    Ok((solved, found))
}

/// Weights have no scale of their own where groups share links with each other: their logarithms add up to 0 there.
fn anchor(instance: &Instance, logs: &[Column], draft: &mut Draft) {
    let mut part: Vec<usize> = (0..logs.len()).collect();
    for link in 0..instance.links().len() {
        for pair in instance.groups_on(link).windows(2) {
            let (one, other) = (root(&mut part, pair[0]), root(&mut part, pair[1]));
            part[one.max(other)] = one.min(other);
        }
    }
    let mut parts: BTreeMap<usize, Vec<Term>> = BTreeMap::new();
    for (group, log) in logs.iter().enumerate() {
        parts.entry(root(&mut part, group)).or_default().push(1.0 * *log);
    }
    parts.values().for_each(|terms| draft.zero(terms));
}

/// The group that stands for all that share links with this one.
fn root(part: &mut [usize], mut group: usize) -> usize {
    while part[group] != group {
        part[group] = part[part[group]];
        group = part[group];
    }
    group
}

/// Every set of groups that shares some link.
struct Sharings<'a> {
    totals: BTreeMap<&'a [usize], Total>,
}

/// What the weights of a set add up to.
#[derive(Clone, Copy)]
struct Total {
    /// The logarithm of what they add up to at most.
    column: Column,
    /// What the known weights add up to.
    known: f64,
}

/// A set that shares links of a segment's route.
struct Shared {
    /// `None` where the group has the links for itself.
    total: Option<Total>,
    /// The least capacity of these links, in MB/s.
    capacity: f64,
}

impl<'a> Sharings<'a> {
    /// A column for each set of two groups and more, and the rows that keep it above the sum of weights.
    fn new(instance: &'a Instance, known: &[f64], logs: &[Column], draft: &mut Draft) -> Sharings<'a> {
        let sets = (0..instance.links().len()).map(|link| instance.groups_on(link));
        let mut totals = BTreeMap::new();
        for groups in sets.filter(|groups| groups.len() > 1) {
            totals.entry(groups).or_insert_with(|| {
                let column = draft.column(0.0);
                let all: f64 = groups.iter().map(|group| known[*group]).sum();
                let mut parts = Vec::with_capacity(groups.len());
                for &group in groups {
                    let part = draft.column(0.0);
                    draft.exponential(Sum::of([1.0 * logs[group], -1.0 * column]), part);
                    parts.push(known[group] / all * part);
                }
                draft.at_most(&parts, 1.0);
                Total { column, known: all }
            });
        }
        Sharings { totals }
    }

    /// The sets that share the links of a segment's route.
    fn of(&self, instance: &'a Instance, segment: &Segment) -> Vec<Shared> {
        let mut sets: BTreeMap<&[usize], f64> = BTreeMap::new();
        for &link in &segment.path {
            let least = sets.entry(instance.groups_on(link)).or_insert(f64::INFINITY);
            *least = least.min(instance.links()[link].capacity);
        }
        sets.into_iter().map(|(set, capacity)| Shared { total: self.totals.get(set).copied(), capacity }).collect()
    }
}
