//! The paper's allocator for all flows of one host: Algorithm 1 for each, then Algorithm 2 for the current slot.
//!
//! Flows are planned one after another in the order of their reservations, each on what the earlier ones left of the
//! links they share. That is first come, first served with gaps, and it is the paper's rule: `srpt-p` is the better
//! one, this one is there to be compared with. Two forms:
//!
//! | | literal | repaired |
//! | --- | --- | --- |
//! | price | the bare sum of loads, in Gbit/s | λ(ρ), dimensionless |
//! | lag behind a predecessor | applied up to B_f, even beyond the headroom; a new flow, without B_f, up to the headroom | the same, within the headroom |
//! | own old contribution in a table | counts like anybody's | is taken out first |
//! | several flows of one job on a link | the first takes all | each plans on its share |
//! | a round that waited too long | is priced like any other | goes now, whatever a slot costs |
//! | unused capacity of the current slot | stays unused | goes to flows with demand |
//!
//! In both forms the rates on an own link never add up to more than the link, in no slot, floors included. When to
//! plan (at slot edges, or at every event), and who came first, is the caller's business.

mod fill;
mod view;

use super::Why;
use crate::graph::{Step, adjust};
use crate::greedy::{Chosen, MAX_SLOTS, Request, refill, schedule};
use crate::price::{Curve, Weight};
use crate::units::{Bytes, FlowId, JobId, Nanos, Rate};
use view::{Path, Views};

/// How the allocator plans.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// How load becomes a price.
    pub curve: Curve,
    /// How much a slot of delay is worth against price (w).
    pub weight: Weight,
    /// With the repairs of the table above; without: the paper to the letter.
    pub repaired: bool,
    /// Give unused capacity of the current slot to flows with demand.
    pub work_conserving: bool,
}

impl Config {
    /// The paper to the letter, with `schedule.delay_weight`.
    pub fn literal(weight: f64) -> Config {
        Config { curve: Curve::BareLoad, weight: Weight::new(weight), repaired: false, work_conserving: false }
    }
    /// The repaired form, with `schedule.delay_weight`, `schedule.price_mu` and `schedule.work_conserving`.
    pub fn repaired(weight: f64, mu: f64, work_conserving: bool) -> Config {
        Config { curve: Curve::exponential(mu), weight: Weight::new(weight), repaired: true, work_conserving }
    }
}

/// A link that some of the flows cross.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// What managed flows may use of it: its rate less cross traffic and reserve.
    pub usable: Rate,
    /// Only this host sends there: what is planned here is all there is, and is never more than the link.
    pub own: bool,
    /// What other hosts' flows take there now beyond what they promised: the fill leaves it to them.
    pub filled: Rate,
}

/// One link of one flow's path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hop<'a> {
    /// Index into the links.
    pub link: usize,
    /// What other hosts' flows of *other* jobs promised there, from the current slot on; missing slots are idle.
    pub load: &'a [Rate],
    /// Flows with demand that this flow's own job has there, on all hosts, this one included; 0 counts as 1.
    pub sharers: u64,
    /// What the own job's flows of other hosts promised there for the current slot. They do not stand in each other's way
    /// when a schedule is made, only when the fill gives out what nobody scheduled.
    pub siblings: Rate,
}

impl Hop<'_> {
    fn load(&self, t: usize) -> Rate {
        self.load.get(t).copied().unwrap_or(Rate::ZERO)
    }
}

/// One flow of this host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowView<'a> {
    /// Id of the flow; breaks ties.
    pub flow: FlowId,
    /// The job it belongs to.
    pub job: JobId,
    /// When its reservation came; smaller plans first, ties by job and flow.
    pub arrival: u64,
    /// Bytes of the round still to send. Without any the flow is left out.
    pub remaining: Bytes,
    /// What of them its predecessors allow to be sent by the end of the current slot.
    pub usable: Bytes,
    /// The bytes by which what it delivered lags behind what it depends on. Δ is what of them Algorithm 1's rate does not
    /// make up for by the end of the current slot, because that rate is part of the flow's progress.
    pub behind: Bytes,
    /// B_f; [`Rate::MAX`] if nothing is known.
    pub ceiling: Rate,
    /// What it keeps as long as it has demand.
    pub floor: Rate,
    /// It has been deferred too long: in the repaired form it goes now, whatever a slot costs.
    pub due: bool,
    /// What the loads above still contain of this flow's own last schedule, if anything.
    pub old: &'a [Rate],
    /// Its path, the own egress first.
    pub path: &'a [Hop<'a>],
}

/// All that is known for one decision.
#[derive(Clone, Copy, Debug)]
pub struct Problem<'a> {
    /// Length of a slot, the same in the whole cluster.
    pub slot: Nanos,
    /// What is left of the current slot.
    pub rest: Nanos,
    /// How many slots ahead are planned (K).
    pub horizon: usize,
    /// Every link that a flow may cross; hops name them by index.
    pub links: &'a [Link],
    /// The flows, in any order.
    pub flows: &'a [FlowView<'a>],
}

/// What was decided for one flow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schedule {
    /// K rates; the first is for what is left of the current slot. All zero without demand.
    pub rates: Vec<Rate>,
    /// What of the first rate the fill added: nobody has to reckon with it, so it need not be announced.
    pub filled: Rate,
    /// What the path had left for it in the current slot.
    pub headroom: Rate,
    /// Why the first rate is not higher.
    pub why: Why,
    /// Delay and price as Algorithm 1 weighed them, after the current slot was adjusted.
    pub chosen: Chosen,
}

/// Memory that is kept from decision to decision.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    order: Vec<usize>,
    /// Floors of flows not planned yet, per link.
    pending: Vec<Rate>,
    floors: Vec<Rate>,
    views: Views,
    path: Path,
    fill: fill::Scratch,
}

