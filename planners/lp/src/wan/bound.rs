//! A bound that no method goes below, as a linear program in the times of collectives.
//!
//! What is solved is the dual program: the best prices of inequalities, of which those of links are far too many to be
//! listed. They come as they are broken: for each link the subsets worth a look are the first few of its collectives
//! in the order of their times, because the most broken subset is one of these (Queyranne, Structure of a simple
//! scheduling polyhedron, 1993). So the value is that of all subsets, for any number of collectives.

use std::collections::BTreeSet;

use crate::wan::claim::{self, Claim, Priced};
use crate::wan::refusal::Refusal;
use sluice_planners::{Run, Stopped};
use sluice_planners_wan::Instance;
use sluice_solver::{Answer, Bounds, Options, Program, Row, Sense, Solution};

/// An inequality is broken by this share of its right side, or more.
const BROKEN: f64 = 1e-9;
/// Tolerance of the solver.
const TOLERANCE: f64 = 1e-9;

/// A bound, and its proof.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The mean time of collectives is at least this, in s: what [`claim::proved`] makes of the prices.
    pub value: f64,
    /// Times of collectives that satisfy all inequalities and have that mean, in s.
    pub times: Vec<f64>,
    /// The inequalities that the bound needs.
    pub prices: Vec<Priced>,
    /// Programs that were solved.
    pub rounds: usize,
}

/// The best bound that chains and links give.
///
/// # Errors
/// `Solver`, and what ends a run early.
pub fn lower_bound(instance: &Instance, run: &Run<'_>) -> Result<Bound, Refusal> {
    let collectives = instance.collectives();
    let chains = chains(instance);
    let unit = chains.iter().filter_map(|claim| claim.row(instance)).map(|row| row.least).fold(0.0, f64::max);
    let mut master = Master::new(instance, unit)?;
    for claim in chains {
        master.add(claim)?;
    }
    let links = Links::new(instance);
    let mut rounds = 0;
    loop {
        let solution = master.solve(run)?;
        rounds += 1;
        let times: Vec<f64> = solution.prices.iter().map(|price| price * unit).collect();
        let mut added = false;
        for claim in links.broken(&times) {
            added |= master.add(claim)?;
        }
        if !added {
            let prices = master.prices(&solution);
            let value = claim::proved(instance, &prices).ok_or_else(|| Refusal::solver("prices that prove nothing"))?;
            debug_assert_eq!(times.len(), collectives);
            return Ok(Bound { value, times, prices, rounds });
        }
    }
}

/// For each collective the chain of dependencies that ends last with one of its flows.
fn chains(instance: &Instance) -> Vec<Claim> {
    let count = instance.flows().len();
    let mut missing: Vec<usize> = (0..count).map(|flow| instance.predecessors(flow).len()).collect();
    let mut ready: Vec<usize> = (0..count).filter(|flow| missing[*flow] == 0).collect();
    let mut ends: Vec<f64> = vec![0.0; count];
    let mut through: Vec<Option<usize>> = vec![None; count];
    while let Some(flow) = ready.pop() {
        let mut start = instance.flows()[flow].release;
        for &before in instance.predecessors(flow) {
            if ends[before] > start {
                (start, through[flow]) = (ends[before], Some(before));
            }
        }
        ends[flow] = start + instance.duration(flow);
        for &after in instance.successors(flow) {
            missing[after] -= 1;
            if missing[after] == 0 {
                ready.push(after);
            }
        }
    }
    let mut last: Vec<Option<usize>> = vec![None; instance.collectives()];
    for (flow, it) in instance.flows().iter().enumerate() {
        let last = &mut last[it.collective];
        if last.is_none_or(|last| ends[flow] > ends[last]) {
            *last = Some(flow);
        }
    }
    let back = |last: usize| {
        let mut flows: Vec<usize> = std::iter::successors(Some(last), |flow| through[*flow]).collect();
        flows.reverse();
        Claim::Chain { flows }
    };
    last.into_iter().flatten().map(back).collect()
}

/// What each link serves.
struct Links {
    /// By link in use the collectives with the time that it takes to serve them.
    served: Vec<Served>,
}

struct Served {
    link: usize,
    parts: Vec<claim::Term>,
}

