//! `sluice plan fluid-lp`: reads a fabric, finds the least time and the least cost of any schedule, writes trees or paths that
//! reach them, shows the figures.

use std::process::ExitCode;

#[cfg(feature = "lp")]
use sluice_plan::plan::Collective;

use super::args::FluidLpArgs;
use crate::failure::Failure;
use crate::global::Global;

/// Without a solver there is nothing to find.
#[cfg(not(feature = "lp"))]
pub fn run(_: &Global, _: &FluidLpArgs) -> Result<ExitCode, Failure> {
    use sluice_formats::problem::{E_RANGE, Problem};
    let error = Problem::new(E_RANGE, "fluid-lp", "this sluice was built without a solver");
    Err(error.allowed("nothing").help("build it with the feature `lp`").into())
}

#[cfg(feature = "lp")]
mod convergence;
#[cfg(feature = "lp")]
mod steps;
#[cfg(feature = "lp")]
mod timed;
#[cfg(feature = "lp")]
pub use solved::run;

/// What demands in a file make is a collective of its own.
#[cfg(feature = "lp")]
fn collective(args: &FluidLpArgs) -> Collective {
    args.collective.unwrap_or(Collective::Custom)
}

#[cfg(feature = "lp")]
mod solved {
    use super::*;
    use crate::output;
    use crate::plan::LIMIT;
    use crate::plan::args::{FluidMethod, FluidStrength, TimedModel};
    use crate::plan::files;
    use crate::plan::form::Read;
    use crate::plan::made::{Written, deliver, flags, made_by, on_fabric_with_ends};
    use crate::plan::shown::{Head, short};
    use serde::Serialize;
    use sluice_formats::problem::{E_RANGE, Problem, Problems};
    use sluice_formats::quantity::{Rational, Unit};
    use sluice_formats::topology::Topology;
    use sluice_plan::plan::{Claim, Demands, MAX_DEMANDS};
    use sluice_planners::Request;
    use sluice_planners::fluid::ends;
    use sluice_planners::fluid::instance::Instance;
    use sluice_planners::fluid::stepped::make_steps;
    use sluice_planners::fluid::to_plan::{Made, Mixing, make};
    use sluice_planners::teccl::demand::Wanted;
    use sluice_planners_lp::fluid::solve::{Bounded, Method, Options, Solved, Strength, solve};

    /// The parameters that are flags.
    const PARAMETERS: [&str; 6] = ["collective", "method", "participants", "root", "steps", "strength"];

    /// What planning came to: figures, and a plan where there is one.
    struct Done {
        collective: Collective,
        solved: Solved,
        made: Option<Made>,
        steps: Option<steps::Steps>,
        ignored: Vec<&'static str>,
    }

    pub fn run(global: &Global, args: &FluidLpArgs) -> Result<ExitCode, Failure> {
        if args.time.model != TimedModel::Q {
            return timed::run(global, args);
        }
        timed::refuse_without(args)?;
        steps::fitting(args)?;
        let wanted = args.demands.as_deref().map(wanted).transpose()?;
        let (read, mut done, spent) = on_fabric_with_ends(global, &args.fabric, &args.planning, |read, run, watch| {
            let flagged = |errors| flags(errors, &PARAMETERS);
            let instance = instance(read, args, wanted)?;
            let options = options(args);
            let solved = solve(&instance, &options, run).map_err(|refusal| flagged(instance.refused(&refusal)))?;
            let plans = !solved.mixed.is_empty();
            let mixing = Mixing {
                folding: &solved.folding,
                mixed: solved.mixed.clone(),
                prices: solved.prices.clone(),
                cost_prices: solved.cost_prices.clone(),
                is_late: solved.is_late,
            };
            let mut steps = None;
            let mut made = match args.steps.filter(|_| plans) {
                None => plans.then(|| make(&instance, &mixing)).transpose().map_err(flagged)?,
                Some(chunks) => {
                    let stepped = make_steps(&instance, &mixing, chunks).map_err(flagged)?;
                    steps = Some(steps::Steps::new(&instance, &stepped.figures));
                    Some(stepped.made)
                }
            };
            if let Some(made) = &mut made {
                let took = args.planning.timing.then(|| watch.elapsed());
                made.plan.body.made_by = Some(made_by(command(args), took));
            }
            let collective = instance.asked.collective;
            Ok(Done { collective, solved, made, steps, ignored: instance.asked.ignored.clone() })
        })?;
        let topology = read.topology;
        if let Some(path) = &args.picture {
            if done.solved.iterations.is_empty() {
                let error = Problem::new(E_RANGE, "--picture", "one program over links has no rounds to draw");
                let error = error.found(done.solved.method.word()).allowed("method dw or mirrored");
                return Err(error.help("leave --picture out, or add --method mirrored").into());
            }
            let name = if topology.name().is_empty() { "a fabric" } else { topology.name() };
            let title = format!("{} on {name}: bounds", done.collective.word());
            files::write(path, &convergence::draw(&done.solved.iterations, &title))?;
        }
        let out = args.planning.out.as_deref();
        let written = match &done.made {
            Some(made) => deliver(out, || made.plan.to_text())?,
            None => {
                if out.is_some() {
                    eprintln!("warning: a relaxation has no plan; --strength dup or tree makes one");
                }
                Some(Written::default())
            }
        };
        let status = if done.solved.is_late { ExitCode::from(LIMIT) } else { ExitCode::SUCCESS };
        let Some(written) = written else { return Ok(status) };
        if !global.quiet {
            let empty = Claim::default();
            let claim = match &done.made {
                Some(made) => (&made.plan.body.claim, Some(&made.plan.names)),
                None => (&empty, None),
            };
            let head = Head::new("fluid-lp", done.collective, claim, written.0)?;
            let ignored = std::mem::take(&mut done.ignored);
            let shown = Shown::new(head, &topology, &done, spent.total.as_secs_f64());
            output::one(global, &shown, || shown.text(&topology, &done, &ignored))?;
        }
        Ok(status)
    }

