//! `mltcp`: a flow is the more aggressive the more of its round it has sent, so that jobs slide apart by themselves.
//!
//! After Rajasekaran, Narang, Zabreyko and Ghobadi, "MLTCP: A Distributed Technique to Approximate Centralized Flow
//! Scheduling For Machine Learning" (HotNets 2024). Simplified: the window's growth becomes a weight,
//! (intercept + slope · F/G)^γ with F/G in steps of 1/16, and sharing is ideal.

use crate::scenario::Scenario;
use crate::sim::scheduler::{Change, Order, Orders, Scheduler};
use crate::sim::world::{FlowIx, World};

/// Steps of F/G: crossing one is an event.
const STEPS: f64 = 16.0;

/// Weights by progress.
#[derive(Clone, Debug)]
pub struct Mltcp {
    slope: f64,
    intercept: f64,
    gamma: f64,
}

impl Mltcp {
    /// With the options of `[scheduler.mltcp]`.
    pub fn new(scenario: &Scenario) -> Mltcp {
        let [slope, intercept, gamma] = scenario.schedulers.options.mltcp;
        Mltcp { slope, intercept, gamma }
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
    fn look(&self, world: &World<'_>, ix: FlowIx, orders: &mut Orders) {
        let Some(flow) = world.flows.get(ix.0).filter(|f| f.job.is_some() && f.active()) else { return };
        let done = steps(flow.sent, flow.bytes);
        orders.set(ix, Order { weight: self.weight(done), ..Order::default() });
        let next = (done + 1.0) * flow.bytes / STEPS;
        orders.mark(ix, if done + 1.0 < STEPS { next } else { f64::INFINITY });
    }
}

impl Scheduler for Mltcp {
    fn wants_edges(&self) -> bool {
        false
    }

    fn decide(&mut self, world: &World<'_>, changes: &[Change], orders: &mut Orders) {
        for change in changes {
            if let Change::FlowActive(flow) | Change::Passed(flow) = *change {
                self.look(world, flow, orders);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weight_grows_from_a_quarter_to_two() {
        let m = Mltcp { slope: 1.75, intercept: 0.25, gamma: 1.0 };
        assert_eq!([m.weight(0.0), m.weight(8.0), m.weight(16.0)], [0.25, 1.125, 2.0]);
        let root = Mltcp { gamma: 0.5, ..m };
        assert_eq!(root.weight(0.0), 0.5);
    }

    #[test]
    fn steps_are_whole_sixteenths() {
        let g = 1.6e9;
        assert_eq!([0.0, 0.99e8, 1e8, 1e8 - 0.5, 15.5e8, g].map(|f| steps(f, g)), [0.0, 0.0, 1.0, 1.0, 15.0, 16.0]);
    }
}
