//! The ways to every host: shortest paths by hop count, where of hosts only memories forward, or ways that are given.

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

/// The same by ways that are given, each as its edges in order; nodes forward by destination alone.
///
/// # Errors
/// Says which way is none, or leaves a node otherwise than another to the same host.
pub fn along(
    nodes: usize,
    hosts: usize,
    edges: &[(usize, usize)],
    ways: &[Vec<usize>],
) -> Result<Vec<Vec<Vec<usize>>>, String> {
    let mut next = vec![vec![Vec::new(); hosts]; nodes];
    for (number, way) in ways.iter().enumerate() {
        let known = way.iter().map(|edge| edges.get(*edge).copied()).collect::<Option<Vec<_>>>();
        let joined = known.filter(|way| way.windows(2).all(|pair| pair[0].1 == pair[1].0));
        let Some(&(_, target)) = joined.as_ref().and_then(|way| way.last()).filter(|(_, to)| *to < hosts) else {
            return Err(format!("route {number} is no way to a host: links {way:?}"));
        };
        for &edge in way {
            let at = edges[edge].0;
            let hop = &mut next[at][target];
            if hop.iter().any(|known| *known != edge) {
                return Err(format!("route {number} to host {target} leaves node {at} otherwise than one before it"));
            }
            *hop = vec![edge];
        }
    }
    Ok(next)
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

    #[test]
    fn ways_that_are_given_are_taken_or_refused() {
        // A ring of four hosts; edges 2i lead on, 2i + 1 back.
        let edges: Vec<_> = (0..4).flat_map(|i| [(i, (i + 1) % 4), ((i + 1) % 4, i)]).collect();
        let next = along(4, 4, &edges, &[vec![0, 2, 4], vec![2, 4]]).unwrap();
        assert_eq!(
            (next[0][3].as_slice(), next[1][3].as_slice(), next[2][3].as_slice()),
            (&[0][..], &[2][..], &[4][..])
        );
        assert!(next[0][1].is_empty());
        for (ways, said) in [
            (vec![vec![0, 4]], "no way"),
            (vec![vec![9]], "no way"),
            (vec![vec![]], "no way"),
            (vec![vec![0, 2], vec![7, 5]], "leaves node 0 otherwise"),
        ] {
            let error = along(4, 4, &edges, &ways).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}
