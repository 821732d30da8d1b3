//! Kind `order`: flows that begin at given times or by rank, each after those it waits for.
//!
//! Planned times give an order: a flow begins when those it waits for have ended, and all that were to end on a link of its route
//! before it was to begin. Flows that then run together on a link were to do so by the plan, two by two and therefore all at one
//! instant of it, so the link carries no more than it did there. Plans whose flows begin as early as they can end when they say.

use super::Report;
use super::achieved::Exactness;
use super::fabric::Fabric;
use super::flows::{Chains, Fixed, Instance, OutOfRange, Priority, Times, Waits, at, check_times, fits, unfit};
use super::violation::{Code, Violation};
use crate::plan::{Decimal, Execution, Flow, Ordered, Plan, RateText};
use sluice_formats::quantity::Rational;

/// Times are rounded: by a millionth of themselves, and never by more than a thousandth of a flow.
const ROUNDING: u64 = 1_000_000;
const OF_A_FLOW: u64 = 1_000;

/// Checks an order: nobody begins before those it waits for have ended, and links carry those that run together.
pub fn check(plan: &Plan, fabric: &Fabric<'_>, of: &Ordered, report: &mut Report) -> Result<(), Violation> {
    let chains = Chains::new(plan, fabric, &of.flows, report)?;
    let (ranks, starts) = (of.execution == Execution::Priority, of.execution == Execution::OrderPreserving);
    if !starts && !matches!(of.execution, Execution::Priority | Execution::PriorityRecomputed) {
        return Err(unfit(of.execution, "`order_preserving`, `priority` or `priority_recomputed`"));
    }
    chains.heed(ranks, starts)?;
    let times = if starts {
        schedule(fabric, &chains)?
    } else {
        let nothing = |rate: &RateText| rate.value().finite().is_some_and(Rational::is_zero);
        let given = |flow: &Flow| flow.rate.as_ref().is_some_and(|rate| !nothing(rate));
        if let Some(place) = of.flows.iter().position(given) {
            let message = "flows by priority take what is left, and have no rates of their own; 0 is none";
            return Err(Violation::new(Code::BadRate, at(place, "/rate"), message));
        }
        let given: Option<Vec<u64>> = of.flows.iter().map(|flow| flow.rank).collect();
        let instance = Instance::new(&chains, fabric)?;
        let mut rule = match (given, ranks) {
            (_, false) => Priority::recomputed(&instance)?,
            (Some(given), true) => Priority::by_rank(&instance, given)?,
            (None, true) => {
                let place = of.flows.iter().position(|flow| flow.rank.is_none()).unwrap_or(0);
                let message = "an order by priority gives every flow its rank";
                return Err(Violation::new(Code::BadOrder, at(place, "/rank"), message));
            }
        };
        chains.replay(&instance, &mut rule, None)?
    };
    report.proved.push("no flow begins before those it waits for, and no link carries more than it can".into());
    check_times(plan, fabric, &times, report)
}

/// When a flow begins and ends by the plan.
#[derive(Clone, Copy)]
struct Span {
    start: Fixed,
    end: Fixed,
    /// The earliest time that counts as its end.
    early: Fixed,
}

/// The least that counts as this time, when it is compared with one that may be rounded.
fn early(time: Fixed) -> Fixed {
    time.less(time.nth(ROUNDING))
}

/// Times in the plan: begin after what goes first, and never too much on a link; the times in the order that they give are
/// the same.
fn schedule(fabric: &Fabric<'_>, chains: &Chains<'_>) -> Result<Times, Violation> {
    let rates = rates(chains)?;
    let instance = Instance::new(chains, fabric)?;
    let rates = rates.into_iter().map(|rate| rate.map(|rate| instance.rate(&rate)).transpose());
    let rates = rates.collect::<Result<Vec<_>, OutOfRange>>()?;
    let spans = spans(&instance, chains, &rates)?;
    let mut on_links = vec![Vec::new(); instance.capacities.len()];
    for (place, of) in instance.transfers.iter().enumerate() {
        of.route.iter().for_each(|link| on_links[*link as usize].push(place));
    }
    for (link, flows) in on_links.iter().enumerate() {
        carried(fabric, &instance, &rates, &spans, link, flows)?;
    }
    let planned = instance.completion(&spans.iter().map(|span| span.end).collect::<Vec<_>>());
    let kept = instance.completion(&in_order(&instance, chains, &rates, &spans, on_links)?);
    for (place, (planned, kept)) in planned.iter().zip(&kept).enumerate() {
        if !Exactness::Wan.same(planned, kept) {
            let of_it = (0..spans.len()).filter(|flow| instance.transfers[*flow].collective == place);
            let last = of_it.max_by_key(|flow| spans[*flow].end).unwrap_or(0);
            let message = format!(
                "its collective ends at {:.6} s by the starts, and at {:.6} s when every flow begins as soon as the order lets it",
                planned.to_f64(),
                kept.to_f64()
            );
            return Err(Violation::new(Code::BadOrder, at(last, "/start_s"), message));
        }
    }
    Ok(Times::exactly(kept))
}

