//! Shortest paths by hop count, and the links that all of them share.

use std::collections::VecDeque;

use sluice_formats::topology::Kind;

use super::Topology;

/// Distance of a node nobody reached.
const FAR: u32 = u32::MAX;

/// The links on every shortest path from `from` to `to`, in order; empty if there is none.
///
/// A link u→v is on all of them exactly if (paths to u) · (paths from v) = all paths. Hosts never forward.
pub fn common(topology: &Topology, from: usize, to: usize) -> Vec<usize> {
    let nodes = topology.out.len();
    if from >= nodes || to >= nodes || from == to {
        return Vec::new();
    }
    let (ahead, to_node) = count(topology, from, to, false);
    let (behind, from_node) = count(topology, to, from, true);
    let all = to_node[to];
    if ahead[to] == FAR || all == u128::MAX {
        return Vec::new();
    }
    let on_path = |link: &&usize| {
        let link = &topology.links[**link];
        let (u, v) = (link.from, link.to);
        let forwards = |node, end| node == end || topology.kind(node) == Some(Kind::Switch);
        forwards(u, from)
            && forwards(v, to)
            && ahead[u] != FAR
            && behind[v] != FAR
            && ahead[u] + 1 + behind[v] == ahead[to]
            && to_node[u].saturating_mul(from_node[v]) == all
    };
    let mut links: Vec<usize> = topology.out.iter().flatten().filter(on_path).copied().collect();
    links.sort_by_key(|link| ahead[topology.links[*link].from]);
    links
}

/// Distance and number of shortest paths from `start` to every node that may lie before `goal`.
fn count(topology: &Topology, start: usize, goal: usize, backward: bool) -> (Vec<u32>, Vec<u128>) {
    let mut distance = vec![FAR; topology.out.len()];
    let mut paths = vec![0_u128; topology.out.len()];
    (distance[start], paths[start]) = (0, 1);
    let mut queue = VecDeque::from([start]);
    while let Some(node) = queue.pop_front() {
        if node == goal || (node != start && topology.kind(node) != Some(Kind::Switch)) {
            continue;
        }
        for link in if backward { &topology.into[node] } else { &topology.out[node] } {
            let link = &topology.links[*link];
            let next = if backward { link.from } else { link.to };
            if distance[next] == FAR {
                distance[next] = distance[node] + 1;
                queue.push_back(next);
            }
            if distance[next] == distance[node] + 1 {
                paths[next] = paths[next].saturating_add(paths[node]);
            }
        }
    }
    (distance, paths)
}
