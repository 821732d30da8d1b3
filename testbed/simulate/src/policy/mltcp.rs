//! `mltcp`: a flow is the more aggressive the more of its round it has sent, so that jobs slide apart by themselves.
//!
//! After Rajasekaran, Narang, Zabreyko and Ghobadi, "MLTCP: A Distributed Technique to Approximate Centralized Flow
//! Scheduling For Machine Learning" (HotNets 2024). Simplified: the window's growth becomes a weight,
//! (intercept + slope · F/G)^γ with F/G in steps of 1/16, and sharing is ideal.

use sluice_scenario::Scenario;
use sluice_scenario::settings::TimeMode;

use crate::scheduler::{Change, Needs, Order, Orders, Scheduler};
use crate::world::{FlowIx, World};

/// Steps of F/G: crossing one is an event.
const STEPS: f64 = 16.0;

/// Flows have weights by the progress of their rounds.
#[derive(Clone, Debug, Default)]
pub struct Mltcp {
    slope: f64,
    intercept: f64,
    gamma: f64,
    /// It is asked at slot edges only: a flow may have made several steps since.
    slots: bool,
    /// Steps each flow has made in its round.
    done: Vec<f64>,
}

impl Mltcp {
    /// With the options of `[scheduler.mltcp]`.
    pub fn new(scenario: &Scenario) -> Mltcp {
        let [slope, intercept, gamma] = scenario.schedulers.options.mltcp;
        let slots = scenario.time.mode != TimeMode::Event;
        Mltcp { slope, intercept, gamma, slots, done: Vec::new() }
    }

    /// Weight after so many steps of sixteen.
    pub fn weight(&self, steps: f64) -> f64 {
        (self.intercept + self.slope * steps / STEPS).powf(self.gamma)
    }
}

/// Whole steps that a flow has sent. One byte short of a step has made it: the event that says so may come that early.
pub fn steps(sent: f64, bytes: f64) -> f64 {
    if bytes > 0.0 { ((sent + 1.0) * STEPS / bytes).floor().clamp(0.0, STEPS) } else { STEPS }
}

impl Mltcp {
    /// A flow has begun, or made a step more than was known.
    fn look(&mut self, world: &World<'_>, ix: FlowIx, begun: bool, orders: &mut Orders) {
        let Some(flow) = world.flows.get(ix.0).filter(|f| f.job.is_some() && f.active()) else { return };
        if self.done.len() <= ix.0 {
            self.done.resize(ix.0 + 1, 0.0);
        }
        let Some(done) = self.done.get_mut(ix.0) else { return };
        *done = if begun { 0.0 } else { (*done + 1.0).max(steps(flow.sent, flow.bytes)) };
        let (done, next) = (*done, (*done + 1.0) * flow.bytes / STEPS);
        orders.set(ix, Order { weight: self.weight(done), ..Order::default() });
        orders.mark(ix, if done + 1.0 < STEPS { next } else { f64::INFINITY });
    }
}

impl Scheduler for Mltcp {
    fn needs(&self) -> Needs {
        Needs { progress: self.slots, edges: false }
    }

    fn decide(&mut self, world: &World<'_>, changes: &[Change], orders: &mut Orders) {
        for change in changes {
            match *change {
                Change::FlowActive(flow) => self.look(world, flow, true, orders),
                Change::Passed(flow) => self.look(world, flow, false, orders),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weight_grows_from_a_quarter_to_two() {
        let m = Mltcp { slope: 1.75, intercept: 0.25, gamma: 1.0, ..Mltcp::default() };
        assert_eq!([m.weight(0.0), m.weight(8.0), m.weight(16.0)], [0.25, 1.125, 2.0]);
        let root = Mltcp { gamma: 0.5, ..m.clone() };
        assert_eq!(root.weight(0.0), 0.5);
    }

    #[test]
    fn steps_are_whole_sixteenths() {
        let g = 1.6e9;
        assert_eq!([0.0, 0.99e8, 1e8, 1e8 - 0.5, 15.5e8, g].map(|f| steps(f, g)), [0.0, 0.0, 1.0, 1.0, 15.0, 16.0]);
    }
}
