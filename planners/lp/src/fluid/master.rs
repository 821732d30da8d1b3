//! Dantzig and Wolfe's method: a master program over whole routes, and a search for routes that its prices call cheaper.
//!
//! A column is a routing tree (or a way for every end) of one job, or what a relaxation makes of the job by links. The
//! master mixes columns so that every limit carries at most R times its rate, for the least R, or for the least cost at
//! that R. Its prices of the limits say what a column must beat, and prove a bound with the cheapest one of every job.
//! What symmetry makes equal is planned once, and limits that it carries onto each other are one row with the mean of
//! their loads: the mirrored method.

use super::pricing::{self, Best, Pricing, Sides};
use super::stage;
use sluice_planners::fluid::folding::Folding;
use sluice_planners::fluid::network::Edge;
use sluice_planners::fluid::refusal::Refusal;
use sluice_planners::fluid::tree::Route;
use sluice_planners::{Run, Stage, Stopped};
use sluice_solver::{Bounds, Failed, Method, Program, Row, Sense};
use std::collections::{BTreeMap, HashSet};

/// A column is worth adding where it is cheaper than what there is by this part.
const WORTH: f64 = 1e-9;
/// The second objective's limits are wider than the first's optimum by this part.
const SLACK: f64 = 1e-9;
/// A column costs nothing at the master's prices where it costs less than this.
const TIGHT: f64 = 1e-9;
/// Rounds without a better bound or value after which prices are no longer smoothed.
const PATIENCE: usize = 30;

/// A mixture that a job can use.
#[derive(Clone, Debug)]
pub struct Column {
    /// The class of jobs.
    pub class: usize,
    /// By block of the job; none where pricing is by links.
    pub routes: Vec<Route>,
    /// By link what the job's data loads, in units.
    pub usage: Vec<(u32, f64)>,
    /// What that load costs, by the links' costs.
    pub cost: f64,
}

/// How far the method is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Iteration {
    /// Is it about the cost, and not the time?
    pub of_cost: bool,
    /// No mixture is better than this.
    pub lower: f64,
    /// The mixture of the columns until now.
    pub upper: f64,
}

/// The end of one stage.
#[derive(Clone, Debug)]
pub struct Staged {
    /// The value of the mixture.
    pub upper: f64,
    /// What nothing is better than.
    pub lower: f64,
    /// By limit of the network the prices that prove it.
    pub prices: Vec<f64>,
    /// By column its part.
    pub parts: Vec<f64>,
    /// Columns that cost nothing at the last prices of the master: those that are used, and those that might be.
    pub tight: Vec<usize>,
    /// Did the bounds meet? Else time ran out, or pricing was not exact.
    pub closed: bool,
    /// The prices of classes of limits that proved most.
    centre: Vec<f64>,
}

/// The method's state: columns, and how it went.
#[derive(Debug)]
pub struct Master<'a> {
    sides: &'a Sides,
    folding: &'a Folding,
    pricing: Pricing<'a>,
    /// By link the classes of limits and the part of their loads.
    parts: Vec<Vec<(u32, f64)>>,
    /// By class of limits the rate; infinite where there is none.
    rates: Vec<f64>,
    /// Columns that there are, by class and loads to the bit.
    known: HashSet<(usize, Vec<(u32, u64)>)>,
    /// All columns until now.
    pub columns: Vec<Column>,
    /// The bounds after every round, over all stages.
    pub iterations: Vec<Iteration>,
    /// Relative distance of the bounds at which a stage ends.
    pub tolerance: f64,
}

