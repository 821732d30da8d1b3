//! Upper bounds on the throughput that need no program: by the graph's distances, and by its degree alone.

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

/// No graph of `n` vertices and degree `d` carries more: a source's distances are at best those of a full tree.
///
/// `None` below 2 vertices and for degree 0.
pub fn by_degree(n: u32, d: u32) -> Option<Rational> {
    if d == 0 {
        return None;
    }
    let (mut left, mut level, mut depth, mut hops) = (i128::from(n) - 1, i128::from(d), 1, 0);
    while left > 0 {
        let here = level.min(left);
        hops += depth * here;
        left -= here;
        level = level.saturating_mul(i128::from(d));
        depth += 1;
    }
    Rational::new(i128::from(d), hops)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_of_table_a_1() {
        // Of Table A.1 (Zhao 2026): N, and the denominator over 4.
        for (n, denominator) in [(32, 69), (64, 165), (1024, 4667)] {
            assert_eq!(by_degree(n, 4), Rational::new(4, denominator));
        }
        assert_eq!(by_degree(1, 4), None);
        assert_eq!(by_degree(5, 0), None);
        assert_eq!(by_degree(6, 1), Rational::new(1, 15));
    }
}
