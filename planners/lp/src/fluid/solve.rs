//! The whole way: which method suits, the figures at the strength that was asked for, and a mixture of routes for a plan.

use super::finishing::Finish;
use super::master::{Iteration, Master, Staged};
use super::pricing::{Pricing, Sides};
use super::relaxed;
use sluice_formats::quantity::Rational;
use sluice_planners::Run;
use sluice_planners::fluid::demand::{Direction, Shape};
use sluice_planners::fluid::exact;
use sluice_planners::fluid::folding::Folding;
use sluice_planners::fluid::instance::Instance;
use sluice_planners::fluid::merging::{Merging, Views};
use sluice_planners::fluid::network::Network;
use sluice_planners::fluid::refusal::Refusal;
use sluice_planners::fluid::symmetry::automorphism::Automorphism;
use sluice_planners::fluid::symmetry::regular::regular;
use sluice_planners::fluid::to_plan::Mixed;
use sluice_planners::fluid::view::View;

/// Nodes that copy and that nothing is owed to, above which the cheapest tree is not searched for exactly: then the default
/// strength takes nodes apart instead.
pub const MAX_OPTIONAL: usize = sluice_planners::fluid::steiner::MAX_OPTIONAL;

/// How exactly nodes that cannot copy are dealt with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strength {
    /// They take in as much as they give out: a bound from below.
    Relax,
    /// They are taken apart by where their data goes next: a tighter bound from below.
    Dup,
    /// Routing trees, whose value is exact.
    Tree,
}

impl Strength {
    /// As results write it.
    pub fn word(self) -> &'static str {
        match self {
            Strength::Relax => "RELAX",
            Strength::Dup => "DUP",
            Strength::Tree => "TREE",
        }
    }
}

/// How the program is solved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// As `Mirrored` where routes are exact, else as `Orbit`.
    #[default]
    Auto,
    /// The program by links, whole.
    Direct,
    /// The program by links, with what symmetry makes equal as one.
    Orbit,
    /// Routes and prices, for every root by itself.
    Dw,
    /// Routes and prices, for one root of those that symmetry carries onto each other.
    Mirrored,
}

impl Method {
    /// As flags and results write it.
    pub fn word(self) -> &'static str {
        match self {
            Method::Auto => "auto",
            Method::Direct => "direct",
            Method::Orbit => "orbit",
            Method::Dw => "dw",
            Method::Mirrored => "mirrored",
        }
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// `None`: trees; nodes taken apart where there are too many that may branch.
    pub strength: Option<Strength>,
    /// How the program is solved.
    pub method: Method,
    /// Without the second objective.
    pub latency_only: bool,
    /// Are routes wanted, for a plan?
    pub routes: bool,
    /// Bounds meet at this distance, relative.
    pub tolerance: f64,
}

impl Default for Options {
    fn default() -> Options {
        Options { strength: None, method: Method::Auto, latency_only: false, routes: true, tolerance: 1e-7 }
    }
}

/// A value between bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Bounded {
    /// The value that was found; the best lies between it and the bound.
    pub value: f64,
    /// What nothing is below.
    pub lower: f64,
    /// As a fraction, where it is known to be one or looks like one.
    pub exact: Option<Rational>,
}

/// Figures, and routes where they were wanted.
#[derive(Debug)]
pub struct Solved {
    /// The strength of the figures; `None` where there are no trees.
    pub strength: Option<Strength>,
    /// The method that was used for them.
    pub method: Method,
    /// The least time of a unit, per unit of data of results.
    pub latency: Bounded,
    /// The least cost at that time.
    pub cost: Option<Bounded>,
    /// Rounds of columns and prices, in the units of the figures; those of the figures before those of the plan's routes.
    pub iterations: Vec<Iteration>,
    /// Columns of the largest program.
    pub variables: usize,
    /// Did time run out before the bounds met?
    pub is_late: bool,
    /// The jobs, and their routes if they were wanted.
    pub folding: Folding,
    /// Routes for every class of jobs, each with its part; none where figures alone were asked for.
    pub mixed: Vec<Mixed>,
    /// Prices that may prove the time.
    pub prices: Vec<Vec<Rational>>,
    /// Prices that may prove the cost.
    pub cost_prices: Vec<Vec<Rational>>,
}

