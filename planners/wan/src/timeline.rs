//! What the flows of an instance do over time under a plan: recorded while the simulator plays it, and drawn.

mod picture;
#[cfg(test)]
mod tests;

pub use picture::{html, svg};

use crate::instance::Instance;
use crate::plan::Plan;
use crate::refusal::Refusal;
use crate::simulate::{Moment, Outcome, RateRule, simulate_with};

/// Stretches of one rate at most.
pub const MAX_STRETCHES: usize = 500_000;

/// A time in which a flow sends at one rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    /// When it begins, in s.
    pub from: f64,
    /// When it ends, in s.
    pub to: f64,
    /// In MB/s, more than 0.
    pub rate: f64,
}

/// What flows did.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    /// By flow, in the order of time.
    pub stretches: Vec<Vec<Stretch>>,
    /// What was achieved.
    pub outcome: Outcome,
}

/// Plays a plan and records it, until `stop` says so.
///
/// # Errors
/// As [`Plan::execute_until`], and `TooLarge` for more than [`MAX_STRETCHES`].
pub fn record(instance: &Instance, plan: &Plan, stop: &mut dyn FnMut() -> bool) -> Result<Timeline, Refusal> {
    let count = instance.flows().len();
    let mut recorder =
        Recorder { rule: plan.rule(instance)?, now: vec![None; count], stretches: vec![Vec::new(); count], count: 0 };
    let outcome = simulate_with(instance, &mut recorder, &[], stop)?;
    if recorder.count > MAX_STRETCHES {
        return Err(Refusal::TooLarge { what: "stretches", found: recorder.count, allowed: MAX_STRETCHES });
    }
    for (flow, end) in outcome.ends.iter().enumerate() {
        recorder.turn(flow, *end, 0.0);
    }
    Ok(Timeline { stretches: recorder.stretches, outcome })
}

/// A rule that remembers what it said.
struct Recorder {
    rule: Box<dyn RateRule>,
    /// By flow since when it has its present rate, and which.
    now: Vec<Option<(f64, f64)>>,
    stretches: Vec<Vec<Stretch>>,
    count: usize,
}

impl Recorder {
    /// A flow has another rate from an instant on.
    fn turn(&mut self, flow: usize, t: f64, rate: f64) {
        let Some(now) = self.now.get_mut(flow) else { return };
        if let Some((from, before)) = *now {
            if before == rate {
                return;
            }
            self.count += 1;
            // What is too much is counted and not kept.
            if before > 0.0 && self.count <= MAX_STRETCHES {
                self.stretches[flow].push(Stretch { from, to: t, rate: before });
            }
        }
        *now = Some((t, rate));
    }
}

impl RateRule for Recorder {
    fn rates(&mut self, moment: &Moment<'_>, rates: &mut [f64]) {
        self.rule.rates(moment, rates);
        for (&flow, &rate) in moment.ready.iter().zip(rates.iter()) {
            self.turn(flow, moment.t, rate);
        }
    }
    fn ended(&mut self, flow: usize) {
        self.rule.ended(flow);
    }
}
