//! A lower bound of the cheapest tree that need not reach everybody: Wong's dual ascent, on exact numbers.
//!
//! A set of nodes that holds an end and not the root must be entered. As long as every way in still costs something, all
//! of them are made cheaper by what the cheapest costs, and the tree pays that much at least. The sums paid for one
//! set after the other never add up to more than the cheapest tree costs, whichever sets are chosen. Chosen is the
//! smallest that no other end leads into for nothing; where everybody must be reached, that gives the cheapest tree itself.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use sluice_formats::quantity::Rational;

/// What a tree costs at least that leads from `root` to all nodes below `ends`, by way of others where that helps, where
/// `costs[a][b]` is the price of going from a to b. The search takes away from `patience` the entries it looks at;
/// `None` where that is not enough.
pub fn bound(costs: &[Vec<Rational>], root: usize, ends: usize, patience: &mut usize) -> Option<Rational> {
    let n = costs.len();
    *patience = patience.checked_sub(n * n)?;
    // What is left to pay from a node on the way into each.
    let mut into: Vec<Vec<Rational>> = (0..n).map(|to| (0..n).map(|from| costs[from][to].clone()).collect()).collect();
    let mut open: Vec<bool> = (0..n).map(|node| node < ends && node != root).collect();
    let mut queue: BinaryHeap<Reverse<(usize, usize)>> =
        (0..ends).filter(|end| *end != root).map(|end| Reverse((1, end))).collect();
    let mut sum = Rational::ZERO;
    let (mut inside, mut set) = (vec![usize::MAX; n], Vec::new());
    let mut round = 0;
    'ends: while let Some(Reverse((size, end))) = queue.pop() {
        // All that leads to the end for nothing.
        round += 1;
        inside[end] = round;
        set.clear();
        set.push(end);
        let mut next = 0;
        while let Some(to) = set.get(next).copied() {
            next += 1;
            *patience = patience.checked_sub(n)?;
            for (from, price) in into[to].iter().enumerate() {
                if inside[from] == round || from == to || !price.is_zero() {
                    continue;
                }
                if from == root || open[from] {
                    // It is reached, or will be with the other.
                    open[end] = false;
                    continue 'ends;
                }
                inside[from] = round;
                set.push(from);
            }
        }
        if set.len() > size && queue.peek().is_some_and(|Reverse((least, _))| *least < set.len()) {
            queue.push(Reverse((set.len(), end)));
            continue;
        }
        *patience = patience.checked_sub(2 * n * set.len())?;
        let outside: Vec<usize> = (0..n).filter(|node| inside[*node] != round).collect();
        let entering = set.iter().flat_map(|to| outside.iter().map(|from| &into[*to][*from]));
        let least = entering.min()?.clone();
        for to in &set {
            for from in &outside {
                let price = &mut into[*to][*from];
                *price = &*price - &least;
            }
        }
        sum += &least;
        queue.push(Reverse((set.len(), end)));
    }
    Some(sum)
}