/// Nodes that copy and that nothing is owed to: of the side on which they are more.
pub fn optional(instance: &Instance<'_>) -> usize {
    let network = &instance.network;
    let blocks = instance.demand.blocks();
    let trees = || blocks.iter().filter(|block| block.shape == Shape::Tree);
    let of = |direction: Direction| {
        let mut part = vec![false; network.nodes()];
        for block in trees().filter(|block| block.direction == direction) {
            part[block.root as usize] = true;
            block.ends.iter().for_each(|end| part[*end as usize] = true);
        }
        let can = |node: &usize| match direction {
            Direction::Out => network.can[*node].copy,
            Direction::In => network.can[*node].reduce,
        };
        let used = trees().any(|block| block.direction == direction);
        if used { (0..network.nodes()).filter(can).filter(|node| !part[*node]).count() } else { 0 }
    };
    of(Direction::Out).max(of(Direction::In))
}

/// Where the figures come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figures {
    /// One program over links.
    Program,
    /// Columns that are priced by links.
    Columns,
    /// Columns that are routes.
    Routes,
}

/// Figures and routes.
///
/// # Errors
/// `BadParameter` for a method that does not fit the strength; `TooLarge`, `Solver`, `Stopped`.
pub fn solve(instance: &Instance<'_>, options: &Options, run: &Run<'_>) -> Result<Solved, Refusal> {
    let trees = instance.demand.blocks().iter().any(|block| block.shape == Shape::Tree);
    let strength = trees.then(|| {
        let fallback = if optional(instance) > MAX_OPTIONAL { Strength::Dup } else { Strength::Tree };
        options.strength.unwrap_or(fallback)
    });
    let figures = match (strength, options.method) {
        (None, Method::Direct | Method::Orbit) => Figures::Program,
        (None, _) => Figures::Routes,
        (Some(Strength::Tree), Method::Direct | Method::Orbit) => {
            let found = if options.method == Method::Direct { "direct" } else { "orbit" };
            return Err(Refusal::BadParameter {
                name: "method",
                found: format!("{found} with strength tree"),
                allowed: "dw or mirrored, or strength relax or dup",
            });
        }
        (Some(Strength::Tree), _) => Figures::Routes,
        (Some(_), Method::Dw | Method::Mirrored) => Figures::Columns,
        (Some(_), _) => Figures::Program,
    };
    let sides = Sides::of(instance.network.clone());
    let marks = instance.marks();
    let elements = match options.method {
        Method::Direct | Method::Dw => vec![Automorphism::identity(&sides.out)],
        _ => regular(&sides.out, &marks, &instance.roots(), &machines(instance), run)?,
    };
    let folding = match Folding::of(&sides.out, &instance.demand, elements) {
        // Roots of several blocks are not told apart by where they are.
        Err(Refusal::NotAnAutomorphism { .. }) => {
            Folding::of(&sides.out, &instance.demand, vec![Automorphism::identity(&sides.out)])?
        }
        other => other?,
    };
    let unit = instance.unit().to_f64() / sides.out.scale;
    let mut solved = Solved {
        strength,
        method: options.method,
        latency: Bounded { value: 0.0, lower: 0.0, exact: None },
        cost: None,
        iterations: Vec::new(),
        variables: 0,
        is_late: false,
        folding,
        mixed: Vec::new(),
        prices: Vec::new(),
        cost_prices: Vec::new(),
    };
    match figures {
        Figures::Program => solved.by_program(instance, &sides, &marks, options, unit, run)?,
        Figures::Columns => solved.by_columns(&sides, options, unit, run)?,
        Figures::Routes => {}
    }
    if figures == Figures::Routes || (options.routes && strength != Some(Strength::Relax)) {
        solved.by_routes(instance, &sides, options, figures != Figures::Routes, unit, run)?;
    }
    Ok(solved)
}

/// By node the number of its machine.
fn machines(instance: &Instance<'_>) -> Vec<Option<u32>> {
    let mut known: Vec<&str> = Vec::new();
    let nodes = instance.asked.topology.nodes().iter();
    nodes
        .map(|node| {
            let machine = node.machine.as_deref()?;
            let place = known.iter().position(|known| *known == machine).unwrap_or_else(|| {
                known.push(machine);
                known.len() - 1
            });
            Some(place as u32)
        })
        .collect()
}

impl Solved {
    /// The figures by one program over links.
    fn by_program(
        &mut self,
        instance: &Instance<'_>,
        sides: &Sides,
        marks: &[u32],
        options: &Options,
        unit: f64,
        run: &Run<'_>,
    ) -> Result<(), Refusal> {
        let views = self.views(sides);
        self.method = match options.method {
            Method::Direct => Method::Direct,
            _ => Method::Orbit,
        };
        let merging = match self.method {
            Method::Direct => Merging::nothing(&views, &instance.demand),
            _ => Merging::of(&views, &sides.out, &instance.demand, marks, run)?,
        };
        let balance = self.strength == Some(Strength::Relax);
        let found = relaxed::solve(&views, &merging, balance, !options.latency_only, run)?;
        self.latency = known(found.latency * unit, found.latency * unit);
        self.cost = found.cost.map(|cost| known(cost, cost));
        self.variables = found.columns;
        self.prices.extend(exact::prices(&found.prices));
        if !found.cost_prices.is_empty() {
            self.cost_prices.extend(exact::prices(&found.cost_prices));
        }
        Ok(())
    }

