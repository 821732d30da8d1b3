//! Colour refinement: an ordered partition of nodes, split until all members of a cell see the same of every other cell.
//!
//! Links that share a limit, and such limits, are vertices of their own beside the nodes; other links are arcs with a weight
//! that says cost and limit. What a vertex sees of a cell is the sum of the weights of its arcs there. Weights are scattered,
//! so that sums of different arcs differ; where they do not, a cell stays larger than it could be and a search has more to
//! do.

use crate::fluid::network::Network;
use crate::random::scatter;
use std::collections::{BTreeMap, VecDeque};

/// What arcs stand for, besides links of a class.
#[derive(Clone, Copy)]
enum Tie {
    Out = 1,
    In = 2,
    Limit = 3,
}

/// An arc to a vertex, with what it counts.
#[derive(Clone, Copy)]
struct Arc {
    to: u32,
    weight: u64,
}

/// A fabric as a graph whose vertices have colours: nodes first, then links that share a limit, then the limits they share.
pub(super) struct Structure {
    /// By vertex; every arc has one that leads back.
    arcs: Vec<Vec<Arc>>,
    /// By vertex; nodes have smaller colours than anything else.
    colours: Vec<u32>,
    nodes: usize,
}

impl Structure {
    /// What can be seen of a fabric whose nodes have these marks.
    pub(super) fn of(network: &Network, marks: &[u32]) -> Structure {
        let nodes = network.nodes();
        let mut own: Vec<Vec<u64>> = vec![Vec::new(); network.edges.len()];
        let mut shares = vec![false; network.edges.len()];
        for group in &network.groups {
            match group.edges[..] {
                [edge] => own[edge as usize].push(group.rate.to_bits()),
                _ => group.edges.iter().for_each(|edge| shares[*edge as usize] = true),
            }
        }
        own.iter_mut().for_each(|own| own.sort_unstable());
        let class = ranks(network.edges.iter().zip(&own).map(|(edge, own)| ((edge.cost + 0.0).to_bits(), own)));
        let can = network.can.iter().map(|can| (can.store, can.copy, can.reduce));
        let mut colours = ranks(can.zip(marks.iter().copied().chain(std::iter::repeat(0))));
        let mut arcs: Vec<Vec<Arc>> = vec![Vec::new(); nodes];
        let mut vertex = vec![0; network.edges.len()];
        for (index, edge) in network.edges.iter().enumerate() {
            let weight = |tie: Tie| scatter(4 * (u64::from(class[index]) + 1) + tie as u64);
            if shares[index] {
                vertex[index] = arcs.len() as u32;
                arcs.push(Vec::new());
                colours.push(nodes as u32 + class[index]);
                join(&mut arcs, vertex[index], edge.from, scatter(Tie::Out as u64));
                join(&mut arcs, vertex[index], edge.to, scatter(Tie::In as u64));
            } else {
                arcs[edge.from as usize].push(Arc { to: edge.to, weight: weight(Tie::Out) });
                arcs[edge.to as usize].push(Arc { to: edge.from, weight: weight(Tie::In) });
            }
        }
        let joint = || network.groups.iter().filter(|group| group.edges.len() != 1);
        let first = (nodes + network.edges.len()) as u32;
        for (group, rank) in joint().zip(ranks(joint().map(|group| group.rate.to_bits()))) {
            let limit = arcs.len() as u32;
            arcs.push(Vec::new());
            colours.push(first + rank);
            group.edges.iter().for_each(|edge| {
                join(&mut arcs, limit, vertex[*edge as usize], scatter(Tie::Limit as u64));
            });
        }
        Structure { arcs, colours, nodes }
    }
}

/// Ties two vertices both ways.
fn join(arcs: &mut [Vec<Arc>], one: u32, other: u32, weight: u64) {
    arcs[one as usize].push(Arc { to: other, weight });
    arcs[other as usize].push(Arc { to: one, weight });
}

/// The place of each among all different ones in order.
pub(super) fn ranks<T: Ord + Clone>(items: impl Iterator<Item = T> + Clone) -> Vec<u32> {
    let mut places: BTreeMap<T, u32> = items.clone().map(|item| (item, 0)).collect();
    places.values_mut().zip(0..).for_each(|(place, rank)| *place = rank);
    items.map(|item| places[&item]).collect()
}

/// Vertices in cells, cells in an order. A cell is named by the place of its first member.
#[derive(Clone)]
pub(super) struct Partition {
    order: Vec<u32>,
    place: Vec<u32>,
    cell: Vec<u32>,
    size: Vec<u32>,
    nodes: usize,
}

impl Partition {
    /// The members of a cell.
    pub(super) fn cell(&self, start: u32) -> &[u32] {
        &self.order[start as usize..][..self.size[start as usize] as usize]
    }
    /// The cell of a vertex.
    pub(super) fn start(&self, vertex: u32) -> u32 {
        self.cell[vertex as usize]
    }
    /// The members of the cell of a vertex.
    pub(super) fn members(&self, vertex: u32) -> &[u32] {
        self.cell(self.start(vertex))
    }
    /// Cells of nodes, in order.
    pub(super) fn cells(&self) -> impl Iterator<Item = &[u32]> {
        let mut start = 0;
        std::iter::from_fn(move || {
            let cell = (start < self.nodes).then(|| self.cell(start as u32))?;
            start += cell.len();
            Some(cell)
        })
    }
    /// The first of the smallest cells with several nodes; `None`: every node is a cell of its own.
    pub(super) fn smallest_cell(&self) -> Option<&[u32]> {
        self.cells().filter(|cell| cell.len() > 1).min_by_key(|cell| cell.len())
    }
}

