//! A plan: what a method hands over, and how it is executed.

use crate::baseline::Barriers;
use crate::instance::Instance;
use crate::refusal::Refusal;
use crate::rules::{Barrier, Fill, Priority, Recomputed, Static};
use crate::schedule::Schedule;
use crate::simulate::{Outcome, RateRule, simulate_with};
use crate::weights;

/// What happens to a link's rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Execution {
    /// Nobody uses what a group leaves that is blocked or elsewhere.
    #[default]
    Static,
    /// It is divided among the flows that are ready, in proportion to their rates.
    WorkConserving,
}

/// A plan for an instance.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// A rate for each flow, in MB/s.
    Rates {
        /// By flow.
        rates: Vec<f64>,
        /// What happens to the rest.
        execution: Execution,
    },
    /// A weight for each group, from which rates follow.
    Weights {
        /// By group.
        weights: Vec<f64>,
        /// What happens to the rest.
        execution: Execution,
    },
    /// Rates, and barriers between sets of flows of one collective.
    Barriers(Barriers),
    /// Plain max-min fairness among the ready flows: `equal_wc`.
    Fair,
    /// An order on the links.
    Schedule(Schedule),
    /// Ranks by flow, the smaller first; of equal ranks the flow with more left of its chain.
    Priority {
        /// By flow.
        rank: Vec<usize>,
    },
    /// Priority by what the collectives still have to do: `prio`.
    PriorityRecomputed,
}

impl Plan {
    /// Plays the plan.
    ///
    /// # Errors
    /// What is wrong with a plan that was brought: lists of another length, rates that overload a link or deadlock.
    pub fn execute(&self, instance: &Instance) -> Result<Outcome, Refusal> {
        self.execute_until(instance, &mut || false)
    }
    /// Plays the plan, until `stop` says so.
    ///
    /// # Errors
    /// As [`Plan::execute`], and [`Refusal::Stopped`].
    pub fn execute_until(&self, instance: &Instance, stop: &mut dyn FnMut() -> bool) -> Result<Outcome, Refusal> {
        simulate_with(instance, &mut *self.rule(instance)?, &[], stop)
    }
    /// The rule that the plan is executed by.
    ///
    /// # Errors
    /// Lists of another length than the instance's, and weights or rates that are none.
    pub fn rule(&self, instance: &Instance) -> Result<Box<dyn RateRule>, Refusal> {
        Ok(match self {
            Plan::Rates { rates, execution } => of_rates(instance, rates.clone(), *execution)?,
            Plan::Weights { weights, execution } => of_rates(instance, weights::rates(instance, weights)?, *execution)?,
            Plan::Barriers(Barriers { rates, set_of, .. }) => {
                Box::new(Barrier::new(instance, rates.clone(), set_of.clone())?)
            }
            Plan::Fair => Box::new(Fill::equal(instance)),
            Plan::Schedule(schedule) => Box::new(schedule.rule(instance)?),
            Plan::Priority { rank } => Box::new(Priority::new(instance, rank.clone())?),
            Plan::PriorityRecomputed => Box::new(Recomputed::new(instance)),
        })
    }
    /// The same plan with the rest of the links divided, if it is one that leaves some.
    pub fn filled(&self) -> Option<Plan> {
        let execution = Execution::WorkConserving;
        match self {
            Plan::Rates { rates, execution: Execution::Static } => {
                Some(Plan::Rates { rates: rates.clone(), execution })
            }
            Plan::Weights { weights, execution: Execution::Static } => {
                Some(Plan::Weights { weights: weights.clone(), execution })
            }
            _ => None,
        }
    }
}

fn of_rates(instance: &Instance, rates: Vec<f64>, execution: Execution) -> Result<Box<dyn RateRule>, Refusal> {
    Ok(match execution {
        Execution::Static => Box::new(Static::new(rates)),
        Execution::WorkConserving => Box::new(Fill::reserved(instance, rates)?),
    })
}
