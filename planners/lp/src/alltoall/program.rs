//! The linear program, aggregated by source, and what the solver makes of it.
//!
//! Variables y(s,e) ≥ 0, what source s sends over link e, and f, the rate of every pair:
//! maximise f; Σ_s y(s,e) ≤ 1 for every link e; f + Σ_out y(s,·) ≤ Σ_in y(s,·) at every vertex but s (eq. A.1 of Zhao
//! 2026). Where translations carry every vertex onto every other, one source suffices: the links of a class share
//! what their sum takes, since over all translations each link of it carries that sum.
//!
//! Rates are about d/(N·hops), too small for a solver's tolerances, so capacities are N instead of 1.
//!
//! Neither the solver's values nor its prices are trusted: [`super::certified`] says what the flow is worth and
//! [`super::lengths`] what the prices of the links prove.

use super::links::Links;
use super::{Refusal, certified, lengths};
use sluice_formats::quantity::Rational;
use sluice_planners::{Run, Stage};
use sluice_solver::{Answer, Bounds, Failed, Method, Options, Program, Row, Sense, Solution};

/// A proved rate and a proved bound on it.
#[derive(Clone, Debug)]
pub(super) struct Solved {
    pub rate: f64,
    pub bound: Option<Rational>,
}

/// Solves for the sources `0..sources`; `share` is the group of links, of `groups`, to which each link belongs.
pub(super) fn solve(links: &Links, sources: usize, share: &[u32], groups: usize, run: &Run) -> Result<Solved, Refusal> {
    let failed = |failed: Failed| Refusal::Solver { status: failed.status };
    let mut program = program(links, sources, share, groups).map_err(failed)?;
    run.tell(Stage::AllToAll, 0, 0, format_args!("a program of {} columns", sources * links.len() + 1));
    let options =
        Options { method: Method::InteriorPoint, deadline: run.deadline, cancel: run.cancel, ..Options::default() };
    let (status, solution) = match program.solve(&options, None).map_err(failed)? {
        Answer::Optimal(solution) => ("an optimum".to_owned(), solution),
        Answer::Imprecise { status, solution } => (status, solution),
        Answer::TimeLimit(Some(solution)) => {
            return worth(links, sources, share, groups, &solution).ok_or(Refusal::TimeLimit);
        }
        Answer::TimeLimit(None) => return Err(Refusal::TimeLimit),
        Answer::Cancelled => return Err(Refusal::Cancelled),
        // No flow at all keeps every row, and no link carries without end.
        Answer::Infeasible | Answer::Unbounded => {
            return Err(Refusal::Solver { status: "a program without an optimum".into() });
        }
    };
    worth(links, sources, share, groups, &solution).ok_or(Refusal::Solver { status })
}

/// What the solver's values prove: it holds, whatever the solver thinks of it. `None` where that is nothing.
fn worth(links: &Links, sources: usize, share: &[u32], groups: usize, solution: &Solution) -> Option<Solved> {
    let (flow, prices) = (solution.values.get(1..)?, solution.prices.get(..groups)?);
    if flow.len() != sources * links.len() {
        return None;
    }
    let flow: Vec<f64> = flow.iter().map(|amount| amount / links.n as f64).collect();
    let rate = certified::rate(links, &flow, sources, share, groups);
    let prices: Vec<f64> = share.iter().map(|&group| prices[group as usize].abs()).collect();
    let bound = lengths::bound(links, &lengths::whole(&prices), sources);
    (rate > 0.0).then_some(Solved { rate, bound })
}

fn program(links: &Links, sources: usize, share: &[u32], groups: usize) -> Result<Program, Failed> {
    let mut program = Program::new(Sense::Maximise);
    let full = Bounds::at_most(links.n as f64);
    let capacities = (0..groups).map(|_| program.row(full)).collect::<Result<Vec<Row>, _>>()?;
    // Row of each source and vertex; the source's own stays without entries.
    let balances =
        (0..sources * links.n).map(|_| program.row(Bounds::at_most(0.0))).collect::<Result<Vec<Row>, _>>()?;
    let others = (0..sources).flat_map(|s| (0..links.n).map(move |v| (s, v))).filter(|(s, v)| s != v);
    program.column(1.0, Bounds::POSITIVE, others.map(|(s, v)| (balances[s * links.n + v], 1.0)))?;
    for source in 0..sources {
        for link in 0..links.len() {
            let (tail, head) = (links.tail[link] as usize, links.head[link] as usize);
            let leaves = (tail != source).then(|| (balances[source * links.n + tail], 1.0));
            let arrives = (head != source).then(|| (balances[source * links.n + head], -1.0));
            let takes = Some((capacities[share[link] as usize], 1.0));
            program.column(0.0, Bounds::POSITIVE, [takes, leaves, arrives].into_iter().flatten())?;
        }
    }
    Ok(program)
}
