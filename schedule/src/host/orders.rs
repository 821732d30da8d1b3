//! Makes orders of what was planned, within the guards.

use super::config::PolicyName;
use super::flows::Flow;
use super::links::Links;
use super::{Host, HostConfig};
use crate::event::{Action, Allowance, Now};
use crate::mutant::Mutant;
use crate::policy::{Planned, Why};
use crate::units::{Bytes, Nanos, Rate, Slot};

/// When every order was renewed: in which slot, and when on the clock by which orders run out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Renewal {
    pub slot: Slot,
    mono: Nanos,
}

impl Renewal {
    pub fn at(now: Now) -> Renewal {
        Renewal { slot: now.slot, mono: now.mono }
    }

    /// Are all orders to be renewed: in every slot, and about as often while slots stand still because the cluster's clock was
    /// set back? Orders run out on a clock that goes on. A quarter of a slot more is no clock that was set.
    pub fn is_due(last: Option<Renewal>, now: Now, slot: Nanos) -> bool {
        last.is_none_or(|last| last.slot != now.slot || now.mono.minus(last.mono) >= slot.plus(Nanos(slot.0 / 4)))
    }

    /// Have the orders of then run out since? What was ordered a little later may still be in force; that is not counted on.
    fn has_run_out(self, now: Now, life: Nanos) -> bool {
        now.mono.minus(self.mono) >= life
    }
}

impl Host {
    /// Where nobody decided for as long as orders live, the kernel has given the flows back. What each of them has had since
    /// is ordinary TCP's doing, and it is taken over as by a new process, from the rate that it is seen to have.
    pub(super) fn notice_gap(&mut self, now: Now) {
        let life = self.config.order_life();
        let over = self.renewed.is_some_and(|last| last.has_run_out(now, life));
        if over && !self.planted.is(Mutant::GapUnnoticed) {
            self.flows.values_mut().for_each(|flow| flow.given_back());
        }
    }

    /// Takes over what the policy planned, within the guards.
    pub(super) fn adopt_plan(&mut self, now: Now, planned: &mut [Planned]) {
        let scene = &self.scene;
        for (flow, &index) in self.flows.values_mut().filter(|f| f.sends()).zip(&self.flow_in_scene) {
            let (Some(drawn), Some(plan)) = (scene.flows.get(index), planned.get_mut(index)) else { continue };
            let links = || drawn.links.iter().map(|&l| &scene.links[l]);
            let share = || links().map(|link| link.usable.share(link.active)).min().unwrap_or(Rate::ZERO);
            let fresh = links().all(|link| link.fresh);
            let limit = flow.step_limit(fresh, self.config.max_step_up, share);
            // The rate of a plan was shared out before anybody could look.
            let limit = limit.max(drawn.grant.map_or(Rate::ZERO, |grant| grant.rate));
            plan.rate = plan.rate.min(limit);
            if let Some(first) = plan.rates.first_mut() {
                *first = (*first).min(limit);
            }
            flow.floor = drawn.floor;
            flow.offer = plan.offer;
            flow.why = plan.why;
            flow.order = plan.rate;
            if self.planted.is(Mutant::HeldToFloor) {
                flow.order = drawn.floor;
            } else if self.planted.is(Mutant::Stingy) && self.config.policy == PolicyName::Fair {
                let slowest = links().map(|link| link.usable).min().unwrap_or(Rate::ZERO);
                flow.order = plan.rate.min(plan.rate.times(0.4).max(slowest.times(0.06)));
            }
            flow.predict_end(now, self.config.slot);
            flow.rates.clone_from(&plan.rates);
            if drawn.grant.is_some_and(|grant| grant.ordered && grant.counts()) {
                self.due = self.due.into_iter().chain([flow.until]).filter(|due| *due > now.wall).min();
            }
        }
        self.account(now, planned);
    }

    /// Flows without demand share what their own egress has left, so that a round need not wait for its first order.
    pub(super) fn order_idle_flows(&mut self) {
        if self.scene.flows.len() == self.flows.len() {
            return; // Each of them was planned for: none is without demand.
        }
        let mut left: Vec<(usize, Rate, u64)> = Vec::new();
        for (index, usable) in self.links.own_usable() {
            let active = self.flows.values().filter(|f| f.path.contains(&index));
            let (mut used, mut idle) = (Rate::ZERO, 0);
            for flow in active {
                match () {
                    () if flow.remaining() == Bytes::ZERO => idle += 1,
                    () if flow.waits() => {}
                    () => used = used.plus(flow.order),
                }
            }
            left.push((index, usable.minus(used), idle));
        }
        for flow in self.flows.values_mut().filter(|f| f.remaining() == Bytes::ZERO) {
            let shares = left.iter().filter(|(index, ..)| flow.path.contains(index));
            let share = shares.map(|(_, rest, idle)| rest.share(*idle)).min().unwrap_or(Rate::ZERO);
            flow.floor = self.links.floor(&flow.path, &self.config);
            let (least, most) = flow.planned_idle();
            flow.order = share.max(least).min(most).max(flow.floor);
            flow.offer = Rate::MAX;
            flow.why = Why::NoDemand;
            flow.rates.clear();
        }
    }

    /// Gives the orders that changed, or all of them at a slot edge. Lowered ones go first, so that the sum never
    /// overshoots, and of them those that are in force surely: one that ran out meanwhile takes something anew. One that
    /// is said again as it was may have run out as well, and then takes back what idle flows were given on top: it comes last,
    /// with those that are raised.
    pub(super) fn order(&mut self, now: Now, renew: bool, actions: &mut Vec<Action>) {
        let raised_first = self.planted.is(Mutant::RaisedFirst);
        let Host { flows, links, config, .. } = self;
        let (mut lowered, mut others) = (Vec::new(), Vec::new());
        for (id, flow) in flows {
            let surplus = surplus(now, flow, links, config);
            let before = std::mem::replace(&mut flow.surplus, surplus);
            if let Some(why) = flow.releasing.take() {
                actions.push(Action::Release { flow: *id, why });
                flow.ordered = Rate::ZERO;
                flow.released = true;
            } else if !flow.released
                // Nothing has been decided yet of a flow that came within a slot, where only edges decide.
                && flow.order > Rate::ZERO
                && (renew || flow.order != flow.ordered || flow.surplus != before)
            {
                let lower = (flow.order < flow.ordered) != raised_first;
                let in_force = now.mono.minus(flow.ordered_at) < config.order_life();
                let order = Action::Order { flow: *id, rate: flow.order, surplus: flow.surplus };
                match (lower, in_force) {
                    (true, true) => actions.push(order),
                    (true, false) => lowered.push(order),
                    (false, _) => others.push(order),
                }
                flow.uptake.ordered(now.mono, flow.order);
                (flow.ordered, flow.ordered_at) = (flow.order, now.mono);
            }
        }
        actions.append(&mut lowered);
        actions.append(&mut others);
    }
}

/// What a flow may send beyond its order, where each link of its path lets it. A plan that does not let its flows take more
/// than their rates means that, and who waits for his turn in a plan has nothing to take it for.
fn surplus(now: Now, flow: &Flow, links: &Links, config: &HostConfig) -> Option<Allowance> {
    let fills = flow.spec.terms.terms.is_empty() || flow.spec.terms.fills;
    if !fills || flow.waits() {
        return None;
    }
    let mut path = flow.path.iter().map(|&link| links.get(link).allowance(now, config));
    let first = path.next()??;
    path.try_fold(first, |least, link| {
        let link = link?;
        Some(Allowance { up_to: least.up_to.min(link.up_to), yields: least.yields || link.yields })
    })
}
