//! Programs with a time axis: the shortest steps for a number of steps, of a fluid or of whole pieces; and the least time
//! where every way has at most so many links.
//!
//! The length of a step is a variable, so one program finds the shortest for a number of steps. Numbers of steps are tried
//! one after the other, as far as a better one can be.

mod places;
pub mod program;

use self::program::{Built, Goal, Setting, Through};
use super::solve::{self, Bounded, Method, Strength};
use super::stage::{self, Ended};
use sluice_formats::quantity::Rational;
use sluice_planners::fluid::demand::{Block, Shape};
use sluice_planners::fluid::instance::Instance;
use sluice_planners::fluid::refusal::Refusal;
use sluice_planners::fluid::rounds::{self, Crossing, Rounds};
use sluice_planners::fluid::timed;
use sluice_planners::fluid::view::View;
use sluice_planners::{Run, Stage};
use sluice_solver::Solution;

/// Columns above which the interior point method is faster than simplex.
const MAX_SIMPLEX_COLUMNS: usize = 60_000;
/// How much within a time counts as within it.
const SLACK: f64 = 1e-9;
/// By how much, relative, a number of steps must be better than one before it.
const BETTER: f64 = 1e-7;

/// How the time axis is cut, and what may be cut along it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// Limits count all steps together: only the number of links on a way is limited (Q_T).
    Oblivious,
    /// Steps, data is a fluid (CM3).
    Fluid,
    /// Steps, a block's data is so many pieces (CM1: one; CM2).
    Pieces(u64),
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// How the time axis is cut.
    pub model: Model,
    /// Of a fluid: how nodes are dealt with that cannot copy; `None`: balanced. Pieces are exact.
    pub strength: Option<Strength>,
    /// Steps; `None`: as many as are best, or as many of a given length as must be.
    pub steps: Option<usize>,
    /// Length of a step, in the unit of results; `None`: as short as can be.
    pub step_length: Option<Rational>,
    /// Without the second objective.
    pub latency_only: bool,
}

/// Figures, and a schedule where there are pieces.
#[derive(Clone, Debug)]
pub struct Solved {
    /// The strength of the figures; `None` where nothing is relaxed.
    pub strength: Option<Strength>,
    /// Steps, or links that a way may have.
    pub steps: usize,
    /// Length of a step; `None` where steps have none.
    pub step_length: Option<Bounded>,
    /// All steps together, or R.
    pub latency: Bounded,
    /// The least cost at that.
    pub cost: Option<Bounded>,
    /// Columns of the largest program.
    pub variables: usize,
    /// Did time run out before the best was proved?
    pub is_late: bool,
    /// The schedule, of pieces.
    pub rounds: Option<Rounds>,
    /// The blocks that it moves.
    pub blocks: Vec<Block>,
    /// Prices of the limits that bound every schedule; of pieces.
    pub prices: Vec<Vec<Rational>>,
}

/// The least time of a model.
///
/// # Errors
/// `BadParameter`; `HorizonTooShort`, `Infeasible` for too few steps and too short ones; `TooLarge`, `Solver`, `Stopped`.
pub fn solve(instance: &Instance<'_>, options: &Options, run: &Run<'_>) -> Result<Solved, Refusal> {
    allowed(options)?;
    let (network, blocks) = timed::side(instance)?;
    let trees = blocks.iter().any(|block| block.shape == Shape::Tree);
    let strength =
        (trees && !matches!(options.model, Model::Pieces(_))).then(|| options.strength.unwrap_or(Strength::Relax));
    let through = match (options.model, strength) {
        (Model::Pieces(_), _) => Through::Counted,
        (_, Some(Strength::Dup)) => Through::Apart,
        _ => Through::Balanced,
    };
    let plain = View::plain(&network);
    let view = if through == Through::Balanced { plain.clone() } else { View::apart(&network) };
    let setting = Setting {
        network: &network,
        view: &view,
        plain: &plain,
        blocks: &blocks,
        through,
        pieces: match options.model {
            Model::Pieces(pieces) => Some(pieces),
            Model::Oblivious | Model::Fluid => None,
        },
        together: options.model == Model::Oblivious,
    };
    if let Some(steps) = options.steps {
        timed::are_enough(&network, &blocks, steps)?;
    }
    let unit = instance.unit().to_f64() / network.scale;
    let mut search = Search { instance, options, setting, unit, run, variables: 0, prices: Vec::new() };
    let mut solved = match (options.steps, &options.step_length) {
        (Some(steps), None) => search.shortest(steps)?,
        (Some(steps), Some(length)) => match search.within(steps, length)? {
            Some(solved) => solved,
            None => return Err(Refusal::Infeasible { needed: search.shortest(steps)?.length() }),
        },
        (None, Some(length)) => search.of_length(length)?,
        (None, None) => search.best()?,
    };
    if solved.rounds.is_some() && search.prices.is_empty() {
        search.bound()?;
    }
    solved.strength = strength;
    solved.variables = search.variables;
    solved.prices = search.prices;
    solved.blocks = blocks.clone();
    Ok(solved)
}

