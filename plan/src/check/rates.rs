//! Kinds `rates` and `weights`: what flows and groups get on their links, all the time or at least.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::Report;
use super::fabric::Fabric;
use super::flows::{Chains, Fill, Fixed, Group, Instance, OutOfRange, Times, at, check_times, fits, positive, unfit};
use super::violation::{Code, Violation};
use crate::plan::{Execution, Plan, Rates, ReserveGroup, Weights};
use sluice_formats::quantity::Rational;

/// Checks rates: no link is asked for more than it has, whatever runs at a time, and times are what rates make them.
pub fn check_rates(plan: &Plan, fabric: &Fabric<'_>, of: &Rates, report: &mut Report) -> Result<(), Violation> {
    let chains = Chains::new(plan, fabric, &of.flows, report)?;
    chains.heed(false, false)?;
    let mut given = Vec::with_capacity(of.flows.len());
    for (place, flow) in of.flows.iter().enumerate() {
        let Some(rate) = &flow.rate else {
            return Err(Violation::new(Code::BadRate, at(place, "/rate"), "every flow has a rate"));
        };
        given.push(positive(rate.value(), || at(place, "/rate"))?);
    }
    let instance = Instance::new(&chains, fabric)?;
    // What each group needs on each link: its flows run one at a time.
    let mut needs: BTreeMap<(Group, usize), &Rational> = BTreeMap::new();
    for (group, places) in &chains.groups {
        for place in places {
            for link in &of.flows[*place].path {
                let need = needs.entry((*group, *link as usize)).or_insert(given[*place]);
                *need = (*need).max(given[*place]);
            }
        }
    }
    if let Some(groups) = &of.groups {
        needs = reserves(fabric, groups, &chains, &needs)?;
    }
    let mut loads: BTreeMap<usize, Fixed> = BTreeMap::new();
    for ((_, link), need) in &needs {
        let load = loads.entry(*link).or_default();
        *load = load.plus(instance.rate(need)?)?;
    }
    for (link, load) in loads {
        fits(fabric, link, &instance.bytes_per_second(load))?;
    }
    report.proved.push("no link has to carry more than it can, whichever flows run at a time".into());
    let rates = given.iter().map(|rate| instance.rate(rate).map(Some)).collect::<Result<Vec<_>, _>>()?;
    let times = match of.execution {
        Execution::Static => Times::exactly(instance.completion(&chains.ends(&instance, |flow| rates[flow])?)),
        Execution::WorkConserving => filled(&chains, &instance, &rates)?,
        other => return Err(unfit(other, "`static` or `work_conserving`")),
    };
    check_times(plan, fabric, &times, report)
}

/// What groups reserve: at least what their flows need.
fn reserves<'a>(
    fabric: &Fabric<'_>,
    groups: &'a [ReserveGroup],
    chains: &Chains<'_>,
    needs: &BTreeMap<(Group, usize), &Rational>,
) -> Result<BTreeMap<(Group, usize), &'a Rational>, Violation> {
    let mut reserved: BTreeMap<(Group, usize), &Rational> = BTreeMap::new();
    let mut seen = HashSet::new();
    for (i, group) in groups.iter().enumerate() {
        let key = (group.collective, group.group);
        let bad = |key: String, message: &str| {
            Err(Violation::new(Code::BadGroup, format!("/content/groups/{i}{key}"), message))
        };
        if !chains.groups.contains_key(&key) || !seen.insert(key) {
            return bad(String::new(), "a group without flows, or twice");
        }
        for (j, (link, rate)) in group.reserve.iter().enumerate() {
            let here = || format!("/content/groups/{i}/reserve/{j}");
            if *link as usize >= fabric.topology.links().len() {
                return bad(format!("/reserve/{j}/0"), "no such link");
            }
            if reserved.insert((key, *link as usize), positive(rate.value(), here)?).is_some() {
                return bad(format!("/reserve/{j}"), "the same link twice");
            }
        }
    }
    let room = Rational::new(1_000_001, 1_000_000).unwrap_or(Rational::ONE);
    for ((group, link), need) in needs {
        if reserved.get(&(*group, *link)).is_none_or(|reserved| **need > *reserved * &room) {
            let (collective, group, need) = (group.0, group.1, need.to_f64());
            let message =
                format!("collective {collective}, group {group} needs {need:.0} bytes per second on link {link}");
            return Err(Violation::new(Code::BadGroup, "/content/groups", message));
        }
    }
    Ok(reserved)
}

