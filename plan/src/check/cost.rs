//! What a plan costs: of every link its cost times the data it carries, and the least that any plan of this time costs.
//!
//! It is counted in units of the data: what a participant of weight 1 owns of an all-gather, what one owns for another
//! of an all-to-all, a chunk of demands, M itself of the other collectives.

use super::demand::Demand;
use super::dual;
use super::fabric::Fabric;
use super::violation::{Code, Violation};
use super::{Report, achieved::Exactness};
use crate::plan::{Certificate, Collective, Exact, Plan};
use sluice_formats::quantity::{Rational, common_denominator};

/// Compares what is claimed about the cost with what the links carry, in parts of M, in a time of `time` for each M.
pub fn check(
    plan: &Plan,
    fabric: &Fabric<'_>,
    on_links: &[Rational],
    time: &Rational,
    exactness: Exactness,
    report: &mut Report,
) -> Result<(), Violation> {
    let claim = &plan.body.claim;
    let links = fabric.topology.links();
    let addable = common_denominator(links.iter().map(|link| &link.cost)).is_some();
    if !addable && claim.cost.is_some() {
        let message = "no common denominator of at most 4096 bits among the costs of links";
        return Err(Violation::new(Code::TooFine, "/claim/cost", message));
    }
    let cost = addable.then(|| {
        let sum: Rational =
            links.iter().zip(on_links).map(|(link, load)| &link.cost * load).fold(Rational::ZERO, |a, b| &a + &b);
        units(plan, fabric).map(|units| &units * &sum)
    });
    let cost = cost.transpose()?;
    if let (Some(Exact(claimed)), Some(cost)) = (&claim.cost, &cost) {
        if !exactness.same(claimed, cost) {
            return Err(Violation::new(Code::WrongCost, "/claim/cost", format!("the loads say {cost}")));
        }
        report.proved.push(format!("cost {cost}"));
    }
    let prices = claim.certificate.as_ref().filter(|certificate| certificate.cost_prices.is_some());
    let proved = match prices {
        Some(certificate) => bound(plan, fabric, certificate, time)?,
        None => Some(Rational::ZERO),
    };
    if let Some(Exact(claimed)) = &claim.cost_lower_bound {
        if let Some(proved) = proved.as_ref().filter(|proved| !exactness.same(claimed, proved)) {
            let message = match prices {
                Some(_) => format!("the prices prove {proved}"),
                None => "no `cost_prices` prove it".into(),
            };
            return Err(Violation::new(Code::WrongCostBound, "/claim/cost_lower_bound", message));
        }
        if let Some(cost) = cost.as_ref().filter(|cost| claimed > *cost && !exactness.same(claimed, cost)) {
            let message = format!("the plan costs {cost}, which is less than this bound");
            return Err(Violation::new(Code::CostBoundAboveCost, "/claim/cost_lower_bound", message));
        }
    }
    if prices.is_some() {
        match &proved {
            // As for the time, prices say nothing of partial sums that go to several nodes at once.
            Some(proved) if plan.body.collective == Collective::AllReduce => {
                let which = "no plan of this time that adds up every part at one node";
                report.proved.push(format!("{which} costs less than {proved}"));
            }
            Some(proved) => report.proved.push(format!("no plan of this time costs less than {proved}")),
            None => report.not_rechecked.push("the lower bound of the cost, which would take too long".into()),
        }
    }
    if let Some(figures) = &mut report.figures {
        figures.cost = cost;
        figures.cost_lower_bound = proved.filter(|_| prices.is_some());
    }
    Ok(())
}

/// What the `cost_prices` of a certificate prove: no plan that takes at most `time` for each M costs less. `None`: finding out
/// would take too long, or there are none.
pub fn bound(
    plan: &Plan,
    fabric: &Fabric<'_>,
    certificate: &Certificate,
    time: &Rational,
) -> Result<Option<Rational>, Violation> {
    let Some(prices) = &certificate.cost_prices else { return Ok(None) };
    let units = units(plan, fabric)?;
    Ok(dual::cost_bound(plan, fabric, prices, time)?.map(|of_m| &units * &of_m))
}

/// How many units M has.
fn units(plan: &Plan, fabric: &Fabric<'_>) -> Result<Rational, Violation> {
    Ok(match plan.body.collective {
        Collective::AllGather => fabric.whole(),
        Collective::AllToAll => Rational::from(fabric.participants.len() as u64),
        Collective::Custom => Rational::from(Demand::new(plan, fabric)?.units),
        _ => Rational::ONE,
    })
}
