//! The best of several fixed numbers of trees: more trees per root are not always better, so all are tried.

use super::to_plan::{Claimed, Made};
use super::{Instance, Options};
use crate::run::{CANCELLED, Progress, Run, TIME_LIMIT};
use sluice_formats::problem::{Code, Problems};
use sluice_formats::quantity::Rational;
use sluice_plan::plan::Status;
use std::ops::RangeInclusive;

/// What one number of trees per root came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// Trees per root and unit of weight.
    pub k: i64,
    /// T/M, or the code under which this number was refused.
    pub time: Result<Rational, Code>,
}

/// The best plan among those of fixed numbers of trees.
#[derive(Clone, Debug)]
pub struct Best {
    /// Its number of trees per root; of equally good ones the smallest.
    pub k: i64,
    /// Its plan, which passed the checker.
    pub made: Made,
    /// What every number came to that was tried, ascending.
    pub tried: Vec<Tried>,
    /// Were all tried? Else the deadline came before.
    pub complete: bool,
}

/// Plans with each of these numbers of trees per root and finishes the best.
///
/// # Errors
/// Those of [`super::make`] for the first number, where none can be planned; `CANCELLED`; `TimeLimit` where the deadline
/// came before the first plan.
pub fn best_of(
    instance: &Instance<'_>,
    options: &Options,
    numbers: RangeInclusive<i64>,
    run: &Run,
) -> Result<Best, Problems> {
    let (mut best, mut first_refused, mut complete): (Option<(i64, Claimed)>, _, _) = (None, None, true);
    let mut tried = Vec::new();
    for k in numbers {
        let watch = |progress: Progress<'_>| (run.watch)(Progress { about: format_args!("k = {k}"), ..progress });
        let (run, options) = (Run { watch: &watch, ..*run }, Options { fixed_k: Some(k), ..options.clone() });
        let planned = super::plan(&instance.fabric, instance.collective, &options, &run);
        let claimed = planned.map_err(|refusal| instance.refused(&refusal));
        match claimed.and_then(|planned| Claimed::new(instance, planned, &options, &run)) {
            Ok(claimed) => {
                tried.push(Tried { k, time: Ok(claimed.time.clone()) });
                if best.as_ref().is_none_or(|(_, best)| claimed.time < best.time) {
                    best = Some((k, claimed));
                }
            }
            Err(errors) if errors.code() == CANCELLED => return Err(errors),
            Err(errors) if errors.code() == TIME_LIMIT => {
                first_refused.get_or_insert(errors);
                complete = false;
                break;
            }
            Err(errors) => {
                tried.push(Tried { k, time: Err(errors.code()) });
                first_refused.get_or_insert(errors);
            }
        }
    }
    match (best, first_refused) {
        (Some((k, claimed)), _) => {
            let mut made = claimed.finish(instance)?;
            let claim = &mut made.plan.body.claim;
            if !complete && claim.optimal != Some(true) {
                claim.status = Some(Status::TimeLimit);
            }
            Ok(Best { k, made, tried, complete })
        }
        (None, Some(errors)) => Err(errors),
        (None, None) => Err(instance.refused(&super::Refusal::BadK { k: 0 })),
    }
}
