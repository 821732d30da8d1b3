//! Kinds `rates`, `weights` and `order`: flows on fixed routes, in chains that wait for each other.
//!
//! What all three share: routes that lead from source to destination, chains without gaps, times from rates. A group's
//! flows run one after the other, so they share what the largest of them needs.

use std::collections::{BTreeMap, HashMap};

use super::achieved::{Achieved, Born, Quantity};
use super::fabric::Fabric;
use super::violation::{Code, Violation};
use super::{Report, check_common_denominator, claims};
use crate::plan::{Collective, Decimal, Execution, Flow, Plan};
use sluice_formats::quantity::{Capacity, Rational, Unit};

/// A group of a collective: its flows run one after the other.
pub type Group = (u64, u64);

/// The flows of a plan, looked up.
pub struct Chains<'a> {
    /// All of them, as in the file.
    pub flows: &'a [Flow],
    /// By collective and group, the places of the flows in their order.
    pub groups: BTreeMap<Group, Vec<usize>>,
    /// Per flow the rate it has alone on its route; `None`: no link limits it.
    pub alone: Vec<Option<Rational>>,
}

/// Where a flow stands in the file.
pub fn at(place: usize, key: &str) -> String {
    format!("/content/flows/{place}{key}")
}

impl<'a> Chains<'a> {
    /// Checks routes and chains.
    pub fn new(plan: &Plan, fabric: &Fabric<'_>, flows: &'a [Flow], report: &mut Report) -> Result<Self, Violation> {
        if fabric.topology.unit() == Unit::Abstract {
            let message = "flows have bytes and take seconds: the capacities need units";
            return Err(Violation::new(Code::UnsupportedField, "/topology/inline/links", message));
        }
        if !fabric.groups().is_empty() {
            let message = "limits that links share: this kind of plan knows nothing of them";
            return Err(Violation::new(Code::UnsupportedField, "/topology/inline/groups", message));
        }
        if flows.is_empty() {
            return Err(Violation::new(Code::MissingData, "/content/flows", "no flow at all"));
        }
        let mut chains = Chains { flows, groups: BTreeMap::new(), alone: Vec::with_capacity(flows.len()) };
        let mut ids = HashMap::new();
        let mut visited: HashMap<usize, usize> = HashMap::new();
        for (place, flow) in flows.iter().enumerate() {
            let bad = |key: &str, message: &str| Err(Violation::new(Code::BadFlow, at(place, key), message));
            if ids.insert(flow.id, place).is_some() {
                return bad("/id", "two flows with one id");
            }
            if !flow.size.value().is_positive() {
                return bad("/size", "a flow of no bytes");
            }
            if flow.release_s.as_ref().is_some_and(|release| release.value().is_negative()) {
                return bad("/release_s", "a release before the beginning");
            }
            let alone = route(plan, fabric, place, flow, &mut visited)?;
            chains.alone.push(alone);
            chains.groups.entry((flow.collective, flow.group)).or_default().push(place);
        }
        for places in chains.groups.values_mut() {
            places.sort_by_key(|place| flows[*place].order);
            let gap = (0_u64..).zip(places.iter()).find(|(order, place)| flows[**place].order != *order);
            if let Some((order, place)) = gap {
                let message = format!("the orders of a group are 0, 1, 2 and so on, and {order} comes next");
                return Err(Violation::new(Code::NotAChain, at(*place, "/order"), message));
            }
        }
        let (n, groups) = (flows.len(), chains.groups.len());
        report.proved.push(format!("{n} flows in {groups} chains, each on a route from its source to its destination"));
        if plan.body.collective != Collective::Custom {
            let word = plan.body.collective.word();
            report.not_rechecked.push(format!("that these flows do what a collective `{word}` owes"));
        }
        Ok(chains)
    }

