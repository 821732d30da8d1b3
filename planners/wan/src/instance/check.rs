//! The checks of an instance, in the order in which they are made.

use super::{Broken, Flow, Group, Link, MAX_DEPENDENCIES, MAX_FLOWS, MAX_LINKS, MAX_NODES};
use crate::refusal::{Fault, Refusal};

/// How far apart sizes, and capacities, may be.
const MAX_RATIO: f64 = 1e9;
/// How small and how large they may be: what is computed of them then stays finite.
const ABSOLUTE: (f64, f64) = (1e-100, 1e100);

/// Pairs of flows, the later of which waits for the earlier.
type Edges = Vec<(usize, usize)>;

/// Refuses more than can be planned.
pub(super) fn sizes(
    nodes: usize,
    links: &[Link],
    flows: &[Flow],
    deps: Option<&[(usize, usize)]>,
) -> Result<(), Refusal> {
    let counts = [
        ("nodes", nodes, MAX_NODES),
        ("links", links.len(), MAX_LINKS),
        ("flows", flows.len(), MAX_FLOWS),
        ("dependencies", deps.map_or(0, <[_]>::len), MAX_DEPENDENCIES),
    ];
    match counts.into_iter().find(|&(_, found, allowed)| found > allowed) {
        Some((what, found, allowed)) => Err(Refusal::TooLarge { what, found, allowed }),
        None => Ok(()),
    }
}

/// Refuses nothing at all, and a collective without flows.
pub(super) fn collectives(flows: &[Flow]) -> Result<(), Refusal> {
    if flows.is_empty() {
        return Err(Refusal::NoFlows);
    }
    let mut there = vec![false; flows.len()];
    let mut highest = 0;
    for flow in flows {
        highest = highest.max(flow.collective);
        if let Some(there) = there.get_mut(flow.collective) {
            *there = true;
        }
    }
    match there.iter().position(|there| !there) {
        Some(collective) if collective < highest => Err(Refusal::EmptyCollective { collective }),
        _ => Ok(()),
    }
}

/// Refuses sizes, releases and capacities that are no quantities.
pub(super) fn numbers(links: &[Link], flows: &[Flow]) -> Result<(), Refusal> {
    for (flow, &Flow { size, release, .. }) in flows.iter().enumerate() {
        if !(size.is_finite() && size > 0.0) {
            return Err(Refusal::BadSize { flow, size });
        }
        if !(release.is_finite() && release >= 0.0) {
            return Err(Refusal::BadRelease { flow, release });
        }
    }
    for (link, &Link { capacity, .. }) in links.iter().enumerate() {
        if !(capacity.is_finite() && capacity > 0.0) {
            return Err(Refusal::BadCapacity { link, capacity });
        }
    }
    Ok(())
}

/// Refuses links between nodes that are not there, and routes that do not lead from sender to receiver.
pub(super) fn routes(nodes: usize, links: &[Link], flows: &[Flow]) -> Result<(), Refusal> {
    for (link, ends) in links.iter().enumerate() {
        if let Some(node) = [ends.from, ends.to].into_iter().find(|&node| node >= nodes) {
            return Err(Refusal::BadLink { link, fault: Fault::UnknownNode { node, nodes } });
        }
    }
    // The flow whose route came to a node last: a node seen twice by one flow is on its route twice.
    let mut seen_by = vec![0; nodes];
    for (index, flow) in flows.iter().enumerate() {
        if flow.from == flow.to {
            return Err(Refusal::SelfFlow { flow: index, node: flow.from });
        }
        if let Err(fault) = route(nodes, links, flow, index + 1, &mut seen_by) {
            return Err(Refusal::BadRoute { flow: index, fault });
        }
    }
    Ok(())
}

fn route(nodes: usize, links: &[Link], flow: &Flow, mark: usize, seen_by: &mut [usize]) -> Result<(), Fault> {
    if let Some(node) = [flow.from, flow.to].into_iter().find(|&node| node >= nodes) {
        return Err(Fault::UnknownNode { node, nodes });
    }
    if flow.path.is_empty() {
        return Err(Fault::Empty);
    }
    seen_by[flow.from] = mark;
    let mut at = flow.from;
    for (place, &link) in flow.path.iter().enumerate() {
        let Some(next) = links.get(link) else {
            return Err(Fault::UnknownLink { link, links: links.len() });
        };
        if next.from != at {
            return Err(if place == 0 { Fault::Start { node: next.from } } else { Fault::Broken { link } });
        }
        at = next.to;
        if seen_by[at] == mark {
            return Err(Fault::Repeated { node: at });
        }
        seen_by[at] = mark;
    }
    if at == flow.to { Ok(()) } else { Err(Fault::End { node: at }) }
}

