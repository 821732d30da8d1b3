//! Ring-AllReduce as flows: one chain of 2(n − 1) hops for each of n chunks, and nothing else that waits.
//!
//! Chunk c goes round the ring from participant c on: hop o leads from participant (c + o) mod n to the next one. The
//! hops 0 … n − 2 add up (ReduceScatter), the hops n − 1 … 2n − 3 hand the sum on (AllGather).

use crate::instance::Flow;
use crate::refusal::Refusal;
use crate::routes::Router;

/// The hops of each chunk on a ring of n participants: 2(n − 1).
pub fn hops(participants: usize) -> usize {
    2 * participants.saturating_sub(1)
}

/// The places in the ring between which a chunk goes in a hop.
pub fn step(participants: usize, chunk: usize, hop: usize) -> (usize, usize) {
    let n = participants.max(1);
    let from = (chunk % n + hop % n) % n;
    (from, (from + 1) % n)
}

/// Refuses a ring of fewer than two, of unknown or of repeated nodes.
///
/// # Errors
/// `BadParticipants`.
pub fn check(ring: &[usize], nodes: usize) -> Result<(), Refusal> {
    let bad = |what: String| Err(Refusal::BadParticipants { what });
    if ring.len() < 2 {
        return bad(format!("{} in the ring; at least 2 are needed", ring.len()));
    }
    if ring.len() > nodes {
        return bad(format!("{} in the ring, and only {nodes} nodes", ring.len()));
    }
    if let Some(node) = ring.iter().find(|&&node| node >= nodes) {
        return bad(format!("node {node} does not exist: there are {nodes}, numbered from 0"));
    }
    let mut sorted = ring.to_vec();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair.first() == pair.get(1)).and_then(|pair| pair.first()) {
        Some(node) => bad(format!("node {node} is in the ring twice")),
        None => Ok(()),
    }
}

/// The flows of one collective, by chunk and hop: group c is chunk c, order o is hop o. `size` gives the MB of a chunk in
/// a hop and is asked in that order.
///
/// # Errors
/// `BadParticipants`, `Unreachable`.
pub fn expand(
    collective: usize,
    ring: &[usize],
    nodes: usize,
    router: &mut Router,
    mut size: impl FnMut(usize, usize) -> Result<f64, Refusal>,
) -> Result<Vec<Flow>, Refusal> {
    check(ring, nodes)?;
    let n = ring.len();
    let mut flows = Vec::with_capacity(n * hops(n));
    for chunk in 0..n {
        for hop in 0..hops(n) {
            let (from, to) = step(n, chunk, hop);
            let (from, to) = (ring[from], ring[to]);
            let (size, path) = (size(chunk, hop)?, router.route(from, to)?);
            flows.push(Flow { collective, group: chunk, order: hop, from, to, size, path, release: 0.0 });
        }
    }
    Ok(flows)
}

/// The dependencies of a ring whose first flow has this index: those of the chains and, with `strict_steps`, hop o of
/// what a participant sends after hop o − 1 of what it sends, which is a queue at each sender.
pub fn dependencies(participants: usize, first: usize, strict_steps: bool) -> Vec<(usize, usize)> {
    let (n, hops) = (participants, hops(participants));
    let index = |chunk: usize, hop: usize| first + chunk * hops + hop;
    let mut pairs = Vec::new();
    for chunk in 0..n {
        for hop in 1..hops {
            pairs.push((index(chunk, hop - 1), index(chunk, hop)));
            if strict_steps {
                // The sender of this hop sent the chunk after this one in the hop before.
                pairs.push((index((chunk + 1) % n, hop - 1), index(chunk, hop)));
            }
        }
    }
    pairs
}
