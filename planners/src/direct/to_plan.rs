//! From a schedule to a plan of kind `steps`: ranks for vertices, a claim with exact figures, and what bounds it.

use std::collections::HashSet;

use super::bfb::{self, Costed, Planned};
use super::from_topology::{Instance, Proof, SUPPORT, has_units};
use super::schedule::in_order;
use super::{Cost, Refusal, Schedule, Shape};
use crate::front::{Asked, Draft};
use crate::run::{Run, Stopped};
use sluice_formats::problem::{INTERNAL_INVARIANT, Problem, Problems};
use sluice_formats::quantity::Rational;
use sluice_formats::topology::Topology;
use sluice_plan::plan::{
    Certificate, CertificateKind, Claim, Collective, Content, Exact, MadeBy, Names, Nullable, Op, PerByte, Plan, Shard,
    Status, Step, StepSend, Steps,
};

/// The planner's own figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// What the plan claims, or would claim.
    pub claim: Claim,
    /// Vertices of the graph: nodes that take part.
    pub n: u32,
    /// The degree; `None` where nodes or links differ.
    pub d: Option<u32>,
    /// Steps, the largest load in each, and τ.
    pub cost: Cost,
    /// Units that a shard is cut into.
    pub units: u32,
    /// Is τ what no schedule beats? Of an all-reduce twice (N−1)/N.
    pub bandwidth_optimal: bool,
    /// Are the steps as few as on any graph of this size and degree?
    pub moore_optimal: bool,
    /// Seconds (or what the topology counts in) for the size asked about, latencies included.
    pub time: Option<Rational>,
}

/// A plan that passed the checker, with the planner's own figures.
#[derive(Clone, Debug)]
pub struct Made {
    /// The plan; who made it is for the caller to add.
    pub plan: Plan,
    /// What it is worth.
    pub figures: Figures,
}

/// Plans, claims and checks.
///
/// # Errors
/// What the planner refuses, with pointers into the topology; `INTERNAL_INVARIANT` where the checker disagrees.
pub fn make(instance: &Instance<'_>, run: &Run) -> Result<Made, Problems> {
    let Drafted { draft, figures } = drafted(instance, run)?;
    Ok(Made { plan: instance.asked.plan(draft)?, figures })
}

/// As [`make`] for a plan of `made_by`, and what `work` makes of it on another thread while it is checked.
///
/// # Errors
/// As [`make`]; what `work` made is dropped then.
pub fn make_while<T: Send>(
    instance: &Instance<'_>,
    run: &Run,
    made_by: impl FnOnce() -> MadeBy,
    work: impl FnOnce(&Plan) -> T + Send,
) -> Result<(Made, T), Problems> {
    let Drafted { draft, figures } = drafted(instance, run)?;
    let (plan, done) = instance.asked.plan_while(draft, made_by(), work)?;
    Ok((Made { plan, figures }, done))
}

/// A plan that is still to be put together, and its figures.
struct Drafted {
    draft: Draft,
    figures: Figures,
}

fn drafted(instance: &Instance<'_>, run: &Run) -> Result<Drafted, Problems> {
    let planned = planned(instance, run).map_err(|refusal| instance.refused(&refusal))?;
    let figures = of_schedule(instance, &planned)?;
    let content = content(&planned.schedule, run).map_err(|stopped| instance.refused(&stopped.into()))?;
    let draft = Draft { names: Names::default(), content, claim: figures.claim.clone(), demands: None };
    Ok(Drafted { draft, figures })
}

/// The figures of the plan that [`make`] would make. Where links are all alike no send is laid out for them.
///
/// # Errors
/// What the planner refuses, with pointers into the topology.
pub fn figures(instance: &Instance<'_>, run: &Run) -> Result<Figures, Problems> {
    let refused = |refusal: Refusal| instance.refused(&refusal);
    if instance.is_unequal() {
        return of_schedule(instance, &planned(instance, run).map_err(refused)?);
    }
    let (graph, units) = (&instance.graph, instance.units);
    let costed = match instance.asked.collective {
        Collective::AllGather => bfb::all_gather_cost(graph, units, run),
        Collective::ReduceScatter => bfb::reduce_scatter_cost(graph, units, run),
        _ => bfb::all_reduce_cost(graph, units, run),
    };
    let Costed { units, cost } = costed.map_err(refused)?;
    let time = time_over_equal_links(instance.asked.topology, &cost);
    claimed(instance, units, &cost, None, time)
}

fn planned(instance: &Instance<'_>, run: &Run) -> Result<Planned, Refusal> {
    let options = bfb::Options { units: instance.units, times: instance.times.as_deref() };
    match instance.asked.collective {
        Collective::AllGather => bfb::all_gather(&instance.graph, &options, run),
        Collective::ReduceScatter => bfb::reduce_scatter(&instance.graph, &options, run),
        _ => bfb::all_reduce(&instance.graph, &options, run),
    }
}