/// The rate of each flow in bytes per second; without one of its own it has its route for itself, and no time without limit.
fn rates(chains: &Chains<'_>) -> Result<Vec<Option<Rational>>, Violation> {
    let mut rates = Vec::with_capacity(chains.flows.len());
    for (place, (flow, alone)) in chains.flows.iter().zip(&chains.alone).enumerate() {
        let given = flow.rate.as_ref().and_then(|rate| rate.value().finite());
        if given.is_some_and(|rate| rate.is_negative()) {
            return Err(Violation::new(Code::BadRate, at(place, "/rate"), "a rate is not below zero; 0 is none"));
        }
        let given = given.filter(|rate| rate.is_positive());
        if given.zip(alone.as_ref()).is_some_and(|(given, alone)| given > alone && !Exactness::Wan.same(given, alone)) {
            let message = "more than a link of the route has";
            return Err(Violation::new(Code::Overload, at(place, "/rate"), message));
        }
        rates.push(given.or(alone.as_ref()).cloned());
    }
    Ok(rates)
}

/// When flows begin and end by the plan; nobody begins too early.
fn spans(instance: &Instance, chains: &Chains<'_>, rates: &[Option<Fixed>]) -> Result<Vec<Span>, Violation> {
    let mut spans = Vec::with_capacity(rates.len());
    for (place, flow) in chains.flows.iter().enumerate() {
        let Some(start) = flow.start_s.as_ref().map(Decimal::value).filter(|start| !start.is_negative()) else {
            let message = "an order that is preserved says when each flow begins, from 0 on";
            return Err(Violation::new(Code::BadOrder, at(place, "/start_s"), message));
        };
        let (start, takes) = (instance.time(&start)?, instance.takes(place, rates[place])?);
        let end = start.plus(takes)?;
        let early = end.less(end.nth(ROUNDING).min(takes.nth(OF_A_FLOW)));
        spans.push(Span { start, end, early });
    }
    for (place, span) in spans.iter().enumerate() {
        let too_early = |message: String| Err(Violation::new(Code::BadOrder, at(place, "/start_s"), message));
        if span.start < early(instance.release(place)) {
            return too_early("begins before its release".into());
        }
        for next in chains.waits.after(place) {
            if spans[next].start < early(span.end) {
                let message = format!("begins before flow {} has ended, which goes first", chains.flows[place].id);
                return Err(Violation::new(Code::BadOrder, at(next, "/start_s"), message));
            }
        }
    }
    Ok(spans)
}

/// Looks at everything that begins and ends on a link; ends count a little early.
fn carried(
    fabric: &Fabric<'_>,
    instance: &Instance,
    rates: &[Option<Fixed>],
    spans: &[Span],
    link: usize,
    flows: &[usize],
) -> Result<(), Violation> {
    // What ends goes before what begins at the same time.
    let begins = flows.iter().map(|flow| (spans[*flow].start, true, *flow));
    let mut changes: Vec<(Fixed, bool, usize)> =
        begins.chain(flows.iter().map(|flow| (spans[*flow].early, false, *flow))).collect();
    changes.sort_unstable();
    let capacity = instance.capacities[link];
    let mut load = Fixed::ZERO;
    for (_, begins, flow) in changes {
        let rate = rates[flow].unwrap_or_default();
        load = if begins { load.plus(rate)? } else { load.less(rate) };
        if load > capacity {
            fits(fabric, instance.links[link] as usize, &instance.bytes_per_second(load))
                .map_err(|violation| Violation { at: at(flow, "/start_s"), ..violation })?;
        }
    }
    Ok(())
}

/// When flows end of which each begins as soon as it has nothing to wait for any more, neither those that go first nor those that
/// were to end before it began on a link of its route.
fn in_order(
    instance: &Instance,
    chains: &Chains<'_>,
    rates: &[Option<Fixed>],
    spans: &[Span],
    on_links: Vec<Vec<usize>>,
) -> Result<Vec<Fixed>, Violation> {
    let flows = spans.len();
    let mut waits = Waits::new(flows + on_links.iter().map(Vec::len).sum::<usize>());
    for flow in 0..flows {
        chains.waits.after(flow).for_each(|next| waits.add(flow, next));
    }
    // For each end on a link a node behind the flows: it ends when all that were to end there until then have ended.
    let mut node = flows;
    for mut on in on_links {
        on.sort_unstable_by_key(|flow| spans[*flow].early);
        for (i, flow) in on.iter().enumerate() {
            waits.add(*flow, node + i);
            if i > 0 {
                waits.add(node + i - 1, node + i);
            }
            let ended = on.partition_point(|other| spans[*other].early <= spans[*flow].start);
            if ended > 0 {
                waits.add(node + ended - 1, *flow);
            }
        }
        node += on.len();
    }
    let Some(order) = waits.order() else {
        let message = "by their starts flows wait for each other in a circle";
        return Err(Violation::new(Code::BadOrder, "/content/flows", message));
    };
    let release = |node| if node < flows { instance.release(node) } else { Fixed::ZERO };
    let takes = |node: usize| rates.get(node).map_or(Ok(Fixed::ZERO), |rate| instance.takes(node, *rate));
    let mut ends = waits.ends(&order, release, takes)?;
    ends.truncate(flows);
    Ok(ends)
}