impl Links {
    fn new(instance: &Instance) -> Links {
        let mut served = Vec::new();
        for (link, it) in instance.links().iter().enumerate() {
            let mut parts: Vec<claim::Term> = Vec::new();
            for flow in instance.flows_on(link) {
                let flow = &instance.flows()[*flow];
                let time = flow.size / it.capacity;
                match parts.binary_search_by_key(&flow.collective, |part| part.collective) {
                    Ok(place) => parts[place].factor += time,
                    Err(place) => parts.insert(place, claim::Term { collective: flow.collective, factor: time }),
                }
            }
            if !parts.is_empty() {
                served.push(Served { link, parts });
            }
        }
        Links { served }
    }

    /// For each link the subset whose inequality these times break most, if they break one.
    fn broken(&self, times: &[f64]) -> Vec<Claim> {
        let mut claims = Vec::new();
        for Served { link, parts } in &self.served {
            let mut order: Vec<&claim::Term> = parts.iter().collect();
            order.sort_by(|one, other| {
                let time = |part: &claim::Term| times[part.collective];
                time(one).total_cmp(&time(other)).then(one.collective.cmp(&other.collective))
            });
            // Each next collective adds p·(Σp so far, its own included) on the right and p·T on the left.
            let (mut served, mut least, mut most, mut first) = (0.0, 0.0, 0.0, 0);
            let mut missing = 0.0;
            for (at, part) in order.iter().enumerate() {
                served += part.factor;
                least += part.factor * served;
                missing += part.factor * (served - times[part.collective]);
                if missing > BROKEN * least && missing > most {
                    (most, first) = (missing, at + 1);
                }
            }
            if first > 0 {
                let mut collectives: Vec<usize> = order[..first].iter().map(|part| part.collective).collect();
                collectives.sort_unstable();
                claims.push(Claim::Link { link: *link, collectives });
            }
        }
        claims
    }
}

/// The program of prices: a row for each collective, a column for each inequality. Times are in units of the longest
/// chain, and each inequality is divided by the sum of its factors.
struct Master<'a> {
    instance: &'a Instance,
    unit: f64,
    program: Program,
    rows: Vec<Row>,
    /// By column the inequality and the sum of its factors.
    columns: Vec<(Claim, f64)>,
    known: BTreeSet<Claim>,
}

impl<'a> Master<'a> {
    fn new(instance: &'a Instance, unit: f64) -> Result<Master<'a>, Refusal> {
        let mut program = Program::new(Sense::Maximise);
        let share = 1.0 / instance.collectives() as f64;
        let rows = (0..instance.collectives()).map(|_| program.row(Bounds::at_most(share)));
        let rows = rows.collect::<Result<Vec<Row>, _>>()?;
        Ok(Master { instance, unit, program, rows, columns: Vec::new(), known: BTreeSet::new() })
    }

    /// A further inequality; false where it is known already.
    fn add(&mut self, claim: Claim) -> Result<bool, Refusal> {
        let Some(row) = claim.row(self.instance) else { return Ok(false) };
        if !self.known.insert(claim.clone()) {
            return Ok(false);
        }
        let sum: f64 = row.terms.iter().map(|term| term.factor).sum();
        let entries = row.terms.iter().map(|term| (self.rows[term.collective], term.factor / sum));
        self.program.column(row.least / sum / self.unit, Bounds::POSITIVE, entries)?;
        self.columns.push((claim, sum));
        Ok(true)
    }

    fn solve(&mut self, run: &Run<'_>) -> Result<Solution, Refusal> {
        let options =
            Options { tolerance: Some(TOLERANCE), deadline: run.deadline, cancel: run.cancel, ..Options::default() };
        match self.program.solve(&options, None)? {
            Answer::Optimal(solution) => Ok(solution),
            Answer::Cancelled => Err(Stopped::Cancelled.into()),
            Answer::TimeLimit(_) => Err(Stopped::TimeLimit.into()),
            Answer::Imprecise { status, .. } => Err(Refusal::solver(status)),
            Answer::Infeasible => Err(Refusal::solver("an infeasible program of prices")),
            Answer::Unbounded => Err(Refusal::solver("an unbounded program of prices")),
        }
    }

    fn prices(&self, solution: &Solution) -> Vec<Priced> {
        let priced = self.columns.iter().zip(&solution.values).filter(|(_, value)| **value > 0.0);
        priced.map(|((claim, sum), value)| Priced { claim: claim.clone(), price: value / sum }).collect()
    }
}