/// Splits partitions of one structure; keeps room for it.
pub(super) struct Refiner<'a> {
    structure: &'a Structure,
    seen: Vec<u64>,
    touched: Vec<bool>,
    waiting: VecDeque<u32>,
    waits: Vec<bool>,
}

impl<'a> Refiner<'a> {
    pub(super) fn new(structure: &'a Structure) -> Refiner<'a> {
        let count = structure.arcs.len();
        Refiner {
            structure,
            seen: vec![0; count],
            touched: vec![false; count],
            waiting: VecDeque::new(),
            waits: vec![false; count],
        }
    }

    /// The coarsest partition by colours in which members of a cell see the same.
    pub(super) fn coarsest(&mut self) -> Partition {
        let colours = &self.structure.colours;
        let count = colours.len();
        let mut order: Vec<u32> = (0..count as u32).collect();
        order.sort_by_key(|vertex| colours[*vertex as usize]);
        let (mut place, mut cell, mut size) = (vec![0; count], vec![0; count], vec![0; count]);
        let mut start = 0;
        for (vertices, index) in order.iter().zip(0_u32..) {
            place[*vertices as usize] = index;
            if colours[order[start as usize] as usize] != colours[*vertices as usize] {
                start = index;
            }
            cell[*vertices as usize] = start;
            size[start as usize] += 1;
            if start == index {
                self.waiting.push_back(start);
                self.waits[start as usize] = true;
            }
        }
        let mut partition = Partition { order, place, cell, size, nodes: self.structure.nodes };
        self.refine(&mut partition, 0);
        partition
    }

    /// Makes a vertex a cell of its own and refines. Gives a number that is the same for all partitions and vertices that a
    /// symmetry takes to each other.
    pub(super) fn individualise(&mut self, partition: &mut Partition, vertex: u32) -> u64 {
        let start = partition.start(vertex);
        let size = partition.size[start as usize];
        let trace = scatter(u64::from(start) << 32 | u64::from(size));
        if size == 1 {
            return trace;
        }
        let last = start + size - 1;
        partition.swap(vertex, last);
        partition.size[start as usize] -= 1;
        partition.size[last as usize] = 1;
        partition.cell[vertex as usize] = last;
        self.wait(last);
        self.refine(partition, trace)
    }

    fn wait(&mut self, start: u32) {
        if !std::mem::replace(&mut self.waits[start as usize], true) {
            self.waiting.push_back(start);
        }
    }

    /// Splits cells by what their members see of cells that wait, until none waits.
    fn refine(&mut self, partition: &mut Partition, mut trace: u64) -> u64 {
        let mut reached: Vec<u32> = Vec::new();
        while let Some(splitter) = self.waiting.pop_front() {
            self.waits[splitter as usize] = false;
            trace = scatter(trace ^ u64::from(splitter));
            for vertex in partition.cell(splitter) {
                for arc in &self.structure.arcs[*vertex as usize] {
                    if !std::mem::replace(&mut self.touched[arc.to as usize], true) {
                        reached.push(arc.to);
                    }
                    let seen = &mut self.seen[arc.to as usize];
                    *seen = seen.wrapping_add(arc.weight);
                }
            }
            reached.sort_unstable_by_key(|vertex| (partition.start(*vertex), self.seen[*vertex as usize]));
            let mut rest = &reached[..];
            while let Some(first) = rest.first() {
                let start = partition.start(*first);
                let here = rest.iter().take_while(|vertex| partition.start(**vertex) == start).count();
                let (members, others) = rest.split_at(here);
                trace = self.split(partition, start, members, trace);
                rest = others;
            }
            for vertex in reached.drain(..) {
                self.seen[vertex as usize] = 0;
                self.touched[vertex as usize] = false;
            }
        }
        trace
    }

    /// Splits a cell: members that see nothing first, then these, which stand in the order of what they see.
    fn split(&mut self, partition: &mut Partition, start: u32, members: &[u32], mut trace: u64) -> u64 {
        let seen = |vertex: &u32| self.seen[*vertex as usize];
        let parts: Vec<&[u32]> = members.chunk_by(|one, other| seen(one) == seen(other)).collect();
        for part in &parts {
            trace = scatter(trace ^ u64::from(start)).wrapping_add(scatter(seen(&part[0]) ^ part.len() as u64));
        }
        let size = partition.size[start as usize];
        let blind = size - members.len() as u32;
        if blind == 0 && parts.len() == 1 {
            return trace;
        }
        for (vertex, place) in members.iter().zip(start + blind..) {
            partition.swap(*vertex, place);
        }
        let mut cells = Vec::with_capacity(parts.len() + 1);
        if blind > 0 {
            cells.push(start);
            partition.size[start as usize] = blind;
        }
        let mut place = start + blind;
        for part in parts {
            part.iter().for_each(|vertex| partition.cell[*vertex as usize] = place);
            partition.size[place as usize] = part.len() as u32;
            cells.push(place);
            place += part.len() as u32;
        }
        // Of a cell that everybody has looked at already, one part follows from the others: the largest.
        let largest = cells.iter().copied().rev().max_by_key(|cell| partition.size[*cell as usize]);
        let spared = largest.filter(|_| !self.waits[start as usize]);
        cells.into_iter().filter(|cell| Some(*cell) != spared).for_each(|cell| self.wait(cell));
        trace
    }
}

impl Partition {
    /// Brings a vertex to a place of its cell.
    fn swap(&mut self, vertex: u32, place: u32) {
        let (from, other) = (self.place[vertex as usize], self.order[place as usize]);
        self.order.swap(from as usize, place as usize);
        self.place[vertex as usize] = place;
        self.place[other as usize] = from;
    }
}
