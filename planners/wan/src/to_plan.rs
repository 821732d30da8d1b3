//! From a method's plan to a plan file: rates, weights or an order for every flow, with the times that it claims.
//!
//! | plan | kind | execution |
//! | --- | --- | --- |
//! | rates | `rates`, with what groups reserve | `static` or `work_conserving` |
//! | weights | `weights` | `static` or `work_conserving` |
//! | plain max-min fairness | `weights`, all 1 | `max_min` |
//! | an order on the links | `order` with starts and rates | `order_preserving` |
//! | rates with barriers | the same: a flow waits for the sets before its own | `order_preserving` |
//! | priority | `order` with ranks | `priority` |
//! | recomputed priority | `order` | `priority_recomputed` |
//!
//! A float is written with the fewest digits that read back as the same one.

#[cfg(test)]
mod tests;

use sluice_formats::json::{Decimal, RateText};
use sluice_formats::problem::{Problem, Problems};
use sluice_formats::quantity::Rational;
use sluice_plan::check;
use sluice_plan::plan::{
    self, Certificate, CertificateKind, Claim, CompletionRow, Content, Flow, Ordered, PerByte, Rates, ReserveGroup,
    Status, WeightGroup, Weights,
};
use sluice_planners::front::Draft;

use crate::baseline::Barriers;
use crate::bound::Bound;
use crate::from_topology::{Task, nearest};
use crate::instance::Instance;
use crate::plan::{Execution, Plan};
use crate::refusal::Refusal;
use crate::reserve;
use crate::simulate::Outcome;

/// The checker's word for times that are others.
const WRONG_TIME: &str = "WRONG_TIME";
/// Bound and time that are nearer to each other than this, relative, are the same for the checker.
const SAME: f64 = 0.9e-6;

/// A plan that passed the checker, with what it comes to.
#[derive(Clone, Debug)]
pub struct Made {
    /// The plan; who made it is for the caller to add.
    pub plan: plan::Plan,
    /// The mean time that it claims, in s.
    pub mean: f64,
    /// Does it claim the time of every collective? Else flows end at rates so small that floats do not say when, and the
    /// mean is what the checker's replay comes to.
    pub has_times: bool,
    /// Is no plan better, of whatever method?
    pub optimal: bool,
    /// How planning ended.
    pub status: Status,
}

/// What a plan claims besides its times.
struct Known<'a> {
    bound: &'a Bound,
    is_late: bool,
}

/// A plan with what it achieves and what is known of all plans; `is_late`: time ran out before its method was done.
///
/// # Errors
/// `Solver` where the checker refuses it, or a number is none.
pub fn make(task: &Task<'_>, plan: &Plan, outcome: &Outcome, bound: &Bound, is_late: bool) -> Result<Made, Problems> {
    let content = content(task, plan, outcome).ok_or_else(|| unwritten(task, "a rate, a weight or a start"))?;
    let known = Known { bound, is_late };
    let refused = match known.made(task, content.clone(), outcome.mean, Some(&outcome.t)) {
        Ok(made) => return Ok(made),
        Err(refused) => refused,
    };
    let other_times = |problem: &Problem| problem.details.get("violation").is_some_and(|code| code == WRONG_TIME);
    if !refused.all().iter().all(other_times) {
        return Err(refused);
    }
    // A flow that ends at a tiny rate ends when the last digit of its remainder says. Of such plans the checker's own replay
    // counts, which the plan without times makes it give.
    let draft = |claim| Draft { names: task.names.clone(), content: content.clone(), claim, demands: None };
    let certificate = certificate(bound).ok_or_else(|| unwritten(task, "a price"))?;
    let silent = task.asked.plan(draft(Claim { certificate: Some(certificate), ..Claim::default() }))?;
    let proof = check::check(&silent, Some(task.asked.topology)).proof;
    let mean = proof.map(|proof| nearest(&proof.value)).ok_or(refused)?;
    known.made(task, content, mean, None)
}

fn unwritten(task: &Task<'_>, what: &str) -> Problems {
    let status = format!("{what} that cannot be written");
    task.refused(&Refusal::Solver { status, iterations: 0, gap: f64::INFINITY })
}