fn of_schedule(instance: &Instance<'_>, planned: &Planned) -> Result<Figures, Problems> {
    let Planned { schedule, cost, times } = planned;
    let topology = instance.asked.topology;
    let time = if instance.even { time_over_equal_links(topology, cost) } else { time_per_byte(topology, schedule) };
    claimed(instance, schedule.units, cost, times.as_deref(), time)
}

/// The figures of a schedule of these costs; `times` of its steps where links differ, `time` per byte of M.
fn claimed(
    instance: &Instance<'_>,
    units: u32,
    cost: &Cost,
    times: Option<&[Rational]>,
    time: Rational,
) -> Result<Figures, Problems> {
    let (graph, topology, collective) = (&instance.graph, instance.asked.topology, instance.asked.collective);
    let (n, d) = (graph.n(), graph.degree().ok().filter(|_| !instance.is_unequal()));
    let phases = if collective == Collective::AllReduce { 2 } else { 1 };
    let least = &bfb::least_bandwidth(n) * &Rational::from(phases);
    let fewest = d.and_then(|d| bfb::fewest_steps(n, d)).map(|steps| steps * phases as u32);
    // Loads know nothing of latency: there is a bandwidth term wherever links are equally fast.
    let degree = graph.degree().ok().filter(|_| instance.even);
    let claim = steps_claim(cost, Cost::new(cost.loads.clone(), n, degree).t_b);
    let claim = match instance.proof {
        Proof::Bandwidth => bandwidth(claim, topology, collective, time)?,
        // Breadth-first, each phase has as many steps as the farthest vertex has hops.
        Proof::Diameter => {
            let (steps, diameter) = (cost.t_l(), cost.t_l() / phases as u32);
            let bound = PerByte { value: Rational::from(u64::from(diameter)), seconds: false };
            bounded(claim, bound, CertificateKind::Diameter, steps == diameter)
        }
    };
    let time = match (times, &instance.link) {
        (Some(times), _) if instance.sized => Some(times.iter().sum()),
        (None, Some(link)) => {
            let steps = Rational::from(u64::from(cost.t_l()));
            Some(&(&link.latency * &steps) + &(&link.shard * &cost.load_sum))
        }
        _ => None,
    };
    Ok(Figures {
        claim,
        n,
        d,
        bandwidth_optimal: cost.t_b.as_ref() == Some(&least),
        moore_optimal: fewest == Some(cost.t_l()),
        units,
        cost: cost.clone(),
        time,
    })
}

/// A schedule of any making as a plan with its claim, for a topology whose nodes are its vertices and whose links, all
/// alike, are its edges; `d` is its degree.
///
/// # Errors
/// `INTERNAL_INVARIANT` where the checker disagrees.
pub fn plan_of(topology: &Topology, schedule: &Schedule, cost: &Cost, d: Option<u32>) -> Result<Plan, Problems> {
    let collective = match schedule.shape {
        Shape::AllGather => Collective::AllGather,
        Shape::ReduceScatter => Collective::ReduceScatter,
        Shape::AllReduce { .. } => Collective::AllReduce,
    };
    let claim = steps_claim(cost, cost.t_b.clone().filter(|_| d.is_some()));
    let claim = bandwidth(claim, topology, collective, time_over_equal_links(topology, cost))?;
    let content = content(schedule, &Run::quiet(1)).map_err(|stopped| Problems::from(stopped.problem()))?;
    let draft = Draft { names: Names::default(), content, claim, demands: None };
    Asked::of_all(topology, collective, &SUPPORT).plan(draft)
}

/// Claims the figures of the steps.
fn steps_claim(cost: &Cost, t_b: Option<Rational>) -> Claim {
    Claim {
        t_l: Some(cost.t_l().into()),
        loads: Some(cost.loads.iter().cloned().map(Exact).collect()),
        load_sum: Some(Exact(cost.load_sum.clone())),
        t_b: Some(Nullable(t_b.map(Exact))),
        ..Claim::default()
    }
}