    /// Completion time of each collective, by its number, when each flow has its rate and starts as soon as it may.
    pub fn times(&self, rates: &[Rational]) -> Result<BTreeMap<u64, Rational>, Violation> {
        let durations: Vec<Rational> = self.durations(rates);
        check_common_denominator(&durations, "/content/flows")?;
        let mut times: BTreeMap<u64, Rational> = BTreeMap::new();
        for ((collective, _), places) in &self.groups {
            let mut now = Rational::ZERO;
            for place in places {
                now = &now.max(release(&self.flows[*place])) + &durations[*place];
            }
            let time = times.entry(*collective).or_insert(Rational::ZERO);
            *time = time.clone().max(now);
        }
        Ok(times)
    }
    /// Seconds of each flow at its rate; none where the rate has no limit.
    pub fn durations(&self, rates: &[Rational]) -> Vec<Rational> {
        let seconds = |(flow, rate): (&Flow, &Rational)| flow.size.value().checked_div(rate);
        self.flows.iter().zip(rates).map(|of| seconds(of).unwrap_or(Rational::ZERO)).collect()
    }
    /// Completion times that nothing can beat: every flow alone on its route.
    pub fn fastest(&self) -> Result<BTreeMap<u64, Rational>, Violation> {
        // A route without any limit takes no time, which a rate of zero stands for.
        let rates: Vec<Rational> = self.alone.iter().map(|rate| rate.clone().unwrap_or(Rational::ZERO)).collect();
        self.times(&rates)
    }
}

/// When a flow may begin.
pub fn release(flow: &Flow) -> Rational {
    flow.release_s.as_ref().map_or(Rational::ZERO, Decimal::value)
}

/// Checks a route; gives the least capacity on it.
fn route(
    plan: &Plan,
    fabric: &Fabric<'_>,
    place: usize,
    flow: &Flow,
    visited: &mut HashMap<usize, usize>,
) -> Result<Option<Rational>, Violation> {
    let src = fabric.node(plan, flow.src, || at(place, "/src"))?;
    let dst = fabric.node(plan, flow.dst, || at(place, "/dst"))?;
    let bad = |key: String, message: String| Err(Violation::new(Code::BadRoute, at(place, &key), message));
    if src == dst || flow.path.is_empty() {
        return bad("/path".into(), "a route leads from one node to another over at least one link".into());
    }
    let (mut here, mut alone) = (src, None::<Rational>);
    visited.insert(src, place);
    for (i, link) in flow.path.iter().enumerate() {
        let key = format!("/path/{i}");
        let Some(of) = fabric.topology.links().get(*link as usize).filter(|of| of.from == here) else {
            return bad(key, format!("link {link} does not leave {}", fabric.id(here)));
        };
        if visited.insert(of.to, place) == Some(place) {
            return bad(key, format!("the route comes to {} twice", fabric.id(of.to)));
        }
        here = of.to;
        if let Some(capacity) = of.capacity.finite() {
            alone = Some(alone.map_or(capacity.clone(), |least| least.min(capacity.clone())));
        }
    }
    if here != dst {
        return bad("/path".into(), format!("the route ends at {}", fabric.id(here)));
    }
    Ok(alone)
}

/// A rate that is finite and above zero.
pub fn positive(rate: &Capacity, at: impl FnOnce() -> String) -> Result<&Rational, Violation> {
    match rate.finite().filter(|rate| rate.is_positive()) {
        Some(rate) => Ok(rate),
        None => Err(Violation::new(Code::BadRate, at(), "a rate is finite and above zero")),
    }
}

/// Refuses loads above what a link can carry, by more than rounding.
pub fn fits(fabric: &Fabric<'_>, loads: &BTreeMap<usize, Rational>) -> Result<(), Violation> {
    let room = Rational::new(1_000_001, 1_000_000).unwrap_or(Rational::ONE);
    for (link, load) in loads {
        let of = &fabric.topology.links()[*link];
        if of.capacity.finite().is_some_and(|capacity| *load > capacity * &room) {
            let (from, to) = (fabric.id(of.from), fabric.id(of.to));
            let message = format!("{from} → {to} would have to carry {load} bytes per second");
            return Err(Violation::new(Code::Overload, "/content/flows", message));
        }
    }
    Ok(())
}

