//! `sluice sim wan`: one instance of wide-area allocation under several methods, event by event.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde::Serialize;
use sluice_formats::problem::{E_RANGE, Problem, Problems};
use sluice_planners::Run;
use sluice_planners_wan::from_topology::Task;
use sluice_planners_wan::instance::Instance;
use sluice_planners_wan::method::{Method, Options, Proposed, propose};
use sluice_planners_wan::refusal::Refusal;
use sluice_planners_wan::simulate::Outcome;
use sluice_planners_wan::timeline;

use super::args::SimWanArgs;
use crate::failure::Failure;
use crate::format::grouped;
use crate::global::{Format, Global};
use crate::output;
use crate::plan::made::on_read;
use crate::plan::shown::seconds;
use crate::plan::wan::{refuse_unsolved, solver, task};
use crate::plan::{files, finish};
use crate::table::Table;

/// A method is played again and again for so long, to tell events per second.
const PLAYED: Duration = Duration::from_millis(20);
/// Times of collectives that are shown to people at most.
const MAX_TIMES: usize = 6;

/// How a method fared.
#[derive(Debug, Serialize)]
struct Row {
    method: &'static str,
    #[serde(rename = "T_mean_s")]
    mean: Option<f64>,
    #[serde(rename = "T")]
    times: Vec<f64>,
    events: usize,
    events_per_s: f64,
    /// Why there is no time.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<Refused>,
}

#[derive(Debug, Serialize)]
struct Refused {
    code: &'static str,
    message: String,
}

pub fn run(global: &Global, args: &SimWanArgs) -> Result<ExitCode, Failure> {
    finish(global, act(global, args))
}

