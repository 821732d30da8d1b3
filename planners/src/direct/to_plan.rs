//! From a schedule to a plan of kind `steps`: ranks for vertices, a claim with exact figures, and what bounds it.
//!
//! Every plan goes through the checker, which shares no code with the planner, before anybody sees it.

use std::collections::{BTreeMap, HashSet};

use super::bfb::{self, Planned};
use super::from_topology::{Instance, Proof, has_units};
use super::{Refusal, Schedule, Shape};
use sluice_formats::json::Writer;
pub use sluice_formats::problem::INTERNAL_INVARIANT;
use sluice_formats::problem::{Problem, Problems};
use sluice_formats::quantity::Rational;
use sluice_formats::topology::Topology;
use sluice_plan::check;
use sluice_plan::plan::{
    Certificate, CertificateKind, Collective, Content, Exact, Names, NodeId, Nullable, Op, PerByte, Plan, Shard,
    Status, Step, StepSend, Steps,
};

/// A plan that passed the checker, with the planner's own figures.
#[derive(Clone, Debug)]
pub struct Made {
    /// The plan; who made it is for the caller to add.
    pub plan: Plan,
    /// Vertices.
    pub n: u32,
    /// The degree; `None` where nodes or links differ.
    pub d: Option<u32>,
    /// Steps, loads, τ.
    pub cost: super::Cost,
    /// Units per shard.
    pub units: u32,
    /// Is τ what no schedule beats? Of an all-reduce twice (N−1)/N.
    pub bandwidth_optimal: bool,
    /// Are the steps as few as on any graph of this size and degree?
    pub moore_optimal: bool,
    /// Seconds (or what the topology counts in) for the size asked about, latencies included.
    pub time: Option<Rational>,
}

impl Made {
    /// The claim as it stands in the plan, compact.
    pub fn claim_json(&self) -> String {
        Writer::compact(&self.plan.body.claim, Some(&self.plan.names))
    }
}

/// Plans, claims and checks.
///
/// # Errors
/// What the planner refuses, with pointers into the topology; [`INTERNAL_INVARIANT`] where the checker disagrees.
pub fn make(instance: &Instance<'_>, threads: usize) -> Result<Made, Problems> {
    let refused = |refusal: Refusal| instance.refused(&refusal);
    let options = bfb::Options { units: instance.units, times: instance.times.as_deref(), threads };
    let graph = &instance.graph;
    let planned = match instance.collective {
        Collective::AllGather => bfb::all_gather(graph, &options),
        Collective::ReduceScatter => bfb::reduce_scatter(graph, &options),
        _ => bfb::all_reduce(graph, &options),
    };
    let Planned { schedule, cost, times } = planned.map_err(refused)?;
    let (n, d) = (graph.n(), graph.degree().ok().filter(|_| !instance.is_unequal()));
    let phases = if instance.collective == Collective::AllReduce { 2 } else { 1 };
    let least = &bfb::least_bandwidth(n) * &Rational::from(phases);
    let fewest = d.and_then(|d| bfb::fewest_steps(n, d)).map(|steps| steps * phases as u32);
    let mut plan = steps_plan(instance.topology, instance.collective, &schedule);
    plan.body.ignored =
        Some(instance.ignored.iter().map(|key| (*key).into()).collect()).filter(|keys: &Vec<_>| !keys.is_empty());
    // Loads know nothing of latency: there is a bandwidth term wherever links are equally fast.
    let degree = graph.degree().ok().filter(|_| instance.even);
    figures(&mut plan, &cost, super::Cost::new(cost.loads.clone(), n, degree).t_b);
    match instance.proof {
        Proof::Bandwidth => bandwidth(&mut plan, instance.topology, &schedule)?,
        // Breadth-first, each phase has as many steps as the farthest vertex has hops.
        Proof::Diameter => {
            let (steps, diameter) = (cost.t_l(), cost.t_l() / phases as u32);
            let bound = PerByte { value: Rational::from(u64::from(diameter)), seconds: false };
            bounded(&mut plan, bound, CertificateKind::Diameter, steps == diameter);
        }
    }
    let plan = passed(plan, instance.topology)?;
    let time = match (&times, &instance.link) {
        (Some(times), _) if instance.sized => Some(times.iter().sum()),
        (None, Some(link)) => {
            let steps = Rational::from(u64::from(cost.t_l()));
            Some(&(&link.latency * &steps) + &(&link.shard * &cost.load_sum))
        }
        _ => None,
    };
    Ok(Made {
        plan,
        n,
        d,
        bandwidth_optimal: cost.t_b.as_ref() == Some(&least),
        moore_optimal: fewest == Some(cost.t_l()),
        units: schedule.units,
        cost,
        time,
    })
}

