//! Kinds `rates` and `weights`: what flows and groups get on their links, all the time.

use std::collections::{BTreeMap, HashMap};

use super::Report;
use super::check_common_denominator;
use super::fabric::Fabric;
use super::flows::{Chains, Group, Times, at, check_times, fits, positive, unfit};
use super::violation::{Code, Violation};
use crate::plan::{Execution, Plan, Rates, Weights};
use sluice_formats::quantity::Rational;

/// Checks rates: no link is asked for more than it has, whatever runs at a time, and times are what rates make them.
pub fn check_rates(plan: &Plan, fabric: &Fabric<'_>, of: &Rates, report: &mut Report) -> Result<(), Violation> {
    let chains = Chains::new(plan, fabric, &of.flows, report)?;
    let mut rates = Vec::with_capacity(of.flows.len());
    for (place, flow) in of.flows.iter().enumerate() {
        let Some(rate) = &flow.rate else {
            return Err(Violation::new(Code::BadRate, at(place, "/rate"), "every flow has a rate"));
        };
        rates.push(positive(rate.value(), || at(place, "/rate"))?.clone());
    }
    check_common_denominator(&rates, "/content/flows")?;
    // What each group needs on each link: its flows run one at a time.
    let mut needs: BTreeMap<(Group, usize), Rational> = BTreeMap::new();
    for (group, places) in &chains.groups {
        for place in places {
            for link in &of.flows[*place].path {
                let need = needs.entry((*group, *link as usize)).or_insert(Rational::ZERO);
                *need = need.clone().max(rates[*place].clone());
            }
        }
    }
    if let Some(groups) = &of.groups {
        needs = reserves(fabric, of, groups, &chains, needs)?;
    }
    let mut loads: BTreeMap<usize, Rational> = BTreeMap::new();
    for ((_, link), need) in &needs {
        *loads.entry(*link).or_insert(Rational::ZERO) += need;
    }
    fits(fabric, &loads)?;
    report.proved.push("no link has to carry more than it can, whichever flows run at a time".into());
    check_times(plan, fabric, times(&chains, &rates, of.execution)?, report)
}

/// What groups reserve: for all their flows, and nothing else.
fn reserves(
    fabric: &Fabric<'_>,
    of: &Rates,
    groups: &[crate::plan::ReserveGroup],
    chains: &Chains<'_>,
    needs: BTreeMap<(Group, usize), Rational>,
) -> Result<BTreeMap<(Group, usize), Rational>, Violation> {
    let mut reserved: BTreeMap<(Group, usize), Rational> = BTreeMap::new();
    let mut seen = HashMap::new();
    for (i, group) in groups.iter().enumerate() {
        let key = (group.collective, group.group);
        let bad = |key: String, message: &str| {
            Err(Violation::new(Code::BadGroup, format!("/content/groups/{i}{key}"), message))
        };
        if !chains.groups.contains_key(&key) || seen.insert(key, i).is_some() {
            return bad(String::new(), "a group without flows, or twice");
        }
        for (j, (link, rate)) in group.reserve.iter().enumerate() {
            let here = || format!("/content/groups/{i}/reserve/{j}");
            if *link as usize >= fabric.topology.links().len() {
                return bad(format!("/reserve/{j}/0"), "no such link");
            }
            let rate = positive(rate.value(), here)?.clone();
            if reserved.insert((key, *link as usize), rate).is_some() {
                return bad(format!("/reserve/{j}"), "the same link twice");
            }
        }
    }
    check_common_denominator(reserved.values(), "/content/groups")?;
    let room = Rational::new(1_000_001, 1_000_000).unwrap_or(Rational::ONE);
    for ((group, link), need) in &needs {
        if reserved.get(&(*group, *link)).is_none_or(|reserved| *need > reserved * &room) {
            let message =
                format!("collective {}, group {} needs {need} bytes per second on link {link}", group.0, group.1);
            let at = if of.groups.is_some() { "/content/groups" } else { "/content/flows" };
            return Err(Violation::new(Code::BadGroup, at, message));
        }
    }
    Ok(reserved)
}

/// Checks weights: each group has one, and times are what shares by weight make them.
pub fn check_weights(plan: &Plan, fabric: &Fabric<'_>, of: &Weights, report: &mut Report) -> Result<(), Violation> {
    let chains = Chains::new(plan, fabric, &of.flows, report)?;
    if let Some(place) = of.flows.iter().position(|flow| flow.rate.is_some()) {
        let message = "rates follow from weights, and are not given beside them";
        return Err(Violation::new(Code::BadRate, at(place, "/rate"), message));
    }
    let mut weights: HashMap<Group, &Rational> = HashMap::new();
    for (i, group) in of.groups.iter().enumerate() {
        let bad = |key: &str, message: &str| {
            Err(Violation::new(Code::BadGroup, format!("/content/groups/{i}{key}"), message))
        };
        if !group.weight.is_positive() {
            return bad("/weight", "a weight is above zero");
        }
        let key = (group.collective, group.group);
        if !chains.groups.contains_key(&key) || weights.insert(key, &group.weight).is_some() {
            return bad("", "a group without flows, or twice");
        }
    }
    if let Some(group) = chains.groups.keys().find(|group| !weights.contains_key(group)) {
        let message = format!("collective {}, group {} has no weight", group.0, group.1);
        return Err(Violation::new(Code::BadGroup, "/content/groups", message));
    }
    check_common_denominator(weights.values().copied(), "/content/groups")?;
    // All groups that ever use a link share it.
    let mut using: BTreeMap<(usize, Group), ()> = BTreeMap::new();
    for (group, places) in &chains.groups {
        for link in places.iter().flat_map(|place| &of.flows[*place].path) {
            using.insert((*link as usize, *group), ());
        }
    }
    let mut sums: HashMap<usize, Rational> = HashMap::new();
    for (link, group) in using.keys() {
        *sums.entry(*link).or_insert(Rational::ZERO) += weights[group];
    }
    let mut rates = Vec::with_capacity(of.flows.len());
    for flow in &of.flows {
        let weight = weights[&(flow.collective, flow.group)];
        let shares = flow.path.iter().filter_map(|link| {
            let capacity = fabric.topology.links()[*link as usize].capacity.finite()?;
            (weight * capacity).checked_div(sums.get(&(*link as usize))?)
        });
        // No limited link at all: no time, which a rate of zero stands for.
        rates.push(shares.min().unwrap_or(Rational::ZERO));
    }
    report.proved.push("every group has one weight, and shares by weight fit every link".into());
    check_times(plan, fabric, times(&chains, &rates, of.execution)?, report)
}

fn times(chains: &Chains<'_>, rates: &[Rational], execution: Execution) -> Result<Times, Violation> {
    let fixed = chains.times(rates)?;
    match execution {
        Execution::Static => Ok(Times { least: fixed.clone(), most: Some(fixed) }),
        // What others leave is used, so nothing ends later.
        Execution::WorkConserving => Ok(Times { least: chains.fastest()?, most: Some(fixed) }),
        other => Err(unfit(other, "`static` or `work_conserving`")),
    }
}
