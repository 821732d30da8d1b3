//! A fluid schedule in steps as a plan, with what is proved of the fluid: no plan of any kind is faster than that.

use super::instance::Instance;
use super::to_plan::{Made, Mixing, Proofs, proven};
use super::unroll::{Unrolled, unroll};
use sluice_formats::problem::{Problem, Problems, UNSUPPORTED_FIELD};
use sluice_formats::quantity::Rational;
use sluice_plan::plan::{Collective, Content, Names};

/// A plan of steps that passed the checker.
#[derive(Clone, Debug)]
pub struct Stepped {
    /// The plan, with the time of all steps.
    pub made: Made,
    /// What it comes to.
    pub figures: StepFigures,
}

/// What steps come to. Times are T/M.
#[derive(Clone, Debug, PartialEq)]
pub struct StepFigures {
    /// Steps until all data is where it is wanted.
    pub steps: u64,
    /// Into how many chunks every part is cut.
    pub chunks: u64,
    /// Steps that a chunk is under way at most.
    pub depth: u64,
    /// T/M of one step; all are equally long.
    pub length: Rational,
    /// Of all steps, each as long as what is in it needs.
    pub busy: Rational,
    /// Were parts rounded to whole units?
    pub is_rounded: bool,
}

/// Routes as a plan of steps, every part cut into so many chunks.
///
/// # Errors
/// What is asked of steps that they do not serve; `BadParameter`, `TooLarge`; `Solver` where the checker refuses the plan.
pub fn make_steps(instance: &Instance<'_>, mixing: &Mixing<'_>, chunks: u64) -> Result<Stepped, Problems> {
    let asked = &instance.asked;
    if asked.collective == Collective::Custom {
        let error = Problem::new(UNSUPPORTED_FIELD, "steps", "plans of steps serve no demands of their own");
        return Err(error.allowed("a plain collective").help("without it the plan has trees").into());
    }
    let nodes = asked.topology.nodes();
    if let Some(node) = asked.participants.iter().find(|node| !nodes[**node].can.store) {
        let message = format!("{} takes part in steps and cannot store what it waits with", nodes[*node].id);
        let error = Problem::new(UNSUPPORTED_FIELD, format!("/nodes/{node}/can"), message).found("store: false");
        return Err(asked.in_file(error.allowed("store: true, or a plan without steps")));
    }
    let unrolled = unroll(instance, mixing, chunks).map_err(|refusal| instance.refused(&refusal))?;
    let Unrolled { steps, depth, routes, busy, is_rounded, .. } = unrolled;
    let length = steps.step_length.clone().unwrap_or(Rational::ZERO);
    let count = steps.steps.len() as u64;
    let proofs = Proofs { prices: &mixing.prices, cost_prices: &mixing.cost_prices, is_late: mixing.is_late };
    let made = proven(instance, Names::default(), Content::Steps(steps), routes, proofs)?;
    Ok(Stepped { made, figures: StepFigures { steps: count, chunks, depth, length, busy, is_rounded } })
}
