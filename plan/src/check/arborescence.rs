//! The cheapest out-tree of a complete graph: Chu, Liu and Edmonds, on exact numbers.

use sluice_formats::quantity::Rational;

/// What the cheapest tree costs that leads from `root` to all other nodes, where `costs[a][b]` is the price of going
/// from a to b. The search takes away from `patience` the entries it looks at; `None` where that is not enough.
pub fn cheapest(mut costs: Vec<Vec<Rational>>, mut root: usize, patience: &mut usize) -> Option<Rational> {
    let mut sum = Rational::ZERO;
    loop {
        let n = costs.len();
        *patience = patience.checked_sub(n * n)?;
        // Everybody takes its cheapest way in.
        let mut parents = vec![root; n];
        for node in (0..n).filter(|node| *node != root) {
            let others = (0..n).filter(|other| *other != node);
            parents[node] = others.min_by(|a, b| costs[*a][node].cmp(&costs[*b][node]))?;
            sum += &costs[parents[node]][node];
        }
        // Nodes that reach the root stay themselves; circles become one node each.
        const OPEN: usize = usize::MAX;
        let (mut groups, mut seen, mut count) = (vec![OPEN; n], vec![OPEN; n], 0);
        let mut circles = false;
        for start in 0..n {
            let mut node = start;
            while node != root && groups[node] == OPEN && seen[node] == OPEN {
                seen[node] = start;
                node = parents[node];
            }
            if node != root && groups[node] == OPEN && seen[node] == start {
                circles = true;
                let first = node;
                loop {
                    groups[node] = count;
                    node = parents[node];
                    if node == first {
                        break;
                    }
                }
                count += 1;
            }
        }
        if !circles {
            return Some(sum);
        }
        for group in groups.iter_mut().filter(|group| **group == OPEN) {
            *group = count;
            count += 1;
        }
        // Whoever enters a circle later saves what its way in has cost already.
        let mut merged: Vec<Vec<Option<Rational>>> = vec![vec![None; count]; count];
        for (from, row) in costs.iter().enumerate() {
            for (to, cost) in row.iter().enumerate().filter(|(to, _)| *to != root && groups[*to] != groups[from]) {
                let more = cost - &costs[parents[to]][to];
                let entry = &mut merged[groups[from]][groups[to]];
                if entry.as_ref().is_none_or(|least| more < *least) {
                    *entry = Some(more);
                }
            }
        }
        root = groups[root];
        let plain = |row: Vec<Option<Rational>>| row.into_iter().map(|entry| entry.unwrap_or(Rational::ZERO)).collect();
        costs = merged.into_iter().map(plain).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The cheapest of all ways to give every node a parent that do not go round in circles.
    fn by_trying(costs: &[Vec<i64>], root: usize) -> i64 {
        let n = costs.len();
        let mut best = i64::MAX;
        for choice in 0..n.pow(n as u32) {
            let parents: Vec<usize> = (0..n).map(|node| choice / n.pow(node as u32) % n).collect();
            let reaches = |mut node: usize| {
                for _ in 0..n {
                    node = if node == root { root } else { parents[node] };
                }
                node == root
            };
            if (0..n).all(reaches) {
                let nodes = (0..n).filter(|node| *node != root);
                best = best.min(nodes.map(|node| costs[parents[node]][node]).sum());
            }
        }
        best
    }

    proptest! {
        #[test]
        fn it_is_the_cheapest_of_all_trees(n in 2_usize..6, root in 0_usize..2, list in proptest::collection::vec(0_i64..6, 25)) {
            let costs: Vec<Vec<i64>> = (0..n).map(|from| (0..n).map(|to| list[from * 5 + to]).collect()).collect();
            let exact = |row: &Vec<i64>| row.iter().map(|cost| Rational::new(*cost, 1).expect("whole")).collect();
            let found = cheapest(costs.iter().map(exact).collect(), root, &mut 1_000_000);
            prop_assert_eq!(found, Rational::new(by_trying(&costs, root), 1));
            prop_assert_eq!(cheapest(costs.iter().map(exact).collect(), root, &mut 1), None);
        }
    }
}
