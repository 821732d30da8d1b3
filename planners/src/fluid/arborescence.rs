//! The cheapest out-tree of a complete graph, with its arcs: Chu, Liu and Edmonds, in Tarjan's form for dense graphs, in
//! time that grows with the square of the nodes.
//!
//! From a node that has no way from the root yet a path grows backwards along the cheapest arcs in. Where it meets itself
//! the circle becomes one node, and whoever enters it later saves what its way in has cost already. Every circle takes
//! away nodes, so that all of them together cost no more than the matrix once.

/// In the place of a node where there is none.
const NONE: usize = usize::MAX;

/// By node its parent in the cheapest out-tree from `root` to all of `count` nodes; the root is its own. `cost(a, b)` is
/// the price of going from a to b, never below zero, infinite where there is no way. Of equal arcs the one that leaves the
/// lowest node is taken. `None`: some node cannot be reached.
pub fn cheapest(count: usize, root: usize, cost: impl Fn(usize, usize) -> f64) -> Option<Vec<usize>> {
    let mut search = Search::new(count, root, cost);
    for start in 0..count {
        search.grow(start)?;
    }
    Some(search.parents(root))
}

/// An arc of the contracted graph: its price there, and which arc of the given graph it is.
#[derive(Clone, Copy)]
struct Way {
    cost: f64,
    from: u32,
    to: u32,
}

/// A node of the given graph, or a circle that became one.
struct Part {
    /// The circle that it is part of.
    parent: usize,
    /// The arc that enters it.
    chosen: Option<Way>,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Unseen,
    OnPath,
    Reached,
    /// Part of a circle, whose column stands elsewhere.
    Gone,
}

struct Search {
    count: usize,
    /// By slot and slot the cheapest arc that enters the first from the second.
    into: Vec<Way>,
    state: Vec<State>,
    /// By slot which part stands there.
    part: Vec<usize>,
    /// By node of the given graph its slot.
    slot: Vec<usize>,
    parts: Vec<Part>,
    path: Vec<usize>,
}

impl Search {
    fn new(count: usize, root: usize, cost: impl Fn(usize, usize) -> f64) -> Search {
        let mut into = Vec::with_capacity(count * count);
        for to in 0..count {
            into.extend((0..count).map(|from| Way {
                cost: if from == to { f64::INFINITY } else { cost(from, to) },
                from: from as u32,
                to: to as u32,
            }));
        }
        let mut state = vec![State::Unseen; count];
        state[root] = State::Reached;
        let parts = (0..count).map(|_| Part { parent: NONE, chosen: None }).collect();
        let (part, slot) = ((0..count).collect(), (0..count).collect());
        Search { count, into, state, part, slot, parts, path: Vec::new() }
    }

    /// Grows a path backwards from a node until it meets what the root reaches.
    fn grow(&mut self, start: usize) -> Option<()> {
        let start = self.slot[start];
        if self.state[start] == State::Reached {
            return Some(());
        }
        self.enter(start);
        while let Some(head) = self.path.last().copied() {
            let (from, way) = self.cheapest_into(head)?;
            self.parts[self.part[head]].chosen = Some(way);
            match self.state[from] {
                State::Unseen => self.enter(from),
                State::OnPath => self.contract(from),
                State::Reached | State::Gone => {
                    let path = std::mem::take(&mut self.path);
                    path.into_iter().for_each(|slot| self.state[slot] = State::Reached);
                }
            }
        }
        Some(())
    }

    fn enter(&mut self, slot: usize) {
        self.state[slot] = State::OnPath;
        self.path.push(slot);
    }

    /// The slot that the cheapest arc into this one comes from, and the arc; `None`: no arc enters it.
    fn cheapest_into(&self, head: usize) -> Option<(usize, Way)> {
        let ways = &self.into[head * self.count..(head + 1) * self.count];
        let mut best: Option<(usize, Way)> = None;
        for (slot, way) in ways.iter().enumerate() {
            let beats = |best: Way| way.cost < best.cost || (way.cost == best.cost && way.from < best.from);
            let open = slot != head && self.state[slot] != State::Gone && way.cost.is_finite();
            if open && best.is_none_or(|(_, best)| beats(best)) {
                best = Some((slot, *way));
            }
        }
        best
    }

