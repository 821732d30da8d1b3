//! `sluice plan wan --sweep`: generated instances of a growing number of collectives under several methods, as a table, a
//! document and a page.

use std::path::Path;
use std::process::ExitCode;

use serde_json::{Map, Value, json};
use sluice_formats::problem::{E_RANGE, Problem, Problems};
use sluice_planners::{Run, Stopped};
use sluice_planners_wan::form as instance_form;
use sluice_planners_wan::graph::Graph;
use sluice_planners_wan::method::Method;
use sluice_planners_wan::refusal::Refusal;
use sluice_planners_wan::sweep::page::{About, html};
use sluice_planners_wan::sweep::{Cell, Grid, Spread, Sweep, run as swept};

use super::{refuse_unsolved, solver};
use crate::failure::Failure;
use crate::global::Global;
use crate::output;
use crate::plan::args::{Numbers, PlanningArgs, WAN_GRAPH, WanArgs};
use crate::plan::files;
use crate::plan::form::{self, Form};
use crate::plan::made::on_read;
use crate::plan::shown::seconds;
use crate::table::Table;

/// What is compared where nothing is named.
const METHODS: [Method; 10] = [
    Method::OutOfOrder,
    Method::BarrierAware,
    Method::EqualAlloc,
    Method::DataAware,
    Method::WeightGp,
    Method::RateAlloc,
    Method::MultiringLdv,
    Method::EqualWc,
    Method::Prio,
    Method::Portfolio,
];

/// The parameters that are flags.
const PARAMETERS: [(&str, &str); 3] =
    [("BadParticipants", "--participants"), ("BadSize", "--scale"), ("TooLarge", "--sweep")];

pub fn run(global: &Global, args: &WanArgs, collectives: &Numbers) -> Result<ExitCode, Failure> {
    let asked = &args.sweep;
    refuse_unsolved("--methods", &asked.methods)?;
    // A limit is for each method on each instance, not for all together.
    let planning = PlanningArgs { time_limit: None, ..args.planning.clone() };
    let (graph, sweep, spent) = on_read(
        global,
        &planning,
        || graph(args),
        |graph, run, _| swept(&grid(args, graph, collectives), solver(), run).map_err(|refusal| refused(&refusal, run)),
    )?;
    let grid = grid(args, &graph, collectives);
    if let Some(dir) = &asked.instances {
        instances(&grid, &sweep, dir)?;
    }
    let document = document(&grid, &sweep);
    if let Some(path) = &asked.report {
        let title = format!("Collectives between sites: {}", sweep.graph);
        let about = About { title: &title, facts: &facts(&grid), data: &document.to_string() };
        files::write(path, &html(&sweep, &about))?;
    }
    if !global.quiet {
        let (mut shown, took) = (document, spent.total.as_secs_f64());
        shown["seconds"] = json!(took);
        output::one(global, &shown, || text(args, &grid, &sweep, took))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What is swept over.
fn grid<'a>(args: &WanArgs, graph: &'a Graph, collectives: &Numbers) -> Grid<'a> {
    let asked = &args.sweep;
    let counts = collectives.0.iter().map(|count| usize::try_from(*count).unwrap_or(usize::MAX));
    let methods = match (&asked.methods[..], solver()) {
        ([], Some(_)) => METHODS.to_vec(),
        ([], None) => light(),
        (named, _) => named.to_vec(),
    };
    Grid {
        graph,
        collectives: counts.collect(),
        seeds: asked.seeds.as_ref().map_or_else(|| (1..=5).collect(), |seeds| seeds.0.clone()),
        participants: asked.participants.unwrap_or(4),
        sizes: asked.sizes.unwrap_or_default(),
        scale: asked.scale.unwrap_or(1.0),
        methods,
        options: args.options.options(),
        limit: args.planning.time_limit,
    }
}

/// The same without a solver: weights are found by iteration.
fn light() -> Vec<Method> {
    let instead = |method| if method == Method::WeightGp { Method::WeightSca } else { method };
    METHODS.into_iter().map(instead).filter(|method| !method.needs_solver()).collect()
}

/// What is refused, under the flag that says it.
fn refused(refusal: &Refusal, run: &Run<'_>) -> Problems {
    if *refusal == Refusal::Stopped {
        return run.check().err().unwrap_or(Stopped::Cancelled).problem().into();
    }
    let problem = refusal.problem();
    let flag = PARAMETERS.iter().find(|(code, _)| *code == problem.code).map_or("", |(_, flag)| flag);
    Problem { key: flag.into(), ..problem }.into()
}

/// The graph that the instances are on: a Topology Zoo file, any other network without its capacities, or ringN.
fn graph(args: &WanArgs) -> Result<Graph, Problems> {
    let path = args.source.topology.as_deref().unwrap_or(Path::new(WAN_GRAPH));
    let told = |refusal: Refusal| Problems::from(refusal.problem());
    let ring = path.to_str().and_then(|text| text.strip_prefix("ring")).and_then(|nodes| nodes.parse::<usize>().ok());
    if let (Some(nodes), None) = (ring, args.source.form) {
        return Graph::ring(nodes).map_err(|refusal| match refusal {
            Refusal::TooLarge { .. } => told(refusal),
            _ => {
                let error = Problem::new(E_RANGE, "--topology", "a ring has two nodes or more");
                error.found(path.to_string_lossy()).allowed("ring2, ring10 …").into()
            }
        });
    }
    let file = files::name(path);
    if args.source.form == Some(Form::Graphml) {
        let bytes = files::read(path, instance_form::MAX_BYTES as u64).map_err(form::too_large)?;
        return Graph::graphml(&bytes, &file).map_err(told);
    }
    let topology = args.source.fabric().read()?;
    let links = topology.links().iter().map(|link| (link.from, link.to));
    let name = if topology.name().is_empty() { &file } else { topology.name() };
    Graph::new(name, topology.nodes().len(), links).map_err(told)
}

