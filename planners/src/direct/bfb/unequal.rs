//! Links that differ: each has a latency and a speed, and a step takes as long as its slowest link in use.
//!
//! A link that is not used must not cost its latency, so U is the smallest time for which a flow with capacities
//! max(0, (U − α)·speed), rounded down to whole units, serves all jobs. The set of links that a failed flow names gives
//! the next U; there are finitely many sets, and U only grows.

use num_integer::Integer as _;
use num_traits::ToPrimitive as _;

use super::arrivals::Arrivals;
use super::inlinks::{Inlinks, Neighbour};
use super::over_receivers;
use super::transport::{Jobs, Transport, members};
use crate::direct::{Graph, Refusal};
use crate::run::Run;
use sluice_formats::quantity::Rational;

#[cfg(test)]
mod tests;

/// More units than any receiver can ask for: 2²⁰ shards of 2²⁰ units.
const ENOUGH: u64 = 1 << 41;

/// How long a link takes, in any one unit of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkTime {
    /// For being used at all, α.
    pub latency: Rational,
    /// For a whole shard besides.
    pub shard: Rational,
}

impl LinkTime {
    /// Whole units that it carries within a time, `units` to a shard.
    pub fn units(&self, within: &Rational, units: u32) -> u64 {
        if *within <= self.latency {
            return 0;
        }
        let carried = &(&(within - &self.latency) / &self.shard) * &Rational::from(u64::from(units));
        carried.numerator().div_floor(&carried.denominator()).to_u64().map_or(ENOUGH, |units| units.min(ENOUGH))
    }
}

/// Every edge has times that can be.
///
/// # Errors
/// `InvalidLinkParameter`.
pub fn validate(graph: &Graph, times: &[LinkTime]) -> Result<(), Refusal> {
    let refuse = |edge: usize, reason: String| Err(Refusal::InvalidLinkParameter { edge: edge as u32, reason });
    if times.len() != graph.edges().len() {
        let reason = format!("{} link times for {} edges; one per edge is needed", times.len(), graph.edges().len());
        return refuse(times.len().min(graph.edges().len()), reason);
    }
    for (edge, time) in times.iter().enumerate() {
        if time.latency.is_negative() {
            return refuse(edge, format!("latency {}; it is 0 or more", time.latency));
        }
        if !time.shard.is_positive() {
            return refuse(edge, format!("a shard takes {}; its time is above 0", time.shard));
        }
    }
    Ok(())
}

/// Per step the time that the best BFB all-gather takes in whole units, latency included.
///
/// # Errors
/// `Cancelled`, `TimeLimit`.
pub fn step_times(links: &Inlinks, times: &[LinkTime], units: u32, run: &Run) -> Result<Vec<Rational>, Refusal> {
    let all = u64::from(units);
    let parts = over_receivers(links.n(), run, |receivers| {
        let (mut arrivals, mut jobs, mut transport) = (Arrivals::new(links), Jobs::default(), Transport::default());
        let mut slowest: Vec<Rational> = Vec::new();
        for receiver in receivers {
            arrivals.at(links, receiver);
            slowest.resize(slowest.len().max(arrivals.steps()), Rational::ZERO);
            let of =
                |neighbour: &Neighbour| links.edges(*neighbour).iter().map(|edge| &times[*edge as usize]).collect();
            let of: Vec<Vec<&LinkTime>> = links.of(receiver).iter().map(of).collect();
            for (slowest, step) in slowest.iter_mut().zip(1..=arrivals.steps()) {
                arrivals.jobs(step, &mut jobs);
                let least = root_in_units(jobs.total() * all, of.iter().flatten(), units);
                *slowest = least.max(slowest.clone());
                let served = |transport: &mut Transport, within: &Rational| {
                    let capacity = |of: &Vec<&LinkTime>| of.iter().map(|link| link.units(within, units)).sum();
                    transport.ship(&jobs, |group| jobs.counts()[group] * all, of.iter().map(capacity))
                };
                while !served(&mut transport, slowest) {
                    let confined = transport.confined(&jobs) * all;
                    *slowest = root_in_units(confined, members(transport.cut()).flat_map(|place| &of[place]), units);
                }
            }
        }
        slowest
    })?;
    let steps = parts.iter().map(Vec::len).max().unwrap_or(0);
    let step = |step: usize| parts.iter().filter_map(|part| part.get(step)).max().cloned().unwrap_or(Rational::ZERO);
    Ok((0..steps).map(step).collect())
}

/// The smallest time within which the links carry so many shards together. The links of a cut are never none.
fn root<'a>(shards: &Rational, links: impl Iterator<Item = &'a &'a LinkTime>) -> Rational {
    let mut links: Vec<&LinkTime> = links.copied().collect();
    links.sort_by(|a, b| a.latency.cmp(&b.latency));
    let (mut speed, mut head_start) = (Rational::ZERO, Rational::ZERO);
    let mut best = Rational::ZERO;
    for (place, link) in links.iter().enumerate() {
        let own = link.shard.recip().unwrap_or(Rational::ZERO);
        head_start += &(&link.latency * &own);
        speed += &own;
        best = (shards + &head_start).checked_div(&speed).unwrap_or(Rational::ZERO);
        if links.get(place + 1).is_none_or(|next| best <= next.latency) {
            break;
        }
    }
    best
}

/// The same for whole units: from the root without rounding on, capacities grow in steps, and few are missing.
fn root_in_units<'a>(needed: u64, links: impl Iterator<Item = &'a &'a LinkTime>, units: u32) -> Rational {
    let links: Vec<&LinkTime> = links.copied().collect();
    let unit = Rational::from(u64::from(units));
    let mut within = root(&(&Rational::from(needed) / &unit), links.iter());
    loop {
        let carried = links.iter().map(|link| link.units(&within, units));
        if carried.sum::<u64>() >= needed {
            return within;
        }
        let next = |link: &&LinkTime| {
            let count = Rational::from(link.units(&within, units) + 1);
            &link.latency + &(&(&count / &unit) * &link.shard)
        };
        within = links.iter().map(next).min().unwrap_or(Rational::ZERO);
    }
}