    /// What is asked of a fabric.
    pub(super) fn instance<'a>(
        read: &'a Read,
        args: &FluidLpArgs,
        wanted: Option<Wanted>,
    ) -> Result<Instance<'a>, Problems> {
        let Read { topology, ends, .. } = read;
        let flagged = |errors| flags(errors, &PARAMETERS);
        let (file, root) = (args.fabric.name(), args.root.as_deref());
        let of_ends = || ends::wanted(topology, ends, collective(args), root, &file).map_err(flagged);
        let wanted = wanted.map_or_else(of_ends, |wanted| Ok(Some(wanted)))?;
        let participants = (!args.participants.is_empty()).then_some(&*args.participants);
        let (root, ignore) = (root.filter(|_| wanted.is_none()), &*args.ignore);
        let collective = if wanted.is_some() { Collective::Custom } else { collective(args) };
        let request = Request { collective, participants, root, ignore };
        Instance::new(topology, &request, wanted, &file).map_err(flagged)
    }

    /// A file of demands.
    pub(super) fn wanted(path: &std::path::Path) -> Result<Wanted, Problems> {
        let file = files::name(path);
        let bytes = files::read(path, MAX_DEMANDS as u64)?;
        let (demands, names) = Demands::read(&bytes, &file)?;
        Ok(Wanted { demands, names, file })
    }

    /// The strength that was asked for.
    pub(super) fn strength(args: &FluidLpArgs) -> Option<Strength> {
        args.strength.map(|strength| match strength {
            FluidStrength::Relax => Strength::Relax,
            FluidStrength::Dup => Strength::Dup,
            FluidStrength::Tree => Strength::Tree,
        })
    }

    fn options(args: &FluidLpArgs) -> Options {
        Options {
            strength: strength(args),
            method: match args.method {
                FluidMethod::Auto => Method::Auto,
                FluidMethod::Direct => Method::Direct,
                FluidMethod::Orbit => Method::Orbit,
                FluidMethod::Dw => Method::Dw,
                FluidMethod::Mirrored => Method::Mirrored,
            },
            latency_only: args.latency_only,
            ..Options::default()
        }
    }

    /// The results, under their fixed names.
    #[derive(Debug, Serialize)]
    struct Shown {
        #[serde(flatten)]
        head: Head,
        #[serde(rename = "R")]
        latency: f64,
        #[serde(rename = "R_exact")]
        latency_exact: Option<String>,
        #[serde(rename = "R_lower_bound")]
        latency_lower: f64,
        cost: Option<f64>,
        cost_exact: Option<String>,
        cost_lower_bound: Option<f64>,
        strength: Option<&'static str>,
        method: &'static str,
        iterations: usize,
        variables: usize,
        /// Trees or paths of the plan.
        routes: Option<usize>,
        steps: Option<steps::Steps>,
        seconds: f64,
    }

    impl Shown {
        fn new(head: Head, _: &Topology, done: &Done, seconds: f64) -> Shown {
            let solved = &done.solved;
            let exact = |bounded: &Bounded| bounded.exact.as_ref().map(Rational::to_string);
            Shown {
                head,
                latency: solved.latency.value,
                latency_exact: exact(&solved.latency),
                latency_lower: solved.latency.lower,
                cost: solved.cost.as_ref().map(|cost| cost.value),
                cost_exact: solved.cost.as_ref().and_then(exact),
                cost_lower_bound: solved.cost.as_ref().map(|cost| cost.lower),
                strength: solved.strength.map(Strength::word),
                method: solved.method.word(),
                iterations: solved.iterations.len(),
                variables: solved.variables,
                routes: done.made.as_ref().map(|made| made.routes),
                steps: done.steps.clone(),
                seconds,
            }
        }

        fn text(&self, topology: &Topology, done: &Done, ignored: &[&str]) -> String {
            let name = if topology.name().is_empty() { "this fabric" } else { topology.name() };
            let mut text = format!("{} on {name}\n", self.head.collective);
            let mut line = |what: &str, said: String| text += &format!("  {what:<12} {said}\n");
            let unit = if topology.unit() == Unit::Abstract { "" } else { " s/GB" };
            line("R", bounds(&done.solved.latency, unit));
            if let Some(cost) = &done.solved.cost {
                line("cost", bounds(cost, ""));
            }
            line("strength", format!("{}, by {}", self.strength.unwrap_or("paths"), self.method));
            let rounds = if self.iterations > 0 { format!(", {} rounds", self.iterations) } else { String::new() };
            line("program", format!("{} columns{rounds}", self.variables));
            if let Some(made) = &done.made {
                let kind = if self.strength.is_some() { "trees" } else { "paths" };
                let in_steps = if self.steps.is_some() { " in steps" } else { "" };
                self.steps.iter().flat_map(|steps| steps.said(unit)).for_each(|(what, said)| line(what, said));
                line("plan", proof(made, &format!("{kind}{in_steps}")));
            }
            text + &self.head.closing(&ignored.join(", "), self.seconds)
        }
    }

    /// A value, exact where it can be, and how far it may be from the least.
    pub(super) fn bounds(bounded: &Bounded, unit: &str) -> String {
        let open = (bounded.value - bounded.lower) / bounded.value.abs().max(f64::MIN_POSITIVE);
        let open = if open > 1e-6 { format!(", none below {}{unit}", short(bounded.lower)) } else { String::new() };
        match &bounded.exact {
            Some(exact) if !exact.is_integer() => format!("{exact} ({}){unit}{open}", short(bounded.value)),
            _ => format!("{}{unit}{open}", short(bounded.value)),
        }
    }

    /// How many of what a plan has, and what is proved of it.
    pub(super) fn proof(made: &Made, kind: &str) -> String {
        let count = made.routes;
        match made.optimal || made.time.is_zero() {
            true => format!("{count} {kind}, and no plan takes less"),
            false => {
                let share = short(made.bound.to_f64() / made.time.to_f64());
                format!("{count} {kind}, and none takes less than {share} of that")
            }
        }
    }

    /// The command that makes this plan again.
    pub(super) fn command(args: &FluidLpArgs) -> String {
        let mut command = args.fabric.command("fluid-lp", args.collective);
        command.add("--demands", args.demands.as_ref().map(|path| path.display()));
        command.add(
            "--strength",
            args.strength.map(|strength| match strength {
                FluidStrength::Relax => "relax",
                FluidStrength::Dup => "dup",
                FluidStrength::Tree => "tree",
            }),
        );
        let method = match args.method {
            FluidMethod::Auto => None,
            FluidMethod::Direct => Some("direct"),
            FluidMethod::Orbit => Some("orbit"),
            FluidMethod::Dw => Some("dw"),
            FluidMethod::Mirrored => Some("mirrored"),
        };
        command.add("--method", method);
        command.set("--latency-only", args.latency_only);
        command.add("--steps", args.steps);
        if args.time.model != TimedModel::Q {
            command.add("--model", Some(args.time.model.word()));
        }
        command.add("--horizon", args.time.horizon);
        command.add("--step-length", args.time.step_length.as_ref());
        command.add("--chunks", args.time.chunks);
        command.add_all("--participants", &args.participants);
        command.add("--root", args.root.as_ref());
        command.add_all("--ignore", &args.ignore);
        command.quoted()
    }
}
