//! The methods by name: what each proposes for an instance, and the best of them all.
//!
//! Some need a solver, which is not here: whoever has one brings it as a [`Solver`].

#[cfg(test)]
mod tests;

use sluice_formats::json::words;
use sluice_planners::{Run, Stage};

use crate::baseline::{self, Scope};
use crate::bound::Bound;
use crate::chain_order;
use crate::greedy::{self, Key};
use crate::instance::Instance;
use crate::multiring::{self, Intra};
use crate::perm;
use crate::plan::{Execution, Plan};
use crate::portfolio::{self, Candidate, Judged};
use crate::refusal::Refusal;
use crate::sca::{self, Reading};
use crate::simulate::Outcome;

/// Pairs of a flow and a link of its route above which weights are found by iteration: the exact program takes minutes then.
pub const MAX_EXACT_PAIRS: usize = 20_000;

words! {
    /// A way to plan.
    pub enum Method {
        /// Every link is divided evenly among all flows that ever use it.
        OutOfOrder = "out_of_order",
        /// Every link is divided evenly among its groups.
        EqualAlloc = "equal_alloc",
        /// Every link is divided among its groups by their volume.
        DataAware = "data_aware",
        /// The flows of a collective end together.
        BarrierAware = "barrier_aware",
        /// The flows of each half of a collective end together.
        BarrierStage = "barrier_stage",
        /// The flows of each place in the chains of a collective end together.
        BarrierStep = "barrier_step",
        /// The constant rates of the least mean time.
        RateAlloc = "rate_alloc",
        /// Weights by successive approximation.
        WeightSca = "weight_sca",
        /// The weights of the least mean time.
        WeightGp = "weight_gp",
        /// A budget for each collective, in it the shortest flow first.
        MultiringSpt = "multiring_spt",
        /// A budget for each collective, in it the most volume behind a flow first.
        MultiringLdv = "multiring_ldv",
        /// A budget for each collective, in it the best order.
        MultiringMilp = "multiring_milp",
        /// One flow at a time on a link, the shortest first.
        NonconcurrentSpt = "nonconcurrent_spt",
        /// One flow at a time on a link, the most volume behind it first.
        NonconcurrentLdv = "nonconcurrent_ldv",
        /// One flow at a time on a link, in the best order.
        NonconcurrentMilp = "nonconcurrent_milp",
        /// Nothing reserved: max-min fair among the flows that are ready.
        EqualWc = "equal_wc",
        /// `rate_alloc`, with what is left of the links divided.
        RateWc = "rate_wc",
        /// The best weights, with what is left of the links divided.
        WeightWc = "weight_wc",
        /// Strict priority by what collectives still have to do.
        Prio = "prio",
        /// Strict priority by a fixed order of collectives.
        Perm = "perm",
        /// Strict priority by a fixed order of flows.
        ChainOrder = "chain_order",
        /// The best of all but the integer programs.
        Portfolio = "portfolio",
    }
}

impl Method {
    /// Is there nothing to propose without a solver?
    pub fn needs_solver(self) -> bool {
        use Method::{MultiringMilp, NonconcurrentMilp, RateAlloc, RateWc, WeightGp};
        matches!(self, RateAlloc | RateWc | WeightGp | MultiringMilp | NonconcurrentMilp)
    }
    /// Does it propose rates or weights, whose execution may be chosen?
    pub fn has_execution(self) -> bool {
        use Method::{
            BarrierAware, DataAware, EqualAlloc, OutOfOrder, RateAlloc, RateWc, WeightGp, WeightSca, WeightWc,
        };
        let fixed =
            matches!(self, OutOfOrder | EqualAlloc | DataAware | BarrierAware | RateAlloc | WeightSca | WeightGp);
        fixed || matches!(self, RateWc | WeightWc)
    }
    /// Does it divide links by budgets of collectives?
    pub fn has_budgets(self) -> bool {
        matches!(self, Method::MultiringSpt | Method::MultiringLdv | Method::MultiringMilp)
    }
}

/// What may be chosen of the methods.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Options {
    /// What bounds the weights of the subproblems of `weight_sca`.
    pub reading: Reading,
    /// May a flow of MultiRing use all that its collective's budget means on its own route?
    pub per_link_budget: bool,
    /// How rates and weights are executed; `None`: as the method has it.
    pub execution: Option<Execution>,
}

/// What a method proposes.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposed {
    /// The plan.
    pub plan: Plan,
    /// The mean time that a solver aimed at, in s, of methods that have one.
    pub objective: Option<f64>,
    /// No plan of this method has a mean time below this, in s, where that is known.
    pub bound: Option<f64>,
    /// Is no plan of this method better?
    pub proved: bool,
    /// Did time run out before the method was done?
    pub is_late: bool,
}