impl Known<'_> {
    /// The plan with this mean time, and with the time of each collective where they are given.
    fn made(&self, task: &Task<'_>, content: Content, mean: f64, times: Option<&[f64]>) -> Result<Made, Problems> {
        let optimal = mean - self.bound.value <= SAME * mean;
        let status = match (optimal, self.is_late) {
            (true, _) => Status::Optimal,
            (false, true) => Status::TimeLimit,
            (false, false) => Status::Feasible,
        };
        let decimals = |times: &[f64]| times.iter().map(|time| decimal(*time)).collect::<Option<Vec<_>>>();
        let claim = || {
            Some(Claim {
                t: match times {
                    Some(times) => Some(decimals(times)?),
                    None => None,
                },
                t_mean_s: Some(decimal(mean)?),
                lower_bound: Some(PerByte { value: exactly(self.bound.value)?, seconds: false }),
                certificate: Some(certificate(self.bound)?),
                optimal: Some(optimal),
                status: Some(status),
                ..Claim::default()
            })
        };
        let claim = claim().ok_or_else(|| unwritten(task, "a time"))?;
        let draft = Draft { names: task.names.clone(), content, claim, demands: None };
        Ok(Made { plan: task.asked.plan(draft)?, mean, has_times: times.is_some(), optimal, status })
    }
}

fn certificate(bound: &Bound) -> Option<Certificate> {
    let row = |row: &crate::bound::Row| {
        Some(CompletionRow {
            collectives: row.collectives.iter().map(|collective| *collective as u64).collect(),
            link: u32::try_from(row.link).ok()?,
            price: exactly(row.price)?,
        })
    };
    let rows = bound.rows.iter().map(row).collect::<Option<Vec<_>>>()?;
    Some(Certificate { rows: Some(rows), ..Certificate::new(CertificateKind::Completion) })
}

/// The float as the fraction that its shortest decimal is.
fn exactly(number: f64) -> Option<Rational> {
    Rational::parse_json_number(&format!("{number:e}")).ok()
}

fn decimal(number: f64) -> Option<Decimal> {
    Some(Decimal::from(&exactly(number)?))
}

/// MB/s as a plan has it.
fn rate(number: f64) -> Option<RateText> {
    RateText::parse(&format!("{number}MB/s")).ok()
}

fn content(task: &Task<'_>, plan: &Plan, outcome: &Outcome) -> Option<Content> {
    let instance = &task.instance;
    match plan {
        Plan::Rates { rates, execution } => of_rates(task, rates, word(*execution)),
        Plan::Weights { weights, execution } => of_weights(task, weights, word(*execution)),
        Plan::Fair => of_weights(task, &vec![1.0; instance.groups().len()], plan::Execution::MaxMin),
        Plan::Schedule(schedule) => scheduled(task, outcome, &schedule.rates, &schedule.predecessors(instance)),
        // One set for each collective: nothing waits at a barrier.
        Plan::Barriers(Barriers { rates, set_of, .. }) if set_of.iter().all(|set| *set == 0) => {
            of_rates(task, rates, plan::Execution::Static)
        }
        Plan::Barriers(Barriers { rates, set_of, .. }) => scheduled(task, outcome, rates, &barriers(instance, set_of)),
        Plan::Priority { rank } => {
            let flows = flows(task, &[], |flow, of| {
                of.rank = Some(u64::try_from(*rank.get(flow)?).ok()?);
                Some(())
            });
            Some(Content::Order(Ordered { flows: flows?, execution: plan::Execution::Priority }))
        }
        Plan::PriorityRecomputed => {
            let flows = flows(task, &[], |_, _| Some(()));
            Some(Content::Order(Ordered { flows: flows?, execution: plan::Execution::PriorityRecomputed }))
        }
    }
}

fn word(execution: Execution) -> plan::Execution {
    match execution {
        Execution::Static => plan::Execution::Static,
        Execution::WorkConserving => plan::Execution::WorkConserving,
    }
}

