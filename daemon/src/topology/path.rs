//! Shortest paths by hop count: the links that all of them share, where they part, and the switches at each distance.

use std::collections::VecDeque;

use sluice_formats::topology::Kind;
use sluice_schedule::{HolderId, LinkId};

use super::Topology;

/// Distance of a node nobody reached.
const FAR: u32 = u32::MAX;

/// What all shortest paths have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shared {
    /// The links on every one of them, in order.
    pub links: Vec<usize>,
    /// The nodes on every one of them that have several links onward, in order; also those of which it is known by which
    /// of them the flow goes.
    pub forks: Vec<usize>,
}

/// What the shortest paths from `from` to `to` share that go by the links of `goes` where they fork; nothing if there is
/// none.
///
/// A link is on all of them exactly if it is alone at its distance. Hosts never forward.
pub fn shared(topology: &Topology, from: usize, to: usize, goes: &[usize]) -> Shared {
    let mut shared = Shared::default();
    let nodes = topology.out.len();
    if from >= nodes || to >= nodes || from == to {
        return shared;
    }
    let left = distances(topology, to, from);
    let mut here = vec![from];
    while left[from] != FAR && !here.contains(&to) {
        let mut links = onward(topology, &here, to, &left);
        if let ([node], [_, _, ..]) = (&here[..], &links[..]) {
            shared.forks.push(*node);
            if let Some(known) = goes.iter().find(|link| links.contains(link)) {
                links = vec![*known];
            }
        }
        if let [only] = links[..] {
            shared.links.push(only);
        }
        here = ends(topology, &links);
        if here.is_empty() {
            return Shared::default();
        }
    }
    shared
}

/// A link between switches one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The switch it leaves.
    pub from: HolderId,
    /// The switch it enters.
    pub to: HolderId,
    /// The link.
    pub link: LinkId,
}

/// The switches at one distance from the sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rung {
    /// In order of their ids.
    pub switches: Vec<HolderId>,
    /// Is it known of each by which addresses it answers?
    pub answers: bool,
}

/// All shortest paths between two hosts, by the switches that they pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ladder {
    /// The nearest first.
    pub rungs: Vec<Rung>,
    /// The links from each rung to the next.
    pub steps: Vec<Vec<Step>>,
}

/// The switches on the shortest paths from `from` to `to`, which are hosts, or switches that count themselves.
pub fn ladder(topology: &Topology, from: usize, to: usize) -> Ladder {
    let mut ladder = Ladder::default();
    let nodes = topology.out.len();
    if from >= nodes || to >= nodes {
        return ladder;
    }
    let left = distances(topology, to, from);
    let mut here = vec![from];
    let mut steps: Option<Vec<Step>> = None;
    while left[from] != FAR && !here.is_empty() {
        if here.iter().all(|node| topology.kind(*node) == Some(Kind::Switch)) {
            let mut switches: Vec<HolderId> = here.iter().map(|node| holder(topology, *node)).collect();
            switches.sort_unstable();
            let answers = here.iter().all(|node| topology.answers(*node));
            ladder.steps.extend(steps.take().filter(|_| !ladder.rungs.is_empty()));
            ladder.rungs.push(Rung { switches, answers });
        }
        if here.contains(&to) {
            return ladder;
        }
        let links = onward(topology, &here, to, &left);
        let step = |link: &usize| {
            let of = &topology.links[*link];
            let (from, to) = (holder(topology, of.from), holder(topology, of.to));
            Some(Step { from, to, link: topology.link_id(*link)? })
        };
        steps = Some(links.iter().filter_map(step).collect());
        here = ends(topology, &links);
    }
    Ladder::default()
}

fn holder(topology: &Topology, node: usize) -> HolderId {
    HolderId::of(topology.name(node))
}

/// The links from these nodes that lead nearer to `to`.
fn onward(topology: &Topology, here: &[usize], to: usize, left: &[u32]) -> Vec<usize> {
    let nearer = |link: &usize| {
        let link = &topology.links[*link];
        let forwards = link.to == to || topology.kind(link.to) == Some(Kind::Switch);
        forwards && left[link.to] != FAR && left[link.to] + 1 == left[link.from]
    };
    here.iter().flat_map(|node| &topology.out[*node]).copied().filter(nearer).collect()
}

/// Where links lead, each node once.
fn ends(topology: &Topology, links: &[usize]) -> Vec<usize> {
    let mut ends: Vec<usize> = links.iter().map(|link| topology.links[*link].to).collect();
    ends.sort_unstable();
    ends.dedup();
    ends
}

/// Hops from every node to `to`, as far as they matter for paths from `from`.
fn distances(topology: &Topology, to: usize, from: usize) -> Vec<u32> {
    let mut distance = vec![FAR; topology.out.len()];
    distance[to] = 0;
    let mut queue = VecDeque::from([to]);
    while let Some(node) = queue.pop_front() {
        if node == from || (node != to && topology.kind(node) != Some(Kind::Switch)) {
            continue;
        }
        for link in &topology.into[node] {
            let next = topology.links[*link].from;
            if distance[next] == FAR {
                distance[next] = distance[node] + 1;
                queue.push_back(next);
            }
        }
    }
    distance
}
