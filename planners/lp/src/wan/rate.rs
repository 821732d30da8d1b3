//! RateAlloc: constant rates for which the mean time of collectives is least, where each group keeps its largest rate
//! on a link reserved.
//!
//! Source: section 4 of the allocation page, program (10) of the paper, as a second-order cone program.

use crate::wan::conic::{Column, Draft, Solved, Status, Term};
use crate::wan::refusal::Refusal;
use crate::wan::reserved::Reserved;
use crate::wan::units::{Units, all_positive};
use sluice_planners::Run;
use sluice_planners_wan::{Instance, Segment, baseline, weights};

/// Tolerance of the solver.
const TOLERANCE: f64 = 1e-9;
/// How far value, bound and the mean time of the repaired rates may be apart.
const ACCEPTED: f64 = 1e-6;
/// How often the program is put anew, in units of the answer before, where that was not accepted.
const ATTEMPTS: usize = 4;

/// Constant rates, and what proves them.
#[derive(Clone, Debug, PartialEq)]
pub struct Allocation {
    /// By flow, in MB/s. They keep the capacities up to one rounding.
    pub rates: Vec<f64>,
    /// The least mean time of collectives as the solver found it, in s.
    pub objective: f64,
    /// The mean time of collectives at these very rates, in s.
    pub mean: f64,
    /// Steps of the solver, over all attempts.
    pub iterations: u32,
    /// The distance of the solver's value and its bound, as a share of the value.
    pub gap: f64,
}

/// Rates of the least mean time.
///
/// # Errors
/// `NotAChain` for flows that are no chains, `Solver`, and what ends a run early.
pub fn rate_alloc(instance: &Instance, run: &Run<'_>) -> Result<Allocation, Refusal> {
    instance.chains()?;
    let segments = instance.segments();
    let reserved = Reserved::by_link(instance, &segments);
    let mut known = baseline::data_aware(instance)?;
    let (mut attempt, mut iterations) = (1, 0);
    loop {
        let units = Units::of(instance, &segments, &known);
        let (solved, rates) = attempt_in(instance, &segments, &reserved, &units, run)?;
        iterations += solved.iterations;
        let objective = units.mean(solved.objective);
        let usable = all_positive(&rates);
        let mean = if usable { weights::mean_time(instance, &rates) } else { f64::INFINITY };
        let ended = match solved.status {
            Status::Solved => true,
            Status::AlmostSolved => solved.gap <= ACCEPTED,
            Status::Other(_) => false,
        };
        if ended && (mean - objective).abs() <= ACCEPTED * objective {
            return Ok(Allocation { rates, objective, mean, iterations, gap: solved.gap });
        }
        if attempt == ATTEMPTS || !usable {
            return Err(solved.refused());
        }
        (known, attempt) = (rates, attempt + 1);
    }
}

/// The program in some units, and the rates by flow that come of it, repaired.
fn attempt_in(
    instance: &Instance,
    segments: &[Segment],
    reserved: &[Reserved],
    units: &Units,
    run: &Run<'_>,
) -> Result<(Solved, Vec<f64>), Refusal> {
    let mut draft = Draft::default();
    let times: Vec<Column> = (0..instance.collectives()).map(|at| draft.column(units.cost(at))).collect();
    // By group the terms that add up to its time.
    let mut spent: Vec<Vec<Term>> = vec![Vec::new(); instance.groups().len()];
    let mut columns = Vec::with_capacity(segments.len());
    for (index, segment) in segments.iter().enumerate() {
        let (rate, inverse) = (draft.column(0.0), draft.column(0.0));
        draft.reciprocal(inverse, rate);
        let collective = instance.groups()[segment.group].collective;
        spent[segment.group].push(units.part(index, segment, collective) * inverse);
        columns.push(rate);
    }
    for (group, mut terms) in instance.groups().iter().zip(spent) {
        terms.push(-1.0 * times[group.collective]);
        draft.at_most(&terms, 0.0);
    }
    for link in reserved {
        let mut load = Vec::with_capacity(link.groups.len());
        for members in &link.groups {
            let unit = members.iter().map(|segment| units.rates[*segment]).fold(0.0, f64::max);
            let largest = match members[..] {
                [segment] => columns[segment],
                _ => {
                    let largest = draft.column(0.0);
                    for &segment in members {
                        let rate = units.rates[segment] / unit * columns[segment];
                        draft.at_most(&[rate, -1.0 * largest], 0.0);
                    }
                    largest
                }
            };
            load.push(unit / link.capacity * largest);
        }
        draft.at_most(&load, 1.0);
    }
    let solved = draft.solve(TOLERANCE, run)?;
    let mut rates = vec![0.0; instance.flows().len()];
    for ((segment, unit), column) in segments.iter().zip(&units.rates).zip(columns) {
        segment.flows.iter().for_each(|flow| rates[*flow] = unit * solved.value(column));
    }
    repair(instance, &mut rates);
    Ok((solved, rates))
}

/// Slows each flow down by the worst overload on its route, a group counting with its largest rate on a link.
fn repair(instance: &Instance, rates: &mut [f64]) {
    let mut overload = vec![1.0_f64; instance.links().len()];
    for (link, overload) in overload.iter_mut().enumerate() {
        let mut largest = vec![0.0_f64; instance.groups_on(link).len()];
        for &flow in instance.flows_on(link) {
            if let Ok(place) = instance.groups_on(link).binary_search(&instance.group_of(flow)) {
                largest[place] = largest[place].max(rates[flow]);
            }
        }
        *overload = overload.max(largest.iter().sum::<f64>() / instance.links()[link].capacity);
    }
    for (flow, rate) in instance.flows().iter().zip(rates) {
        *rate /= flow.path.iter().map(|link| overload[*link]).fold(1.0, f64::max);
    }
}
