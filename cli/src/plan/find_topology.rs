//! `sluice plan find-topology`: which graphs of N machines and d ports are worth having; tables, files and pictures.

mod alltoall;
mod cache;
mod result;
mod searched;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use sluice_formats::problem::{E_RANGE, Problem, Problems, hint};
use sluice_formats::quantity::{self, Capacity, Misread, Rational, Unit};
use sluice_formats::topology::{Topology, draw};
use sluice_plan::plan::{Collective, Plan};
use sluice_planners::direct::family::WORDS;
use sluice_planners::direct::finder::{Candidate, Finder, Options, Values, Workload, frontier_svg, measured};
use sluice_planners::direct::{self, Expr, Graph, Hardware, Refusal, bfb};
use sluice_planners::{Progress, Run};

use super::args::FindTopologyArgs;
use super::made::made_by;
use super::watch::Watch;
use super::{files, threads};
use crate::failure::Failure;
use crate::global::Global;
use crate::interrupt;
use crate::output;
use cache::Cache;
use result::{Point, Shown};

/// What is computed is kept on the disk at least so often.
const KEPT_EVERY: Duration = Duration::from_secs(20);

/// Refusals of plans beyond what a plan file may be; the graph is worth its topology file all the same.
const TOO_LARGE: [&str; 2] = ["TopologyTooLarge", "InvalidChunking"];

