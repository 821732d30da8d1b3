//! `sluice plan wan`: reads a network and the flows of collectives over it, plans rates, weights or an order for every flow,
//! writes the plan, shows the figures.

mod shown;
mod solver;
mod sweep;
pub mod task;

use std::process::ExitCode;

use sluice_formats::problem::{E_KEY, Problem, Problems};
use sluice_plan::plan::{Collective, Status};
use sluice_planners::Run;
use sluice_planners_wan::bound::{self, Bound};
use sluice_planners_wan::from_topology::Task;
use sluice_planners_wan::method::{self, Method, Proposed};
use sluice_planners_wan::portfolio::Judged;
use sluice_planners_wan::refusal::Refusal;
use sluice_planners_wan::simulate::Outcome;
use sluice_planners_wan::to_plan::{self, Made};

use super::LIMIT;
use super::args::WanArgs;
use super::made::{deliver, made_by, on_read};
use crate::failure::Failure;
use crate::global::Global;
use crate::output;
pub use solver::{refuse_unsolved, solver};

/// What planning came to.
struct Done {
    made: Made,
    proposed: Proposed,
    outcome: Outcome,
    bound: Bound,
    /// Of the portfolio: the method that was taken, and what all came to.
    taken: Option<String>,
    table: Vec<Judged>,
    /// Flows, chains, collectives.
    counts: (usize, usize, usize),
    ignored: Vec<&'static str>,
}

pub fn run(global: &Global, args: &WanArgs) -> Result<ExitCode, Failure> {
    if let Some(collectives) = &args.sweep.sweep {
        return sweep::run(global, args, collectives);
    }
    fitting(args)?;
    refuse_unsolved("--method", &[args.method])?;
    let (read, done, spent) = on_read(
        global,
        &args.planning,
        || task::read(&args.source),
        |read, run, watch| {
            let task = Task::new(&read.topology, &read.wanted, &args.source.ignore, &read.file)?;
            let mut done = plan(&task, args, run)?;
            let took = args.planning.timing.then(|| watch.elapsed());
            done.made.plan.body.made_by = Some(made_by(command(args), took));
            Ok(done)
        },
    )?;
    let limited = done.made.status == Status::TimeLimit && !done.proposed.proved;
    let status = if limited { ExitCode::from(LIMIT) } else { ExitCode::SUCCESS };
    let Some(written) = deliver(args.planning.out.as_deref(), || done.made.plan.to_text())? else { return Ok(status) };
    if !global.quiet {
        let shown = shown::Shown::new(args.method, &done, spent.total.as_secs_f64(), written.0)?;
        output::one(global, &shown, || shown.text(&read.topology, &done))?;
    }
    Ok(status)
}

/// Options that would do nothing are refused.
fn fitting(args: &WanArgs) -> Result<(), Problems> {
    let (method, options) = (args.method, &args.options);
    let iterates = matches!(method, Method::WeightSca | Method::WeightWc | Method::Portfolio);
    let given = [
        ("--execution", options.execution.is_some(), method.has_execution(), "a method of rates or weights"),
        ("--sca", options.sca.is_some(), iterates, "--method weight_sca, weight_wc or portfolio"),
        ("--per-link-budget", options.per_link_budget, method.has_budgets(), "a --method multiring_…"),
    ];
    match given.into_iter().find(|(_, given, fits, _)| *given && !fits) {
        None => Ok(()),
        Some((flag, .., allowed)) => {
            let message = format!("{flag} says nothing about `{}`", method.word());
            Err(Problem::new(E_KEY, flag, message).allowed(format!("with {allowed}")).into())
        }
    }
}

/// Plans, plays the plan, and has it checked.
fn plan(task: &Task<'_>, args: &WanArgs, run: &Run<'_>) -> Result<Done, Problems> {
    let (instance, options) = (&task.instance, args.options.options());
    let refused = |refusal: Refusal| task::refused(task, &refusal, run);
    let solver = solver();
    let bound = match solver.map(|solver| solver.bound(instance, run)) {
        Some(Ok(bound)) => bound,
        // What needs no solver takes no time.
        _ => bound::of_each(instance),
    };
    let (proposed, outcome, taken, table) = if args.method == Method::Portfolio {
        let best = method::best(instance, &options, solver, run).map_err(refused)?;
        let proposed = Proposed { is_late: best.is_late, ..Proposed::new(best.plan) };
        (proposed, best.outcome, Some(best.name), best.table)
    } else {
        let proposed = method::propose(args.method, instance, &options, solver, run).map_err(refused)?;
        let outcome = proposed.plan.execute_until(instance, &mut || run.is_cancelled()).map_err(refused)?;
        (proposed, outcome, None, Vec::new())
    };
    let made = to_plan::make(task, &proposed.plan, &outcome, &bound, proposed.is_late)?;
    let counts = (instance.flows().len(), instance.groups().len(), instance.collectives());
    let ignored = task.asked.ignored.clone();
    Ok(Done { made, proposed, outcome, bound, taken, table, counts, ignored })
}

/// The command that makes this plan again.
fn command(args: &WanArgs) -> String {
    let mut command = args.source.fabric().command("wan", None::<Collective>);
    command.add("--flows", args.source.flows.as_ref().map(|path| path.display()));
    command.add("--method", (args.method != Method::Portfolio).then(|| args.method.word()));
    args.options.add_to(&mut command);
    command.add_all("--ignore", &args.source.ignore);
    command.quoted()
}
