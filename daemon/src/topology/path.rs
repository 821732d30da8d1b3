//! Shortest paths by hop count: the links that all of them share, and where they part.

use std::collections::VecDeque;

use sluice_formats::topology::Kind;

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
        let nearer = |link: &usize| {
            let link = &topology.links[*link];
            let forwards = link.to == to || topology.kind(link.to) == Some(Kind::Switch);
            forwards && left[link.to] != FAR && left[link.to] + 1 == left[link.from]
        };
        let mut links: Vec<usize> = here.iter().flat_map(|node| &topology.out[*node]).copied().filter(nearer).collect();
        if let ([node], [_, _, ..]) = (&here[..], &links[..]) {
            shared.forks.push(*node);
            if let Some(known) = goes.iter().find(|link| links.contains(link)) {
                links = vec![*known];
            }
        }
        if let [only] = links[..] {
            shared.links.push(only);
        }
        here = links.iter().map(|link| topology.links[*link].to).collect();
        here.sort_unstable();
        here.dedup();
        if here.is_empty() {
            return Shared::default();
        }
    }
    shared
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
