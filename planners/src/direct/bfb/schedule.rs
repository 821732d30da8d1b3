//! From the best loads to the sends: every shard in P units, whole units on links, no link above ⌈P·λ⌉.
//!
//! Splitting whole units over links is a transportation problem, so the least largest load in whole units is exactly
//! ⌈P·U⌉, and any P that the denominators of all λ divide loses nothing.

use num_integer::Integer;

use super::arrivals::Arrivals;
use super::inlinks::{Inlinks, Neighbour};
use super::least::counts;
use super::transport::{Jobs, Transport};
use super::unequal::{self, LinkTime};
use super::{loads, over_receivers, receivers};
use crate::direct::schedule::in_order;
use crate::direct::turn::common_units;
use crate::direct::{Cost, Graph, Refusal, Schedule, Send, Shape};
use crate::run::Run;
use sluice_formats::quantity::Rational;

#[cfg(test)]
mod tests;

/// Units of a shard at most.
pub const MAX_UNITS: u32 = 1 << 20;
/// Sends of a schedule at most, as many as a plan may have.
pub const MAX_SENDS: u64 = sluice_plan::plan::MAX_EDGES;

/// Units of a shard where links differ and nobody says how many: can be halved, and divided by 3 to 10.
const UNITS_OF_UNEQUAL_LINKS: u32 = 2520;

/// How a schedule is to be made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    /// Units per shard; by default the fewest that lose nothing, or 2520 where links differ.
    pub units: Option<u32>,
    /// Times of the links, by edge, where they differ.
    pub times: Option<&'a [LinkTime]>,
}

/// A schedule and what it costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// What is sent when, in whole units.
    pub schedule: Schedule,
    /// The loads of its steps.
    pub cost: Cost,
    /// Where links differ, the time that each step takes, latency included.
    pub times: Option<Vec<Rational>>,
}

/// What a schedule costs, known without its sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Costed {
    /// Units that a shard would be cut into.
    pub units: u32,
    /// The loads of its steps.
    pub cost: Cost,
}

/// The best BFB all-gather in whole units.
///
/// # Errors
/// As [`super::cost`]; `InvalidChunking`; `InvalidLinkParameter`; `TopologyTooLarge` with more sends than a plan may have.
pub fn all_gather(graph: &Graph, options: &Options<'_>, run: &Run) -> Result<Planned, Refusal> {
    let links = servable(graph, options)?;
    let Some(of) = options.times else {
        let even = Even::new(&links, graph, options.units, run)?;
        let schedule = lay_out(&links, even.units, run, &|step, _| even.most[step - 1])?;
        return Ok(Planned { schedule, cost: even.cost(graph), times: None });
    };
    let units = options.units.unwrap_or(UNITS_OF_UNEQUAL_LINKS);
    let times = unequal::step_times(&links, of, units, run)?;
    let most = |step: usize, edge: u32| of[edge as usize].units(&times[step - 1], units);
    let schedule = lay_out(&links, units, run, &most)?;
    let cost = Cost::new(largest(graph, &schedule), graph.n(), None);
    Ok(Planned { schedule, cost, times: Some(times) })
}

/// The best BFB reduce-scatter: the all-gather of the transposed graph, backwards.
///
/// # Errors
/// As [`all_gather`].
pub fn reduce_scatter(graph: &Graph, options: &Options<'_>, run: &Run) -> Result<Planned, Refusal> {
    let Planned { schedule, mut cost, mut times } = all_gather(&graph.transposed(), options, run)?;
    cost.loads.reverse();
    times.iter_mut().for_each(|times| times.reverse());
    Ok(Planned { schedule: schedule.transposed(), cost, times })
}

/// A reduce-scatter and then an all-gather. Where the graph is not its own transpose the two cost differently.
///
/// # Errors
/// As [`all_gather`].
pub fn all_reduce(graph: &Graph, options: &Options<'_>, run: &Run) -> Result<Planned, Refusal> {
    let scatter = reduce_scatter(graph, options, run)?;
    let gather = all_gather(graph, options, run)?;
    fits((scatter.schedule.sends.len() + gather.schedule.sends.len()) as u64)?;
    let schedule = scatter.schedule.then(gather.schedule)?;
    let degree = graph.degree().ok().filter(|_| options.times.is_none());
    let cost = Cost::new([scatter.cost.loads, gather.cost.loads].concat(), graph.n(), degree);
    let times = scatter.times.zip(gather.times).map(|(scatter, gather)| [scatter, gather].concat());
    Ok(Planned { schedule, cost, times })
}

