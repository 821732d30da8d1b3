//! The solver of wide-area allocation, where this program was built with one.

use sluice_formats::problem::Problems;
#[cfg(not(feature = "lp"))]
use sluice_formats::problem::{E_RANGE, Problem};
use sluice_planners_wan::method::{Method, Solver};

/// Refuses methods for which this program has no solver; `flag` is what they were named by.
#[cfg(not(feature = "lp"))]
pub fn refuse_unsolved(flag: &str, methods: &[Method]) -> Result<(), Problems> {
    match methods.iter().find(|method| method.needs_solver()) {
        None => Ok(()),
        Some(method) => {
            let error = Problem::new(E_RANGE, flag, "this sluice was built without a solver").found(method.word());
            let light = Method::ALL.iter().filter(|method| !method.needs_solver()).map(|method| method.word());
            let error = error.allowed(light.collect::<Vec<_>>().join(", "));
            Err(error.help("build it with the feature `lp`").into())
        }
    }
}

/// Nothing is refused: there is a solver.
#[cfg(feature = "lp")]
pub fn refuse_unsolved(_: &str, _: &[Method]) -> Result<(), Problems> {
    Ok(())
}

/// Who plans what needs a solver.
#[cfg(not(feature = "lp"))]
pub fn solver() -> Option<&'static dyn Solver> {
    None
}

/// Who plans what needs a solver.
#[cfg(feature = "lp")]
pub fn solver() -> Option<&'static dyn Solver> {
    Some(&solved::Programs)
}

#[cfg(feature = "lp")]
mod solved {
    use super::*;
    use sluice_planners::Run;
    use sluice_planners_lp::wan::{self, Limits, claim::Claim, multiring};
    use sluice_planners_wan::bound::{Bound, Row};
    use sluice_planners_wan::instance::Instance;
    use sluice_planners_wan::method::{Options, Proposed};
    use sluice_planners_wan::plan::{Execution, Plan};
    use sluice_planners_wan::refusal::Refusal;

    /// Conic, linear and combinatorial programs.
    #[derive(Debug)]
    pub struct Programs;

    impl Solver for Programs {
        fn propose(
            &self,
            method: Method,
            instance: &Instance,
            options: &Options,
            run: &Run<'_>,
        ) -> Result<Proposed, Refusal> {
            match method {
                Method::WeightGp => {
                    let found = wan::weight_gp(instance, run).map_err(refused)?;
                    let plan = Plan::Weights { weights: found.weights, execution: Execution::Static };
                    let objective = Some(found.objective);
                    Ok(Proposed { objective, bound: objective, proved: true, ..Proposed::new(plan) })
                }
                Method::MultiringMilp => {
                    let own = multiring::Options::default();
                    let limits = Limits { time: own.limits.time.filter(|_| run.deadline.is_none()), ..own.limits };
                    let own = multiring::Options { per_link_budget: options.per_link_budget, limits };
                    let found = wan::multiring(instance, own, run).map_err(refused)?;
                    let (proved, bound, mean) = (found.proved_optimal(), found.bound(), found.mean);
                    let plan = Plan::Schedule(found.plan.schedule);
                    let (objective, bound) = (Some(mean), Some(bound));
                    Ok(Proposed { plan, objective, bound, proved, is_late: !proved })
                }
                Method::NonconcurrentMilp => {
                    let own = Limits::default();
                    let limits = Limits { time: own.time.filter(|_| run.deadline.is_none()), ..own };
                    let found = wan::nonconcurrent(instance, limits, run).map_err(refused)?;
                    let (objective, bound) = (Some(found.mean), Some(found.bound));
                    let (proved, plan) = (found.proved_optimal, Plan::Schedule(found.schedule));
                    // Of too many flows the best list schedule was taken, which took no time.
                    Ok(Proposed { plan, objective, bound, proved, is_late: !proved && !found.greedy })
                }
                _ => {
                    let found = wan::rate_alloc(instance, run).map_err(refused)?;
                    let plan = Plan::Rates { rates: found.rates, execution: Execution::Static };
                    let objective = Some(found.objective);
                    Ok(Proposed { objective, bound: objective, proved: true, ..Proposed::new(plan) })
                }
            }
        }

        fn bound(&self, instance: &Instance, run: &Run<'_>) -> Result<Bound, Refusal> {
            let found = wan::lower_bound(instance, run).map_err(refused)?;
            let rows = found.prices.into_iter().filter_map(|priced| match priced.claim {
                Claim::Link { link, collectives } => Some(Row { link, collectives, price: priced.price }),
                // What rows leave of a collective counts for its chain anyway.
                Claim::Chain { .. } => None,
            });
            Ok(Bound::of_rows(instance, rows.collect()))
        }
    }

    fn refused(refusal: wan::Refusal) -> Refusal {
        match refusal {
            wan::Refusal::Instance(refusal) => refusal,
            wan::Refusal::Solver { status, iterations, gap } => {
                Refusal::Solver { status, iterations: iterations as usize, gap }
            }
            wan::Refusal::Stopped(_) => Refusal::Stopped,
        }
    }
}