/// Can there be such options?
fn allowed(options: &Options) -> Result<(), Refusal> {
    let bad = |name, found: String, allowed| Err(Refusal::BadParameter { name, found, allowed });
    let of_pieces = matches!(options.model, Model::Pieces(_));
    match options {
        Options { model: Model::Pieces(0), .. } => bad("chunks", "0".into(), "1 or more"),
        Options { step_length: Some(length), .. } if !length.is_positive() => {
            bad("step_length", length.to_string(), "more than 0")
        }
        Options { model: Model::Oblivious, step_length: Some(length), .. } => {
            bad("step_length", length.to_string(), "nothing with a model whose steps have no length")
        }
        Options { strength: Some(Strength::Tree), .. } => {
            bad("strength", "tree".into(), "relax or dup with a time axis: trees know no steps")
        }
        Options { strength: Some(strength), .. } if of_pieces => {
            bad("strength", strength.word().to_lowercase(), "nothing with pieces, which are exact")
        }
        Options { steps: None, step_length: None, .. } if !of_pieces => {
            bad("horizon", "none".into(), "a number of steps: more of them never take longer in all")
        }
        _ => Ok(()),
    }
}

struct Search<'a> {
    instance: &'a Instance<'a>,
    options: &'a Options,
    setting: Setting<'a>,
    /// What one of the programs' time is in results.
    unit: f64,
    run: &'a Run<'a>,
    variables: usize,
    prices: Vec<Vec<Rational>>,
}

/// A value of a program with what proves it.
struct Value {
    solution: Solution,
    closed: bool,
}

impl Solved {
    fn new(steps: usize) -> Solved {
        let nothing = Bounded { value: 0.0, lower: 0.0, exact: Some(Rational::ZERO) };
        Solved {
            strength: None,
            steps,
            step_length: None,
            latency: nothing,
            cost: None,
            variables: 0,
            is_late: false,
            rounds: None,
            blocks: Vec::new(),
            prices: Vec::new(),
        }
    }

    fn length(&self) -> f64 {
        self.step_length.as_ref().map_or(0.0, |length| length.value)
    }
}