/// What [`all_gather`] over links that are all alike costs, in so many units per shard, or the fewest that lose nothing.
///
/// # Errors
/// As [`all_gather`].
pub fn all_gather_cost(graph: &Graph, units: Option<u32>, run: &Run) -> Result<Costed, Refusal> {
    let links = servable(graph, &Options { units, times: None })?;
    let even = Even::new(&links, graph, units, run)?;
    Ok(Costed { units: even.units, cost: even.cost(graph) })
}

/// The same for [`reduce_scatter`].
///
/// # Errors
/// As [`all_gather`].
pub fn reduce_scatter_cost(graph: &Graph, units: Option<u32>, run: &Run) -> Result<Costed, Refusal> {
    let mut costed = all_gather_cost(&graph.transposed(), units, run)?;
    costed.cost.loads.reverse();
    Ok(costed)
}

/// The same for [`all_reduce`].
///
/// # Errors
/// As [`all_gather`].
pub fn all_reduce_cost(graph: &Graph, units: Option<u32>, run: &Run) -> Result<Costed, Refusal> {
    let (scatter, gather) = (reduce_scatter_cost(graph, units, run)?, all_gather_cost(graph, units, run)?);
    let loads = [scatter.cost.loads, gather.cost.loads].concat();
    let cost = Cost::new(loads, graph.n(), graph.degree().ok());
    Ok(Costed { units: common_units(scatter.units, gather.units)?, cost })
}

/// The graph's links, where it and the options allow a schedule.
fn servable(graph: &Graph, options: &Options<'_>) -> Result<Inlinks, Refusal> {
    if let Some(units) = options.units.filter(|units| !(1..=MAX_UNITS).contains(units)) {
        let reason = format!("{units} units per shard; 1 to {MAX_UNITS} are allowed");
        return Err(Refusal::InvalidChunking { reason });
    }
    let n = u64::from(graph.n());
    fits(n * (n - 1))?;
    if let Some(times) = options.times {
        unequal::validate(graph, times)?;
    }
    Inlinks::new(graph)
}

/// Loads in whole units over links that are all alike.
struct Even {
    units: u32,
    /// Units on a link at most, by step.
    most: Vec<u64>,
}

impl Even {
    fn new(links: &Inlinks, graph: &Graph, units: Option<u32>, run: &Run) -> Result<Even, Refusal> {
        let exact = loads(links, receivers(graph), run)?;
        let units = units.map_or_else(|| lossless(&exact), Ok)?;
        let up = |(over, under): (u64, u64)| (over * u64::from(units)).div_ceil(under);
        Ok(Even { units, most: exact.iter().map(|load| up(counts(load))).collect() })
    }
    fn cost(&self, graph: &Graph) -> Cost {
        let shards = |most: &u64| Rational::new(i128::from(*most), i128::from(self.units));
        Cost::new(self.most.iter().filter_map(shards).collect(), graph.n(), graph.degree().ok())
    }
}

/// The largest load of a link in each step.
fn largest(graph: &Graph, schedule: &Schedule) -> Vec<Rational> {
    let mut most = vec![0_u64; schedule.steps as usize];
    let mut on = vec![0_u64; graph.edges().len()];
    for of_step in schedule.sends.chunk_by(|a, b| a.step == b.step) {
        on.fill(0);
        of_step.iter().for_each(|send| on[send.edge as usize] += u64::from(send.hi - send.lo));
        most[of_step[0].step as usize - 1] = on.iter().max().copied().unwrap_or(0);
    }
    most.iter().filter_map(|most| Rational::new(i128::from(*most), i128::from(schedule.units))).collect()
}

fn fits(sends: u64) -> Result<(), Refusal> {
    if sends > MAX_SENDS { Err(Refusal::ScheduleTooLarge { sends, most: MAX_SENDS }) } else { Ok(()) }
}

/// The least common multiple of the denominators.
fn lossless(loads: &[Rational]) -> Result<u32, Refusal> {
    let common = loads.iter().try_fold(1_u64, |common, load| {
        let common = common.lcm(&counts(load).1);
        (common <= MAX_UNITS.into()).then_some(common)
    });
    common.map(|common| common as u32).ok_or_else(|| Refusal::InvalidChunking {
        reason: format!("the fewest units per shard without loss are more than {MAX_UNITS}; say how many"),
    })
}

