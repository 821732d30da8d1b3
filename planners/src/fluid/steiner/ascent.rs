//! Wong's dual ascent: a bound from below on the cheapest routing tree, and which nodes a cheaper tree may have.

use super::dense::{Dense, TOLERANCE};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What Wong's dual ascent leaves: a bound, and what every arc costs beyond it.
pub(super) struct Ascent {
    /// No tree costs less.
    pub bound: f64,
    /// As the costs of [`Dense`].
    reduced: Vec<f64>,
    /// By node what a tree over it costs beyond the bound at least.
    through: Vec<f64>,
}

impl Ascent {
    /// Raises the bound by the cheapest way into a set that holds an end and not the root, as long as there is such a set:
    /// of all sets from which an end is reached over arcs that are paid for, the smallest. `None`: some end cannot be
    /// reached.
    pub fn of(dense: &Dense) -> Option<Ascent> {
        let mut ascent = Ascent { bound: 0.0, reduced: dense.into.clone(), through: Vec::new() };
        let mut open: BinaryHeap<Reverse<(usize, usize)>> = (1..dense.terminals).map(|end| Reverse((1, end))).collect();
        let mut inside = vec![false; dense.count()];
        while let Some(Reverse((_, end))) = open.pop() {
            inside.fill(false);
            let Some(set) = ascent.behind(end, &mut inside) else { continue };
            if open.peek().is_none_or(|Reverse((next, _))| set.len() <= *next) {
                ascent.raise(&set, &inside)?;
            }
            open.push(Reverse((set.len(), end)));
        }
        let from_root = ascent.distances(&[0], false);
        let to_ends = ascent.distances(&(1..dense.terminals).collect::<Vec<_>>(), true);
        ascent.through = from_root.iter().zip(&to_ends).map(|(from, to)| from + to).collect();
        Some(ascent)
    }

    /// The nodes from which a node is reached over arcs that are paid for; `None` if the root is one of them.
    fn behind(&self, end: usize, inside: &mut [bool]) -> Option<Vec<usize>> {
        let count = inside.len();
        let mut set = vec![end];
        inside[end] = true;
        let mut next = 0;
        while let Some(node) = set.get(next).copied() {
            next += 1;
            let into = &self.reduced[node * count..(node + 1) * count];
            if into[0] == 0.0 {
                return None;
            }
            for (from, reduced) in into.iter().enumerate() {
                if *reduced == 0.0 && !inside[from] {
                    inside[from] = true;
                    set.push(from);
                }
            }
        }
        Some(set)
    }

    /// Pays for the cheapest arc into a set.
    fn raise(&mut self, set: &[usize], inside: &[bool]) -> Option<()> {
        let count = inside.len();
        let mut least = f64::INFINITY;
        for node in set {
            let into = self.reduced[node * count..(node + 1) * count].iter().zip(inside);
            least = into.filter(|(_, inside)| !**inside).fold(least, |least, (reduced, _)| least.min(*reduced));
        }
        if least.is_infinite() {
            return None;
        }
        self.bound += least;
        for node in set {
            let into = self.reduced[node * count..(node + 1) * count].iter_mut().zip(inside);
            into.filter(|(_, inside)| !**inside).for_each(|(reduced, _)| *reduced -= least);
        }
        Some(())
    }

    /// The least reduced cost from one of these nodes to every other, or of every other to one of these.
    fn distances(&self, starts: &[usize], backwards: bool) -> Vec<f64> {
        let count = self.reduced.len().isqrt();
        let mut far = vec![f64::INFINITY; count];
        starts.iter().for_each(|start| far[*start] = 0.0);
        let mut done = vec![false; count];
        loop {
            let open = (0..count).filter(|node| !done[*node] && far[*node].is_finite());
            let Some(node) = open.min_by(|a, b| far[*a].total_cmp(&far[*b])) else { return far };
            done[node] = true;
            for other in 0..count {
                let arc = if backwards { node * count + other } else { other * count + node };
                far[other] = far[other].min(far[node] + self.reduced[arc]);
            }
        }
    }

    /// The nodes without which the bound has no way from the root to the ends over arcs that are paid for.
    pub fn support(&self, dense: &Dense) -> Vec<usize> {
        (dense.terminals..dense.count()).filter(|node| self.through[*node] == 0.0).collect()
    }

    /// Can a tree over a node cost less?
    pub fn can_be_below(&self, node: usize, cost: f64) -> bool {
        let least = self.bound + self.through[node];
        least.is_finite() && (cost.is_infinite() || least < cost - TOLERANCE * cost.abs())
    }

    /// The nodes other than root and ends that a cheaper tree may have.
    pub fn useful(&self, dense: &Dense, cost: f64) -> Vec<usize> {
        (dense.terminals..dense.count()).filter(|node| self.can_be_below(*node, cost)).collect()
    }
}
