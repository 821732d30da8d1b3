//! Cuts a case down: delta debugging (Zeller and Hildebrandt, 2002) over its list of faults, the fates of its messages and its
//! jobs, as long as the same invariant breaks.
//!
//! It works on what was recorded, not on the seed, so that what is left is exactly what was there.

use sluice_schedule::units::Nanos;

use crate::options::JobOptions;
use crate::plan::{Fault, MessageFault};
use crate::{Case, Mutant};

/// What came of it.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The smaller case.
    pub case: Case,
    /// How often it was run.
    pub runs: usize,
}

/// What can be left out.
#[derive(Clone, Debug)]
enum Part {
    Job(JobOptions),
    Timed(Fault),
    Message(MessageFault),
    Lasting,
}

/// The smallest case that it finds in so many runs and that breaks the invariant that `case` breaks; the same one if that breaks
/// none. A core and its own job stay.
pub fn shrink(case: &Case, mutant: Option<Mutant>, most_runs: usize) -> Shrunk {
    let mut runs = 0;
    let Some(violation) = case.run(mutant).violation else {
        return Shrunk { case: case.clone(), runs: 1 };
    };
    // What breaks does so about as soon with less around it.
    let (broke, end) = (violation.invariant, violation.at.scaled(1.5).plus(Nanos::from_millis(2_000)));
    let mut breaks = |parts: &[Part]| {
        runs += 1;
        let smaller = assemble(case, parts);
        !smaller.options.jobs.is_empty() && smaller.breaks_until(mutant, end) == Some(broke)
    };
    let mut parts = take_apart(case);
    let mut pieces = 2;
    let mut left = most_runs;
    while parts.len() >= 2 && left > 0 {
        let size = parts.len().div_ceil(pieces);
        let smaller = (0..parts.len()).step_by(size).find_map(|from| {
            left = left.saturating_sub(1);
            let without: Vec<Part> = [&parts[..from], &parts[(from + size).min(parts.len())..]].concat();
            (left > 0 && breaks(&without)).then_some(without)
        });
        match smaller {
            Some(smaller) => {
                parts = smaller;
                pieces = pieces.saturating_sub(1).max(2);
            }
            None if size == 1 => break,
            None => pieces = (pieces * 2).min(parts.len()),
        }
    }
    let case = Case { broke: Some(broke), ..assemble(case, &parts) };
    Shrunk { case, runs }
}

fn take_apart(case: &Case) -> Vec<Part> {
    let kept = usize::from(case.options.core.is_some());
    let jobs = case.options.jobs.iter().skip(kept).cloned().map(Part::Job);
    let timed = case.faults.timed.iter().cloned().map(Part::Timed);
    let messages = case.faults.messages.iter().copied().map(Part::Message);
    jobs.chain(case.options.lasting.map(|_| Part::Lasting)).chain(timed).chain(messages).collect()
}

fn assemble(case: &Case, parts: &[Part]) -> Case {
    let mut smaller = case.clone();
    let kept = usize::from(case.options.core.is_some());
    smaller.options.jobs.truncate(kept);
    smaller.options.lasting = None;
    smaller.faults.timed.clear();
    smaller.faults.messages.clear();
    for part in parts {
        match part {
            Part::Job(job) => smaller.options.jobs.push(job.clone()),
            Part::Timed(fault) => smaller.faults.timed.push(fault.clone()),
            Part::Message(fault) => smaller.faults.messages.push(*fault),
            Part::Lasting => smaller.options.lasting = case.options.lasting,
        }
    }
    smaller
}
