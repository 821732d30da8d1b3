//! `sluice plan fluid-lp --model qt|cm1|cm2|cm3`: the models with a time axis, their figures, and plans of steps for whole
//! pieces.

use std::process::ExitCode;

use serde::Serialize;
use sluice_formats::problem::{E_MISSING, E_RANGE, Problem, Problems};
use sluice_formats::quantity::{self, Rational, Unit};
use sluice_formats::topology::Topology;
use sluice_plan::plan::{Claim, Collective};
use sluice_planners::fluid::rounds::Rounds;
use sluice_planners::fluid::to_plan::{Made, Proofs};
use sluice_planners_lp::fluid::solve::{Bounded, Strength};
use sluice_planners_lp::fluid::timed::{Model, Options, Solved, solve};

use super::solved::{bounds, command, instance, proof, strength, wanted};
use crate::failure::Failure;
use crate::global::Global;
use crate::output;
use crate::plan::LIMIT;
use crate::plan::args::{FluidLpArgs, FluidMethod, TimedModel};
use crate::plan::made::{Written, deliver, flags, made_by, on_fabric_with_ends};
use crate::plan::shown::Head;

/// The parameters that are flags.
const PARAMETERS: [&str; 7] = ["chunks", "collective", "horizon", "participants", "root", "step_length", "strength"];

/// What planning came to.
struct Done {
    collective: Collective,
    solved: Solved,
    made: Option<Made>,
    ignored: Vec<&'static str>,
}

/// Refuses flags of steps where there are none.
pub fn refuse_without(args: &FluidLpArgs) -> Result<(), Problems> {
    let time = &args.time;
    let given = [
        ("--horizon", time.horizon.map(|steps| steps.to_string())),
        ("--step-length", time.step_length.clone()),
        ("--chunks", time.chunks.map(|chunks| chunks.to_string())),
    ];
    match given.into_iter().find_map(|(flag, value)| Some((flag, value?))) {
        Some((flag, value)) => {
            let error = Problem::new(E_RANGE, flag, "the model q has no steps").found(value);
            Err(error.allowed("--model qt, cm1, cm2 or cm3").into())
        }
        None => Ok(()),
    }
}

/// `sluice plan fluid-lp` with a time axis.
pub fn run(global: &Global, args: &FluidLpArgs) -> Result<ExitCode, Failure> {
    refuse_other(args)?;
    let demands = args.demands.as_deref().map(wanted).transpose()?;
    let (read, done, spent) = on_fabric_with_ends(global, &args.fabric, &args.planning, |read, run, watch| {
        let flagged = |errors| flags(errors, &PARAMETERS);
        let instance = instance(read, args, demands)?;
        let options = options(args, &read.topology)?;
        let solved = solve(&instance, &options, run).map_err(|refusal| flagged(instance.refused(&refusal)))?;
        let proofs = Proofs { prices: &solved.prices, cost_prices: &[], is_late: solved.is_late };
        let schedule = solved.rounds.as_ref().filter(|_| Rounds::can_be_planned(&instance));
        let length = solved.step_length.as_ref().and_then(|length| length.exact.as_ref());
        let mut made = match schedule.zip(length.and_then(|length| length.checked_div(&instance.unit()))) {
            Some((rounds, length)) => Some(rounds.plan(&instance, &solved.blocks, &length, proofs).map_err(flagged)?),
            None => None,
        };
        if let Some(made) = &mut made {
            let took = args.planning.timing.then(|| watch.elapsed());
            made.plan.body.made_by = Some(made_by(command(args), took));
        }
        let ignored = instance.asked.ignored.clone();
        Ok(Done { collective: instance.asked.collective, solved, made, ignored })
    })?;
    let out = args.planning.out.as_deref();
    let written = match &done.made {
        Some(made) => deliver(out, || made.plan.to_text())?,
        None => {
            if out.is_some() {
                eprintln!("warning: {}", without_plan(args));
            }
            Some(Written::default())
        }
    };
    let status = if done.solved.is_late { ExitCode::from(LIMIT) } else { ExitCode::SUCCESS };
    let Some(written) = written else { return Ok(status) };
    if !global.quiet {
        let empty = Claim::default();
        let claim = done.made.as_ref().map_or((&empty, None), |made| (&made.plan.body.claim, Some(&made.plan.names)));
        let head = Head::new("fluid-lp", done.collective, claim, written.0)?;
        let shown = Shown::new(head, args.time.model, &done, spent.total.as_secs_f64());
        output::one(global, &shown, || shown.text(&read.topology, &done))?;
    }
    Ok(status)
}

/// Why there is no plan.
fn without_plan(args: &FluidLpArgs) -> &'static str {
    match args.time.model {
        TimedModel::Q | TimedModel::Qt | TimedModel::Cm3 => {
            "a fluid in steps has no plan; --model cm1 or cm2 makes one of whole pieces"
        }
        TimedModel::Cm1 | TimedModel::Cm2 => {
            "plans of steps are of collectives whose participants can all store; these are figures alone"
        }
    }
}

