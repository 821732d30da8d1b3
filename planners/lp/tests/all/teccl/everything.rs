//! Small graphs on which everything can be tried: all that are strongly connected, up to the names of nodes.

use std::collections::{BTreeSet, HashSet};

use super::*;
use sluice_plan::plan::Status;

/// Links of a graph of three or four nodes.
type Links = Vec<(usize, usize)>;

fn is_strongly_connected(nodes: usize, links: &[(usize, usize)]) -> bool {
    (0..nodes).all(|from| {
        let mut seen = 1_u32 << from;
        for _ in 0..nodes {
            for (a, b) in links {
                seen |= u32::from(seen >> a & 1 == 1) << b;
            }
        }
        seen + 1 == 1 << nodes
    })
}

/// All strongly connected graphs of so many nodes, of those that differ by the names of nodes alone the first.
fn graphs(nodes: usize) -> Vec<Links> {
    let pairs: Links = (0..nodes).flat_map(|a| (0..nodes).map(move |b| (a, b))).filter(|(a, b)| a != b).collect();
    let mut names: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in 0..nodes {
        let longer = |list: &Vec<usize>| {
            let list = list.clone();
            (0..nodes).filter(|node| !list.contains(node)).map(|node| [&*list, &[node]].concat()).collect::<Vec<_>>()
        };
        names = names.iter().flat_map(longer).collect();
    }
    let mut seen: HashSet<Links> = HashSet::new();
    let mut found = Vec::new();
    for chosen in 0_u32..1 << pairs.len() {
        let links: Links =
            pairs.iter().enumerate().filter(|(i, _)| chosen >> i & 1 == 1).map(|(_, pair)| *pair).collect();
        if seen.contains(&links) || !is_strongly_connected(nodes, &links) {
            continue;
        }
        for names in &names {
            let mut named: Links = links.iter().map(|(a, b)| (names[*a], names[*b])).collect();
            named.sort_unstable();
            seen.insert(named);
        }
        found.push(links);
    }
    found
}

/// Who holds what: by node the chunks.
type State = [u8; 4];

/// An all-gather over unit links without latency.
struct Gather<'a> {
    nodes: usize,
    links: &'a Links,
    chunks: usize,
    /// States that do not end in so many epochs.
    failed: HashSet<(State, u64)>,
}

impl Gather<'_> {
    /// The fewest epochs, by trying everything: in every epoch every node takes in what its links can bring at most.
    fn fewest(mut self) -> u64 {
        let mut start: State = [0; 4];
        (0..self.nodes * self.chunks).for_each(|chunk| start[chunk / self.chunks] |= 1 << chunk);
        (1..).find(|epochs| self.ends(start, *epochs)).expect("a strongly connected graph ends")
    }

    fn ends(&mut self, state: State, epochs: u64) -> bool {
        let all = ((1_u16 << (self.nodes * self.chunks)) - 1) as u8;
        if state[..self.nodes].iter().all(|held| *held == all) {
            return true;
        }
        let ports = |node: usize| self.links.iter().filter(|(_, to)| *to == node).count() as u64;
        let open = |node: usize| u64::from((all & !state[node]).count_ones());
        if (0..self.nodes).any(|node| open(node) > epochs * ports(node)) || self.failed.contains(&(state, epochs)) {
            return false;
        }
        let receives: Vec<Vec<u8>> = (0..self.nodes).map(|node| self.receives(state, node)).collect();
        let ends = self.next(state, state, &receives, epochs);
        if !ends {
            self.failed.insert((state, epochs));
        }
        ends
    }

    /// All ways in which the nodes from this one on receive.
    fn next(&mut self, before: State, after: State, receives: &[Vec<u8>], epochs: u64) -> bool {
        let node = self.nodes - receives.len();
        let Some((first, others)) = receives.split_first() else {
            return after != before && self.ends(after, epochs - 1);
        };
        first.iter().any(|new| {
            let mut after = after;
            after[node] |= new;
            self.next(before, after, others, epochs)
        })
    }

    /// The sets of chunks that a node can take in in one epoch, none of which could be larger by a link that idles.
    fn receives(&self, state: State, node: usize) -> Vec<u8> {
        let mut sets = BTreeSet::from([0_u8]);
        for (from, _) in self.links.iter().filter(|(_, to)| *to == node) {
            let mut longer = BTreeSet::new();
            for set in sets {
                let useful = state[*from] & !state[node] & !set;
                let bits: Vec<u8> = (0..8).map(|i| 1 << i).filter(|bit| useful & bit != 0).collect();
                longer.extend(bits.iter().map(|bit| set | bit));
                longer.extend(bits.is_empty().then_some(set));
            }
            sets = longer;
        }
        sets.into_iter().collect()
    }
}

