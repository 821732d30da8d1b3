//! Plays what methods propose and keeps the best: what the default planner ends with ([`crate::method::best`]).
//!
//! It is never worse than any of the methods, and needed: each of them loses somewhere.

#[cfg(test)]
mod tests;

use crate::instance::Instance;
use crate::plan::Plan;
use crate::refusal::Refusal;
use crate::simulate::Outcome;

/// What a method proposes, or why it has nothing to propose for this instance.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The method's name.
    pub name: String,
    /// Its plan.
    pub plan: Result<Plan, Refusal>,
}

impl Candidate {
    /// A method with its plan.
    pub fn new(name: impl Into<String>, plan: Result<Plan, Refusal>) -> Candidate {
        Candidate { name: name.into(), plan }
    }
    /// The same plan with the rest of the links divided, if it leaves some: `rate_wc` of `rate_alloc`, `weight_wc` of
    /// `weight_gp`, else the name with `_wc` behind it.
    pub fn filled(&self) -> Option<Candidate> {
        let filled = self.plan.as_ref().ok()?.filled()?;
        let name = match &*self.name {
            "rate_alloc" => "rate_wc".to_owned(),
            "weight_gp" => "weight_wc".to_owned(),
            other => format!("{other}_wc"),
        };
        Some(Candidate::new(name, Ok(filled)))
    }
}

/// How a method fared.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// The method's name.
    pub name: String,
    /// Its mean time, in s, or why there is none.
    pub mean: Result<f64, Refusal>,
}

/// The best plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The name of the method it is from.
    pub name: String,
    /// The plan.
    pub plan: Plan,
    /// What it achieves.
    pub outcome: Outcome,
    /// All methods, in the order in which they were tried.
    pub table: Vec<Judged>,
}

/// Plays the candidates in their order, each static one also with the rest of the links divided, and gives the best; of
/// equal ones the first. When `stop` says so, the best of those played until then.
///
/// # Errors
/// The first refusal, if no candidate has a plan that can be played; [`Refusal::Stopped`] before any has been.
pub fn best(
    instance: &Instance,
    candidates: impl IntoIterator<Item = Candidate>,
    stop: &mut dyn FnMut() -> bool,
) -> Result<Choice, Refusal> {
    let mut choice: Option<(String, Plan, Outcome)> = None;
    let mut table: Vec<Judged> = Vec::new();
    let with_filled = candidates.into_iter().flat_map(|candidate| {
        let filled = candidate.filled();
        [Some(candidate), filled].into_iter().flatten()
    });
    for Candidate { name, plan } in with_filled {
        let played = plan.and_then(|plan| plan.execute_until(instance, stop).map(|outcome| (plan, outcome)));
        let mean = played.as_ref().map(|(_, outcome)| outcome.mean).map_err(Clone::clone);
        let stopped = mean == Err(Refusal::Stopped);
        table.push(Judged { name: name.clone(), mean });
        if let Ok((plan, outcome)) = played {
            let better = choice.as_ref().is_none_or(|(_, _, best)| outcome.mean < best.mean);
            // What is no number is no time.
            if better && outcome.mean.is_finite() {
                choice = Some((name, plan, outcome));
            }
        }
        if stopped {
            break;
        }
    }
    let first = table.iter().find_map(|judged| judged.mean.clone().err());
    match choice {
        Some((name, plan, outcome)) => Ok(Choice { name, plan, outcome, table }),
        None => Err(first.unwrap_or(Refusal::NoFlows)),
    }
}