/// All sends, with at most `most(step, edge)` units on an edge in a step.
fn lay_out(
    links: &Inlinks,
    units: u32,
    run: &Run,
    most: &(dyn Fn(usize, u32) -> u64 + Sync),
) -> Result<Schedule, Refusal> {
    let parts = over_receivers(links.n(), run, |receivers| {
        let (arrivals, jobs, transport) = (Arrivals::new(links), Jobs::default(), Transport::default());
        let mut layout = Layout { links, units, most, arrivals, jobs, transport, sends: Vec::new() };
        for receiver in receivers {
            layout.receive(receiver)?;
        }
        Ok::<_, Refusal>(layout.sends)
    })?;
    let mut sends = Vec::new();
    for part in parts {
        sends.extend(part?);
    }
    fits(sends.len() as u64)?;
    let steps = sends.iter().map(|send: &Send| send.step).max().unwrap_or(0);
    let edges = links.edge_count();
    let place = |send: &Send| (send.step as usize - 1) * edges + send.edge as usize;
    let sends = in_order(&sends, steps as usize * edges, place, |send| (send.shard, send.lo, send.hi));
    Ok(Schedule { shape: Shape::AllGather, units, steps, sends })
}

/// Writes down the sends of one receiver after the other.
struct Layout<'a> {
    links: &'a Inlinks,
    units: u32,
    /// Units on an edge in a step at most.
    most: &'a (dyn Fn(usize, u32) -> u64 + Sync),
    arrivals: Arrivals,
    jobs: Jobs,
    transport: Transport,
    sends: Vec<Send>,
}

impl Layout<'_> {
    fn receive(&mut self, receiver: u32) -> Result<(), Refusal> {
        self.arrivals.at(self.links, receiver);
        for step in 1..=self.arrivals.steps() {
            self.arrivals.jobs(step, &mut self.jobs);
            let (jobs, links, units) = (&self.jobs, self.links, u64::from(self.units));
            let capacity =
                |from: &Neighbour| links.edges(*from).iter().map(|edge| (self.most)(step, *edge)).sum::<u64>();
            let capacities = links.of(receiver).iter().map(capacity);
            if !self.transport.ship(jobs, |group| jobs.counts()[group] * units, capacities) {
                let reason = format!("the loads of step {step} do not serve vertex {receiver}");
                return Err(Refusal::Internal { reason });
            }
            self.write(receiver, step);
            fits(self.sends.len() as u64)?;
        }
        Ok(())
    }

    /// The sources of a group stand in a row, units one after the other; the links take it piece by piece.
    fn write(&mut self, receiver: u32, step: usize) {
        let neighbours = self.links.of(receiver);
        let (groups, units) = (self.jobs.counts().len(), u64::from(self.units));
        let mut quotas: Vec<_> =
            (0..neighbours.len()).map(|place| self.quotas(neighbours[place], place, step)).collect();
        let mut sources = self.arrivals.sources(step);
        for group in 0..groups {
            let (own, rest) = sources.split_at(self.jobs.counts()[group] as usize);
            sources = rest;
            let mut at = 0;
            for (place, quotas) in quotas.iter_mut().enumerate() {
                let end = at + self.transport.flow(group, place);
                while at < end {
                    // The quotas of a neighbour's links add up to what comes from it.
                    let Some((edge, left)) = quotas.last_mut() else { break };
                    let lo = at % units;
                    let size = (end - at).min(units - lo).min(*left);
                    let shard = own[(at / units) as usize];
                    let (step, lo, hi) = (step as u32, lo as u32, (lo + size) as u32);
                    self.sends.push(Send { step, edge: *edge, shard, lo, hi });
                    at += size;
                    *left -= size;
                    if *left == 0 {
                        quotas.pop();
                    }
                }
            }
        }
    }

    /// What each of the parallel links from a neighbour carries, as even as can be; the first link last, none empty.
    fn quotas(&self, neighbour: Neighbour, place: usize, step: usize) -> Vec<(u32, u64)> {
        let edges = self.links.edges(neighbour);
        let mut left = (0..self.jobs.counts().len()).map(|group| self.transport.flow(group, place)).sum::<u64>();
        let mut room: u64 = edges.iter().map(|edge| (self.most)(step, *edge)).sum();
        let mut quotas = Vec::with_capacity(edges.len());
        for (place, edge) in edges.iter().enumerate() {
            let most = (self.most)(step, *edge);
            room -= most;
            let quota = left.div_ceil((edges.len() - place) as u64).max(left.saturating_sub(room)).min(most);
            left -= quota;
            quotas.push((*edge, quota));
        }
        quotas.retain(|(_, quota)| *quota > 0);
        quotas.reverse();
        quotas
    }
}
