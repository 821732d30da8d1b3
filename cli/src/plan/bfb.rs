//! `sluice plan bfb`: reads a direct-connect graph, plans, writes the plan, shows the figures.

mod result;

use std::process::ExitCode;
use std::time::Instant;

use sluice_plan::direct::{Problem, Request, make};
use sluice_plan::error::{Error, Errors};
use sluice_plan::plan::MadeBy;

use super::args::{BfbArgs, ProofBy};
use super::forestcoll::{quoted, size};
use super::{Stop, files, form};
use crate::args::Global;
use crate::output;
use result::Shown;

/// `sluice plan bfb`.
pub fn run(global: &Global, args: &BfbArgs) -> Result<ExitCode, Stop> {
    let size = args.size.as_deref().map(size).transpose()?;
    let begun = Instant::now();
    let topology = form::read(&args.topology, args.form, &args.forms)?;
    let threads = match args.threads {
        Some(threads) => usize::from(threads),
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let request = Request {
        collective: args.collective,
        size: size.as_ref(),
        units: args.chunks,
        proof: args.proof.proof(),
        ignore: &args.ignore,
    };
    let problem = Problem::new(&topology, &request, &files::name(&args.topology)).map_err(flags)?;
    let mut made = make(&problem, threads).map_err(flags)?;
    made.plan.body.made_by = Some(MadeBy {
        command: Some(command(args, problem.is_unequal()).into()),
        seconds: args.timing.then(|| begun.elapsed().into()),
        seed: None,
        version: Some(env!("CARGO_PKG_VERSION").into()),
    });
    let seconds = begun.elapsed().as_secs_f64();
    let mut written = None;
    match &args.out {
        Some(path) if files::is_standard(path) => {
            output::print(&made.plan.to_text())?;
            return Ok(ExitCode::SUCCESS);
        }
        Some(path) => {
            files::write(path, &made.plan.to_text())?;
            written = Some(path.display().to_string());
        }
        None => {}
    }
    if !global.quiet {
        let shown = Shown::new(&topology, &made, size.as_ref(), seconds, written)?;
        output::one(global, &shown, || shown.text(&topology, &made))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Names of parameters as flags.
fn flags(errors: Errors) -> Errors {
    const PARAMETERS: [&str; 3] = ["chunks", "collective", "size"];
    if errors.all().iter().all(|error| !PARAMETERS.contains(&error.key.as_str())) {
        return errors;
    }
    let flag = |error: &Error| Error { key: format!("--{}", error.key), ..error.clone() };
    Errors::collect(errors.all().iter().map(flag).collect(), "").unwrap_or(errors)
}

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
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}
