//! `sluice plan bfb`: reads a direct-connect graph, plans, writes the plan, shows the figures.

mod result;

use std::process::ExitCode;

use sluice_planners::direct::{Instance, Options, figures, make};
use sluice_planners::{Request, Run};

use super::args::{BfbArgs, ProofBy};
use super::made::{Written, deadline, deliver, flags, made_by, quoted, size};
use super::watch::Watch;
use super::{Stop, files, form, threads};
use crate::args::Global;
use crate::interrupt;
use crate::output;
use result::Shown;

/// `sluice plan bfb`. A plan is made, and checked, only where one is asked for; the figures are the same without.
pub fn run(global: &Global, args: &BfbArgs) -> Result<ExitCode, Stop> {
    let size = args.size.as_deref().map(size).transpose()?;
    let watch = Watch::new(!global.quiet);
    let deadline = deadline(args.time_limit);
    let topology = form::read(&args.topology, args.form, &args.forms)?;
    // From here on an interrupt is only noted; before it, reading from a pipe must end with it.
    let cancel = interrupt::flag();
    let tell = |progress: sluice_planners::Progress<'_>| watch.progress(progress);
    let run = Run { threads: threads(args.threads), watch: &tell, cancel, deadline };
    let request = Request { ignore: &args.ignore, ..Request::of_all(args.collective) };
    let options = Options { size: size.as_ref(), units: args.chunks, proof: args.proof.proof() };
    let instance = Instance::new(&topology, &request, &options, &files::name(&args.topology))
        .map_err(|errors| flags(errors, &PARAMETERS))?;
    let (plan, figures) = if args.out.is_some() {
        let made = make(&instance, &run).map_err(|errors| flags(errors, &PARAMETERS))?;
        (Some(made.plan), made.figures)
    } else {
        (None, figures(&instance, &run).map_err(|errors| flags(errors, &PARAMETERS))?)
    };
    let plan = plan.map(|mut plan| {
        let took = args.timing.then(|| watch.elapsed());
        plan.body.made_by = Some(made_by(command(args, instance.is_unequal()), took));
        plan
    });
    if run.is_cancelled() {
        return Err(sluice_formats::problem::Problem::new(sluice_planners::CANCELLED, "", "cancelled").into());
    }
    let seconds = watch.finish().total.as_secs_f64();
    let written = match &plan {
        Some(plan) => deliver(args.out.as_deref(), plan)?,
        None => Some(Written::default()),
    };
    let Some(written) = written else { return Ok(ExitCode::SUCCESS) };
    if !global.quiet {
        let shown = Shown::new(&topology, args.collective, &figures, size.as_ref(), seconds, written.0)?;
        output::one(global, &shown, || shown.text(&topology, &figures, instance.ignored()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The parameters that are flags.
const PARAMETERS: [&str; 3] = ["chunks", "collective", "size"];

/// The command that makes this plan again: only what changes the plan. The size does where links differ.
fn command(args: &BfbArgs, sized: bool) -> String {
    let mut words: Vec<String> = ["sluice", "plan", "bfb", "--topology"].map(String::from).to_vec();
    words.push(args.topology.display().to_string());
    if let Some(form) = args.form {
        words.extend(["--form".into(), form.word().into()]);
        words.extend(args.forms.words());
    }
    words.extend(["--collective".into(), args.collective.word().into()]);
    if let Some(size) = args.size.as_ref().filter(|_| sized) {
        words.extend(["--size".into(), size.clone()]);
    }
    if let Some(chunks) = args.chunks {
        words.extend(["--chunks".into(), chunks.to_string()]);
    }
    if args.proof == ProofBy::Diameter {
        words.extend(["--proof".into(), "diameter".into()]);
    }
    if !args.ignore.is_empty() {
        words.extend(["--ignore".into(), args.ignore.join(",")]);
    }
    quoted(&words)
}