/// Checks weights: each group has one, and times are what shares by weight make them.
pub fn check_weights(plan: &Plan, fabric: &Fabric<'_>, of: &Weights, report: &mut Report) -> Result<(), Violation> {
    let chains = Chains::new(plan, fabric, &of.flows, report)?;
    chains.heed(false, false)?;
    if let Some(place) = of.flows.iter().position(|flow| flow.rate.is_some()) {
        let message = "rates follow from weights, and are not given beside them";
        return Err(Violation::new(Code::BadRate, at(place, "/rate"), message));
    }
    let mut given: HashMap<Group, &Rational> = HashMap::new();
    for (i, group) in of.groups.iter().enumerate() {
        let bad = |key: &str, message: &str| {
            Err(Violation::new(Code::BadGroup, format!("/content/groups/{i}{key}"), message))
        };
        if !group.weight.is_positive() {
            return bad("/weight", "a weight is above zero");
        }
        let key = (group.collective, group.group);
        if !chains.groups.contains_key(&key) || given.insert(key, &group.weight).is_some() {
            return bad("", "a group without flows, or twice");
        }
    }
    if let Some(group) = chains.groups.keys().find(|group| !given.contains_key(group)) {
        let message = format!("collective {}, group {} has no weight", group.0, group.1);
        return Err(Violation::new(Code::BadGroup, "/content/groups", message));
    }
    let instance = Instance::new(&chains, fabric)?;
    let heaviest = given.values().max().map_or(Rational::ONE, |weight| (*weight).clone());
    let weight = |group: &Group| Fixed::part(given[group], &heaviest);
    let weights = chains.groups.keys().map(weight).collect::<Result<Vec<_>, _>>()?;
    report.proved.push("every group has one weight, and shares by weight fit every link".into());
    let times = match of.execution {
        Execution::MaxMin => {
            let of_flow = instance.transfers.iter().map(|flow| weights[flow.group]).collect();
            let nothing = vec![Fixed::ZERO; of.flows.len()];
            chains.replay(&instance, &mut Fill::new(&instance, nothing, of_flow), None)?
        }
        Execution::Static => {
            let shares = shares(&instance, &weights)?;
            Times::exactly(instance.completion(&chains.ends(&instance, |flow| shares[flow])?))
        }
        Execution::WorkConserving => filled(&chains, &instance, &shares(&instance, &weights)?)?,
        other => return Err(unfit(other, "`max_min`, `static` or `work_conserving`")),
    };
    check_times(plan, fabric, &times, report)
}

/// By flow, the least of its group's shares on its route, each by weight among all groups that ever use the link; `None`: no
/// link of the route has a limit.
fn shares(instance: &Instance, weights: &[Fixed]) -> Result<Vec<Option<Fixed>>, OutOfRange> {
    let mut sums = vec![Fixed::ZERO; instance.capacities.len()];
    // The last group that was added to each link; groups come one after the other.
    let mut last = vec![usize::MAX; sums.len()];
    for (group, flows) in instance.groups.iter().enumerate() {
        for link in flows.iter().flat_map(|flow| &instance.transfers[*flow].route) {
            let link = *link as usize;
            if std::mem::replace(&mut last[link], group) != group {
                sums[link] = sums[link].plus(weights[group])?;
            }
        }
    }
    let share = |group: usize, link: &u32| {
        let (capacity, sum) = (instance.capacities[*link as usize], sums[*link as usize]);
        weights[group].over(sum)?.times(capacity)?.as_rate()
    };
    let mut shares = Vec::with_capacity(instance.transfers.len());
    for flow in &instance.transfers {
        let of_links = flow.route.iter().map(|link| share(flow.group, link)).collect::<Result<Vec<_>, OutOfRange>>()?;
        shares.push(of_links.into_iter().min());
    }
    Ok(shares)
}

/// Times where every flow has its rate, and what is left of the links is divided by these rates among those that are ready.
fn filled(chains: &Chains<'_>, instance: &Instance, rates: &[Option<Fixed>]) -> Result<Times, OutOfRange> {
    let fixed = chains.ends(instance, |flow| rates[flow])?;
    let rates: Vec<Fixed> = rates.iter().map(|rate| rate.unwrap_or_default()).collect();
    // Nobody ends later for what others leave.
    chains.replay(instance, &mut Fill::new(instance, rates.clone(), rates), Some(&fixed))
}
