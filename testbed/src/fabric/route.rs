//! Shortest paths by hop count. Of hosts only memories forward.

use std::collections::VecDeque;

/// `next[node][host]`: indices of the directed edges (from, to) by which `node` comes one hop nearer to `host`, over nodes
/// that forward.
pub fn next_hops(
    nodes: usize,
    hosts: usize,
    edges: &[(usize, usize)],
    forwards: impl Fn(usize) -> bool,
) -> Vec<Vec<Vec<usize>>> {
    let mut next = vec![vec![Vec::new(); hosts]; nodes];
    for target in 0..hosts {
        let mut distance = vec![usize::MAX; nodes];
        distance[target] = 0;
        let mut queue = VecDeque::from([target]);
        while let Some(at) = queue.pop_front() {
            if at != target && !forwards(at) {
                continue;
            }
            for &(from, to) in edges {
                if to == at && distance[from] == usize::MAX {
                    distance[from] = distance[at] + 1;
                    queue.push_back(from);
                }
            }
        }
        for (e, &(from, to)) in edges.iter().enumerate() {
            if (to == target || forwards(to))
                && distance[to] != usize::MAX
                && distance[from] == distance[to].saturating_add(1)
            {
                next[from][target].push(e);
            }
        }
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaf_and_spine_give_two_ways() {
        // Hosts 0 and 1, leaves 2 and 3, spines 4 and 5.
        let cables = [(0, 2), (1, 3), (2, 4), (2, 5), (3, 4), (3, 5)];
        let edges: Vec<_> = cables.iter().flat_map(|&(a, b)| [(a, b), (b, a)]).collect();
        let next = next_hops(6, 2, &edges, |node| node >= 2);
        assert_eq!(next[0][1].len(), 1);
        assert_eq!(next[2][1].len(), 2);
        assert_eq!(next[4][1].len(), 1);
        assert!(next[1][1].is_empty());
    }

    #[test]
    fn hosts_do_not_forward_and_memories_do() {
        let edges = [(0, 1), (1, 0), (1, 2), (2, 1)];
        let next = next_hops(3, 3, &edges, |_| false);
        assert!(next[0][2].is_empty());
        assert_eq!(next[0][1], [0]);
        let next = next_hops(3, 3, &edges, |node| node == 1);
        assert_eq!((next[0][2].as_slice(), next[1][2].as_slice()), (&[0][..], &[2][..]));
    }
}