pub fn run(global: &Global, args: &FindTopologyArgs) -> Result<ExitCode, Failure> {
    let workload = workload(args)?;
    let mut options = options(args)?;
    let watch = Watch::new(!global.quiet);
    let tell = |progress: Progress<'_>| watch.progress(progress);
    let run = Run { threads: threads(args.threads), watch: &tell, cancel: interrupt::flag(), deadline: None };
    options.extra.extend(searched::graphs(args, &run)?);
    // What a value takes is no news: the finder says which graphs it is at.
    let quiet = Run { watch: &|_| {}, ..run };
    let compute = |graph: &Graph| bfb::cost(graph, &quiet);
    let mut values = Values::new(&compute);
    let cache = Cache::open(args, &mut values);
    let began = Instant::now();
    let mut kept = Instant::now();
    let mut points: Vec<Point> = Vec::new();
    let mut finder = Finder::new(&options, &mut values, &run);
    let sizes = args.nodes.0.iter().enumerate().filter(|(at, _)| args.shard.is_none_or(|shard| shard.takes(*at)));
    for (_, &n) in sizes {
        let found = frontier(&mut finder, n, args.degree, workload.as_ref());
        // What was computed is kept also where the search ends here.
        if found.is_err() || kept.elapsed() >= KEPT_EVERY {
            cache.keep(finder.values())?;
            kept = Instant::now();
        }
        points.extend(found.map_err(|refusal| refused(&refusal, n, args.degree))?);
    }
    cache.keep(finder.values())?;
    if let Some(workload) = workload.as_ref().filter(|_| args.all_to_all) {
        alltoall::times(&mut points, workload, &run)?;
    }
    let seconds = began.elapsed().as_secs_f64();
    if let Some(dir) = &args.out_dir {
        write(args, dir, &mut points, &quiet)?;
    }
    let computed = finder.values().computed();
    watch.finish();
    if !global.quiet {
        let shown = Shown::new(args, points, computed, seconds);
        output::one(global, &shown, || shown.text())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The frontier for `n` machines, each point with the time of an all-reduce.
fn frontier(finder: &mut Finder, n: u32, d: u32, workload: Option<&Workload>) -> Result<Vec<Point>, Refusal> {
    let found = finder.frontier(n, d)?;
    let point = |candidate: Candidate| -> Result<Point, Refusal> {
        let reduce = finder.reduce_scatter(&candidate)?;
        let gather = candidate.t_b.clone();
        let time = workload.and_then(|w| w.all_reduce(candidate.t_l, reduce.as_ref().unwrap_or(&gather), &gather));
        Ok(Point::new(candidate, reduce, time))
    };
    found.into_iter().map(point).collect()
}

/// One directory per point, and a picture per size.
fn write(args: &FindTopologyArgs, dir: &Path, points: &mut [Point], run: &Run) -> Result<(), Failure> {
    let capacity = link_capacity(args)?;
    // Without a bandwidth the graph is abstract, and then no latency has a unit either.
    let latency = args.alpha.as_deref().filter(|_| args.bandwidth.is_some());
    let hardware = Hardware { capacity: &capacity, latency, kind: args.kind };
    for point in points.iter_mut().filter(|point| point.constructible) {
        let candidate = &point.candidate;
        let refuse = |refusal: Refusal| refused(&refusal, candidate.n, candidate.d);
        let graph = candidate.expr.graph().map_err(refuse)?;
        let topology = direct::topology(&graph, &candidate.expr.to_string(), &hardware)?;
        let place = dir.join(format!("n{}-d{}-t{}", candidate.n, candidate.d, candidate.t_l));
        std::fs::create_dir_all(&place)
            .map_err(|error| Failure::failed(format!("{} cannot be made: {error}", place.display())))?;
        files::write(&place.join("topology.json"), &topology.to_text())?;
        files::write(&place.join("topology.svg"), &draw::svg(&topology))?;
        match plan(args, candidate, &topology, run) {
            Ok(plan) => files::write(&place.join("plan.json"), &plan.to_text())?,
            Err(errors) if TOO_LARGE.contains(&errors.code()) => {
                eprintln!("warning: no plan for {}: {errors}", candidate.expr);
            }
            Err(errors) => return Err(errors.into()),
        }
        point.out = Some(place.display().to_string());
    }
    for alike in points.chunk_by(|a, b| a.candidate.n == b.candidate.n) {
        let candidates: Vec<Candidate> = alike.iter().map(|point| point.candidate.clone()).collect();
        let name = format!("frontier-n{}-d{}.svg", candidates[0].n, candidates[0].d);
        files::write(&dir.join(name), &frontier_svg(&candidates))?;
    }
    Ok(())
}

/// The candidate's schedule as a plan that has passed the checker.
fn plan(args: &FindTopologyArgs, candidate: &Candidate, topology: &Topology, run: &Run) -> Result<Plan, Problems> {
    let made = match args.collective {
        Collective::AllGather => candidate.all_gather(run),
        Collective::ReduceScatter => candidate.reduce_scatter(run),
        _ => candidate.all_reduce(run),
    };
    let (graph, schedule) = made.map_err(|refusal| refused(&refusal, candidate.n, candidate.d))?;
    let mut plan = direct::plan_of(topology, &schedule, &measured(&graph, &schedule), Some(candidate.d))?;
    let (collective, expr) = (args.collective.word(), candidate.expr.to_string());
    let command = format!(
        "sluice plan find-topology --nodes {} --degree {} --also '{expr}' --collective {collective}",
        candidate.n, candidate.d
    );
    plan.body.made_by = Some(made_by(command, None));
    Ok(plan)
}

fn options(args: &FindTopologyArgs) -> Result<Options, Problems> {
    if !matches!(args.collective, Collective::AllGather | Collective::ReduceScatter | Collective::AllReduce) {
        let error = Problem::new(E_RANGE, "--collective", "no such plan for graphs without switches");
        return Err(error.found(args.collective.word()).allowed("allgather, reduce_scatter, allreduce").into());
    }
    for word in args.allow.iter().chain(&args.deny) {
        if !WORDS.contains(&word.as_str()) {
            let flag = if args.allow.contains(word) { "--allow" } else { "--deny" };
            let error = Problem::new(E_RANGE, flag, "no such family").found(word).allowed(WORDS.join(", "));
            return Err(error.help(hint(word, WORDS).unwrap_or_default()).into());
        }
    }
    let expr = |text: &String| {
        Expr::parse(text).map_err(|misread| Problems::from(Problem { key: "--also".into(), ..misread.into() }))
    };
    Ok(Options {
        bidirectional: args.bidirectional,
        constructible: !args.with_pictures,
        allow: args.allow.clone(),
        deny: args.deny.clone(),
        exact_limit: args.exact_limit,
        extra: args.also.iter().map(expr).collect::<Result<Vec<Expr>, Problems>>()?,
        ..Options::default()
    })
}

/// The all-reduce to time, if all three of its figures are given.
fn workload(args: &FindTopologyArgs) -> Result<Option<Workload>, Problems> {
    let (Some(size), Some(alpha), Some(bandwidth)) = (&args.size, &args.alpha, &args.bandwidth) else {
        return Ok(None);
    };
    let size = quantity::size(size).map_err(|misread| unread("--size", size, misread))?;
    let (alpha, has_unit) = quantity::latency(alpha).map_err(|misread| unread("--alpha", alpha, misread))?;
    let range = |flag: &str, what: &str| Err(Problem::new(E_RANGE, flag, what).into());
    if !has_unit || alpha.is_negative() {
        return range("--alpha", "a latency of 0 or more with a unit is needed, as in 10us");
    }
    if !size.is_positive() {
        return range("--size", "more than nothing is needed, as in 1MB");
    }
    Ok(Some(Workload { alpha, size, bandwidth: bandwidth_of(bandwidth)?.0 }))
}

fn bandwidth_of(text: &str) -> Result<(Rational, Unit), Problems> {
    match Capacity::parse(text).map_err(|misread| unread("--bandwidth", text, misread))? {
        (Capacity::Finite(base), Some(unit @ Unit::Bytes(_))) if base.is_positive() => Ok((base, unit)),
        _ => {
            let error = Problem::new(E_RANGE, "--bandwidth", "no bandwidth of a machine").found(text);
            Err(error.allowed("more than 0, with a unit, as in 100Gbit/s").into())
        }
    }
}

/// Capacity of a link: a machine's bandwidth over its ports; 1 where no bandwidth is given.
fn link_capacity(args: &FindTopologyArgs) -> Result<String, Problems> {
    let Some(bandwidth) = &args.bandwidth else { return Ok("1".into()) };
    let (base, unit) = bandwidth_of(bandwidth)?;
    let share = base.checked_div(&Rational::from(u64::from(args.degree))).unwrap_or(base);
    Ok(unit.write(&Capacity::Finite(share)))
}

fn unread(flag: &str, found: &str, misread: Misread) -> Problems {
    let error = Problem::new(E_RANGE, flag, format!("not {}", misread.what)).found(found);
    error.allowed(misread.allowed).help(misread.help).into()
}

fn refused(refusal: &Refusal, n: u32, d: u32) -> Problems {
    Problem::new(refusal.code(), "--nodes", refusal.to_string()).found(format!("{n} machines of {d} ports")).into()
}
