//! `sluice plan forestcoll`: reads a fabric, plans, writes the plan, shows the figures.

pub mod result;

use std::process::ExitCode;

use sluice_formats::problem::{Problem, Problems};
use sluice_formats::topology::Topology;
use sluice_plan::plan::MadeBy;
use sluice_planners::forestcoll::{Instance, Made, Options, Request, Run, make};

use super::args::{AllReduceWay, ForestcollArgs};
use super::made::{deliver, flags, quoted, size};
use super::watch::Watch;
use super::{Stop, files, form, threads};
use crate::args::Global;
use crate::interrupt;
use crate::output;
use result::Shown;

/// `sluice plan forestcoll`.
pub fn run(global: &Global, args: &ForestcollArgs) -> Result<ExitCode, Stop> {
    let size = args.size.as_deref().map(size).transpose()?;
    let watch = Watch::new(!global.quiet);
    let topology = form::read(&args.topology, args.form, &args.forms)?;
    // From here on an interrupt is only noted; before it, reading from a pipe must end with it.
    let cancel = interrupt::flag();
    let run = Run { threads: threads(args.threads), progress: &watch, cancel };
    let mut made = plan(args, &topology, &run).map_err(|errors| flags(errors, &PARAMETERS))?;
    made.plan.body.made_by = Some(MadeBy {
        command: Some(command(args).into()),
        seconds: args.timing.then(|| watch.elapsed().into()),
        seed: None,
        version: Some(env!("CARGO_PKG_VERSION").into()),
    });
    if cancel.load(std::sync::atomic::Ordering::Relaxed) {
        return Err(Problem::new("CANCELLED", "", "cancelled").into());
    }
    let seconds = watch.finish();
    let Some(written) = deliver(args.out.as_deref(), &made.plan)? else { return Ok(ExitCode::SUCCESS) };
    if !global.quiet {
        let shown = Shown::new(&topology, &made, size.as_ref(), seconds, written.0)?;
        output::one(global, &shown, || shown.text(&topology, &made))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn plan(args: &ForestcollArgs, topology: &Topology, run: &Run) -> Result<Made, Problems> {
    let request = Request {
        collective: args.collective,
        participants: (!args.participants.is_empty()).then_some(args.participants.as_slice()),
        root: args.root.as_deref(),
        ignore: &args.ignore,
    };
    let instance = Instance::new(topology, &request, &files::name(&args.topology))?;
    let options = Options {
        fixed_k: args.fixed_k,
        most_k: args.most_k,
        in_network: args.in_network,
        relaxed: args.relaxed,
        ..Options::default()
    };
    make(&instance, &options, args.all_reduce.way(), run)
}

/// The parameters that are flags.
const PARAMETERS: [&str; 7] = ["all_reduce", "collective", "fixed_k", "in_network", "most_k", "participants", "root"];

/// The command that makes this plan again: only what changes the plan, so that the same plan has the same bytes.
fn command(args: &ForestcollArgs) -> String {
    let mut words: Vec<String> = ["sluice", "plan", "forestcoll", "--topology"].map(String::from).to_vec();
    words.push(args.topology.display().to_string());
    if let Some(form) = args.form {
        words.extend(["--form".into(), form.word().into()]);
        words.extend(args.forms.words());
    }
    words.extend(["--collective".into(), args.collective.word().into()]);
    if let Some(k) = args.fixed_k {
        words.extend(["--fixed-k".into(), k.to_string()]);
    }
    if !args.participants.is_empty() {
        words.extend(["--participants".into(), args.participants.join(",")]);
    }
    if let Some(root) = &args.root {
        words.extend(["--root".into(), root.clone()]);
    }
    if args.in_network {
        words.push("--in-network".into());
    }
    if !args.ignore.is_empty() {
        words.extend(["--ignore".into(), args.ignore.join(",")]);
    }
    match args.all_reduce {
        AllReduceWay::Auto => {}
        AllReduceWay::Phases => words.extend(["--all-reduce".into(), "phases".into()]),
        AllReduceWay::Program => words.extend(["--all-reduce".into(), "program".into()]),
    }
    if args.relaxed {
        words.push("--relaxed".into());
    }
    quoted(&words)
}