/// A schedule as the content of a plan for a topology whose nodes are its vertices and whose links are its edges.
fn content(schedule: &Schedule, run: &Run) -> Result<Content, Stopped> {
    let reduce_steps = match schedule.shape {
        Shape::AllGather => 0,
        Shape::ReduceScatter => schedule.steps,
        Shape::AllReduce { reduce_steps } => reduce_steps,
    };
    let shards = schedule.sends.iter().map(|send| send.shard as usize + 1).max().unwrap_or(0);
    let end = |step: u32| schedule.sends.partition_point(|send| send.step <= step);
    let written = |send: &super::Send| StepSend {
        shard: Shard::Of(send.shard),
        lo: send.lo.into(),
        hi: send.hi.into(),
        link: send.edge,
    };
    let step = |step: u32| {
        let sends = &schedule.sends[end(step)..end(step + 1)];
        let sends = in_order(sends, shards, |send| send.shard as usize, |send| (send.lo, send.edge));
        let op = if step < reduce_steps { Op::Reduce } else { Op::Copy };
        Step { copies: None, op, sends: sends.iter().map(written).collect() }
    };
    let steps = run.each(schedule.steps as usize, || (), |(), index| step(index as u32))?;
    Ok(Content::Steps(Steps { p: schedule.units.into(), shares: None, step_length: None, steps }))
}

/// Claims time, bandwidth, and the bound of both.
fn bandwidth(claim: Claim, topology: &Topology, collective: Collective, time: Rational) -> Result<Claim, Problems> {
    let (unit, seconds) = (topology.unit(), has_units(topology));
    let bound = lower_bound(topology, collective);
    let bound = bound.ok_or_else(|| Problem::new(INTERNAL_INVARIANT, "", "a connected graph without a bound"))?;
    let optimal = bound == time;
    let claim = Claim {
        algorithm_bandwidth: time.recip().map(|rate| Exact(unit.express(&rate))),
        time_per_byte: Some(PerByte { value: time, seconds }),
        ..claim
    };
    Ok(bounded(claim, PerByte { value: bound, seconds }, CertificateKind::Bandwidth, optimal))
}

fn bounded(claim: Claim, bound: PerByte, kind: CertificateKind, optimal: bool) -> Claim {
    Claim {
        lower_bound: Some(bound),
        optimal: Some(optimal),
        status: Some(if optimal { Status::Optimal } else { Status::Feasible }),
        certificate: Some(Certificate::new(kind)),
        ..claim
    }
}

/// Σ over steps of the longest time on a link, without latency, per byte of M, where all links are equally fast.
fn time_over_equal_links(topology: &Topology, cost: &Cost) -> Rational {
    let capacity = topology.links().first().and_then(|link| link.capacity.finite()).unwrap_or(&Rational::ONE);
    let whole = capacity * &Rational::from(topology.nodes().len() as u64);
    cost.load_sum.checked_div(&whole).unwrap_or(Rational::ZERO)
}

/// The same of any links.
fn time_per_byte(topology: &Topology, schedule: &Schedule) -> Rational {
    let links = topology.links();
    let (mut sum, mut on) = (Rational::ZERO, vec![0_u64; links.len()]);
    for step in schedule.sends.chunk_by(|a, b| a.step == b.step) {
        on.fill(0);
        step.iter().for_each(|send| on[send.edge as usize] += u64::from(send.hi - send.lo));
        let used = on.iter().zip(links).filter(|(units, _)| **units > 0);
        let times = used.filter_map(|(units, link)| Rational::from(*units).checked_div(link.capacity.finite()?));
        sum += &times.max().unwrap_or(Rational::ZERO);
    }
    let whole = u64::from(schedule.units) * topology.nodes().len() as u64;
    sum.checked_div(&Rational::from(whole)).unwrap_or(Rational::ZERO)
}

/// What no schedule beats, per byte of M: a node's own links; of an all-reduce, what all nodes or all machines together
/// must take in.
fn lower_bound(topology: &Topology, collective: Collective) -> Option<Rational> {
    let nodes = topology.nodes();
    if collective == Collective::AllReduce {
        let machine = |node: usize| nodes[node].machine.as_deref().map(|machine| (true, machine));
        let alone = |node: usize| (false, &*nodes[node].id);
        let bounds = [false, true].map(|by_machine| {
            let place = |node: usize| machine(node).filter(|_| by_machine).unwrap_or_else(|| alone(node));
            let places = (0..nodes.len()).map(place).collect::<HashSet<_>>().len() as u64;
            let enters = topology.links().iter().filter(|link| place(link.from) != place(link.to));
            let into: Rational = enters.filter_map(|link| link.capacity.finite()).sum();
            Rational::from(2 * (places - 1)).checked_div(&into)
        });
        return bounds.into_iter().flatten().max();
    }
    let mut of_nodes = vec![Rational::ZERO; nodes.len()];
    for link in topology.links().iter().filter(|link| link.from != link.to) {
        let node = if collective == Collective::AllGather { link.to } else { link.from };
        of_nodes[node] += link.capacity.finite()?;
    }
    let slowest = of_nodes.into_iter().min()?;
    bfb::least_bandwidth(nodes.len() as u32).checked_div(&slowest)
}
