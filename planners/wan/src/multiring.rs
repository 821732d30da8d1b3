//! MultiRing: a budget for each collective on every link it uses, and in each collective the flows one at a time a link.
//!
//! The budgets are those of the reciprocal program with the collectives' volumes as costs. A flow runs at its collective's
//! budget, or with `per_link_budget` at the smallest part that its collective has of a link on its route; on no link are
//! two flows of one collective active, so the budgets of the collectives on it are never exceeded.

#[cfg(test)]
mod tests;

use crate::greedy::{self, Key};
use crate::instance::Instance;
use crate::reciprocal::{self, Row, Solution};
use crate::refusal::Refusal;
use crate::schedule::{Schedule, check_starts};

/// How the flows of a collective are put in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Intra {
    /// By one key.
    Greedy(Key),
    /// The best of all keys, for each collective.
    #[default]
    Best,
}

/// How to plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// How the flows of a collective are put in order.
    pub intra: Intra,
    /// May a flow use all that its collective's budget means on its own route?
    pub per_link_budget: bool,
}

/// A plan.
#[derive(Clone, Debug, PartialEq)]
pub struct MultiRing {
    /// By collective, in MB/s.
    pub budgets: Vec<f64>,
    /// The flows, each at its rate.
    pub schedule: Schedule,
    /// What each collective takes, by collective, in s.
    pub t: Vec<f64>,
    /// What it takes at least at these rates: its longest chain, or its fullest link. Where `t` is that, its order is optimal.
    pub bounds: Vec<f64>,
}

/// The budgets of the collectives, in MB/s.
///
/// # Errors
/// What [`reciprocal::solve`] refuses.
pub fn budgets(instance: &Instance) -> Result<Solution, Refusal> {
    let volumes: Vec<f64> = (0..instance.collectives()).map(|collective| instance.volume_of(collective)).collect();
    reciprocal::solve(&volumes, &rows(instance))
}

/// One row for each link that is used: the budgets of the collectives on it stay within its capacity.
pub fn rows(instance: &Instance) -> Vec<Row> {
    let row = |link: usize| {
        let takes = collectives_on(instance, link).into_iter().map(|collective| (collective, 1.0)).collect();
        Row { takes, limit: instance.links()[link].capacity }
    };
    (0..instance.links().len()).filter(|&link| !instance.flows_on(link).is_empty()).map(row).collect()
}

/// The collectives with a flow over a link, ascending.
fn collectives_on(instance: &Instance, link: usize) -> Vec<usize> {
    let groups = instance.groups_on(link).iter();
    let mut collectives: Vec<usize> = groups.map(|&group| instance.groups()[group].collective).collect();
    collectives.dedup();
    collectives
}

/// The rates of the flows under budgets, in MB/s.
pub fn rates(instance: &Instance, budgets: &[f64], per_link_budget: bool) -> Vec<f64> {
    let budget = |collective: usize| budgets.get(collective).copied().unwrap_or(0.0);
    if !per_link_budget {
        return instance.flows().iter().map(|flow| budget(flow.collective)).collect();
    }
    let sum = |link| collectives_on(instance, link).into_iter().map(budget).sum::<f64>();
    let scale = |link: usize| instance.links()[link].capacity / sum(link);
    let scales: Vec<f64> = (0..instance.links().len()).map(scale).collect();
    let least = |path: &[usize]| path.iter().map(|&link| scales[link]).fold(f64::INFINITY, f64::min);
    // At least the budget, of which rounding might take a little where a link is full.
    instance.flows().iter().map(|flow| budget(flow.collective) * least(&flow.path).max(1.0)).collect()
}

/// What each collective takes at least at these rates, in s: its longest chain, or its fullest link.
pub fn bounds(instance: &Instance, rates: &[f64]) -> Vec<f64> {
    let duration = |flow: usize| instance.flows()[flow].size / rates[flow];
    let mut bounds = vec![0.0_f64; instance.collectives()];
    for group in instance.groups() {
        let chain: f64 = group.flows.iter().map(|&flow| duration(flow)).sum();
        bounds[group.collective] = bounds[group.collective].max(chain);
    }
    let mut sums = vec![0.0; instance.collectives()];
    for link in 0..instance.links().len() {
        for &flow in instance.flows_on(link) {
            let collective = instance.flows()[flow].collective;
            sums[collective] += duration(flow);
            bounds[collective] = bounds[collective].max(sums[collective]);
        }
        instance.flows_on(link).iter().for_each(|&flow| sums[instance.flows()[flow].collective] = 0.0);
    }
    bounds
}

/// Plans budgets and orders.
///
/// # Errors
/// What [`budgets`] refuses.
pub fn plan(instance: &Instance, options: Options) -> Result<MultiRing, Refusal> {
    let budgets = budgets(instance)?.x;
    let rates = rates(instance, &budgets, options.per_link_budget);
    let keys: &[Key] = match &options.intra {
        Intra::Greedy(key) => std::slice::from_ref(key),
        Intra::Best => &Key::ALL,
    };
    let mut starts = vec![0.0; instance.flows().len()];
    for collective in 0..instance.collectives() {
        let groups = instance.groups_of(collective).map(|group| &instance.groups()[group]);
        let flows: Vec<usize> = groups.flat_map(|group| group.flows.iter().copied()).collect();
        let mut best: Option<(f64, Vec<f64>)> = None;
        for &key in keys {
            let tried = greedy::list(instance, &flows, &rates, key)?;
            let end =
                flows.iter().map(|&flow| tried[flow] + instance.flows()[flow].size / rates[flow]).fold(0.0, f64::max);
            if best.as_ref().is_none_or(|&(known, _)| end < known) {
                best = Some((end, tried));
            }
        }
        if let Some((_, best)) = best {
            flows.iter().for_each(|&flow| starts[flow] = best[flow]);
        }
    }
    with_starts(instance, budgets, options.per_link_budget, starts)
}

/// The plan with these budgets by collective, in MB/s, and starts by flow, in s: where something else found the orders.
///
/// # Errors
/// `BadLength`, `BadRate` for a budget that is not finite and more than 0, `BadRelease` for a start that is none.
pub fn with_starts(
    instance: &Instance,
    budgets: Vec<f64>,
    per_link_budget: bool,
    starts: Vec<f64>,
) -> Result<MultiRing, Refusal> {
    let expected = instance.collectives();
    if budgets.len() != expected {
        return Err(Refusal::BadLength { what: "budgets", found: budgets.len(), expected });
    }
    let bad = |budget: f64| !(budget.is_finite() && budget > 0.0);
    let found = instance.flows().iter().enumerate().find(|(_, flow)| bad(budgets[flow.collective]));
    if let Some((flow, of)) = found {
        return Err(Refusal::BadRate { flow, t: 0.0, rate: budgets[of.collective] });
    }
    check_starts(instance, &starts)?;
    let rates = rates(instance, &budgets, per_link_budget);
    let bounds = bounds(instance, &rates);
    let mut t = vec![0.0_f64; expected];
    for (flow, (start, rate)) in instance.flows().iter().zip(starts.iter().zip(&rates)) {
        t[flow.collective] = t[flow.collective].max(start + flow.size / rate);
    }
    let schedule = Schedule::of_starts(instance, starts, rates, |flow| instance.flows()[flow].collective);
    Ok(MultiRing { budgets, schedule, t, bounds })
}