impl Search<'_> {
    /// A program solved; `None`: it has no solution.
    fn program(&mut self, steps: usize, goal: Goal) -> Result<Option<(Built, Value)>, Refusal> {
        timed::fits(&self.setting.view.network, steps)?;
        let mut built = Built::new(&self.setting, steps, goal)?;
        self.variables = self.variables.max(built.columns);
        let small = built.columns <= MAX_SIMPLEX_COLUMNS;
        let method = if small { sluice_solver::Method::Simplex } else { sluice_solver::Method::InteriorPoint };
        let what = if matches!(goal, Goal::Time(_)) { "time" } else { "cost" };
        self.run.tell(Stage::Program, 0, 0, format_args!("{steps} steps, {} columns, {what}", built.columns));
        Ok(match stage::ended(&mut built.program, method, self.run)? {
            Ended::Best(solution) => Some((built, Value { solution, closed: true })),
            Ended::Late(solution) if self.setting.pieces.is_some() => Some((built, Value { solution, closed: false })),
            Ended::Late(_) => return Err(sluice_planners::Stopped::TimeLimit.into()),
            Ended::Nothing => None,
        })
    }

    /// The shortest steps for a number of them.
    fn shortest(&mut self, steps: usize) -> Result<Solved, Refusal> {
        let found = self.time(steps, f64::INFINITY)?;
        let found = found.ok_or_else(|| Refusal::Solver { status: "a program without a solution".into() })?;
        self.cheapest(found)
    }

    /// The shortest steps below a length, in the programs' time; without the second objective.
    fn time(&mut self, steps: usize, below: f64) -> Result<Option<Solved>, Refusal> {
        let Some((built, value)) = self.program(steps, Goal::Time(below))? else { return Ok(None) };
        let Value { solution, closed } = value;
        let mut solved = Solved { is_late: !closed, ..Solved::new(steps) };
        let lower = if closed { solution.objective } else { solution.bound.max(0.0) };
        if self.setting.pieces.is_some() {
            let rounds = self.rounds(&built, &solution, steps)?;
            let exact = &rounds.step_length(self.instance, self.setting.blocks) * &self.instance.unit();
            solved.last(exact, lower * self.unit, closed);
            solved.rounds = Some(rounds);
        } else if self.setting.together {
            solved.latency = solve::known(solution.objective * self.unit, lower * self.unit);
        } else {
            let length = solve::known(solution.objective * self.unit, lower * self.unit);
            solved.latency = length.times(steps);
            solved.step_length = Some(length);
        }
        Ok(Some(solved))
    }

    /// The least cost at a time that was found.
    fn cheapest(&mut self, mut solved: Solved) -> Result<Solved, Refusal> {
        if self.options.latency_only {
            return Ok(solved);
        }
        let time = solved.step_length.as_ref().unwrap_or(&solved.latency).value / self.unit;
        let late = match self.program(solved.steps, Goal::Cost(time * (1.0 + SLACK))) {
            Ok(Some((built, value))) => return self.cost(solved, &built, &value),
            // What was found before is a schedule too.
            Ok(None) if self.setting.pieces.is_some() => false,
            Err(Refusal::Stopped(sluice_planners::Stopped::TimeLimit)) if solved.rounds.is_some() => true,
            Ok(None) => return Err(Refusal::Solver { status: "a program without a solution".into() }),
            Err(refusal) => return Err(refusal),
        };
        solved.is_late |= late;
        if let Some(rounds) = &solved.rounds {
            let cost = rounds.cost(self.instance, self.setting.blocks);
            solved.cost = Some(Bounded { value: cost.to_f64(), lower: 0.0, exact: Some(cost) });
        }
        Ok(solved)
    }

    /// With the cost that a program found, and its schedule.
    fn cost(&self, mut solved: Solved, built: &Built, value: &Value) -> Result<Solved, Refusal> {
        let Value { solution, closed } = value;
        let lower = if *closed { solution.objective } else { solution.bound.max(0.0) };
        solved.is_late |= !closed;
        if self.setting.pieces.is_some() {
            let rounds = self.rounds(built, solution, solved.steps)?;
            let cost = rounds.cost(self.instance, self.setting.blocks);
            let lower = if *closed { cost.to_f64() } else { lower };
            solved.cost = Some(Bounded { value: cost.to_f64(), lower, exact: Some(cost) });
            solved.rounds = Some(rounds);
        } else {
            solved.cost = Some(solve::known(solution.objective, lower));
        }
        Ok(solved)
    }

    /// Steps of a given length; `None`: they are too short.
    fn within(&mut self, steps: usize, length: &Rational) -> Result<Option<Solved>, Refusal> {
        let most = length.to_f64() / self.unit * (1.0 + SLACK);
        let goal = if self.options.latency_only { Goal::Time(most) } else { Goal::Cost(most) };
        let Some((built, value)) = self.program(steps, goal)? else { return Ok(None) };
        let mut solved = Solved::new(steps);
        solved.last(length.clone(), length.to_f64(), true);
        if self.options.latency_only {
            if self.setting.pieces.is_some() {
                solved.rounds = Some(self.rounds(&built, &value.solution, steps)?);
            }
            return Ok(Some(solved));
        }
        self.cost(solved, &built, &value).map(Some)
    }

    /// The fewest steps of a given length.
    fn of_length(&mut self, length: &Rational) -> Result<Solved, Refusal> {
        let given = length.to_f64() / self.unit;
        let first = self.first()?;
        if let Some(pieces) = self.setting.pieces {
            let shortest = timed::shortest_step(self.setting.network, self.setting.blocks, pieces);
            if given * (1.0 + SLACK) < shortest {
                return Err(Refusal::Infeasible { needed: shortest * self.unit });
            }
        }
        let least = (self.bound()? / given * (1.0 - SLACK)).ceil();
        let mut steps = timed::fewest_steps(self.setting.network, self.setting.blocks, first.max(least as usize))?;
        loop {
            if let Some(solved) = self.within(steps, length)? {
                return Ok(solved);
            }
            steps = timed::fewest_steps(self.setting.network, self.setting.blocks, steps + 1)?;
        }
    }

    /// The number of steps with the least time in all, of pieces.
    fn best(&mut self) -> Result<Solved, Refusal> {
        let pieces = self.setting.pieces.unwrap_or(1);
        let shortest = timed::shortest_step(self.setting.network, self.setting.blocks, pieces);
        let bound = self.bound()?;
        let mut steps = self.first()?;
        let mut best: Option<Solved> = None;
        loop {
            let time = best.as_ref().map_or(f64::INFINITY, |best| best.latency.value / self.unit) * (1.0 - BETTER);
            // Nothing is below the bound, and no step below that of one piece.
            if time <= bound || (shortest > 0.0 && steps as f64 * shortest > time) {
                break;
            }
            match self.time(steps, time / steps as f64) {
                Ok(found) => best = found.or(best),
                Err(refusal) => match (&mut best, &refusal) {
                    (Some(best), Refusal::Stopped(sluice_planners::Stopped::TimeLimit) | Refusal::TooLarge { .. }) => {
                        best.is_late = true;
                        break;
                    }
                    _ => return Err(refusal),
                },
            }
            if let Some(best) = best.as_mut().filter(|best| best.is_late || best.latency.value == 0.0) {
                best.is_late = best.latency.value > 0.0;
                break;
            }
            steps = timed::fewest_steps(self.setting.network, self.setting.blocks, steps + 1)?;
        }
        let mut best = best.ok_or_else(|| Refusal::Solver { status: "a program without a solution".into() })?;
        best.latency.lower = if best.is_late { bound * self.unit } else { best.latency.value };
        self.cheapest(best)
    }

    /// The fewest steps that there can be.
    fn first(&self) -> Result<usize, Refusal> {
        timed::fewest_steps(self.setting.network, self.setting.blocks, 0)
    }

    /// What no schedule is below, in the programs' time: the bound of the program without time.
    fn bound(&mut self) -> Result<f64, Refusal> {
        let options = solve::Options {
            strength: Some(Strength::Relax),
            method: Method::Direct,
            latency_only: true,
            routes: false,
            ..solve::Options::default()
        };
        let solved = solve::solve(self.instance, &options, self.run)?;
        self.prices = solved.prices;
        Ok(solved.latency.value / self.unit)
    }

    /// The schedule that a solution is.
    fn rounds(&self, built: &Built, solution: &Solution, steps: usize) -> Result<Rounds, Refusal> {
        let Setting { network, view, blocks, .. } = self.setting;
        let pieces = self.setting.pieces.unwrap_or(1);
        let mut crossings = Vec::new();
        let mut so_far: Vec<u64> = vec![0; blocks.len()];
        for (number, crossed) in built.crossed(&solution.values) {
            let block = &blocks[number];
            let piece = so_far[number];
            so_far[number] += 1;
            match block.shape {
                Shape::Tree => {
                    let sends = rounds::of_tree(view, network, block, &crossed)?;
                    let number = number as u32;
                    let crossing = |(step, edge)| Crossing { step, block: number, end: None, piece, edge };
                    crossings.extend(sends.into_iter().map(crossing));
                }
                Shape::Paths => {
                    let sends = rounds::of_paths(network, block, pieces, crossed)?;
                    crossings.extend(sends.into_iter().map(|send| Crossing { block: number as u32, ..send }));
                }
            }
        }
        crossings.sort_unstable();
        Ok(Rounds { steps, pieces, crossings })
    }
}

impl Solved {
    /// So long steps; the lower bound of one is as long, or this.
    fn last(&mut self, length: Rational, lower: f64, closed: bool) {
        let value = length.to_f64();
        let length = Bounded { value, lower: if closed { value } else { lower }, exact: Some(length) };
        self.latency = length.times(self.steps);
        self.step_length = Some(length);
    }
}

impl Bounded {
    /// So many of it.
    fn times(&self, times: usize) -> Bounded {
        let exact = self.exact.as_ref().map(|exact| exact * &Rational::from(times as u64));
        let value = exact.as_ref().map_or(self.value * times as f64, Rational::to_f64);
        Bounded { value, lower: (self.lower * times as f64).min(value), exact }
    }
}