fn act(global: &Global, args: &SimWanArgs) -> Result<ExitCode, Failure> {
    let methods = methods(args);
    refuse_unsolved("--methods", &methods)?;
    let draw = args.timeline.as_deref().map(drawer).transpose()?;
    let planning = args.planning();
    let (source, (rows, picture), spent) = on_read(
        global,
        &planning,
        || task::read(&args.source),
        |read, run, _| {
            let task = Task::new(&read.topology, &read.wanted, &args.source.ignore, &read.file)?;
            let refused = |refusal: &Refusal| task::refused(&task, refusal, run);
            let (instance, options) = (&task.instance, args.options.options());
            let (mut rows, mut best): (Vec<Row>, Option<(f64, Method, Proposed)>) = (Vec::new(), None);
            for method in &methods {
                match played(*method, instance, &options, run) {
                    Ok((row, proposed, mean)) => {
                        if best.as_ref().is_none_or(|(least, ..)| mean < *least) {
                            best = Some((mean, *method, proposed));
                        }
                        rows.push(row);
                    }
                    // One method has nothing to say about the others, unless the work is to end.
                    Err(Refusal::Stopped) => return Err(refused(&Refusal::Stopped)),
                    Err(refusal) if methods.len() == 1 => return Err(refused(&refusal)),
                    Err(refusal) => rows.push(without(*method, &refusal)),
                }
            }
            let picture = match (draw, best) {
                (Some(draw), Some((_, method, proposed))) => {
                    let recorded = timeline::record(instance, &proposed.plan, &mut || run.check().is_err());
                    let recorded = recorded.map_err(|refusal| refused(&refusal))?;
                    let name =
                        |node: usize| read.topology.nodes().get(node).map_or(String::new(), |node| node.id.to_string());
                    let title = format!("{} on {}", method.word(), called(read.topology.name()));
                    Some(draw(instance, &recorded, &title, &name).map_err(|refusal| refused(&refusal))?)
                }
                _ => None,
            };
            Ok((rows, picture))
        },
    )?;
    if let (Some(path), Some(picture)) = (&args.timeline, &picture) {
        files::write(path, picture)?;
    }
    if !global.quiet {
        let name = called(source.topology.name());
        let flows = source.wanted.flows.flows.len();
        match global.format() {
            Format::Table => {
                output::print(&text(name, flows, &rows, args.timeline.as_deref(), spent.total.as_secs_f64()))?;
            }
            _ => output::list(global, "methods", &rows, String::new)?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn called(name: &str) -> &str {
    if name.is_empty() { "this network" } else { name }
}

/// Those that were named; else all that a solver does not take long over.
fn methods(args: &SimWanArgs) -> Vec<Method> {
    if !args.methods.is_empty() {
        return args.methods.clone();
    }
    let long = [Method::MultiringMilp, Method::NonconcurrentMilp, Method::Portfolio];
    let wanted = |method: &Method| !long.contains(method) && (solver().is_some() || !method.needs_solver());
    Method::ALL.iter().copied().filter(wanted).collect()
}

/// What draws a timeline into a file of this name.
type Drawer = fn(&Instance, &timeline::Timeline, &str, &dyn Fn(usize) -> String) -> Result<String, Refusal>;

fn drawer(path: &Path) -> Result<Drawer, Problems> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("svg") => Ok(timeline::svg),
        Some("html") => Ok(timeline::html),
        _ => {
            let error = Problem::new(E_RANGE, "--timeline", "a picture is SVG or HTML, by the name of its file");
            Err(error.found(path.to_string_lossy()).allowed("a name that ends in .svg or .html").into())
        }
    }
}

/// Plans by a method and plays the plan: its row, the plan, and the mean time.
fn played(
    method: Method,
    instance: &Instance,
    options: &Options,
    run: &Run<'_>,
) -> Result<(Row, Proposed, f64), Refusal> {
    let options = Options { execution: options.execution.filter(|_| method.has_execution()), ..*options };
    let proposed = propose(method, instance, &options, solver(), run)?;
    let mut stop = || run.is_cancelled();
    let began = Instant::now();
    let outcome: Outcome = proposed.plan.execute_until(instance, &mut stop)?;
    let mut plays = 1_u32;
    while began.elapsed() < PLAYED {
        proposed.plan.execute_until(instance, &mut stop)?;
        plays += 1;
    }
    let events_per_s = outcome.events as f64 * f64::from(plays) / began.elapsed().as_secs_f64().max(f64::MIN_POSITIVE);
    let (mean, times, events) = (outcome.mean, outcome.t, outcome.events);
    let row = Row { method: method.word(), mean: Some(mean), times, events, events_per_s, refused: None };
    Ok((row, proposed, mean))
}

fn without(method: Method, refusal: &Refusal) -> Row {
    let refused = Some(Refused { code: refusal.code(), message: refusal.to_string() });
    Row { method: method.word(), mean: None, times: Vec::new(), events: 0, events_per_s: 0.0, refused }
}

fn text(name: &str, flows: usize, rows: &[Row], picture: Option<&Path>, took: f64) -> String {
    let mut table = Table::new(["METHOD", ">MEAN TIME", ">EVENTS", ">EVENTS/S", "TIMES"]);
    for row in rows {
        let cells = match (row.mean, &row.refused) {
            (Some(mean), _) => {
                let times: Vec<String> = row.times.iter().take(MAX_TIMES).map(|time| format!("{time:.3}")).collect();
                let more = if row.times.len() > MAX_TIMES { " …" } else { "" };
                let rate = grouped((row.events_per_s / 1e3).round() as u64);
                [
                    format!("{mean:.3} s"),
                    row.events.to_string(),
                    format!("{rate} k"),
                    format!("{}{more}", times.join(" ")),
                ]
            }
            (None, refused) => {
                let why = refused.as_ref().map_or(String::new(), |refused| refused.message.clone());
                ["-".into(), "-".into(), "-".into(), why]
            }
        };
        table.row([row.method.to_owned()].into_iter().chain(cells).collect());
    }
    let mut text = format!("{name}, {flows} flows, in virtual time\n\n{}\n", table.render(output::width()));
    text += &format!("  took         {}\n", seconds(took));
    if let Some(path) = picture {
        text += &format!("  wrote        {}\n", path.display());
    }
    text
}