/// Writes every instance of a sweep.
fn instances(grid: &Grid<'_>, sweep: &Sweep, dir: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(dir)
        .map_err(|error| Failure::failed(format!("{} cannot be made: {error}", dir.display())))?;
    for cell in &sweep.cells {
        // What was generated once is generated again.
        let made = grid.workload(cell.collectives, cell.seed).generate();
        let instance = made.map_err(|refusal| refusal.problem())?;
        let name = instance.name().replace(['/', '\\'], "-");
        files::write(&dir.join(format!("{name}.json")), &instance_form::write(&instance))?;
    }
    Ok(())
}

/// How many seeds, for people.
fn of_seeds(seeds: &[u64]) -> String {
    match seeds {
        [one] => format!("seed {one}"),
        [first, .., last] if last - first == seeds.len() as u64 - 1 => format!("seeds {first} to {last}"),
        _ => format!("{} seeds", seeds.len()),
    }
}

fn facts(grid: &Grid<'_>) -> Vec<(&'static str, String)> {
    let (graph, command) = (grid.graph, std::env::args().collect::<Vec<_>>());
    vec![
        ("command", command.join(" ")),
        ("network", format!("{}: {} nodes, {} links both ways", graph.name(), graph.nodes(), graph.edges().len())),
        ("collectives", format!("ring all-reduce of {} participants each", grid.participants)),
        ("sizes", format!("N(5, 2.5) MB × {}, {}", grid.scale, grid.sizes.word())),
        ("capacities", "N(22.5, 2.5) MB/s".into()),
        ("seeds", of_seeds(&grid.seeds)),
        ("version", env!("CARGO_PKG_VERSION").into()),
    ]
}

fn document(grid: &Grid<'_>, sweep: &Sweep) -> Value {
    let mut means = Vec::new();
    for count in &sweep.collectives {
        let row = |method: &str, spread: Option<Spread>| {
            let (mean, deviation) = (spread.map(|spread| spread.mean), spread.map(|spread| spread.deviation));
            let seeds = spread.map_or(0, |spread| spread.count);
            json!({"K": count, "method": method, "mean_s": mean, "deviation_s": deviation, "seeds": seeds})
        };
        let methods = sweep.methods.iter().enumerate();
        means.extend(methods.map(|(place, method)| row(method.word(), sweep.spread(place, *count))));
        means.push(row("lower_bound", sweep.bounds(*count)));
    }
    let instance = |cell: &Cell| {
        let of = |(method, mean): (&Method, &Result<f64, Refusal>)| {
            let value = match mean {
                Ok(mean) => json!(mean),
                Err(refusal) => json!({"refused": refusal.code(), "message": refusal.to_string()}),
            };
            (method.word().to_owned(), value)
        };
        let times: Map<String, Value> = sweep.methods.iter().zip(&cell.means).map(of).collect();
        json!({"K": cell.collectives, "seed": cell.seed, "lower_bound": cell.bound, "T_mean_s": times})
    };
    json!({
        "schema": 1,
        "planner": "wan",
        "topology": sweep.graph,
        "participants": grid.participants,
        "sizes": grid.sizes.word(),
        "scale": grid.scale,
        "seeds": grid.seeds,
        "means": means,
        "instances": sweep.cells.iter().map(instance).collect::<Vec<_>>(),
    })
}

/// A row per method, a column per number of collectives.
fn text(args: &WanArgs, grid: &Grid<'_>, sweep: &Sweep, took: f64) -> String {
    let heads = sweep.collectives.iter().map(|count| format!(">K = {count}"));
    let mut table = Table::new(std::iter::once("MEAN TIME IN S".to_owned()).chain(heads));
    let cell = |spread: Option<Spread>| match spread {
        Some(Spread { mean, deviation, count }) if count > 1 => format!("{mean:.2} ± {deviation:.2}"),
        Some(Spread { mean, .. }) => format!("{mean:.2}"),
        None => "-".into(),
    };
    for (place, method) in sweep.methods.iter().enumerate() {
        let cells = sweep.collectives.iter().map(|count| cell(sweep.spread(place, *count)));
        table.row(std::iter::once(method.word().to_owned()).chain(cells).collect());
    }
    let bounds = sweep.collectives.iter().map(|count| cell(sweep.bounds(*count)));
    table.row(std::iter::once("lower bound".to_owned()).chain(bounds).collect());
    let deviation = if grid.seeds.len() > 1 { ", ± deviation over seeds" } else { "" };
    let mut text = format!(
        "K ring all-reduces of {} participants on {}, {}: mean over collectives and seeds{deviation}\n\n{}\n",
        grid.participants,
        sweep.graph,
        of_seeds(&grid.seeds),
        table.render(output::width())
    );
    let refused: Vec<&Refusal> =
        sweep.cells.iter().flat_map(|cell| &cell.means).filter_map(|mean| mean.as_ref().err()).collect();
    if let Some(first) = refused.first() {
        text += &format!("  without time {}, the first: {first}\n", refused.len());
    }
    text += &format!("  took         {}\n", seconds(took));
    if let Some(path) = &args.sweep.report {
        text += &format!("  wrote        {}\n", path.display());
    }
    text
}
