//! Chunks that may be cut, and are not copied: amounts from a linear program become pieces that travel by paths.
//!
//! Source: section 3 of the paper for the program; the pieces are this project's. Amounts of one tenant's source flow
//! through places, which are nodes at epochs; `cut` makes pieces of them.

mod cut;

use super::bound::Bound;
use super::greedy;
use super::instance::{Instance, Mode, Options};
use super::objective::Objective;
use super::search::{Goal, horizon, infeasible};
use super::to_plan::{Entry, Made, Outcome, Worth, plan};
use crate::run::{Run, Stage, Stopped};
use cut::Cut;
use sluice_formats::problem::Problems;
use sluice_plan::plan::CertificateKind;

/// How often a horizon in which nothing was found is doubled.
const MAX_DOUBLINGS: u32 = 6;

/// Whose data flows: a tenant's at a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// By its place in [`Demand::tenants`](super::demand::Demand::tenants); 0 where there are none.
    pub tenant: usize,
    /// The node where the data begins.
    pub source: usize,
}

/// What starts on a lane in an epoch.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// The data that moves: whose and from where.
    pub origin: Origin,
    /// The lane's place in [`Lanes::lanes`](super::lane::Lanes::lanes).
    pub lane: usize,
    /// The epoch in which it starts, from 0.
    pub epoch: u64,
    /// How much starts, in chunks and parts of them.
    pub amount: f64,
}

/// What a node has got at the start of an epoch for itself.
#[derive(Clone, Copy, Debug)]
pub struct Delivered {
    /// The data that is read: whose and from where.
    pub origin: Origin,
    /// The node that reads it.
    pub node: usize,
    /// At the start of this epoch.
    pub epoch: u64,
    /// How much it reads, in chunks and parts of them.
    pub amount: f64,
}

/// A solution of the linear program.
#[derive(Clone, Debug, Default)]
pub struct Amounts {
    /// What starts on lanes; the order means nothing.
    pub sent: Vec<Sent>,
    /// What nodes read for themselves; the order means nothing.
    pub delivered: Vec<Delivered>,
}

/// What a horizon came to.
#[derive(Clone, Debug)]
pub enum Answer {
    /// So it can be done.
    Found(Amounts),
    /// No amounts meet all demands within these epochs.
    Infeasible,
    /// Time ran out, or the program would be too large.
    Unknown,
}

/// Somebody who solves the linear program.
pub trait Divide {
    /// Amounts that meet all demands within so many epochs, with little traffic, or such as gain most.
    ///
    /// # Errors
    /// Being called off, and what breaks down.
    fn amounts(
        &self,
        instance: &Instance<'_>,
        epochs: u64,
        objective: Option<Objective>,
        run: &Run<'_>,
    ) -> Result<Answer, Problems>;
}

