//! The degree expansion: n copies of every vertex, each connected to all copies of its neighbours.

use super::{edges_by, gather, ordered, room, units};
use crate::direct::graph::fitting;
use crate::direct::{Edge, Graph, Refusal, Schedule, Send};

/// Copy `i` of vertex `v` is `v·n+i`; edge `k` from copy `i` to copy `j` is `k·n²+i·n+j`.
///
/// # Errors
/// `SelfLoop`, `TopologyTooLarge`, `EmptyTopology` for no copies at all.
pub fn degree(graph: &Graph, copies: u32) -> Result<Graph, Refusal> {
    if copies == 0 {
        return Err(Refusal::EmptyTopology);
    }
    if let Some(vertex) = graph.self_loop() {
        return Err(Refusal::SelfLoop { vertex });
    }
    let n = u64::from(graph.n()) * u64::from(copies);
    let edges = (graph.edges().len() as u64).saturating_mul(u64::from(copies) * u64::from(copies));
    let (n, _) = fitting(n, edges.div_ceil(n))?;
    let copied = |edge: &Edge| {
        let (tail, head) = (edge.tail * copies, edge.head * copies);
        (0..copies).flat_map(move |i| (0..copies).map(move |j| Edge { tail: tail + i, head: head + j }))
    };
    Ok(Graph::new(n, graph.edges().iter().flat_map(copied).collect())?.with_symmetry(graph.symmetry()))
}

/// The schedule on the expansion: data stays among its own copies but for its last hop; in a last step every vertex gets
/// the shards of its own copies, an equal part over each of its links.
///
/// # Errors
/// `Internal` for what is no all-gather on `graph`; `NotRegular`; `InvalidChunking`.
pub fn degree_schedule(graph: &Graph, schedule: &Schedule, copies: u32) -> Result<Schedule, Refusal> {
    gather(graph, schedule)?;
    let links = u64::from(graph.degree()?) * u64::from(copies);
    let n = u64::from(graph.n()) * u64::from(copies);
    room(schedule.sends.len() as u64 * u64::from(copies) * u64::from(copies) + n * u64::from(copies) * links)?;
    let times = links / num_integer::gcd(u64::from(schedule.units), links).max(1);
    let scale = u32::try_from(times).unwrap_or(u32::MAX).max(1);
    let units = units(schedule.units, scale)?;
    let arc = |edge: u32, i: u32, j: u32| (edge * copies + i) * copies + j;
    let mut sends = Vec::new();
    for send in &schedule.sends {
        for j in 0..copies {
            for i in 0..copies {
                let (lo, hi) = (send.lo * scale, send.hi * scale);
                sends.push(Send {
                    step: send.step,
                    edge: arc(send.edge, j, i),
                    shard: send.shard * copies + j,
                    lo,
                    hi,
                });
            }
        }
    }
    // Without links there is one vertex and nobody to send to.
    let width = units.checked_div(links as u32).unwrap_or(0);
    for (u, into) in edges_by(graph, |edge| edge.head).iter().enumerate() {
        for j in 0..copies {
            let over = into.iter().flat_map(|&edge| (0..copies).map(move |x| arc(edge, x, j)));
            for (part, edge) in over.enumerate() {
                for i in (0..copies).filter(|i| *i != j) {
                    let lo = part as u32 * width;
                    let shard = u as u32 * copies + i;
                    sends.push(Send { step: schedule.steps + 1, edge, shard, lo, hi: lo + width });
                }
            }
        }
    }
    Ok(ordered(units, schedule.steps + 1, sends))
}