fn of_rates(task: &Task<'_>, rates: &[f64], execution: plan::Execution) -> Option<Content> {
    let flows = flows(task, &[], |flow, of| {
        of.rate = Some(rate(*rates.get(flow)?)?);
        Some(())
    });
    let reserved = |(group, links): (&crate::Group, Vec<(usize, f64)>)| {
        let reserve = links.into_iter().map(|(link, of)| Some((u32::try_from(link).ok()?, rate(of)?)));
        let (collective, group) = (group.collective as u64, group.local as u64);
        Some(ReserveGroup { collective, group, reserve: reserve.collect::<Option<Vec<_>>>()? })
    };
    let reservations = reserve::reservations(&task.instance, rates).ok()?;
    let groups = task.instance.groups().iter().zip(reservations).map(reserved).collect::<Option<Vec<_>>>()?;
    Some(Content::Rates(Rates { flows: flows?, groups: Some(groups), execution }))
}

fn of_weights(task: &Task<'_>, weights: &[f64], execution: plan::Execution) -> Option<Content> {
    let group = |(group, weight): (&crate::Group, &f64)| {
        let (collective, group, weight) = (group.collective as u64, group.local as u64, exactly(*weight)?);
        Some(WeightGroup { collective, group, weight })
    };
    let groups = task.instance.groups().iter().zip(weights).map(group).collect::<Option<Vec<_>>>()?;
    Some(Content::Weights(Weights { flows: flows(task, &[], |_, _| Some(()))?, groups, execution }))
}

/// Flows that begin when all before them have ended, each at its rate.
fn scheduled(task: &Task<'_>, outcome: &Outcome, rates: &[f64], before: &[Vec<usize>]) -> Option<Content> {
    let instance = &task.instance;
    let flows = flows(task, before, |flow, of| {
        let firsts = instance.predecessors(flow).iter().chain(before.get(flow).into_iter().flatten());
        let mut ends = firsts.map(|first| outcome.ends.get(*first).copied());
        let start = ends.try_fold(instance.flows()[flow].release, |start, end| Some(start.max(end?)))?;
        of.start_s = Some(decimal(start)?);
        of.rate = Some(rate(*rates.get(flow)?)?);
        Some(())
    });
    Some(Content::Order(Ordered { flows: flows?, execution: plan::Execution::OrderPreserving }))
}

/// By flow those that it waits for at the barrier before its set: of each chain the last flow of the sets before. Who is
/// behind another flow of its own set waits with that.
fn barriers(instance: &Instance, set_of: &[usize]) -> Vec<Vec<usize>> {
    let mut before = vec![Vec::new(); instance.flows().len()];
    for collective in 0..instance.collectives() {
        let groups = &instance.groups()[instance.groups_of(collective)];
        for group in groups {
            let mut last = None;
            for &flow in &group.flows {
                let set = set_of.get(flow).copied().unwrap_or(0);
                if last.replace(set) == Some(set) {
                    continue;
                }
                let earlier = |other: &crate::Group| {
                    let in_turn = |flow: &&usize| set_of.get(**flow).is_some_and(|of| *of < set);
                    other.flows.iter().rev().find(in_turn).copied()
                };
                before[flow] = groups.iter().filter_map(earlier).collect();
            }
        }
    }
    before
}

/// The flows, each with what it waits for besides the one before it in its group, and with what is decided of it.
fn flows(task: &Task<'_>, before: &[Vec<usize>], decide: impl Fn(usize, &mut Flow) -> Option<()>) -> Option<Vec<Flow>> {
    let instance = &task.instance;
    let one = |(index, flow): (usize, &Flow)| {
        let mut flow = flow.clone();
        let chain = &instance.groups()[instance.group_of(index)].flows;
        let place = instance.flows()[index].order;
        let previous = place.checked_sub(1).and_then(|place| chain.get(place));
        let more = task.more.get(index).into_iter().chain(before.get(index)).flatten();
        let mut waits: Vec<u64> = more.filter(|first| Some(*first) != previous).map(|first| *first as u64).collect();
        waits.sort_unstable();
        waits.dedup();
        flow.pred = (!waits.is_empty()).then_some(waits);
        decide(index, &mut flow)?;
        Some(flow)
    };
    task.flows.iter().enumerate().map(one).collect()
}