impl Proposed {
    /// A plan of which nothing more is known.
    pub fn new(plan: Plan) -> Proposed {
        Proposed { plan, objective: None, bound: None, proved: false, is_late: false }
    }
    /// The same plan executed in another way; itself, if it is not of rates or weights.
    #[must_use]
    pub fn executed(self, execution: Execution) -> Proposed {
        let plan = match self.plan {
            Plan::Rates { rates, .. } => Plan::Rates { rates, execution },
            Plan::Weights { weights, .. } => Plan::Weights { weights, execution },
            // One set: nothing waits at a barrier.
            Plan::Barriers(barriers) if barriers.set_of.iter().all(|set| *set == 0) => {
                Plan::Rates { rates: barriers.rates, execution }
            }
            other => other,
        };
        // What a solver found, it found of rates that nobody adds to.
        match execution {
            Execution::Static => Proposed { plan, ..self },
            Execution::WorkConserving => Proposed { plan, objective: None, bound: None, proved: false, ..self },
        }
    }
}

/// Who plans what needs a solver.
pub trait Solver: Sync {
    /// Plans by a method that [`Method::needs_solver`], within the run's time where the method has something to give then.
    ///
    /// # Errors
    /// `NotAChain`, `Solver`, and [`Refusal::Stopped`] where there was nothing when the run was to end.
    fn propose(
        &self,
        method: Method,
        instance: &Instance,
        options: &Options,
        run: &Run<'_>,
    ) -> Result<Proposed, Refusal>;
    /// The best bound on the mean time of any plan that chains and links prove.
    ///
    /// # Errors
    /// `Solver`, and [`Refusal::Stopped`].
    fn bound(&self, instance: &Instance, run: &Run<'_>) -> Result<Bound, Refusal>;
}

/// Plans by one method other than the portfolio.
///
/// # Errors
/// What the method refuses, and `Solver` of one that needs a solver where there is none.
pub fn propose(
    method: Method,
    instance: &Instance,
    options: &Options,
    solver: Option<&dyn Solver>,
    run: &Run<'_>,
) -> Result<Proposed, Refusal> {
    let proposed = proposed(method, instance, options, solver, run)?;
    Ok(match options.execution {
        Some(execution) => proposed.executed(execution),
        None => proposed,
    })
}

fn proposed(
    method: Method,
    instance: &Instance,
    options: &Options,
    solver: Option<&dyn Solver>,
    run: &Run<'_>,
) -> Result<Proposed, Refusal> {
    let mut stop = || run.check().is_err();
    let fixed = |rates| Plan::Rates { rates, execution: Execution::Static };
    let of_solver = |method| match solver {
        Some(solver) => solver.propose(method, instance, options, run),
        None => Err(Refusal::Solver { status: "no solver".into(), iterations: 0, gap: f64::INFINITY }),
    };
    let multiring = |key| {
        let options = multiring::Options { intra: Intra::Greedy(key), per_link_budget: options.per_link_budget };
        multiring::plan(instance, options).map(|plan| Plan::Schedule(plan.schedule))
    };
    let barriers = |scope| baseline::barrier_aware(instance, scope).map(Plan::Barriers);
    let nonconcurrent = |key| Plan::Schedule(greedy::nonconcurrent(instance, key));
    let plan = match method {
        Method::OutOfOrder => fixed(baseline::out_of_order(instance)),
        Method::EqualAlloc => fixed(baseline::equal(instance)?),
        Method::DataAware => fixed(baseline::data_aware(instance)?),
        Method::BarrierAware => barriers(Scope::Collective)?,
        Method::BarrierStage => barriers(Scope::Stage)?,
        Method::BarrierStep => barriers(Scope::Step)?,
        Method::RateAlloc | Method::WeightGp | Method::MultiringMilp | Method::NonconcurrentMilp => {
            return of_solver(method);
        }
        Method::RateWc => return Ok(of_solver(Method::RateAlloc)?.executed(Execution::WorkConserving)),
        Method::WeightWc => {
            let exact = solver.is_some() && flow_link_pairs(instance) <= MAX_EXACT_PAIRS;
            let method = if exact { Method::WeightGp } else { Method::WeightSca };
            return Ok(proposed(method, instance, options, solver, run)?.executed(Execution::WorkConserving));
        }
        Method::WeightSca => {
            let options = sca::Options { reading: options.reading, ..sca::Options::default() };
            let found = sca::run(instance, options, &mut stop)?;
            let plan = Plan::Weights { weights: found.weights, execution: Execution::Static };
            return Ok(Proposed { objective: Some(found.mean), is_late: stop(), ..Proposed::new(plan) });
        }
        Method::MultiringSpt => multiring(Key::Shortest)?,
        Method::MultiringLdv => multiring(Key::LargestBehind)?,
        Method::NonconcurrentSpt => nonconcurrent(Key::Shortest),
        Method::NonconcurrentLdv => nonconcurrent(Key::LargestBehind),
        Method::EqualWc => Plan::Fair,
        Method::Prio => Plan::PriorityRecomputed,
        Method::Perm => {
            let plan = Plan::Priority { rank: perm::search(instance, &mut stop)?.rank };
            return Ok(Proposed { is_late: stop(), ..Proposed::new(plan) });
        }
        Method::ChainOrder => {
            let found = chain_order::search(instance, chain_order::Options::default(), &mut stop)?;
            return Ok(Proposed { is_late: stop(), ..Proposed::new(Plan::Priority { rank: found.rank }) });
        }
        // What the portfolio takes is a plan of one of the others.
        Method::Portfolio => {
            let best = best(instance, options, solver, run)?;
            return Ok(Proposed { is_late: best.is_late, ..Proposed::new(best.plan) });
        }
    };
    Ok(Proposed::new(plan))
}

/// Pairs of a flow and a link on its route.
pub fn flow_link_pairs(instance: &Instance) -> usize {
    instance.flows().iter().map(|flow| flow.path.len()).sum()
}

/// What the portfolio tries, in this order: cheap methods first, so that there is something when time runs out. `true`: with
/// budgets that flows use on their own routes. Static plans are also tried with what they leave of the links divided.
const TRIED: [(Method, bool); 19] = [
    (Method::OutOfOrder, false),
    (Method::EqualAlloc, false),
    (Method::DataAware, false),
    (Method::BarrierAware, false),
    (Method::BarrierStage, false),
    (Method::BarrierStep, false),
    (Method::EqualWc, false),
    (Method::NonconcurrentSpt, false),
    (Method::NonconcurrentLdv, false),
    (Method::Prio, false),
    (Method::WeightSca, false),
    (Method::MultiringSpt, false),
    (Method::MultiringLdv, false),
    (Method::MultiringSpt, true),
    (Method::MultiringLdv, true),
    (Method::RateAlloc, false),
    (Method::WeightGp, false),
    (Method::Perm, false),
    (Method::ChainOrder, false),
];

/// The best plan of the portfolio.
#[derive(Clone, Debug, PartialEq)]
pub struct Best {
    /// The name of the method it is from.
    pub name: String,
    /// The plan.
    pub plan: Plan,
    /// What it achieves.
    pub outcome: Outcome,
    /// All that was tried, in that order.
    pub table: Vec<Judged>,
    /// Did time run out before all were tried?
    pub is_late: bool,
}

/// Tries all methods but the integer programs and gives the best plan; of equal ones the first. When time runs out, the
/// best until then.
///
/// # Errors
/// The first refusal, if no method has a plan; [`Refusal::Stopped`].
pub fn best(
    instance: &Instance,
    options: &Options,
    solver: Option<&dyn Solver>,
    run: &Run<'_>,
) -> Result<Best, Refusal> {
    let exact = flow_link_pairs(instance) <= MAX_EXACT_PAIRS;
    let wanted = |method: Method| (solver.is_some() || !method.needs_solver()) && (exact || method != Method::WeightGp);
    let tried: Vec<(Method, bool)> = TRIED.into_iter().filter(|(method, _)| wanted(*method)).collect();
    let total = tried.len() as u64;
    let candidate = |(at, (method, per_link_budget)): (usize, (Method, bool))| {
        run.tell(Stage::Methods, at as u64, total, format_args!("{}", method.word()));
        let options = Options { per_link_budget, execution: None, ..*options };
        let plan = propose(method, instance, &options, solver, run).map(|proposed| proposed.plan);
        let name = if per_link_budget { format!("{}_per_link", method.word()) } else { method.word().to_owned() };
        Candidate::new(name, plan)
    };
    // The first is asked in any case.
    let in_time = |(at, _): &(usize, (Method, bool))| *at == 0 || !run.is_late();
    let candidates = tried.into_iter().enumerate().take_while(in_time).map(candidate);
    // Playing a plan takes no time that matters: what was found in time is played even if that is over.
    let choice = portfolio::best(instance, candidates, &mut || run.is_cancelled())?;
    let portfolio::Choice { name, plan, outcome, table } = choice;
    Ok(Best { name, plan, outcome, table, is_late: run.is_late() })
}