/// The groups, by collective and number within it, their flows by order and index; and how many collectives there are.
pub(super) fn groups(flows: &[Flow]) -> Result<(Vec<Group>, usize), Refusal> {
    let mut sorted: Vec<usize> = (0..flows.len()).collect();
    sorted.sort_by_key(|&index| (flows[index].collective, flows[index].group, flows[index].order));
    let mut groups: Vec<Group> = Vec::new();
    for index in sorted {
        let flow = &flows[index];
        let last = groups.last().map(|group| (group.collective, group.local));
        if last != Some((flow.collective, flow.group)) {
            let expected = match last {
                Some((collective, local)) if collective == flow.collective => local + 1,
                _ => 0,
            };
            if flow.group != expected {
                let in_it = |other: &&Flow| other.collective == flow.collective;
                let mut numbers: Vec<usize> = flows.iter().filter(in_it).map(|flow| flow.group).collect();
                numbers.sort_unstable();
                numbers.dedup();
                return Err(Refusal::GapInIds { what: "group", id: expected, count: numbers.len() });
            }
            let group = Group { collective: flow.collective, local: flow.group, flows: Vec::new(), volume: 0.0 };
            groups.push(group);
        }
        if let Some(group) = groups.last_mut() {
            group.flows.push(index);
            group.volume += flow.size;
        }
    }
    let collectives = groups.last().map_or(0, |group| group.collective + 1);
    Ok((groups, collectives))
}

/// What is wrong with the orders of a group.
fn orders(flows: &[Flow], group: &Group) -> Option<&'static str> {
    let wrong = group.flows.iter().enumerate().find(|&(place, &index)| flows[index].order != place);
    wrong.map(
        |(place, &index)| {
            if flows[index].order < place { "two flows have the same order" } else { "an order is missing" }
        },
    )
}

fn broken(group: &Group, what: &'static str) -> Broken {
    Broken { collective: group.collective, group: group.local, what }
}

/// The dependencies of the chains themselves.
fn of_chains(groups: &[Group]) -> Edges {
    let pairs = groups.iter().flat_map(|group| group.flows.windows(2));
    let mut edges: Vec<_> = pairs.filter_map(|pair| Some((*pair.first()?, *pair.get(1)?))).collect();
    edges.sort_unstable();
    edges
}

/// The dependencies where none are named.
pub(super) fn implied(flows: &[Flow], groups: &[Group]) -> Result<Edges, Refusal> {
    for group in groups {
        if let Some(what) = orders(flows, group) {
            return Err(Refusal::NotAChain { collective: group.collective, group: group.local, what });
        }
    }
    Ok(of_chains(groups))
}

/// The dependencies that are named, each once, ascending; and why they are no chains, if they are none.
pub(super) fn named(
    flows: &[Flow],
    groups: &[Group],
    group_of: &[usize],
    mut named: Edges,
) -> Result<(Edges, Option<Broken>), Refusal> {
    if let Some(id) = named.iter().flat_map(|&(a, b)| [a, b]).find(|&id| id >= flows.len()) {
        return Err(Refusal::GapInIds { what: "flow", id, count: flows.len() });
    }
    named.sort_unstable();
    named.dedup();
    let mut why = groups.iter().find_map(|group| orders(flows, group).map(|what| broken(group, what)));
    if why.is_none() {
        let chains = of_chains(groups);
        let beyond = named.iter().find(|edge| chains.binary_search(edge).is_err());
        let without = chains.iter().find(|edge| named.binary_search(edge).is_err());
        why = match (beyond, without) {
            (Some(&(_, after)), _) => {
                Some(broken(&groups[group_of[after]], "a flow waits for more than the one before it"))
            }
            (_, Some(&(_, after))) => {
                Some(broken(&groups[group_of[after]], "a flow does not wait for the one before it"))
            }
            (None, None) => None,
        };
    }
    Ok((named, why))
}

/// Refuses flows that wait for each other.
pub(super) fn acyclic(predecessors: &[Vec<usize>], successors: &[Vec<usize>]) -> Result<(), Refusal> {
    let mut waiting: Vec<usize> = predecessors.iter().map(Vec::len).collect();
    let mut free: Vec<usize> = (0..waiting.len()).filter(|&flow| waiting[flow] == 0).collect();
    let mut done = 0;
    while let Some(flow) = free.pop() {
        done += 1;
        for &next in &successors[flow] {
            waiting[next] -= 1;
            if waiting[next] == 0 {
                free.push(next);
            }
        }
    }
    if done == waiting.len() {
        return Ok(());
    }
    // What still waits may only stand behind a cycle; going back often enough ends on one.
    let Some(mut flow) = waiting.iter().position(|&count| count > 0) else { return Ok(()) };
    for _ in 0..waiting.len() {
        match predecessors[flow].iter().find(|&&before| waiting[before] > 0) {
            Some(&before) => flow = before,
            None => break,
        }
    }
    Err(Refusal::Cycle { flow })
}

/// Refuses sizes, or capacities, too far apart, and numbers out of all proportion.
pub(super) fn ranges(links: &[Link], flows: &[Flow]) -> Result<(), Refusal> {
    if let Some((flow, late)) = flows.iter().enumerate().find(|(_, flow)| flow.release > ABSOLUTE.1) {
        return Err(Refusal::BadRelease { flow, release: late.release });
    }
    spread("sizes", flows.iter().map(|flow| flow.size))?;
    spread("capacities", links.iter().map(|link| link.capacity))
}

fn spread(what: &'static str, of: impl Iterator<Item = f64>) -> Result<(), Refusal> {
    let (least, largest) = of.fold((f64::INFINITY, 0.0_f64), |(least, largest), x| (least.min(x), largest.max(x)));
    let apart = largest / MAX_RATIO > least || least < ABSOLUTE.0 || largest > ABSOLUTE.1;
    if apart { Err(Refusal::Range { what, least, largest }) } else { Ok(()) }
}
