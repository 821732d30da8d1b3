//! `sluice plan forestcoll`: reads a fabric, plans, writes the plan, shows the figures.

pub mod result;

use std::process::ExitCode;

use sluice_formats::problem::{E_KEY, Problem, Problems};
use sluice_formats::topology::Topology;
use sluice_planners::forestcoll::{Best, Instance, Made, Options, Tried, best_of, make};
use sluice_planners::{Request, Run};

use super::args::{AllReduceWay, ForestcollArgs};
use super::made::{deadline, deliver, flags, made_by, quoted, size};
use super::watch::Watch;
use super::{LIMIT, Stop, files, form, threads};
use crate::args::Global;
use crate::interrupt;
use crate::output;
use result::Shown;

/// `sluice plan forestcoll`.
pub fn run(global: &Global, args: &ForestcollArgs) -> Result<ExitCode, Stop> {
    let size = args.size.as_deref().map(size).transpose()?;
    let watch = Watch::new(!global.quiet);
    let deadline = deadline(args.time_limit);
    let topology = form::read(&args.topology, args.form, &args.forms)?;
    // From here on an interrupt is only noted; before it, reading from a pipe must end with it.
    let cancel = interrupt::flag();
    let tell = |progress: sluice_planners::Progress<'_>| watch.progress(progress);
    let run = Run { threads: threads(args.threads), watch: &tell, cancel, deadline };
    let Planned { mut made, k, tried, complete } =
        plan(args, &topology, &run).map_err(|errors| flags(errors, &PARAMETERS))?;
    made.plan.body.made_by = Some(made_by(command(args, k), args.timing.then(|| watch.elapsed())));
    if run.is_cancelled() {
        return Err(Problem::new(sluice_planners::CANCELLED, "", "cancelled").into());
    }
    let spent = watch.finish();
    let done = if complete { ExitCode::SUCCESS } else { ExitCode::from(LIMIT) };
    let Some(written) = deliver(args.out.as_deref(), &made.plan)? else { return Ok(done) };
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
    let instance = Instance::new(topology, &request, &files::name(&args.topology))?;
    let options = Options {
        fixed_k: args.fixed_k,
        most_k: args.most_k,
        in_network: args.in_network,
        relaxed: args.relaxed,
        ..Options::default()
    };
    let Some(numbers) = args.best_k.clone() else {
        let made = make(&instance, &options, args.all_reduce.way(), run)?;
        return Ok(Planned { made, k: args.fixed_k, tried: Vec::new(), complete: true });
    };
    if args.all_reduce == AllReduceWay::Program {
        let error = Problem::new(E_KEY, "best_k", "the all-reduce program has no such choice");
        return Err(error.allowed("nothing, or all-reduce by phases").into());
    }
    let Best { k, made, tried, complete } = best_of(&instance, &options, numbers, run)?;
    Ok(Planned { made, k: Some(k), tried, complete })
}

/// The parameters that are flags.
const PARAMETERS: [&str; 8] =
    ["all_reduce", "best_k", "collective", "fixed_k", "in_network", "most_k", "participants", "root"];

/// The command that makes this plan again, with `k` trees per root if that is fixed: only what changes the plan, so that
/// the same plan has the same bytes.
fn command(args: &ForestcollArgs, k: Option<i64>) -> String {
    let mut words: Vec<String> = ["sluice", "plan", "forestcoll", "--topology"].map(String::from).to_vec();
    words.push(args.topology.display().to_string());
    if let Some(form) = args.form {
        words.extend(["--form".into(), form.word().into()]);
        words.extend(args.forms.words());
    }
    words.extend(["--collective".into(), args.collective.word().into()]);
    if let Some(k) = k {
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