    /// How blocks see the fabric at this strength.
    fn views(&self, sides: &Sides) -> Views {
        let apart = self.strength == Some(Strength::Dup);
        let view = |network: &Network| if apart { View::apart(network) } else { View::plain(network) };
        Views { out: view(&sides.out), inward: view(&sides.inward) }
    }

    /// The figures by columns that are priced by links.
    fn by_columns(&mut self, sides: &Sides, options: &Options, unit: f64, run: &Run<'_>) -> Result<(), Refusal> {
        let (folding, views) = (self.folding.clone(), self.views(sides));
        let pricing = Pricing::Links { views: &views, balance: self.strength == Some(Strength::Relax) };
        let mut master = Master::new(sides, &folding, pricing, options.tolerance);
        let staged = self.staged(&mut master, options, unit, run)?;
        self.prices.extend(exact::prices(&staged.time.prices));
        if let Some(cost) = &staged.cost {
            self.cost_prices.extend(exact::prices(&cost.prices));
        }
        Ok(())
    }

    /// Both stages of a master, and their figures.
    fn staged(
        &mut self,
        master: &mut Master<'_>,
        options: &Options,
        unit: f64,
        run: &Run<'_>,
    ) -> Result<Stages, Refusal> {
        let time = master.least_time(run)?;
        let cost = match options.latency_only {
            true => None,
            false => Some(master.least_cost(time.upper, run)?),
        };
        self.method = if self.folding.elements.len() > 1 { Method::Mirrored } else { Method::Dw };
        self.latency = known(time.upper * unit, time.lower * unit);
        self.cost = cost.as_ref().map(|cost| known(cost.upper, cost.lower));
        self.is_late |= run.is_late() && !(time.closed && cost.as_ref().is_none_or(|cost| cost.closed));
        self.variables = self.variables.max(master.columns.len() + 1);
        let rounds = master.iterations.drain(..).map(|round| match round.of_cost {
            true => round,
            false => Iteration { lower: round.lower * unit, upper: round.upper * unit, ..round },
        });
        self.iterations.extend(rounds);
        Ok(Stages { time, cost })
    }

    /// Routes by columns and prices; the figures too, where there are none yet.
    fn by_routes(
        &mut self,
        instance: &Instance<'_>,
        sides: &Sides,
        options: &Options,
        has_figures: bool,
        unit: f64,
        run: &Run<'_>,
    ) -> Result<(), Refusal> {
        let folding = self.folding.clone();
        let mut master = Master::new(sides, &folding, Pricing::Routes, options.tolerance);
        let known = (self.method, self.latency.clone(), self.cost.clone());
        let Stages { time, cost } = self.staged(&mut master, options, unit, run)?;
        if has_figures {
            (self.method, self.latency, self.cost) = known;
        }
        let finished =
            Finish { instance, folding: &folding, columns: &master.columns, time: &time, cost: cost.as_ref() };
        match finished.exactly(run) {
            Some(exact) => {
                self.mixed = exact.mixed;
                self.prices.push(exact.prices);
                self.cost_prices.extend(exact.cost_prices);
                if !has_figures && time.closed {
                    self.latency.exact = Some(&exact.time * &instance.unit());
                    if let Some((cost, exact)) = self.cost.as_mut().zip(exact.cost) {
                        cost.exact = Some(exact);
                    }
                }
            }
            None => self.mixed = finished.rounded(),
        }
        self.prices.extend(exact::prices(&time.prices));
        if let Some(cost) = &cost {
            self.cost_prices.extend(exact::prices(&cost.prices));
        }
        Ok(())
    }
}

/// Both stages of a master.
struct Stages {
    time: Staged,
    cost: Option<Staged>,
}

/// A value, as a fraction where it looks like one and nothing is open.
pub(super) fn known(value: f64, lower: f64) -> Bounded {
    let closed = value - lower <= 1e-6 * value.abs();
    let exact = exact::recognise(value).filter(|_| closed);
    // Written as its fraction is, without what a solver's last digits say.
    let value = exact.as_ref().map_or(value, Rational::to_f64);
    Bounded { value, lower: lower.min(value), exact }
}
