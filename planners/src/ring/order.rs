//! In which order a ring visits its participants, and by which ways: depth first, wide ways before narrow ones, back where
//! somebody could not be reached any more.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use sluice_formats::quantity::{Capacity, Rational};
use sluice_formats::topology::{Kind, Topology};

/// Links that a search looks at, all together.
const MAX_LOOKS: usize = 20_000_000;

/// From a participant to the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Nodes, both ends included.
    pub path: Vec<usize>,
}

impl Hop {
    pub fn from(&self) -> usize {
        self.path[0]
    }
    pub fn to(&self) -> usize {
        self.path[self.path.len() - 1]
    }
}

/// A ring over all participants, from the first; `None` if there is none, or none was found in time.
pub fn ring(topology: &Topology, participants: &[usize]) -> Option<Vec<Hop>> {
    Search::new(topology, participants).run()
}

/// The same ring the other way round, from the same participant, if every link of it leads back too.
pub fn reversed(topology: &Topology, ring: &[Hop]) -> Option<Vec<Hop>> {
    let links: std::collections::HashSet<(usize, usize)> =
        topology.links().iter().map(|link| (link.from, link.to)).collect();
    let back = |hop: &Hop| {
        let path: Vec<usize> = hop.path.iter().rev().copied().collect();
        path.windows(2).all(|pair| links.contains(&(pair[0], pair[1]))).then_some(Hop { path })
    };
    ring.iter().rev().map(back).collect()
}

/// How wide a way is: by its capacity, then by fewer links, then by the nearer rank.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Width {
    /// One where there is no limit, then the capacity.
    unlimited: bool,
    capacity: Rational,
    links: Reverse<usize>,
}

/// A participant of the ring so far, and where the search may go on from it.
struct Stop {
    node: usize,
    /// The way to it.
    path: Vec<usize>,
    /// The ways on that were not tried yet, the best last.
    open: Vec<Vec<usize>>,
}

struct Search<'a> {
    participants: &'a [usize],
    /// By node: where links lead from it and to it, with the capacity of all parallel ones.
    out: Vec<Vec<(usize, Capacity)>>,
    into: Vec<Vec<usize>>,
    /// By node: its rank, if it takes part.
    rank: Vec<Option<usize>>,
    /// By node: may a way go through it?
    passes: Vec<bool>,
    visited: Vec<bool>,
    looks: usize,
}