/// Refuses flags that mean nothing here.
fn refuse_other(args: &FluidLpArgs) -> Result<(), Problems> {
    let word = args.time.model.word();
    let refuse = |flag: &str, allowed: &str| {
        let error = Problem::new(E_RANGE, flag, "programs with a time axis are solved whole");
        Err(error.found(format!("--model {word}")).allowed(allowed.to_owned()).into())
    };
    if args.method != FluidMethod::Auto {
        return refuse("--method", "nothing, or auto");
    }
    if args.picture.is_some() {
        return refuse("--picture", "nothing: there are no rounds to draw");
    }
    if args.steps.is_some() {
        return refuse("--steps", "nothing: --horizon says how many steps there are");
    }
    match (args.time.model, args.time.chunks) {
        (TimedModel::Cm2, None) => {
            let error = Problem::new(E_MISSING, "--chunks", "cm2 cuts data into pieces");
            Err(error.allowed("a number of pieces, 1 or more").into())
        }
        (TimedModel::Qt | TimedModel::Cm1 | TimedModel::Cm3, Some(chunks)) => {
            let error = Problem::new(E_RANGE, "--chunks", format!("{word} does not cut data into pieces"));
            Err(error.found(chunks.to_string()).allowed("--model cm2").into())
        }
        _ => Ok(()),
    }
}

fn options(args: &FluidLpArgs, topology: &Topology) -> Result<Options, Problems> {
    Ok(Options {
        model: match args.time.model {
            TimedModel::Q | TimedModel::Qt => Model::Oblivious,
            TimedModel::Cm1 => Model::Pieces(1),
            TimedModel::Cm2 => Model::Pieces(args.time.chunks.unwrap_or(1)),
            TimedModel::Cm3 => Model::Fluid,
        },
        strength: strength(args),
        steps: args.time.horizon,
        step_length: args.time.step_length.as_deref().map(|text| step_length(text, topology)).transpose()?,
        latency_only: args.latency_only,
    })
}

/// A time for a unit of data: with a unit where capacities have one.
fn step_length(text: &str, topology: &Topology) -> Result<Rational, Problems> {
    let refuse = |message: String, allowed: &str| {
        Err(Problem::new(E_RANGE, "--step-length", message).found(text).allowed(allowed.to_owned()).into())
    };
    if topology.unit() == Unit::Abstract {
        return match Rational::parse(text) {
            Ok(length) => Ok(length),
            Err(_) => refuse("capacities have no unit, and so has no time".into(), "a number: 4, 0.1 or 7/2"),
        };
    }
    match quantity::latency(text) {
        Ok((length, true)) => Ok(length),
        Ok((_, false)) => refuse("a time has a unit".into(), "a time for 1 GB: 40ms, 1.25us, 0.5s"),
        Err(misread) => refuse(format!("not {}", misread.what), misread.allowed),
    }
}

/// The results, under their fixed names.
#[derive(Debug, Serialize)]
struct Shown {
    #[serde(flatten)]
    head: Head,
    model: &'static str,
    /// The time of the whole: R_T, or that of all steps.
    #[serde(rename = "R")]
    time: f64,
    #[serde(rename = "R_exact")]
    time_exact: Option<String>,
    #[serde(rename = "R_lower_bound")]
    time_lower: f64,
    /// Steps; of `qt` links that a way may have.
    steps: usize,
    step_length: Option<f64>,
    step_length_exact: Option<String>,
    /// Steps times their length; absent where steps have none.
    latency: Option<f64>,
    cost: Option<f64>,
    cost_exact: Option<String>,
    cost_lower_bound: Option<f64>,
    strength: Option<&'static str>,
    chunks: Option<u64>,
    variables: usize,
    /// Sends of the plan.
    sends: Option<usize>,
    seconds: f64,
}

impl Shown {
    fn new(head: Head, model: TimedModel, done: &Done, seconds: f64) -> Shown {
        let solved = &done.solved;
        let exact = |bounded: &Bounded| bounded.exact.as_ref().map(Rational::to_string);
        let (length, cost) = (solved.step_length.as_ref(), solved.cost.as_ref());
        Shown {
            head,
            model: model.word(),
            time: solved.latency.value,
            time_exact: exact(&solved.latency),
            time_lower: solved.latency.lower,
            steps: solved.steps,
            step_length: length.map(|length| length.value),
            step_length_exact: length.and_then(exact),
            latency: length.map(|_| solved.latency.value),
            cost: cost.map(|cost| cost.value),
            cost_exact: cost.and_then(exact),
            cost_lower_bound: cost.map(|cost| cost.lower),
            strength: solved.strength.map(Strength::word),
            chunks: solved.rounds.as_ref().map(|rounds| rounds.pieces),
            variables: solved.variables,
            sends: done.made.as_ref().map(|made| made.routes),
            seconds,
        }
    }

    fn text(&self, topology: &Topology, done: &Done) -> String {
        let name = if topology.name().is_empty() { "this fabric" } else { topology.name() };
        let mut text = format!("{} on {name}\n", self.head.collective);
        let mut line = |what: &str, said: String| text += &format!("  {what:<12} {said}\n");
        let unit = if topology.unit() == Unit::Abstract { "" } else { " s/GB" };
        let solved = &done.solved;
        match &solved.step_length {
            Some(length) => {
                line("steps", format!("{} of {}", self.steps, bounds(length, unit)));
                line("latency", bounds(&solved.latency, unit));
            }
            None => line("R", format!("{}, over at most {} links", bounds(&solved.latency, unit), self.steps)),
        }
        if let Some(cost) = &solved.cost {
            line("cost", bounds(cost, ""));
        }
        let pieces = match self.chunks {
            Some(1) => ", data whole".to_owned(),
            Some(chunks) => format!(", data in {chunks} pieces"),
            None => self.strength.map_or(String::new(), |strength| format!(", {strength}")),
        };
        line("model", format!("{}{pieces}", self.model.to_uppercase()));
        line("program", format!("{} columns", self.variables));
        if let Some(made) = &done.made {
            line("plan", proof(made, "sends"));
        }
        text + &self.head.closing(&done.ignored.join(", "), self.seconds)
    }
}