/// Plans pieces of chunks, claims and checks.
///
/// # Errors
/// As [`super::make`].
pub fn make(instance: &Instance<'_>, solver: &dyn Divide, run: &Run<'_>) -> Result<Made, Problems> {
    let mode = instance.options().mode;
    let goal = match mode {
        Mode::Feasible(epochs) | Mode::Objective { epochs: Some(epochs), .. } => Goal::Feasible(epochs),
        Mode::MinEpochs | Mode::Objective { epochs: None, .. } => Goal::MinEpochs,
    };
    let mut horizons = Horizons { instance, solver, run, bound: instance.bound.clone(), best: None };
    match goal {
        Goal::Feasible(epochs) if epochs < instance.bound.epochs => {
            return Err(infeasible(epochs, instance.bound.epochs));
        }
        Goal::Feasible(epochs) => {
            if !horizons.holds(epochs)? && !run.is_late() {
                return Err(infeasible(epochs, horizons.bound.epochs));
            }
        }
        Goal::MinEpochs => horizons.fewest()?,
    }
    let Horizons { bound, best, .. } = horizons;
    let Some(mut best) = best else {
        return Err(if run.is_late() { Stopped::TimeLimit.problem().into() } else { horizon(bound.epochs) });
    };
    let mut worth = None;
    if let Mode::Objective { objective, epochs } = mode {
        let epochs = epochs.unwrap_or(best.finish);
        let most = objective.most(&instance.lanes, &instance.demand, epochs);
        let (mut value, mut limit) = (gained(instance, &best.amounts, objective, epochs), most);
        if let Answer::Found(amounts) = solver.amounts(instance, epochs, Some(objective), run)? {
            value = gained(instance, &amounts, objective, epochs);
            limit = value;
            best = Cut::new(instance, amounts)?;
        }
        worth = Some(Worth { objective, epochs, value, bound: limit.max(value) });
    }
    let entries = best.starts.iter().map(|start| Entry {
        epoch: start.epoch,
        chunk: &instance.demand.chunks[start.chunk],
        lane: &instance.lanes.lanes[start.lane],
        is_reversed: false,
        piece: Some(start.piece),
    });
    let outcome = Outcome { finish: best.finish, bound, worth, late: run.is_late() };
    plan(instance, entries.collect(), &outcome)
}

/// What a solution gains, weights counted.
fn gained(instance: &Instance<'_>, amounts: &Amounts, objective: Objective, epochs: u64) -> f64 {
    let weight = |tenant: usize| instance.demand.tenants.get(tenant).map_or(1.0, |tenant| tenant.weight.to_f64());
    let gain = |of: &Delivered| of.amount * weight(of.origin.tenant) * objective.gains_from(of.epoch, epochs);
    amounts.delivered.iter().map(gain).sum()
}

/// The search for the fewest epochs.
struct Horizons<'a> {
    instance: &'a Instance<'a>,
    solver: &'a dyn Divide,
    run: &'a Run<'a>,
    bound: Bound,
    best: Option<Cut>,
}

impl Horizons<'_> {
    /// Are so many epochs enough? If not, the bound is higher, unless time ran out.
    fn holds(&mut self, epochs: u64) -> Result<bool, Problems> {
        let to = self.best.as_ref().map_or(epochs, |best| best.finish);
        self.run.tell(Stage::Program, 0, 0, format_args!("{} to {to} epochs: trying {epochs}", self.bound.epochs));
        match self.solver.amounts(self.instance, epochs, None, self.run)? {
            Answer::Found(amounts) => {
                self.best = Some(Cut::new(self.instance, amounts)?);
                Ok(true)
            }
            Answer::Infeasible => {
                self.bound = Bound { epochs: epochs + 1, kind: CertificateKind::Solver, nodes: Vec::new() };
                Ok(false)
            }
            Answer::Unknown => Ok(false),
        }
    }

    /// Whole chunks say how many epochs are enough, for pieces need no more; between that and the bound each program
    /// decides about half.
    fn fewest(&mut self) -> Result<(), Problems> {
        let whole = self.instance.with(Options { divisible: false, ..self.instance.options().clone() });
        let whole = whole.ok().and_then(|whole| {
            let (bound, seed) = (whole.bound.epochs, self.instance.options().seed);
            greedy::best(&whole.lanes, &whole.hops, &whole.demand, bound, seed, self.run).ok().flatten()
        });
        let mut most = whole.map_or(self.bound.epochs.saturating_mul(2), |whole| whole.finish);
        for _ in 0..MAX_DOUBLINGS {
            while self.bound.epochs < most && !self.run.is_late() {
                let middle = self.bound.epochs + (most - self.bound.epochs) / 2;
                if self.holds(middle)? {
                    most = self.best.as_ref().map_or(middle, |best| best.finish.min(middle));
                }
            }
            if self.best.is_some() || self.run.is_late() || self.holds(most)? {
                return Ok(());
            }
            most = most.saturating_mul(2);
        }
        Ok(())
    }
}