impl<'a> Search<'a> {
    fn new(topology: &Topology, participants: &'a [usize]) -> Search<'a> {
        let nodes = topology.nodes();
        let mut cables: HashMap<(usize, usize), Capacity> = HashMap::new();
        let (mut out, mut into) = (vec![Vec::new(); nodes.len()], vec![Vec::new(); nodes.len()]);
        let mut order = Vec::new();
        for link in topology.links().iter().filter(|link| link.from != link.to) {
            let ends = (link.from, link.to);
            let known = cables.entry(ends).or_insert_with(|| {
                order.push(ends);
                Capacity::Finite(Rational::ZERO)
            });
            *known = known.plus(&link.capacity);
        }
        for (from, to) in order {
            if let Some(capacity) = cables.remove(&(from, to)) {
                out[from].push((to, capacity));
                into[to].push(from);
            }
        }
        let mut rank = vec![None; nodes.len()];
        participants.iter().enumerate().for_each(|(place, node)| rank[*node] = Some(place));
        let passes = nodes.iter().zip(&rank).map(|(node, rank)| {
            let forwards = matches!(node.kind, Kind::Switch | Kind::Nic | Kind::Memory);
            rank.is_none() && (forwards || !(node.can.copy || node.can.reduce))
        });
        let passes = passes.collect();
        Search { participants, out, into, rank, passes, visited: vec![false; nodes.len()], looks: 0 }
    }

    fn run(mut self) -> Option<Vec<Hop>> {
        let first = *self.participants.first()?;
        self.visited[first] = true;
        let mut stops = vec![Stop { node: first, path: vec![first], open: self.ways(first, first, 1) }];
        while let Some(stop) = stops.last_mut() {
            let Some(path) = stop.open.pop() else {
                let left = stop.node;
                self.visited[left] = left == first;
                stops.pop();
                continue;
            };
            let next = path[path.len() - 1];
            if next == first {
                let on = stops.into_iter().skip(1).map(|stop| stop.path).chain([path]);
                return Some(on.map(|path| Hop { path }).collect());
            }
            self.visited[next] = true;
            let count = stops.len() + 1;
            if self.looks > MAX_LOOKS {
                return None;
            }
            let open = if self.is_hopeful(next, first) { self.ways(next, first, count) } else { Vec::new() };
            stops.push(Stop { node: next, path, open });
        }
        None
    }

    /// Can everybody who is left be reached from here, and the beginning from everybody?
    fn is_hopeful(&mut self, here: usize, first: usize) -> bool {
        let reached = |from: usize, to: usize, next: &dyn Fn(usize) -> Vec<usize>, visited: &[bool]| {
            let mut seen = vec![false; visited.len()];
            let (mut open, mut looks) = (vec![from], 0);
            seen[from] = true;
            while let Some(node) = open.pop() {
                for near in next(node) {
                    looks += 1;
                    let inside = self.passes[near] || self.rank[near].is_some() && !visited[near];
                    if !seen[near] && (inside || near == to) {
                        seen[near] = true;
                        if near != to {
                            open.push(near);
                        }
                    }
                }
            }
            let all = self.participants.iter().all(|node| visited[*node] || seen[*node]);
            (all && seen[to], looks)
        };
        let out = |node: usize| self.out[node].iter().map(|(to, _)| *to).collect();
        let into = |node: usize| self.into[node].clone();
        let (there, on) = reached(here, first, &out, &self.visited);
        let (back, off) = if there { reached(first, here, &into, &self.visited) } else { (false, 0) };
        self.looks += on + off;
        there && back
    }

    /// Ways from a participant straight to others that are left, or where all were visited back to the first; the best
    /// last.
    fn ways(&mut self, here: usize, first: usize, count: usize) -> Vec<Vec<usize>> {
        let done = count == self.participants.len();
        let mut last: HashMap<usize, usize> = HashMap::new();
        let mut found: Vec<(Width, usize)> = Vec::new();
        let widest = Width { unlimited: true, capacity: Rational::ZERO, links: Reverse(0) };
        let mut open = BinaryHeap::from([(widest, Reverse(here), here)]);
        let mut closed = vec![false; self.out.len()];
        while let Some((width, Reverse(node), before)) = open.pop() {
            if std::mem::replace(&mut closed[node], true) {
                continue;
            }
            last.insert(node, before);
            if node != here && self.rank[node].is_some() {
                let wanted = if done { node == first } else { !self.visited[node] };
                if wanted {
                    found.push((width, node));
                }
                continue;
            }
            for (to, capacity) in &self.out[node] {
                self.looks += 1;
                if closed[*to] || !(self.passes[*to] || self.rank[*to].is_some()) {
                    continue;
                }
                let links = Reverse(width.links.0 + 1);
                let next = match capacity.finite() {
                    None => Width { links, ..width.clone() },
                    Some(own) if width.unlimited => Width { unlimited: false, capacity: own.clone(), links },
                    Some(own) => Width { unlimited: false, capacity: own.min(&width.capacity).clone(), links },
                };
                open.push((next, Reverse(*to), node));
            }
        }
        let n = self.participants.len();
        let place = |node: usize| self.rank[node].unwrap_or(0);
        let ahead = |node: usize| (place(node) + n - place(here)) % n;
        found.sort_by(|a, b| a.0.cmp(&b.0).then(ahead(b.1).cmp(&ahead(a.1))));
        let path = |node: usize| {
            let mut path = vec![node];
            let mut at = node;
            while at != here {
                at = last.get(&at).copied().unwrap_or(here);
                path.push(at);
            }
            path.reverse();
            path
        };
        found.into_iter().map(|(_, node)| path(node)).collect()
    }
}