    /// The path from `first` to its end is a circle: it becomes one node, in the slot of `first`.
    fn contract(&mut self, first: usize) {
        let from = self.path.iter().rposition(|slot| *slot == first).unwrap_or(0);
        let circle = self.path.split_off(from);
        let paid: Vec<f64> =
            circle.iter().map(|slot| self.parts[self.part[*slot]].chosen.map_or(0.0, |way| way.cost)).collect();
        circle.iter().for_each(|slot| self.state[*slot] = State::Gone);
        for other in (0..self.count).filter(|other| self.state[*other] != State::Gone) {
            let least = |ways: &mut dyn Iterator<Item = Way>| {
                ways.reduce(|a, b| if b.cost < a.cost || (b.cost == a.cost && b.from < a.from) { b } else { a })
            };
            let enters = circle.iter().zip(&paid).map(|(slot, paid)| {
                let way = self.into[slot * self.count + other];
                Way { cost: way.cost - paid, ..way }
            });
            let enters = least(&mut { enters });
            let leaves = least(&mut circle.iter().map(|slot| self.into[other * self.count + slot]));
            if let (Some(enters), Some(leaves)) = (enters, leaves) {
                self.into[first * self.count + other] = enters;
                self.into[other * self.count + first] = leaves;
            }
        }
        let whole = self.parts.len();
        circle.iter().for_each(|slot| self.parts[self.part[*slot]].parent = whole);
        self.parts.push(Part { parent: NONE, chosen: None });
        self.slot.iter_mut().filter(|slot| circle.contains(slot)).for_each(|slot| *slot = first);
        self.part[first] = whole;
        self.enter(first);
    }

    /// Opens the circles again, the last one first: the arc that enters a circle enters one of its nodes instead of the
    /// arc of the circle there.
    fn parents(mut self, root: usize) -> Vec<usize> {
        for whole in (self.count..self.parts.len()).rev() {
            let Some(way) = self.parts[whole].chosen else { continue };
            let mut part = way.to as usize;
            while self.parts[part].parent != whole {
                part = self.parts[part].parent;
            }
            self.parts[part].chosen = Some(way);
        }
        let parent = |node: usize| self.parts[node].chosen.map_or(root, |way| way.from as usize);
        (0..self.count).map(parent).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The least price of all ways to give every node a parent that do not go round in circles; infinite: there is none.
    fn by_trying(costs: &[Vec<f64>], root: usize) -> f64 {
        let n = costs.len();
        let mut best = f64::INFINITY;
        for choice in 0..n.pow(n as u32) {
            let parents: Vec<usize> = (0..n).map(|node| choice / n.pow(node as u32) % n).collect();
            if is_tree(&parents, root) {
                best = best.min(price(costs, &parents, root));
            }
        }
        best
    }

    fn is_tree(parents: &[usize], root: usize) -> bool {
        let step = |node: usize| if node == root { root } else { parents[node] };
        (0..parents.len()).all(|node| (0..parents.len()).fold(node, |node, _| step(node)) == root)
    }

    fn price(costs: &[Vec<f64>], parents: &[usize], root: usize) -> f64 {
        let nodes = (0..parents.len()).filter(|node| *node != root);
        nodes.map(|node| if parents[node] == node { f64::INFINITY } else { costs[parents[node]][node] }).sum()
    }

    proptest! {
        #[test]
        fn it_is_the_cheapest_of_all_trees(
            n in 1_usize..6,
            root in 0_usize..5,
            list in proptest::collection::vec(0_u8..8, 25),
        ) {
            let root = root % n;
            // A seventh is closed.
            let cost = |from: usize, to: usize| match list[from * 5 + to] {
                7 => f64::INFINITY,
                cost => f64::from(cost),
            };
            let costs: Vec<Vec<f64>> = (0..n).map(|from| (0..n).map(|to| cost(from, to)).collect()).collect();
            let least = by_trying(&costs, root);
            match cheapest(n, root, cost) {
                None => prop_assert!(least.is_infinite()),
                Some(parents) => {
                    prop_assert!(is_tree(&parents, root));
                    prop_assert_eq!(price(&costs, &parents, root), least);
                }
            }
        }
    }

    #[test]
    fn circles_within_circles_are_opened_again() {
        // Pairs, pairs of pairs and so on are close to one another and far from the rest.
        let cost = |from: usize, to: usize| f64::from((from ^ to) as u32).log2().floor().mul_add(100.0, 1.0);
        let parents = cheapest(64, 5, cost).expect("all is reached");
        assert!(is_tree(&parents, 5));
        let sum: f64 = (0..64).filter(|node| *node != 5).map(|node| cost(parents[node], node)).sum();
        // 32 ways of 1, 16 of 101, 8 of 201, 4 of 301, 2 of 401, 1 of 501.
        assert_eq!(sum, 32.0 + 16.0 * 101.0 + 8.0 * 201.0 + 4.0 * 301.0 + 2.0 * 401.0 + 501.0);
    }
}