/// A schedule of any making as a plan with its claim, for a topology whose nodes are its vertices and whose links, all
/// alike, are its edges; `d` is its degree.
///
/// # Errors
/// [`INTERNAL_INVARIANT`] where the checker disagrees.
pub fn plan_of(topology: &Topology, schedule: &Schedule, cost: &super::Cost, d: Option<u32>) -> Result<Plan, Problems> {
    let collective = match schedule.shape {
        Shape::AllGather => Collective::AllGather,
        Shape::ReduceScatter => Collective::ReduceScatter,
        Shape::AllReduce { .. } => Collective::AllReduce,
    };
    let mut plan = steps_plan(topology, collective, schedule);
    figures(&mut plan, cost, cost.t_b.clone().filter(|_| d.is_some()));
    bandwidth(&mut plan, topology, schedule)?;
    passed(plan, topology)
}

/// Claims the figures of the steps.
fn figures(plan: &mut Plan, cost: &super::Cost, t_b: Option<Rational>) {
    let claim = &mut plan.body.claim;
    claim.t_l = Some(cost.t_l().into());
    claim.loads = Some(cost.loads.iter().cloned().map(Exact).collect());
    claim.load_sum = Some(Exact(cost.load_sum.clone()));
    claim.t_b = Some(Nullable(t_b.map(Exact)));
}

/// The plan after it has passed the checker.
fn passed(plan: Plan, topology: &Topology) -> Result<Plan, Problems> {
    let report = check::check(&plan, Some(topology));
    let Some(violation) = report.violation else { return Ok(plan) };
    let message = format!("the plan did not pass the checker: {}", violation.message);
    let error = Problem::new(INTERNAL_INVARIANT, violation.at, message).detail("violation", violation.code.word());
    Err(error.help("please report it with the topology").into())
}

/// A schedule as a plan for a topology whose nodes are its vertices and whose links are its edges; claims nothing yet.
pub fn steps_plan(topology: &Topology, collective: Collective, schedule: &Schedule) -> Plan {
    let reduce_steps = match schedule.shape {
        Shape::AllGather => 0,
        Shape::ReduceScatter => schedule.steps,
        Shape::AllReduce { reduce_steps } => reduce_steps,
    };
    let op = |step: u32| if step < reduce_steps { Op::Reduce } else { Op::Copy };
    let mut steps: Vec<Step> = (0..schedule.steps).map(|step| Step { op: op(step), sends: Vec::new() }).collect();
    let mut sorted = schedule.sends.clone();
    sorted.sort_unstable_by_key(|send| (send.step, send.shard, send.lo, send.edge));
    for send in sorted {
        if let Some(step) = steps.get_mut(send.step.wrapping_sub(1) as usize) {
            let (shard, lo, hi, link) = (Shard::Of(send.shard), send.lo.into(), send.hi.into(), send.edge);
            step.sends.push(StepSend { shard, lo, hi, link });
        }
    }
    let mut names = Names::default();
    let ids: Vec<NodeId> = topology.nodes().iter().map(|node| names.intern(&node.id)).collect();
    let content = Content::Steps(Steps { p: schedule.units.into(), step_length: None, steps });
    let mut plan = Plan::new(topology, collective, names, content);
    plan.body.participants = Some(ids);
    plan
}

/// Claims time, bandwidth, and the bound of both.
fn bandwidth(plan: &mut Plan, topology: &Topology, schedule: &Schedule) -> Result<(), Problems> {
    let (unit, seconds) = (topology.unit(), has_units(topology));
    let time = time_per_byte(topology, schedule);
    let bound = lower_bound(topology, plan.body.collective);
    let bound = bound.ok_or_else(|| Problem::new(INTERNAL_INVARIANT, "", "a connected graph without a bound"))?;
    let optimal = bound == time;
    plan.body.claim.algorithm_bandwidth = time.recip().map(|rate| Exact(unit.express(&rate)));
    plan.body.claim.time_per_byte = Some(PerByte { value: time, seconds });
    bounded(plan, PerByte { value: bound, seconds }, CertificateKind::Bandwidth, optimal);
    Ok(())
}

fn bounded(plan: &mut Plan, bound: PerByte, kind: CertificateKind, optimal: bool) {
    let claim = &mut plan.body.claim;
    claim.lower_bound = Some(bound);
    claim.optimal = Some(optimal);
    claim.status = Some(if optimal { Status::Optimal } else { Status::Feasible });
    claim.certificate = Some(Certificate { kind, nodes: None, prices: None });
}

/// Σ over steps of the longest time on a link, without latency, per byte of M.
fn time_per_byte(topology: &Topology, schedule: &Schedule) -> Rational {
    let links = topology.links();
    let (mut sum, mut on) = (Rational::ZERO, BTreeMap::new());
    let mut sends = schedule.sends.clone();
    sends.sort_unstable_by_key(|send| send.step);
    for step in sends.chunk_by(|a, b| a.step == b.step) {
        on.clear();
        for send in step {
            *on.entry(send.edge as usize).or_insert(0_u64) += u64::from(send.hi - send.lo);
        }
        let time = |(edge, units): (&usize, &u64)| Rational::from(*units).checked_div(links[*edge].capacity.finite()?);
        sum += &on.iter().filter_map(time).max().unwrap_or(Rational::ZERO);
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