#[test]
fn all_gathers_are_as_short_as_they_can_be() {
    let mut seen = 0;
    for nodes in [3, 4] {
        for links in graphs(nodes) {
            for chunks in [1, 2] {
                let topology = unit(nodes, &links);
                let made = planned(&topology, Collective::AllGather, &options(chunks as u64, EpochLength::Slow));
                let expected = Gather { nodes, links: &links, chunks, failed: HashSet::new() }.fewest();
                let found = (made.figures.epochs, made.figures.status);
                assert_eq!(found, (expected, Status::Optimal), "{links:?}, {chunks} chunks");
                seen += 1;
            }
        }
    }
    // There are 5 and 83 strongly connected graphs of three and of four nodes.
    assert_eq!(seen, 2 * (5 + 83));
}

/// The fewest epochs of an all-to-all over unit links without latency, where nodes hold so many chunks for others. States
/// are who can send what on; who wants a chunk keeps it, and of the others each keeps as many as it may.
fn exchange(nodes: usize, links: &Links, buffer: Option<usize>) -> u64 {
    let chunks: Links = (0..nodes).flat_map(|a| (0..nodes).map(move |b| (a, b))).filter(|(a, b)| a != b).collect();
    let bit = |node: usize, chunk: usize| 1_u32 << (node * chunks.len() + chunk);
    let start = chunks.iter().enumerate().map(|(i, (source, _))| bit(*source, i)).fold(0, |all, one| all | one);
    let end = chunks.iter().enumerate().map(|(i, (_, to))| bit(*to, i)).fold(0, |all, one| all | one);
    let mut states = BTreeSet::from([start]);
    let mut seen = states.clone();
    for epoch in 0.. {
        if states.iter().any(|state| state & end == end) {
            return epoch;
        }
        let mut next = BTreeSet::new();
        for state in states {
            // What stays: all of it, less than which is only kept where there is no room.
            let mut kept = BTreeSet::from([0_u32]);
            for node in 0..nodes {
                let here: Vec<usize> = (0..chunks.len()).filter(|chunk| state & bit(node, *chunk) != 0).collect();
                let (own, others): (Vec<usize>, Vec<usize>) =
                    here.into_iter().partition(|chunk| chunks[*chunk].0 == node || chunks[*chunk].1 == node);
                let own = own.iter().fold(0, |all, chunk| all | bit(node, *chunk));
                let most = buffer.unwrap_or(usize::MAX).min(others.len());
                let choices = (0_u32..1 << others.len()).filter(|chosen| chosen.count_ones() as usize == most);
                let choices: Vec<u32> = choices
                    .map(|chosen| {
                        let kept = others.iter().enumerate().filter(|(i, _)| chosen >> i & 1 == 1);
                        kept.fold(own, |all, (_, chunk)| all | bit(node, *chunk))
                    })
                    .collect();
                kept = kept.iter().flat_map(|so_far| choices.iter().map(move |choice| so_far | choice)).collect();
            }
            let mut arrived = BTreeSet::from([0_u32]);
            for &(from, to) in links {
                let useful =
                    (0..chunks.len()).filter(|chunk| state & bit(from, *chunk) != 0 && state & bit(to, *chunk) == 0);
                let useful: Vec<u32> = useful.map(|chunk| bit(to, chunk)).chain([0]).collect();
                arrived = arrived.iter().flat_map(|so_far| useful.iter().map(move |new| so_far | new)).collect();
            }
            for kept in kept {
                next.extend(arrived.iter().map(|arrived| kept | arrived).filter(|state| seen.insert(*state)));
            }
        }
        states = next;
        assert!(!states.is_empty(), "a strongly connected graph ends");
    }
    unreachable!("there are finitely many states")
}

#[test]
fn all_to_alls_through_small_buffers_are_as_short_as_they_can_be() {
    let mut differ = 0;
    for links in graphs(3) {
        let mut by_buffer = Vec::new();
        for buffer in [Some(0), Some(1), None] {
            let topology = edited(&unit(3, &links), |file| {
                for node in file["nodes"].as_array_mut().expect("nodes") {
                    node["buffer"] =
                        buffer.map_or(serde_json::Value::Null, |chunks| format!("{}kB", 25 * chunks).into());
                }
            });
            let made = planned(&topology, Collective::AllToAll, &options(1, EpochLength::Slow));
            let expected = exchange(3, &links, buffer);
            let found = (made.figures.epochs, made.figures.status);
            assert_eq!(found, (expected, Status::Optimal), "{links:?}, room for {buffer:?} chunks");
            by_buffer.push(expected);
        }
        differ += usize::from(by_buffer[0] != by_buffer[2]);
    }
    assert_eq!(differ, 0, "graphs of three nodes on which an all-to-all without buffers takes longer");
}