/// Compares the claimed times: with these where they are known, else with what nothing can beat.
pub fn check_times(plan: &Plan, fabric: &Fabric<'_>, times: Times, report: &mut Report) -> Result<(), Violation> {
    let claim = &plan.body.claim;
    let of_all: Vec<Rational> = claim.t.iter().flatten().map(Decimal::value).collect();
    let (least, most) = (times.least.values(), times.most.as_ref().map(BTreeMap::values));
    let mean = |times: &[Rational]| {
        let sum: Rational = times.iter().sum();
        sum.checked_div(&Rational::from(times.len() as u64)).unwrap_or(Rational::ZERO)
    };
    let least: Vec<Rational> = least.cloned().collect();
    let most: Option<Vec<Rational>> = most.map(|most| most.cloned().collect());
    let wrong = |key: String, message: String| Err(Violation::new(Code::WrongTime, key, message));
    let inside = |value: &Rational, low: &Rational, high: Option<&Rational>| {
        let above = value >= low || Born::Wan.same(value, low);
        above && high.is_none_or(|high| value <= high || Born::Wan.same(value, high))
    };
    let between = |low: &Rational, high: Option<&Rational>| match high {
        Some(high) if low == high => format!("the flows take {:.6} s", low.to_f64()),
        Some(high) => format!("the flows take {:.6} to {:.6} s", low.to_f64(), high.to_f64()),
        None => format!("the flows take at least {:.6} s", low.to_f64()),
    };
    if claim.t.is_some() {
        if of_all.len() != least.len() {
            return wrong("/claim/T".into(), format!("there are {} collectives", least.len()));
        }
        for (i, value) in of_all.iter().enumerate() {
            let high = most.as_ref().and_then(|most| most.get(i));
            if !inside(value, &least[i], high) {
                return wrong(format!("/claim/T/{i}"), between(&least[i], high));
            }
        }
    }
    let (low, high) = (mean(&least), most.as_deref().map(mean));
    if let Some(claimed) = claim.t_mean_s.as_ref().map(Decimal::value) {
        let of_claims = mean(&of_all);
        if !inside(&claimed, &low, high.as_ref()) {
            return wrong("/claim/T_mean_s".into(), between(&low, high.as_ref()));
        }
        if claim.t.is_some() && !Born::Wan.same(&claimed, &of_claims) {
            return wrong("/claim/T_mean_s".into(), format!("the mean of `T` is {:.6} s", of_claims.to_f64()));
        }
    }
    let known = high.as_ref() == Some(&low);
    if known {
        report.proved.push(format!("T_mean_s {:.6}", low.to_f64()));
    } else {
        let at_most = high.as_ref().map_or(String::new(), |high| format!(" and at most {:.6} s", high.to_f64()));
        report.proved.push(format!("the mean time is at least {:.6} s{at_most}", low.to_f64()));
        report.not_rechecked.push("the exact times, which depend on how rates are shared as the flows go".into());
    }
    let value = match claim.t_mean_s.as_ref().map(Decimal::value) {
        Some(claimed) if !known => claimed,
        _ => low,
    };
    claims::check(plan, fabric, &Achieved { value, quantity: Quantity::MeanSeconds, born: Born::Wan }, report)
}

/// What is known of completion times, by collective.
pub struct Times {
    /// They are not shorter.
    pub least: BTreeMap<u64, Rational>,
    /// They are not longer, if anything is known of that.
    pub most: Option<BTreeMap<u64, Rational>>,
}

/// A way to carry out that this kind of plan does not have.
pub fn unfit(execution: Execution, allowed: &str) -> Violation {
    let message = format!("`{}` does not fit this kind of plan; {allowed} does", execution.word());
    Violation::new(Code::BadExecution, "/content/execution", message)
}
