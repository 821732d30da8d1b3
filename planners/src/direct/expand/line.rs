//! The line graph: a vertex for every edge, so N becomes dN at the same degree and one step more.

use super::{edges_by, gather, ordered, room};
use crate::direct::graph::fitting;
use crate::direct::{Edge, Graph, Refusal, Schedule, Send};

/// Vertex `e` is edge `e` of the base; an arc leads from `e` to `f` where `e` ends at the start of `f`. Arcs stand in
/// the order of `e`, then `f`.
///
/// # Errors
/// `DegreeTooSmall` where every vertex has one edge at most; `TopologyTooLarge`.
pub fn line(graph: &Graph) -> Result<Graph, Refusal> {
    if let Ok(degree @ 0..=1) = graph.degree() {
        return Err(Refusal::DegreeTooSmall { degree });
    }
    let out = edges_by(graph, |edge| edge.tail);
    let arcs: u64 = graph.edges().iter().map(|edge| out[edge.head as usize].len() as u64).sum();
    let (n, _) = fitting(graph.edges().len() as u64, arcs.div_ceil(graph.edges().len().max(1) as u64))?;
    let mut edges = Vec::with_capacity(arcs as usize);
    for (e, edge) in graph.edges().iter().enumerate() {
        edges.extend(out[edge.head as usize].iter().map(|&f| Edge { tail: e as u32, head: f }));
    }
    Graph::new(n, edges)
}

/// The schedule on the line graph: everybody's own shard first, then the base's steps one later, along every edge that
/// ends where the base's shard begins.
///
/// # Errors
/// `Internal` for what is no all-gather on `graph`; `InvalidChunking` for too many sends.
pub fn line_schedule(graph: &Graph, schedule: &Schedule) -> Result<Schedule, Refusal> {
    gather(graph, schedule)?;
    let out = edges_by(graph, |edge| edge.tail);
    let into = edges_by(graph, |edge| edge.head);
    let edges = graph.edges();
    // The first arc of every vertex of the line graph; the arc from e to its i-th successor is that plus i.
    let mut first = Vec::with_capacity(edges.len());
    let mut arcs = 0;
    for edge in edges {
        first.push(arcs);
        arcs += out[edge.head as usize].len() as u32;
    }
    let fan = |send: &Send| {
        let head = edges[send.edge as usize].head as usize;
        into[send.shard as usize].len() as u64 * out[head].len() as u64
    };
    room(u64::from(arcs) + schedule.sends.iter().map(fan).sum::<u64>())?;
    let mut sends = Vec::new();
    for (e, edge) in edges.iter().enumerate() {
        for (i, _) in out[edge.head as usize].iter().enumerate().filter(|(_, f)| **f != e as u32) {
            sends.push(Send { step: 1, edge: first[e] + i as u32, shard: e as u32, lo: 0, hi: schedule.units });
        }
    }
    for send in &schedule.sends {
        let through = send.edge as usize;
        for &e in &into[send.shard as usize] {
            for (i, _) in out[edges[through].head as usize].iter().enumerate().filter(|(_, f)| **f != e) {
                sends.push(Send { step: send.step + 1, edge: first[through] + i as u32, shard: e, ..*send });
            }
        }
    }
    Ok(ordered(schedule.units, schedule.steps + 1, sends))
}
