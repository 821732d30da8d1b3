//! The program without time, by links: for every block what each link carries for each end, and what it must carry for
//! all of them.
//!
//! Variables: f, the flow of a block to one end, and w, what the block takes of a link, not less than any f; R, the time.
//! Every limit carries at most R times its rate. Nodes that cannot copy take in as much of w as they give out (the bound is
//! then a relaxation), or the view has taken them apart. What symmetry makes equal is one variable and one row.

use super::block::{Block, Columns};
use super::draft::Draft;
use super::stage;
use crate::columns::MAX_COLUMNS;
use sluice_planners::Run;
use sluice_planners::fluid::merging::{Class, Merged, Merging, Views};
use sluice_planners::fluid::refusal::Refusal;
use sluice_solver::{Bounds, Failed, Method, Program, Row, Sense, Solution};

/// Columns above which the interior point method is faster than simplex.
const MAX_SIMPLEX_COLUMNS: usize = 60_000;

/// What the program says.
#[derive(Clone, Debug)]
pub struct Relaxed {
    /// The least R, in units over the network's scaled rates.
    pub latency: f64,
    /// The least cost at that, where it was asked for.
    pub cost: Option<f64>,
    /// By limit what one more unit of its rate is worth; with the rates they add up to one.
    pub prices: Vec<f64>,
    /// The same for the cost.
    pub cost_prices: Vec<f64>,
    /// By class and block what each link of its view carries for the representative.
    pub usage: Vec<Vec<Vec<f64>>>,
    /// Columns of the program.
    pub columns: usize,
}

/// The least time, and with `cost` the least cost at that time.
///
/// # Errors
/// `TooLarge`, `Solver`, `Stopped`.
pub fn solve(views: &Views, merging: &Merging, balance: bool, cost: bool, run: &Run<'_>) -> Result<Relaxed, Refusal> {
    let first = Built::new(views, merging, balance, None)?;
    let columns = first.columns;
    let method = if columns > MAX_SIMPLEX_COLUMNS { Method::InteriorPoint } else { Method::Simplex };
    let (first, solution) = first.solve(method, run)?;
    let latency = solution.objective;
    let prices = first.prices(&solution, views, merging);
    let mut relaxed = Relaxed {
        latency,
        cost: None,
        prices,
        cost_prices: Vec::new(),
        usage: first.usage(&solution, merging),
        columns,
    };
    if cost {
        let second = Built::new(views, merging, balance, Some(latency * (1.0 + 1e-9)))?;
        let (second, solution) = second.solve(method, run)?;
        relaxed.cost = Some(solution.objective);
        relaxed.cost_prices = second.prices(&solution, views, merging);
        relaxed.usage = second.usage(&solution, merging);
    }
    Ok(relaxed)
}

/// A program, and where its parts stand.
struct Built {
    program: Program,
    limits: Vec<Row>,
    blocks: Vec<Vec<Columns>>,
    columns: usize,
}

impl Built {
    /// With the time as objective; or with `latency`, within which the cost is the objective.
    fn new(views: &Views, merging: &Merging, balance: bool, latency: Option<f64>) -> Result<Built, Refusal> {
        Built::build(views, merging, balance, latency).map_err(super::failed)?.ok_or(Refusal::TooLarge {
            what: "columns of the program",
            found: MAX_COLUMNS + 1,
            allowed: MAX_COLUMNS,
        })
    }

    fn build(views: &Views, merging: &Merging, balance: bool, latency: Option<f64>) -> Result<Option<Built>, Failed> {
        let mut program = Program::new(Sense::Minimise);
        let mut draft = Draft::default();
        let count = merging.limits.iter().map(|class| *class as usize + 1).max().unwrap_or(0);
        let limits = (0..count).map(|_| program.row(Bounds::at_most(0.0))).collect::<Result<Vec<Row>, _>>()?;
        let mut sizes = vec![0_usize; count];
        merging.limits.iter().for_each(|class| sizes[*class as usize] += 1);
        let time = draft.column(if latency.is_some() { 0.0 } else { 1.0 }, latency.unwrap_or(f64::INFINITY));
        for (group, class) in views.out.network.groups.iter().zip(&merging.limits) {
            let class = *class as usize;
            if group.rate.is_finite() {
                draft.entry(time, limits[class], -group.rate / sizes[class] as f64);
            }
        }
        let whole = if merging.shares_roots { Some(program.row(Bounds::exactly(1.0))?) } else { None };
        let mut blocks = Vec::with_capacity(merging.classes.len());
        for class in &merging.classes {
            let root = match whole {
                Some(whole) => {
                    let share = draft.column(0.0, f64::INFINITY);
                    draft.entry(share, whole, class.count as f64);
                    Some(share)
                }
                None => None,
            };
            let mut own = Vec::new();
            for merged in &class.blocks {
                let view = views.of(&merged.block);
                let columns = Block { view, merged, balance, root }.add(&mut program, &mut draft)?;
                // What a class of links costs, and takes of the limits.
                let times = class.count as f64;
                let column = |edge: u32| columns.w[merged.edges[edge as usize] as usize];
                let costs = view.network.edges.iter().zip(0..).filter(|_| latency.is_some());
                for (edge, column) in costs.filter_map(|(edge, index)| Some((edge, column(index)?))) {
                    draft.columns[column].cost += times * edge.cost;
                }
                for (group, limit) in view.network.groups.iter().zip(&merging.limits) {
                    let limit = *limit as usize;
                    for edge in group.edges.iter().filter(|_| group.rate.is_finite()) {
                        if let Some(column) = column(*edge) {
                            draft.entry(column, limits[limit], times / sizes[limit] as f64);
                        }
                    }
                }
                own.push(columns);
                if draft.is_full() {
                    return Ok(None);
                }
            }
            blocks.push(own);
        }
        let columns = draft.columns.len();
        draft.enter(&mut program)?;
        Ok(Some(Built { program, limits, blocks, columns }))
    }

    fn solve(mut self, method: Method, run: &Run<'_>) -> Result<(Built, Solution), Refusal> {
        let solution = stage::solve(&mut self.program, method, run)?;
        Ok((self, solution))
    }

    /// What the rows of the limits are worth, by limit.
    fn prices(&self, solution: &Solution, views: &Views, merging: &Merging) -> Vec<f64> {
        let mut sizes = vec![0_usize; self.limits.len()];
        merging.limits.iter().for_each(|class| sizes[*class as usize] += 1);
        let of =
            |class: &u32| (-solution.prices[self.limits[*class as usize].0]).max(0.0) / sizes[*class as usize] as f64;
        let finite = views.out.network.groups.iter().map(|group| group.rate.is_finite());
        merging.limits.iter().zip(finite).map(|(class, finite)| if finite { of(class) } else { 0.0 }).collect()
    }

    /// What every link of a view carries of every block.
    fn usage(&self, solution: &Solution, merging: &Merging) -> Vec<Vec<Vec<f64>>> {
        let of = |merged: &Merged, columns: &Columns| -> Vec<f64> {
            let value = |class: &u32| columns.w[*class as usize].map_or(0.0, |column| solution.values[column].max(0.0));
            merged.edges.iter().map(value).collect()
        };
        let class = |(class, columns): (&Class, &Vec<Columns>)| {
            class.blocks.iter().zip(columns).map(|(merged, columns)| of(merged, columns)).collect()
        };
        merging.classes.iter().zip(&self.blocks).map(class).collect()
    }
}
