//! `sluice plan bfb`: reads a direct-connect graph, plans, writes the plan, shows the figures.

mod result;

use std::process::ExitCode;

use sluice_plan::plan::Plan;
use sluice_planners::Request;
use sluice_planners::direct::{Instance, Options, Proof, figures, make_while};

use super::args::BfbArgs;
use super::made::{Written, flags, made_by, on_fabric, prepare, size};
use crate::failure::Failure;
use crate::global::Global;
use crate::output;
use result::Shown;

/// `sluice plan bfb`. A plan is made, and checked, only where one is asked for; the figures are the same without.
pub fn run(global: &Global, args: &BfbArgs) -> Result<ExitCode, Failure> {
    let size = args.size.as_deref().map(size).transpose()?;
    let (topology, (ready, figures, ignored), spent) =
        on_fabric(global, &args.fabric, &args.planning, |topology, run, watch| {
            let request = Request { ignore: &args.ignore, ..Request::of_all(args.collective) };
            let options = Options { size: size.as_ref(), units: args.chunks, proof: args.proof };
            let flagged = |errors| flags(errors, &PARAMETERS);
            let instance = Instance::new(topology, &request, &options, &args.fabric.name()).map_err(flagged)?;
            let ignored = instance.ignored().to_vec();
            let Some(out) = args.planning.out.as_deref() else {
                return Ok((None, figures(&instance, run).map_err(flagged)?, ignored));
            };
            let took = || args.planning.timing.then(|| watch.elapsed());
            let made_by = || made_by(command(args, instance.is_unequal()), took());
            let write = |plan: &Plan| prepare(out, plan.to_text());
            let (made, ready) = make_while(&instance, run, made_by, write).map_err(flagged)?;
            Ok((Some((out, ready)), made.figures, ignored))
        })?;
    let written = match ready {
        Some((out, ready)) => ready?.deliver(out)?,
        None => Some(Written::default()),
    };
    let Some(written) = written else { return Ok(ExitCode::SUCCESS) };
    if !global.quiet {
        let seconds = spent.total.as_secs_f64();
        let shown = Shown::new(&topology, args.collective, &figures, size.as_ref(), seconds, written.0)?;
        output::one(global, &shown, || shown.text(&topology, &figures, &ignored))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The parameters that are flags.
const PARAMETERS: [&str; 3] = ["chunks", "collective", "size"];

/// The command that makes this plan again. The size changes it where links differ.
fn command(args: &BfbArgs, sized: bool) -> String {
    let mut command = args.fabric.command("bfb", args.collective);
    command.add("--size", args.size.as_ref().filter(|_| sized));
    command.add("--chunks", args.chunks);
    command.add("--proof", (args.proof == Proof::Diameter).then_some("diameter"));
    command.add_all("--ignore", &args.ignore);
    command.quoted()
}
