//! The certificate of an upper bound: lengths of links, in whole numbers, so that it is exact.
//!
//! Weak duality: whatever flow serves every pair at rate f, Σ lengths ≥ Σ length·load ≥ f·Σ distances. So every choice of
//! lengths proves f ≤ Σ lengths / Σ distances, and a solver's dual values are one choice that nobody has to trust.

use super::links::Links;
use sluice_formats::quantity::Rational;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The longest link after scaling: distances of a million links still fit.
const MAX_LENGTH: f64 = (1u64 << 30) as f64;

/// Lengths in whole numbers in proportion to these; what is not a positive number becomes 0.
pub(super) fn whole(lengths: &[f64]) -> Vec<u64> {
    let longest = lengths.iter().copied().filter(|length| length.is_finite()).fold(0.0, f64::max);
    if longest <= 0.0 {
        return vec![1; lengths.len()];
    }
    lengths.iter().map(|length| (length.max(0.0) / longest * MAX_LENGTH).round().min(MAX_LENGTH) as u64).collect()
}

/// Distances by lengths, with the memory of earlier calls.
#[derive(Debug, Default)]
pub(super) struct Distances {
    distance: Vec<u64>,
    heap: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Distances {
    /// From one vertex to all.
    pub(super) fn from(&mut self, links: &Links, lengths: &[u64], from: usize) -> &[u64] {
        self.distance.clear();
        self.distance.resize(links.n, u64::MAX);
        self.distance[from] = 0;
        self.heap.clear();
        self.heap.push(Reverse((0, from as u32)));
        while let Some(Reverse((distance, v))) = self.heap.pop() {
            if distance > self.distance[v as usize] {
                continue;
            }
            for &link in links.out(v as usize) {
                let (head, there) = (links.head[link as usize], distance + lengths[link as usize]);
                if there < self.distance[head as usize] {
                    self.distance[head as usize] = there;
                    self.heap.push(Reverse((there, head)));
                }
            }
        }
        &self.distance
    }
}

/// What these lengths prove, from the distances of the sources `0..sources`, of which each stands for as many others.
pub(super) fn bound(links: &Links, lengths: &[u64], sources: usize) -> Option<Rational> {
    let mut distances = Distances::default();
    let sum: u128 = (0..sources).flat_map(|from| distances.from(links, lengths, from).to_vec()).map(u128::from).sum();
    let total: u128 = lengths.iter().map(|&length| u128::from(length)).sum();
    // All sources together have n/sources times this sum.
    let sum = sum.checked_mul((links.n / sources) as u128)?;
    Rational::new(i128::try_from(total).ok()?, i128::try_from(sum).ok()?)
}

#[cfg(test)]
mod tests {
    use super::super::bounds;
    use super::*;
    use sluice_planners::direct::{Edge, Graph};

    #[test]
    fn equal_lengths_prove_the_bound_by_distance() {
        let arcs = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (1, 0), (2, 2)];
        let edges = arcs.map(|(tail, head)| Edge { tail, head }).to_vec();
        let links = Links::new(&Graph::new(4, edges).unwrap()).unwrap();
        assert_eq!(bound(&links, &[7; 6], 4), bounds::by_distance(&links, 4));
        // The distances of the twelve pairs are 27 in all.
        assert_eq!(bound(&links, &[1, 2, 1, 1, 4, 1], 4), Rational::new(10, 27));
    }

    #[test]
    fn whatever_comes_becomes_lengths() {
        assert_eq!(whole(&[0.0, f64::NAN]), [1, 1]);
        assert_eq!(whole(&[-1.0, 2.0, 1.0, f64::INFINITY]), [0, 1 << 30, 1 << 29, 1 << 30]);
    }
}
