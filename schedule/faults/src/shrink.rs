//! Cuts a case down: delta debugging (Zeller and Hildebrandt, 2002) over its list of faults, the fates of its messages and its
//! jobs, as long as the same invariant breaks.
//!
//! It works on what was recorded, not on the seed, so that what is left is exactly what was there.

use sluice_schedule::units::Nanos;

use crate::plan::{Fault, MessageFault, What};
use crate::setup::edges;
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
    /// By its number in the whole case.
    Job(usize),
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

/// How many jobs stay in any case.
fn kept(case: &Case) -> usize {
    usize::from(case.options.core.is_some())
}

fn take_apart(case: &Case) -> Vec<Part> {
    let jobs = (kept(case)..case.options.jobs.len()).map(Part::Job);
    let timed = case.faults.timed.iter().cloned().map(Part::Timed);
    let messages = case.faults.messages.iter().copied().map(Part::Message);
    jobs.chain(case.options.lasting.map(|_| Part::Lasting)).chain(timed).chain(messages).collect()
}

fn assemble(case: &Case, parts: &[Part]) -> Case {
    let chosen = parts.iter().filter_map(|part| if let Part::Job(job) = part { Some(*job) } else { None });
    let jobs: Vec<usize> = (0..kept(case)).chain(chosen).collect();
    let flows = flows_left(case, &jobs);
    let mut smaller = case.clone();
    smaller.options.jobs = jobs.iter().map(|&job| case.options.jobs[job].clone()).collect();
    smaller.options.lasting = None;
    smaller.faults.timed.clear();
    smaller.faults.messages.clear();
    for part in parts {
        match part {
            Part::Job(_) => {}
            Part::Timed(fault) => smaller.faults.timed.extend(of_flows_left(fault, &flows)),
            Part::Message(fault) => smaller.faults.messages.push(*fault),
            Part::Lasting => smaller.options.lasting = case.options.lasting,
        }
    }
    smaller
}

/// The flows of these jobs by their numbers in the whole case; flows are numbered job by job.
fn flows_left(case: &Case, jobs: &[usize]) -> Vec<usize> {
    let mut first = 0;
    let of_job = case.options.jobs.iter().map(|job| {
        let flows = first..first + edges(job).len();
        first = flows.end;
        flows
    });
    let of_job: Vec<_> = of_job.collect();
    jobs.iter().flat_map(|&job| of_job[job].clone()).collect()
}

/// A fault with the number that its flow has among those that are left; none if the flow is not.
fn of_flows_left(fault: &Fault, flows: &[usize]) -> Option<Fault> {
    let What::Redraw { flow } = fault.what else { return Some(fault.clone()) };
    let flow = flows.iter().position(|left| *left == flow)?;
    Some(Fault { what: What::Redraw { flow }, ..fault.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mode, Options};

    #[test]
    fn a_flow_keeps_its_faults_when_jobs_before_it_are_left_out() {
        let redraws = |case: &Case| -> Vec<usize> {
            let flow = |fault: &Fault| if let What::Redraw { flow } = fault.what { Some(flow) } else { None };
            case.faults.timed.iter().filter_map(flow).collect()
        };
        let mut options = (0..1000).map(|seed| Options::from_seed(seed, Mode::Safety, 1));
        let options = options.find(|options| options.jobs.len() == 3).expect("a seed");
        let counts: Vec<usize> = options.jobs.iter().map(|job| edges(job).len()).collect();
        let mut case = Case::of(options);
        let last = counts[0] + counts[1];
        for flow in [0, counts[0], last, last + 1] {
            case.faults.timed.push(Fault { at: 0, what: What::Redraw { flow } });
        }
        let mut parts = take_apart(&case);
        parts.retain(|part| !matches!(part, Part::Job(1)));
        let smaller = assemble(&case, &parts);
        assert_eq!(redraws(&smaller), [0, counts[0], counts[0] + 1]);
        assert_eq!(smaller.options.jobs, [case.options.jobs[0].clone(), case.options.jobs[2].clone()]);
    }
}
