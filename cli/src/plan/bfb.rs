//! `sluice plan bfb`: reads a direct-connect graph, plans, writes the plan, shows the figures.

mod result;

use std::process::ExitCode;
use std::time::Instant;

use sluice_plan::plan::MadeBy;
use sluice_planners::direct::{Instance, Request, make};

use super::args::{BfbArgs, ProofBy};
use super::made::{deliver, flags, quoted, size};
use super::{Stop, files, form, threads};
use crate::args::Global;
use crate::output;
use result::Shown;

/// `sluice plan bfb`.
pub fn run(global: &Global, args: &BfbArgs) -> Result<ExitCode, Stop> {
    let size = args.size.as_deref().map(size).transpose()?;
    let begun = Instant::now();
    let topology = form::read(&args.topology, args.form, &args.forms)?;
    let threads = threads(args.threads);
    let request = Request {
        collective: args.collective,
        size: size.as_ref(),
        units: args.chunks,
        proof: args.proof.proof(),
        ignore: &args.ignore,
    };
    let instance = Instance::new(&topology, &request, &files::name(&args.topology))
        .map_err(|errors| flags(errors, &PARAMETERS))?;
    let mut made = make(&instance, threads).map_err(|errors| flags(errors, &PARAMETERS))?;
    made.plan.body.made_by = Some(MadeBy {
        command: Some(command(args, instance.is_unequal()).into()),
        seconds: args.timing.then(|| begun.elapsed().into()),
        seed: None,
        version: Some(env!("CARGO_PKG_VERSION").into()),
    });
    let seconds = begun.elapsed().as_secs_f64();
    let Some(written) = deliver(args.out.as_deref(), &made.plan)? else { return Ok(ExitCode::SUCCESS) };
    if !global.quiet {
        let shown = Shown::new(&topology, &made, size.as_ref(), seconds, written.0)?;
        output::one(global, &shown, || shown.text(&topology, &made))?;
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
