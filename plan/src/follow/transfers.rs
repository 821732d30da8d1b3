//! A plan of rates, weights or an order, in ranks: what each rank of one collective sends to which other, flow by flow.
//!
//! The flows of a group from one rank to another follow each other, and are a *lane*: one connection carries them. What a
//! plan gives a flow is a rate of its own, a place in an order, or both, and it begins when those it waits for have come.
//! A weight is the group's part of every link beside all groups that ever use the link, and so a rate too. Flows of other
//! collectives are other jobs' business: they are counted in weights and in places, and not waited for.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::plan::{Content, Execution, Flow, NodeId, Plan, WeightGroup};
use sluice_formats::problem::{E_LIMIT, E_RANGE, Problem, Problems};
use sluice_formats::quantity::Rational;
use sluice_formats::topology::Topology;

/// The flows of one collective.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transfers {
    /// By sender, receiver and group: lanes between the same two ranks stand in the order of their groups.
    pub lanes: Vec<Lane>,
    /// May a flow take more than its own rate where others leave it?
    pub fills: bool,
    /// Does the collective go first that would end first if it were alone from now on? Places then count within it.
    pub by_round: bool,
}

/// What one rank sends to another for one group, flow by flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// The rank that sends.
    pub from: u32,
    /// The rank that receives.
    pub to: u32,
    /// Its flows; each begins when the one before has been sent.
    pub flows: Vec<Transfer>,
}

/// A flow of a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Bytes of the lane up to this flow's end.
    pub end: u64,
    /// The rate it has for itself, in bits per second; `None`: the plan gives it none.
    pub bits_per_second: Option<u64>,
    /// Its place in the order of the plan's flows, the lower first; `None`: the plan has no order.
    pub place: Option<u64>,
    /// What must have come before it begins.
    pub after: Vec<Arrival>,
}

/// So many bytes of another lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrival {
    /// The lane, by its place in [`Transfers::lanes`].
    pub lane: usize,
    /// Bytes of it that must have come.
    pub bytes: u64,
}

impl Lane {
    /// Bytes of all its flows.
    pub fn bytes(&self) -> u64 {
        self.flows.last().map_or(0, |flow| flow.end)
    }
}

/// A flow's own group.
type Group = (u64, u64);

/// The flows of a plan and how they are carried out; `None`: a plan of another kind.
fn flows(plan: &Plan) -> Option<(&[Flow], Execution)> {
    match &plan.body.content {
        Content::Rates(rates) => Some((&rates.flows, rates.execution)),
        Content::Weights(weights) => Some((&weights.flows, weights.execution)),
        Content::Order(order) => Some((&order.flows, order.execution)),
        _ => None,
    }
}

/// The number of the collective that is followed: the one asked for, or the only one.
pub fn collective(plan: &Plan, asked: Option<u64>) -> Result<Option<u64>, Problems> {
    let Some((flows, _)) = flows(plan) else { return Ok(None) };
    let numbers: BTreeSet<u64> = flows.iter().map(|flow| flow.collective).collect();
    let all = || {
        let first: Vec<String> = numbers.iter().take(8).map(u64::to_string).collect();
        format!("{}{}", first.join(", "), if numbers.len() > 8 { ", …" } else { "" })
    };
    match asked {
        Some(number) if numbers.contains(&number) => Ok(Some(number)),
        Some(number) => {
            let problem = Problem::new(E_RANGE, "collective", "the plan has no such collective");
            Err(problem.found(number.to_string()).allowed(all()).into())
        }
        None if numbers.len() == 1 => Ok(numbers.first().copied()),
        None => {
            let message = "the plan is for several collectives, and nobody says which of them this job is";
            let help = "name it with SLUICE_PLAN_COLLECTIVE";
            Err(Problem::new(E_RANGE, "collective", message).allowed(all()).help(help).into())
        }
    }
}

/// The nodes of a collective by rank: in the order in which its flows first leave them, then those that only receive.
pub fn participants(plan: &Plan, collective: u64) -> Vec<NodeId> {
    let of = flows(plan).map_or(&[][..], |(flows, _)| flows);
    let mut own: Vec<&Flow> = of.iter().filter(|flow| flow.collective == collective).collect();
    own.sort_by_key(|flow| (flow.group, flow.order));
    let mut nodes = Vec::new();
    let mut seen = BTreeSet::new();
    for node in own.iter().map(|flow| flow.src).chain(own.iter().map(|flow| flow.dst)) {
        if seen.insert(node) {
            nodes.push(node);
        }
    }
    nodes
}

