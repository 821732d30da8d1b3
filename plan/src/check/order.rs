//! Kind `order`: flows that begin at given times or by rank, each after those it waits for.

use std::collections::{BTreeMap, HashMap};

use super::achieved::Born;
use super::fabric::Fabric;
use super::flows::{Chains, Times, at, check_times, fits, release, unfit};
use super::violation::{Code, Violation};
use super::{Report, check_common_denominator};
use crate::plan::{Decimal, Execution, Ordered, Plan};
use sluice_formats::quantity::Rational;

/// Checks an order: nobody begins before those it waits for have ended, and links carry those that run together.
pub fn check(plan: &Plan, fabric: &Fabric<'_>, of: &Ordered, report: &mut Report) -> Result<(), Violation> {
    let chains = Chains::new(plan, fabric, &of.flows, report)?;
    let ids: HashMap<u64, usize> = of.flows.iter().enumerate().map(|(place, flow)| (flow.id, place)).collect();
    // By flow, those that go first: its predecessor in the chain, and those it names.
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); of.flows.len()];
    for places in chains.groups.values() {
        places.windows(2).for_each(|pair| before[pair[1]].push(pair[0]));
    }
    for (place, flow) in of.flows.iter().enumerate() {
        for (i, id) in flow.pred.iter().flatten().enumerate() {
            match ids.get(id).filter(|other| **other != place) {
                Some(other) => before[place].push(*other),
                None => {
                    let message = format!("there is no other flow {id}");
                    return Err(Violation::new(Code::BadOrder, at(place, &format!("/pred/{i}")), message));
                }
            }
        }
    }
    let times = match of.execution {
        Execution::OrderPreserving => schedule(fabric, of, &chains, &before, report)?,
        Execution::Priority | Execution::PriorityRecomputed => priority(of, &chains, &before)?,
        other => return Err(unfit(other, "`order_preserving`, `priority` or `priority_recomputed`")),
    };
    check_times(plan, fabric, times, report)
}

/// Times in the plan: begin after what goes first, and never too much on a link.
fn schedule(
    fabric: &Fabric<'_>,
    of: &Ordered,
    chains: &Chains<'_>,
    before: &[Vec<usize>],
    report: &mut Report,
) -> Result<Times, Violation> {
    let mut rates = Vec::with_capacity(of.flows.len());
    for (place, flow) in of.flows.iter().enumerate() {
        let given = flow.rate.as_ref().and_then(|rate| rate.value().finite()).filter(|rate| rate.is_positive());
        let alone = &chains.alone[place];
        if given.zip(alone.as_ref()).is_some_and(|(given, alone)| given > alone && !Born::Wan.same(given, alone)) {
            let message = "more than a link of the route has";
            return Err(Violation::new(Code::Overload, at(place, "/rate"), message));
        }
        // Without a rate of its own a flow has its route for itself; a route without limit takes no time.
        rates.push(given.cloned().or_else(|| alone.clone()).unwrap_or(Rational::ZERO));
    }
    check_common_denominator(&rates, "/content/flows")?;
    let durations = chains.durations(&rates);
    let mut spans: Vec<(Rational, Rational)> = Vec::with_capacity(of.flows.len());
    for (place, flow) in of.flows.iter().enumerate() {
        let Some(start) = flow.start_s.as_ref().map(Decimal::value).filter(|start| !start.is_negative()) else {
            let message = "an order that is preserved says when each flow begins, from 0 on";
            return Err(Violation::new(Code::BadOrder, at(place, "/start_s"), message));
        };
        let end = &start + &durations[place];
        spans.push((start, end));
    }
    // Times are rounded: by a millionth of themselves, and never by much of a flow.
    let millionth = |time: &Rational| time * &Rational::new(1, 1_000_000).unwrap_or(Rational::ZERO);
    for (place, flow) in of.flows.iter().enumerate() {
        let early = |after: &Rational| &spans[place].0 + &millionth(after) < *after;
        if early(&release(flow)) {
            return Err(Violation::new(Code::BadOrder, at(place, "/start_s"), "begins before its release"));
        }
        if let Some(first) = before[place].iter().find(|first| early(&spans[**first].1)) {
            let message = format!("begins before flow {} has ended, which goes first", of.flows[*first].id);
            return Err(Violation::new(Code::BadOrder, at(place, "/start_s"), message));
        }
    }
    // Everything that begins and ends on a link; ends count a little early, as times are rounded.
    let mut changes: BTreeMap<usize, Vec<(Rational, bool, usize)>> = BTreeMap::new();
    for (place, flow) in of.flows.iter().enumerate() {
        let (start, end) = &spans[place];
        let thousandth = &durations[place] * &Rational::new(1, 1_000).unwrap_or(Rational::ZERO);
        let end = end - &millionth(end).min(thousandth);
        if end <= *start {
            continue;
        }
        for link in &flow.path {
            let on = changes.entry(*link as usize).or_default();
            on.push((start.clone(), true, place));
            on.push((end.clone(), false, place));
        }
    }
    for (link, mut on) in changes {
        on.sort();
        let mut load = Rational::ZERO;
        for (_, begins, place) in on {
            if begins {
                load += &rates[place];
                fits(fabric, &BTreeMap::from([(link, load.clone())]))
                    .map_err(|violation| Violation { at: at(place, "/start_s"), ..violation })?;
            } else {
                load = &load - &rates[place];
            }
        }
    }
    report.proved.push("no flow begins before those it waits for, and no link carries more than it can".into());
    let mut times: BTreeMap<u64, Rational> = BTreeMap::new();
    for (flow, (_, end)) in of.flows.iter().zip(spans) {
        let time = times.entry(flow.collective).or_insert(Rational::ZERO);
        *time = time.clone().max(end);
    }
    Ok(Times { least: times.clone(), most: Some(times) })
}

/// Ranks: every flow has one, and waiting comes to an end.
fn priority(of: &Ordered, chains: &Chains<'_>, before: &[Vec<usize>]) -> Result<Times, Violation> {
    if let Some(place) = of.flows.iter().position(|flow| flow.rank.is_none()) {
        let message = "an order by priority gives every flow its rank";
        return Err(Violation::new(Code::BadOrder, at(place, "/rank"), message));
    }
    let mut waits: Vec<usize> = before.iter().map(Vec::len).collect();
    let mut after: Vec<Vec<usize>> = vec![Vec::new(); before.len()];
    for (place, firsts) in before.iter().enumerate() {
        firsts.iter().for_each(|first| after[*first].push(place));
    }
    let mut ready: Vec<usize> = (0..waits.len()).filter(|place| waits[*place] == 0).collect();
    let mut done = 0;
    while let Some(place) = ready.pop() {
        done += 1;
        for next in &after[place] {
            waits[*next] -= 1;
            if waits[*next] == 0 {
                ready.push(*next);
            }
        }
    }
    if done < waits.len() {
        return Err(Violation::new(Code::BadOrder, "/content/flows", "flows wait for each other in a circle"));
    }
    Ok(Times { least: chains.fastest()?, most: None })
}