/// Plans all flows; `out` gets one schedule per flow, in the order of [`Problem::flows`].
pub fn plan(problem: &Problem, config: &Config, scratch: &mut Scratch, out: &mut Vec<Schedule>) {
    let horizon = problem.horizon.clamp(1, MAX_SLOTS);
    out.resize_with(problem.flows.len(), Schedule::default);
    for schedule in out.iter_mut() {
        schedule.rates.clear();
        schedule.rates.resize(horizon, Rate::ZERO);
        *schedule = Schedule { rates: std::mem::take(&mut schedule.rates), ..Schedule::default() };
    }
    prepare(problem, scratch);
    scratch.views.clear(problem.links.len(), horizon);
    let Scratch { order, pending, floors, views, path, fill } = scratch;
    let mut job = None;
    for (at, &f) in order.iter().enumerate() {
        let flow = &problem.flows[f];
        if job.replace(flow.job) != Some(flow.job) {
            views.begin_job(problem, flow.job, &order[..at]);
        }
        for hop in flow.path {
            pending[hop.link] = pending[hop.link].minus(floors[f]);
        }
        views.look(problem, config, f, pending, out, path);
        plan_flow(problem, config, flow, path, floors[f], &mut out[f]);
        views.take(flow, &out[f].rates);
    }
    if config.work_conserving {
        fill::fill(problem, order, |link| views.planned_now(link), fill, out);
    }
}

/// Sorts the flows by reservation, and sets every floor aside on its links.
fn prepare(problem: &Problem, scratch: &mut Scratch) {
    let flows = problem.flows;
    scratch.order.clear();
    let known = |flow: &FlowView| flow.path.iter().all(|hop| hop.link < problem.links.len());
    scratch.order.extend((0..flows.len()).filter(|&f| flows[f].remaining > Bytes::ZERO && known(&flows[f])));
    scratch.order.sort_unstable_by_key(|&f| (flows[f].arrival, flows[f].job, flows[f].flow));
    // With many flows the floors alone would be more than an own link: there each is at most an equal share.
    scratch.floors.clear();
    scratch.floors.extend(flows.iter().map(|flow| flow.floor));
    scratch.pending.clear();
    scratch.pending.resize(problem.links.len(), Rate::ZERO);
    for (l, link) in problem.links.iter().enumerate().filter(|(_, link)| link.own) {
        let here = |f: &&usize| flows[**f].path.iter().any(|hop| hop.link == l);
        let share = link.usable.share(scratch.order.iter().filter(here).count() as u64);
        for &f in scratch.order.iter().filter(here) {
            scratch.floors[f] = scratch.floors[f].min(share);
        }
    }
    for &f in &scratch.order {
        for hop in flows[f].path {
            scratch.pending[hop.link] = scratch.pending[hop.link].plus(scratch.floors[f]);
        }
    }
}

/// Algorithms 1 and 2 for one flow.
fn plan_flow(problem: &Problem, config: &Config, flow: &FlowView, path: &Path, floor: Rate, out: &mut Schedule) {
    let request = Request {
        demand: flow.remaining,
        price: &path.price,
        headroom: &path.headroom,
        slot: problem.slot,
        first: problem.rest,
        weight: config.weight,
    };
    out.chosen = schedule(&request, &mut out.rates);
    out.headroom = path.headroom[0];
    let initial = out.rates[0];
    let mut now = initial;
    out.why = match initial {
        rate if rate.over(problem.rest) >= flow.remaining => Why::NoDemand,
        rate if rate < path.headroom[0] => Why::Price,
        _ if path.alone => Why::LinkCap,
        _ => Why::Headroom,
    };
    // A new flow has no history and starts from headroom; in the repaired form the headroom bounds everything anyway.
    let unknown = flow.ceiling == Rate::MAX && !config.repaired;
    let ceiling = if unknown { path.headroom[0] } else { flow.ceiling };
    let adjusted = adjust(initial, flow.behind.minus(initial.over(problem.rest)), problem.rest, ceiling);
    now = match adjusted.step {
        Step::Kept => now,
        _ if adjusted.rate == initial => now,
        Step::CaughtUp | Step::AtCeiling if adjusted.rate > initial => {
            out.why = Why::CatchUp;
            adjusted.rate
        }
        _ => {
            out.why = Why::LinkCap;
            adjusted.rate
        }
    };
    if config.repaired {
        out.why = lower(&mut now, out.why, flow.ceiling, Why::LinkCap);
        out.why = lower(&mut now, out.why, path.headroom[0], Why::Headroom);
    }
    // A flow that would end the slot ahead of what it is fed is cut by the excess.
    out.why = lower(&mut now, out.why, predecessor_limit(flow, problem.rest), Why::Predecessor);
    out.why = lower(&mut now, out.why, path.hard, if path.alone { Why::LinkCap } else { Why::Headroom });
    if now < floor {
        now = floor;
        if out.why == Why::Headroom {
            out.why = Why::Floor;
        }
    }
    if now != initial {
        out.chosen = refill(&request, now, &mut out.rates);
    }
}

/// Lowers a rate to `most` and gives the reason it has then.
fn lower(now: &mut Rate, why: Why, most: Rate, reason: Why) -> Why {
    if *now <= most {
        return why;
    }
    *now = most;
    reason
}

/// The rate that sends what a flow's predecessors allow in what is left of the slot.
fn predecessor_limit(flow: &FlowView, rest: Nanos) -> Rate {
    if flow.usable >= flow.remaining { Rate::MAX } else { Rate::needed(flow.usable, rest) }
}

#[cfg(test)]
mod naive;
#[cfg(test)]
mod tests;
