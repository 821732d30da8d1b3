//! The flows of a plan in fixed point: sizes in parts of the largest, rates in parts of the largest capacity or rate, times
//! in what the one takes at the other.

use std::collections::HashMap;

use super::Chains;
use super::fixed::{Fixed, OutOfRange};
use crate::check::fabric::Fabric;
use sluice_formats::quantity::Rational;

/// A flow.
pub struct Transfer {
    /// Its number, which decides between equals.
    pub id: u64,
    /// Place of its collective, in the order of their numbers.
    pub collective: usize,
    /// Place of its group in [`Instance::groups`].
    pub group: usize,
    pub size: Fixed,
    /// It does not begin before.
    pub release: Fixed,
    /// Places of the links of its route that have a limit.
    pub route: Vec<u32>,
    /// Its rate alone on its route; `None`: no link limits it, and it takes no time.
    pub alone: Option<Fixed>,
}

/// All flows, by their places in the plan.
pub struct Instance {
    pub transfers: Vec<Transfer>,
    /// Capacities of the limited links that flows take.
    pub capacities: Vec<Fixed>,
    /// The indices of these links.
    pub links: Vec<u32>,
    /// The flows of each group, one after the other.
    pub groups: Vec<Vec<usize>>,
    /// How many collectives there are.
    pub collectives: usize,
    /// Bytes in one of size.
    bytes: Rational,
    /// Bytes per second in one of rate.
    rate: Rational,
    /// Seconds in one of time.
    seconds: Rational,
    /// Places of links by their index.
    places: HashMap<u32, u32>,
}

impl Instance {
    /// Takes over the flows of a plan.
    pub fn new(chains: &Chains<'_>, fabric: &Fabric<'_>) -> Result<Instance, OutOfRange> {
        let links = fabric.topology.links();
        let finite = |link: &u32| links.get(*link as usize).and_then(|of| of.capacity.finite());
        let flows = chains.flows;
        let given = flows.iter().filter_map(|flow| flow.rate.as_ref()?.value().finite());
        let rate = flows.iter().flat_map(|flow| &flow.path).filter_map(finite).chain(given).max();
        let rate = rate.filter(|rate| rate.is_positive()).cloned().unwrap_or(Rational::ONE);
        let bytes = flows.iter().map(|flow| flow.size.value()).max().cloned().unwrap_or(Rational::ONE);
        let seconds = bytes.checked_div(&rate).ok_or(OutOfRange)?;
        let mut instance = Instance {
            transfers: Vec::with_capacity(flows.len()),
            capacities: Vec::new(),
            links: Vec::new(),
            groups: chains.groups.values().cloned().collect(),
            collectives: 0,
            bytes,
            rate,
            seconds,
            places: HashMap::new(),
        };
        let mut places = vec![(0, 0); flows.len()];
        let mut last = None;
        for (group, ((number, _), flows)) in chains.groups.iter().enumerate() {
            instance.collectives += usize::from(last.replace(*number) != Some(*number));
            flows.iter().for_each(|place| places[*place] = (instance.collectives - 1, group));
        }
        for (flow, (collective, group)) in flows.iter().zip(places) {
            let mut route = Vec::with_capacity(flow.path.len());
            for (link, capacity) in flow.path.iter().filter_map(|link| Some((link, finite(link)?))) {
                let next = instance.capacities.len() as u32;
                let place = *instance.places.entry(*link).or_insert(next);
                if place == next {
                    instance.capacities.push(Fixed::part(capacity, &instance.rate)?);
                    instance.links.push(*link);
                }
                route.push(place);
            }
            let alone = route.iter().map(|link| instance.capacities[*link as usize]).min();
            let release = flow.release_s.as_ref().map_or(Ok(Fixed::ZERO), |of| instance.time(&of.value()))?;
            let size = Fixed::part(flow.size.value(), &instance.bytes)?;
            instance.transfers.push(Transfer { id: flow.id, collective, group, size, release, route, alone });
        }
        Ok(instance)
    }

    /// A rate above zero, in bytes per second.
    pub fn rate(&self, bytes_per_second: &Rational) -> Result<Fixed, OutOfRange> {
        Fixed::part(bytes_per_second, &self.rate)
    }
    /// A rate or a load in bytes per second.
    pub fn bytes_per_second(&self, rate: Fixed) -> Rational {
        &rate.value() * &self.rate
    }
    /// A time, in seconds.
    pub fn time(&self, seconds: &Rational) -> Result<Fixed, OutOfRange> {
        Fixed::floor(&seconds.checked_div(&self.seconds).ok_or(OutOfRange)?)
    }
    /// A time in seconds.
    pub fn seconds(&self, time: Fixed) -> Rational {
        &time.value() * &self.seconds
    }
    /// A number per second, as one per unit of time.
    pub fn per_time(&self, per_second: &Rational) -> Rational {
        per_second * &self.seconds
    }
    /// The place of a link, by its index; `None`: no flow takes it, or it has no limit.
    pub fn place(&self, link: u32) -> Option<u32> {
        self.places.get(&link).copied()
    }
    /// When a flow may begin.
    pub fn release(&self, flow: usize) -> Fixed {
        self.transfers[flow].release
    }
    /// How long a flow takes at a rate; no time without limit.
    pub fn takes(&self, flow: usize, rate: Option<Fixed>) -> Result<Fixed, OutOfRange> {
        rate.map_or(Ok(Fixed::ZERO), |rate| self.transfers[flow].size.over(rate))
    }
    /// When each collective ends, in seconds, from when its flows do.
    pub fn completion(&self, ends: &[Fixed]) -> Vec<Rational> {
        let mut last = vec![Fixed::ZERO; self.collectives];
        for (flow, end) in self.transfers.iter().zip(ends) {
            last[flow.collective] = last[flow.collective].max(*end);
        }
        last.into_iter().map(|end| self.seconds(end)).collect()
    }
}
