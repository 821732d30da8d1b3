//! The upper bound on the throughput that needs no program: by the graph's distances.

use super::links::Links;
use sluice_formats::quantity::Rational;

/// No graph with these distances carries more: its links over the hops of all pairs.
///
/// Each of the sources `0..sources` stands for as many others. On a regular graph without self-loops this is d over the average, over sources, of the sum of distances. `None`
/// where the fraction is not one (no pair).
pub(super) fn by_distance(links: &Links, sources: usize) -> Option<Rational> {
    let hops: i128 = (0..sources).flat_map(|from| links.hops(from)).map(i128::from).sum();
    Rational::new(links.len() as i128, hops * (links.n / sources) as i128)
}