/// Reads the flows of a collective of a plan that the checker found right. `ranks` are the ranks of the job by node.
pub fn follow(
    plan: &Plan,
    topology: &Topology,
    collective: u64,
    ranks: &HashMap<NodeId, u32>,
) -> Result<Transfers, Problems> {
    let Some((flows, execution)) = flows(plan) else { return Ok(Transfers::default()) };
    let parts = match &plan.body.content {
        Content::Weights(weights) => Some(Parts::new(&weights.flows, &weights.groups)),
        _ => None,
    };
    let places = places(flows, execution);
    let mut own: Vec<usize> = (0..flows.len()).filter(|at| flows[*at].collective == collective).collect();
    let rank = |node: NodeId| ranks.get(&node).copied().unwrap_or(u32::MAX);
    own.sort_by_key(|at| {
        let flow = &flows[*at];
        (rank(flow.src), rank(flow.dst), flow.group, flow.order)
    });
    // Where each flow comes to its end: which lane, and how many bytes of it.
    let mut ends: HashMap<u64, Arrival> = HashMap::new();
    let mut lanes: Vec<Vec<usize>> = Vec::new();
    let together = |a: &usize, b: &usize| {
        let (a, b) = (&flows[*a], &flows[*b]);
        (a.src, a.dst, a.group) == (b.src, b.dst, b.group)
    };
    for of in own.chunk_by(together) {
        let mut bytes = Rational::ZERO;
        for at in of {
            bytes = &bytes + flows[*at].size.value();
            let end = bytes.to_units(1).ok_or_else(|| {
                let problem = Problem::new(E_LIMIT, format!("/content/flows/{at}/size"), "more than can be counted");
                problem.allowed("less than 2^64 bytes between two nodes")
            })?;
            ends.insert(flows[*at].id, Arrival { lane: lanes.len(), bytes: end });
        }
        lanes.push(of.to_vec());
    }
    let before: HashMap<(Group, u64), u64> =
        own.iter().map(|at| ((group(&flows[*at]), flows[*at].order + 1), flows[*at].id)).collect();
    let transfer = |lane: usize, at: usize| {
        let flow = &flows[at];
        let chain = before.get(&(group(flow), flow.order)).into_iter();
        let waits = chain.chain(flow.pred.iter().flatten()).filter_map(|id| ends.get(id));
        // What the lane itself carries comes in its order.
        let mut after: Vec<Arrival> = waits.filter(|arrival| arrival.lane != lane).copied().collect();
        after.sort_unstable();
        after.dedup();
        let bits_per_second = match &parts {
            Some(parts) => parts.bits_per_second(topology, flow),
            None => flow.rate.as_ref().and_then(|rate| rate.value().bits_per_second()),
        };
        let place = match &places {
            Some(places) => places.get(&flow.id).copied(),
            None => (execution == Execution::PriorityRecomputed).then_some(lane as u64),
        };
        Transfer { end: ends.get(&flow.id).map_or(0, |end| end.bytes), bits_per_second, place, after }
    };
    let lane = |(number, of): (usize, &Vec<usize>)| {
        let first = &flows[of[0]];
        let flows = of.iter().map(|at| transfer(number, *at)).collect();
        Lane { from: rank(first.src), to: rank(first.dst), flows }
    };
    let lanes = lanes.iter().enumerate().map(lane).collect();
    let by_round = execution == Execution::PriorityRecomputed;
    Ok(Transfers { lanes, fills: execution != Execution::Static, by_round })
}

fn group(flow: &Flow) -> Group {
    (flow.collective, flow.group)
}

/// The place of every flow by its id, where the plan has an order: by rank, or by the time at which it begins.
fn places(flows: &[Flow], execution: Execution) -> Option<BTreeMap<u64, u64>> {
    let mut order: Vec<&Flow> = flows.iter().collect();
    match execution {
        Execution::Priority => order.sort_by_key(|flow| (flow.rank, flow.id)),
        Execution::OrderPreserving => {
            let start = |flow: &Flow| flow.start_s.as_ref().map_or(Rational::ZERO, |start| start.value());
            order.sort_by_cached_key(|flow| (start(flow), flow.id));
        }
        _ => return None,
    }
    Some(order.iter().map(|flow| flow.id).zip(0..).collect())
}

/// What weights say of links.
struct Parts {
    weights: HashMap<Group, Rational>,
    /// By link, the weights of all groups that ever use it.
    sums: HashMap<u32, Rational>,
}

impl Parts {
    fn new(flows: &[Flow], groups: &[WeightGroup]) -> Parts {
        let weights: HashMap<Group, Rational> =
            groups.iter().map(|of| ((of.collective, of.group), of.weight.clone())).collect();
        let users: BTreeSet<(u32, Group)> =
            flows.iter().flat_map(|flow| flow.path.iter().map(move |link| (*link, group(flow)))).collect();
        let mut sums: HashMap<u32, Rational> = HashMap::new();
        for (link, of) in users {
            if let Some(weight) = weights.get(&of) {
                let sum = sums.entry(link).or_insert(Rational::ZERO);
                *sum = &*sum + weight;
            }
        }
        Parts { weights, sums }
    }

    /// The least part that a flow's group has of a link on its way.
    fn bits_per_second(&self, topology: &Topology, flow: &Flow) -> Option<u64> {
        let weight = self.weights.get(&group(flow))?;
        let of = |link: &u32| {
            let capacity = topology.links().get(*link as usize)?.capacity.bits_per_second()?;
            let part = weight.checked_div(self.sums.get(link)?)?;
            (&part * &Rational::from(capacity)).to_units(1)
        };
        flow.path.iter().filter_map(of).min()
    }
}

#[cfg(test)]
mod tests;
