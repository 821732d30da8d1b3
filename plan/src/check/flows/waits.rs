//! Who waits for whom, and when each ends where everybody begins as soon as it may.

use super::fixed::{Fixed, OutOfRange};

/// Nodes by number, and those that wait for each of them. Whoever adds an edge twice gets it twice.
pub struct Waits {
    after: Vec<Vec<u32>>,
    before: Vec<u32>,
}

impl Waits {
    /// Of so many nodes, none of which waits.
    pub fn new(nodes: usize) -> Waits {
        Waits { after: vec![Vec::new(); nodes], before: vec![0; nodes] }
    }
    /// One more that `then` waits for.
    pub fn add(&mut self, first: usize, then: usize) {
        self.after[first].push(then as u32);
        self.before[then] += 1;
    }
    /// Those that wait for a node.
    pub fn after(&self, node: usize) -> impl Iterator<Item = usize> {
        self.after[node].iter().map(|next| *next as usize)
    }
    /// By node, how many it waits for.
    pub fn before(&self) -> &[u32] {
        &self.before
    }

    /// The nodes, none before one that it waits for; `None`: some wait for each other in a circle.
    pub fn order(&self) -> Option<Vec<usize>> {
        let mut waits = self.before.clone();
        let mut order: Vec<usize> = (0..waits.len()).filter(|node| waits[*node] == 0).collect();
        let mut done = 0;
        while let Some(node) = order.get(done) {
            done += 1;
            for next in self.after(*node).collect::<Vec<_>>() {
                waits[next] -= 1;
                if waits[next] == 0 {
                    order.push(next);
                }
            }
        }
        (done == waits.len()).then_some(order)
    }

    /// When each node ends that begins at its `release` or later, and takes so many `seconds`; `order` is that of
    /// [`Waits::order`].
    pub fn ends(
        &self,
        order: &[usize],
        release: impl Fn(usize) -> Fixed,
        seconds: impl Fn(usize) -> Result<Fixed, OutOfRange>,
    ) -> Result<Vec<Fixed>, OutOfRange> {
        let mut ends = vec![Fixed::ZERO; order.len()];
        for node in order {
            // Until a node's own turn its place has the end of the last that it waits for.
            let end = ends[*node].max(release(*node)).plus(seconds(*node)?)?;
            ends[*node] = end;
            for next in self.after(*node) {
                ends[next] = ends[next].max(end);
            }
        }
        Ok(ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_begins_with_the_last_it_waits_for() {
        let mut waits = Waits::new(4);
        for (first, then) in [(0, 2), (1, 2), (2, 3), (0, 3)] {
            waits.add(first, then);
        }
        let order = waits.order().expect("no circle");
        assert_eq!((order[2], order[3], waits.before()), (2, 3, &[0, 0, 2, 2][..]));
        let of = |number: usize| (0..number).try_fold(Fixed::ZERO, |sum, _| sum.plus(Fixed::ONE));
        let release = |node| if node == 3 { of(9).expect("small") } else { Fixed::ZERO };
        let ends = waits.ends(&order, release, |node| of(node + 1)).expect("small");
        assert_eq!(Ok(ends), [1, 2, 5, 13].into_iter().map(of).collect());
        waits.add(3, 0);
        assert_eq!(waits.order(), None);
    }
}