impl<'a> Master<'a> {
    /// A master without columns; it ends where its bounds are nearer than `tolerance`, relative.
    pub fn new(sides: &'a Sides, folding: &'a Folding, pricing: Pricing<'a>, tolerance: f64) -> Master<'a> {
        let mut rates = vec![f64::INFINITY; folding.sizes.len()];
        for (place, group) in sides.out.limits() {
            rates[folding.limits[place] as usize] = group.rate;
        }
        let part = |(class, times): (u32, u32)| (class, f64::from(times) / folding.sizes[class as usize] as f64);
        let counts = folding.counts(&sides.out).into_iter();
        let parts = counts.map(|counts| counts.into_iter().map(part).collect()).collect();
        let (known, columns, iterations) = (HashSet::new(), Vec::new(), Vec::new());
        Master { sides, folding, pricing, parts, rates, known, columns, iterations, tolerance }
    }

    /// The least time of a mixture.
    ///
    /// # Errors
    /// `Solver`; `Stopped` where it was called off, or late before there was a mixture.
    pub fn least_time(&mut self, run: &Run<'_>) -> Result<Staged, Refusal> {
        // By length, and by what a slow link takes.
        let ones = vec![1.0; self.sides.out.edges.len()];
        self.extend(&ones, run)?;
        let mut slow = vec![0.0_f64; self.sides.out.edges.len()];
        for (_, group) in self.sides.out.limits() {
            group.edges.iter().for_each(|edge| slow[*edge as usize] = slow[*edge as usize].max(1.0 / group.rate));
        }
        self.extend(&slow, run)?;
        self.stage(None, run)
    }

    /// The least cost of a mixture that takes no longer than this.
    ///
    /// # Errors
    /// As [`Master::least_time`].
    pub fn least_cost(&mut self, time: f64, run: &Run<'_>) -> Result<Staged, Refusal> {
        self.stage(Some(time * (1.0 + SLACK)), run)
    }

    /// Columns for all jobs at these prices of links, whatever they are worth.
    fn extend(&mut self, edge_prices: &[f64], run: &Run<'_>) -> Result<(), Refusal> {
        for (class, best) in self.priced(edge_prices, run)?.into_iter().enumerate() {
            let column = self.column(class, best);
            self.add(column);
        }
        Ok(())
    }

    fn column(&self, class: usize, best: Best) -> Column {
        let cost = best.usage.iter().map(|(edge, load)| self.sides.out.edges[*edge as usize].cost * load).sum();
        Column { class, routes: best.routes, usage: best.usage.into_iter().collect(), cost }
    }

    /// A further column, unless one with the same loads is there already.
    fn add(&mut self, column: Column) -> bool {
        let loads = column.usage.iter().map(|(edge, load)| (*edge, load.to_bits())).collect();
        let is_new = self.known.insert((column.class, loads));
        if is_new {
            self.columns.push(column);
        }
        is_new
    }

    /// What a column adds to the rows of the limits.
    fn loads(&self, column: &Column) -> BTreeMap<u32, f64> {
        let times = self.folding.classes[column.class].images.len() as f64;
        let mut loads: BTreeMap<u32, f64> = BTreeMap::new();
        for (edge, load) in &column.usage {
            for (class, part) in &self.parts[*edge as usize] {
                *loads.entry(*class).or_default() += times * load * part;
            }
        }
        loads
    }

    /// The best of every class at these prices of links.
    fn priced(&self, edge_prices: &[f64], run: &Run<'_>) -> Result<Vec<Best>, Refusal> {
        pricing::cheapest(self.pricing, self.sides, self.folding, edge_prices, run)
    }

    /// By link what a unit costs where each class of limits has this price.
    fn edge_prices(&self, prices: &[f64], of_cost: bool) -> Vec<f64> {
        let of = |(parts, edge): (&Vec<(u32, f64)>, &Edge)| {
            let limits: f64 = parts.iter().map(|(class, part)| prices[*class as usize] * part).sum();
            limits + if of_cost { edge.cost } else { 0.0 }
        };
        self.parts.iter().zip(&self.sides.out.edges).map(of).collect()
    }

    /// What these prices prove with the cheapest routes under them.
    fn bound(&self, prices: &[f64], priced: &[Best], within: Option<f64>) -> f64 {
        let times = self.folding.classes.iter().map(|class| class.images.len() as f64);
        let least = if self.folding.shares_roots {
            priced.iter().map(|best| best.bound).fold(f64::INFINITY, f64::min)
        } else {
            priced.iter().zip(times).map(|(best, times)| best.bound * times).sum()
        };
        let finite = prices.iter().zip(&self.rates).filter(|(_, rate)| rate.is_finite());
        let room: f64 = finite.map(|(price, rate)| price * rate).sum();
        match within {
            Some(time) => least - time * room,
            None if room > 0.0 => least / room,
            None => 0.0,
        }
    }

    /// What a further unit of a column saves: below zero where it is worth having.
    fn reduced(&self, column: &Column, duals: &Duals, of_cost: bool) -> f64 {
        let times = self.folding.classes[column.class].images.len() as f64;
        let limits: f64 = self.loads(column).iter().map(|(class, load)| duals.limits[*class as usize] * load).sum();
        let due = if self.folding.shares_roots { times * duals.whole[0] } else { duals.whole[column.class] };
        limits - due + if of_cost { times * column.cost } else { 0.0 }
    }

    /// One stage: the time, or the cost within a time.
    fn stage(&mut self, within: Option<f64>, run: &Run<'_>) -> Result<Staged, Refusal> {
        let mut program = self.program(within).map_err(super::failed)?;
        let mut staged: Option<Staged> = None;
        let (mut entered, mut stalled) = (0, 0);
        loop {
            for column in &self.columns[entered..] {
                self.enter(&mut program, column, within).map_err(super::failed)?;
            }
            entered = self.columns.len();
            let (upper, parts, duals) = match program.solve(run) {
                Err(Refusal::Stopped(Stopped::TimeLimit)) if staged.is_some() => break,
                other => other?,
            };
            let now = staged.get_or_insert_with(Staged::unproved);
            (now.upper, now.parts) = (upper, parts);
            let is_tight = |column: &Column| self.reduced(column, &duals, within.is_some()).abs() <= TIGHT;
            now.tight =
                (0..entered).filter(|place| now.parts[*place] > 0.0 || is_tight(&self.columns[*place])).collect();
            // Prices between those that proved most and those of the master find better columns, more often than not.
            let smooth = (!now.centre.is_empty() && stalled < PATIENCE).then(|| mean(&now.centre, &duals.limits));
            let mut added = 0;
            for prices in smooth.into_iter().chain([duals.limits.clone()]) {
                let priced = match self.priced(&self.edge_prices(&prices, within.is_some()), run) {
                    Err(Refusal::Stopped(Stopped::TimeLimit)) => break,
                    other => other?,
                };
                let proved = self.bound(&prices, &priced, within);
                if proved > now.lower {
                    (now.lower, stalled) = (proved, 0);
                    now.prices = self.by_limit(&prices);
                    now.centre = prices;
                }
                for (class, best) in priced.into_iter().enumerate() {
                    let column = self.column(class, best);
                    let due = if self.folding.shares_roots { duals.whole[0] } else { duals.whole[class] };
                    if self.reduced(&column, &duals, within.is_some()) < -WORTH * due.abs().max(1.0) {
                        added += usize::from(self.add(column));
                    }
                }
                if added > 0 || now.is_near(self.tolerance) {
                    break;
                }
            }
            stalled += 1;
            self.iterations.push(Iteration { of_cost: within.is_some(), lower: now.lower, upper });
            let (count, columns) = (self.iterations.len(), self.columns.len());
            let what = if within.is_some() { "cost" } else { "R" };
            let scale = if within.is_some() { 1.0 } else { self.sides.out.scale };
            let (lower, upper) = (now.lower / scale, upper / scale);
            let about = format_args!("{what} between {lower:.6e} and {upper:.6e}, {columns} columns");
            run.tell(Stage::FluidMaster, count as u64, 0, about);
            now.closed = now.is_near(self.tolerance);
            if now.closed || added == 0 || run.is_late() {
                break;
            }
            if run.is_cancelled() {
                return Err(Stopped::Cancelled.into());
            }
        }
        staged.ok_or(Refusal::Stopped(Stopped::TimeLimit))
    }

    /// The rows of a stage, and in the first the column of R.
    fn program(&self, within: Option<f64>) -> Result<Mixing, Failed> {
        let mut program = Program::new(Sense::Minimise);
        let room = |rate: f64| within.map_or(0.0, |time| time * rate);
        let row = |rate: &f64| rate.is_finite().then(|| program.row(Bounds::at_most(room(*rate)))).transpose();
        let limits: Vec<Option<Row>> = self.rates.iter().map(row).collect::<Result<_, _>>()?;
        let jobs = if self.folding.shares_roots { 1 } else { self.folding.classes.len() };
        let whole: Vec<Row> = (0..jobs).map(|_| program.row(Bounds::exactly(1.0))).collect::<Result<_, _>>()?;
        if within.is_none() {
            let time = limits.iter().zip(&self.rates).filter_map(|(row, rate)| row.map(|row| (row, -rate)));
            program.column(1.0, Bounds::POSITIVE, time)?;
        }
        Ok(Mixing { program, limits, whole, first: usize::from(within.is_none()) })
    }

    /// A column into the program of a stage.
    fn enter(&self, mixing: &mut Mixing, column: &Column, within: Option<f64>) -> Result<(), Failed> {
        let times = self.folding.classes[column.class].images.len() as f64;
        let loads = self.loads(column).into_iter();
        let loads = loads.filter_map(|(class, load)| Some((mixing.limits[class as usize]?, load)));
        let one = if self.folding.shares_roots { (mixing.whole[0], times) } else { (mixing.whole[column.class], 1.0) };
        let worth = if within.is_some() { times * column.cost } else { 0.0 };
        mixing.program.column(worth, Bounds::POSITIVE, loads.chain([one]))?;
        Ok(())
    }

    /// Prices of classes of limits as prices of limits.
    fn by_limit(&self, prices: &[f64]) -> Vec<f64> {
        let of = |class: &u32| prices[*class as usize] / self.folding.sizes[*class as usize] as f64;
        self.folding.limits.iter().map(of).collect()
    }
}

/// What the rows of a master are worth.
struct Duals {
    /// By class of limits, never below zero.
    limits: Vec<f64>,
    /// By class of jobs; of an all-reduce one for all.
    whole: Vec<f64>,
}

/// The program of one stage.
struct Mixing {
    program: Program,
    limits: Vec<Option<Row>>,
    whole: Vec<Row>,
    /// The place of the first column of a route.
    first: usize,
}

impl Mixing {
    /// Value, parts of the columns, and duals.
    fn solve(&mut self, run: &Run<'_>) -> Result<(f64, Vec<f64>, Duals), Refusal> {
        let solution = stage::solve(&mut self.program, Method::Simplex, run)?;
        let price = |row: &Option<Row>| row.map_or(0.0, |row| (-solution.prices[row.0]).max(0.0));
        let limits = self.limits.iter().map(price).collect();
        let whole = self.whole.iter().map(|row| solution.prices[row.0]).collect();
        let parts = solution.values[self.first..].iter().map(|part| part.max(0.0)).collect();
        Ok((solution.objective, parts, Duals { limits, whole }))
    }
}

impl Staged {
    fn unproved() -> Staged {
        Staged {
            upper: f64::INFINITY,
            lower: f64::NEG_INFINITY,
            prices: Vec::new(),
            parts: Vec::new(),
            tight: Vec::new(),
            closed: false,
            centre: Vec::new(),
        }
    }
    fn is_near(&self, tolerance: f64) -> bool {
        self.upper - self.lower <= tolerance * self.upper.abs()
    }
}

fn mean(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| 0.5 * (a + b)).collect()
}
