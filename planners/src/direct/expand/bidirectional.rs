//! From one way to both: a graph and its transpose together, for graphs that look like their transpose.

use super::{gather, ordered, room, units};
use crate::direct::graph::fitting;
use crate::direct::{Edge, Graph, Refusal, Schedule, Send};

/// The edges of the graph, then all of them turned around: edge `e`'s opposite is `E+e`.
///
/// # Errors
/// `TopologyTooLarge`.
pub fn bidirectional(graph: &Graph) -> Result<Graph, Refusal> {
    let back = graph.transposed();
    fitting(graph.n().into(), 2 * (graph.edges().len() as u64).div_ceil(graph.n().into()))?;
    let edges: Vec<Edge> = graph.edges().iter().chain(back.edges()).copied().collect();
    Ok(Graph::new(graph.n(), edges)?.with_symmetry(graph.symmetry()))
}

/// The schedule on both: half of every shard as before, the other half mirrored over the opposite links, so neither
/// steps nor time change. `mirror` maps the graph onto its transpose.
///
/// # Errors
/// `NotReverseSymmetric` where `mirror` does not; `Internal` for what is no all-gather on `graph`; `InvalidChunking`.
pub fn bidirectional_schedule(graph: &Graph, schedule: &Schedule, mirror: &[u32]) -> Result<Schedule, Refusal> {
    gather(graph, schedule)?;
    let map = edge_map(graph, &graph.transposed(), mirror).ok_or(Refusal::NotReverseSymmetric)?;
    let units = units(schedule.units, 2)?;
    room(2 * schedule.sends.len() as u64)?;
    let offset = graph.edges().len() as u32;
    let mirrored = schedule.sends.iter().map(|send| Send {
        step: send.step,
        edge: offset + map[send.edge as usize],
        shard: mirror[send.shard as usize],
        lo: send.lo + schedule.units,
        hi: send.hi + schedule.units,
    });
    Ok(ordered(units, schedule.steps, schedule.sends.iter().copied().chain(mirrored).collect()))
}

/// The edge of `to` that each edge of `from` becomes when vertices move by `vertices`, parallel ones one to one in the
/// order of their ids; `None` unless that is an isomorphism.
pub fn edge_map(from: &Graph, to: &Graph, vertices: &[u32]) -> Option<Vec<u32>> {
    let mut seen = vec![false; to.n() as usize];
    if vertices.len() != from.n() as usize || from.n() != to.n() || from.edges().len() != to.edges().len() {
        return None;
    }
    for &vertex in vertices {
        if std::mem::replace(seen.get_mut(vertex as usize)?, true) {
            return None;
        }
    }
    let image = |edge: &Edge| Edge { tail: vertices[edge.tail as usize], head: vertices[edge.head as usize] };
    let mut images: Vec<(Edge, u32)> = from.edges().iter().map(image).zip(0..).collect();
    let mut targets: Vec<(Edge, u32)> = to.edges().iter().copied().zip(0..).collect();
    images.sort_unstable();
    targets.sort_unstable();
    let mut map = vec![0; images.len()];
    for ((image, id), (target, onto)) in images.into_iter().zip(targets) {
        if image != target {
            return None;
        }
        map[id as usize] = onto;
    }
    Some(map)
}
