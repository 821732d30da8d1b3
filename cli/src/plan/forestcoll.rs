//! `sluice plan forestcoll`: reads a fabric, plans, writes the plan, shows the figures.

pub mod result;

use std::process::ExitCode;

use sluice_formats::problem::{E_KEY, Problem, Problems};
use sluice_formats::topology::Topology;
use sluice_planners::forestcoll::{Best, Instance, Made, Options, Tried, Way, best_of, make};
use sluice_planners::{Request, Run};

use super::LIMIT;
use super::args::{ForestcollArgs, WAYS};
use super::made::{deliver, flags, made_by, on_fabric, size};
use crate::failure::Failure;
use crate::global::Global;
use crate::output;
use result::Shown;

pub fn run(global: &Global, args: &ForestcollArgs) -> Result<ExitCode, Failure> {
    let size = args.size.as_deref().map(size).transpose()?;
    let (topology, planned, spent) = on_fabric(global, &args.fabric, &args.planning, |topology, run, watch| {
        let mut planned = plan(args, topology, run).map_err(|errors| flags(errors, &PARAMETERS))?;
        let took = args.planning.timing.then(|| watch.elapsed());
        planned.made.plan.body.made_by = Some(made_by(command(args, planned.k), took));
        Ok(planned)
    })?;
    let Planned { made, tried, complete, .. } = planned;
    let done = if complete { ExitCode::SUCCESS } else { ExitCode::from(LIMIT) };
    let Some(written) = deliver(args.planning.out.as_deref(), || made.plan.to_text())? else { return Ok(done) };
    if !global.quiet {
        let shown = Shown::new(&topology, &made, size.as_ref(), &tried, &spent, written.0)?;
        output::one(global, &shown, || shown.text(&topology, &made))?;
    }
    Ok(done)
}

/// A plan, and how it was chosen.
struct Planned {
    made: Made,
    /// Its fixed number of trees per root, if it has one.
    k: Option<i64>,
    /// The numbers among which it is the best.
    tried: Vec<Tried>,
    /// Was all done that was to be done?
    complete: bool,
}

fn plan(args: &ForestcollArgs, topology: &Topology, run: &Run) -> Result<Planned, Problems> {
    let request = Request {
        collective: args.collective,
        participants: (!args.participants.is_empty()).then_some(args.participants.as_slice()),
        root: args.root.as_deref(),
        ignore: &args.ignore,
    };
    let instance = Instance::new(topology, &request, &args.fabric.name())?;
    let options = Options {
        fixed_k: args.fixed_k,
        most_k: args.most_k,
        in_network: args.in_network,
        relaxed: args.relaxed,
        ..Options::default()
    };
    let Some(numbers) = args.best_k.clone() else {
        let made = make(&instance, &options, args.all_reduce, run)?;
        return Ok(Planned { made, k: args.fixed_k, tried: Vec::new(), complete: true });
    };
    if args.all_reduce == Way::Program {
        let error = Problem::new(E_KEY, "best_k", "the all-reduce program has no such choice");
        return Err(error.allowed("nothing, or all-reduce by phases").into());
    }
    let Best { k, made, tried, complete } = best_of(&instance, &options, numbers, run)?;
    Ok(Planned { made, k: Some(k), tried, complete })
}

/// The parameters that are flags.
const PARAMETERS: [&str; 8] =
    ["all_reduce", "best_k", "collective", "fixed_k", "in_network", "most_k", "participants", "root"];

/// The command that makes this plan again, with `k` trees per root if that is fixed.
fn command(args: &ForestcollArgs, k: Option<i64>) -> String {
    let mut command = args.fabric.command("forestcoll", args.collective);
    command.add("--fixed-k", k);
    command.add_all("--participants", &args.participants);
    command.add("--root", args.root.as_ref());
    command.set("--in-network", args.in_network);
    command.add_all("--ignore", &args.ignore);
    let way = WAYS.iter().find(|(.., way)| *way == args.all_reduce && *way != Way::Auto);
    command.add("--all-reduce", way.map(|(word, ..)| word));
    command.set("--relaxed", args.relaxed);
    command.quoted()
}
