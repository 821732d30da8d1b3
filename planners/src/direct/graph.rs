//! A directed multigraph: machines and the one-way links between their ports.

use super::Refusal;

/// Vertices, edges and expansions stay below this, so that ids fit `u32` and a distance table fits in memory.
pub const MAX_VERTICES: u32 = 1 << 20;
/// Edges of a graph at most.
pub const MAX_EDGES: usize = 1 << 24;

/// A one-way link. Its id is its place in [`Graph::edges`]; parallel links and self-loops are legal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Edge {
    /// The vertex that sends.
    pub tail: u32,
    /// The vertex that receives.
    pub head: u32,
}

/// What a generator knows of its graph and a planner may rely on without proof.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Symmetry {
    /// Nothing is known, and every receiver is looked at.
    #[default]
    None,
    /// Automorphisms take every vertex to every other: what holds for receiver 0 holds for all.
    VertexTransitive,
}

/// A directed multigraph over the vertices `0..n`; the order of the edges is part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    n: u32,
    edges: Vec<Edge>,
    symmetry: Symmetry,
}

impl Graph {
    /// A graph of which nothing is known but its edges.
    ///
    /// # Errors
    /// `EmptyTopology`, `VertexOutOfRange`, `TopologyTooLarge`.
    pub fn new(n: u32, edges: Vec<Edge>) -> Result<Graph, Refusal> {
        if n == 0 {
            return Err(Refusal::EmptyTopology);
        }
        if n > MAX_VERTICES || edges.len() > MAX_EDGES {
            return Err(Refusal::TopologyTooLarge { vertices: n.into(), edges: edges.len() as u64 });
        }
        let stray = edges.iter().enumerate().find(|(_, edge)| edge.tail.max(edge.head) >= n);
        if let Some((index, edge)) = stray {
            return Err(Refusal::VertexOutOfRange { edge: index as u32, vertex: edge.tail.max(edge.head), n });
        }
        Ok(Graph { n, edges, symmetry: Symmetry::None })
    }
    /// The same graph with what its generator knows of it.
    #[must_use]
    pub fn with_symmetry(mut self, symmetry: Symmetry) -> Graph {
        self.symmetry = symmetry;
        self
    }
    /// How many vertices there are, 1 to 2²⁰; they are numbered from 0.
    pub fn n(&self) -> u32 {
        self.n
    }
    /// The edges; an edge's id is its place.
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }
    /// What the generator knows.
    pub fn symmetry(&self) -> Symmetry {
        self.symmetry
    }
    /// The degree, if every vertex has it, in and out; parallel links and self-loops count.
    ///
    /// # Errors
    /// `NotRegular` with the least and the largest degree.
    pub fn degree(&self) -> Result<u32, Refusal> {
        let mut degrees = vec![(0u32, 0u32); self.n as usize];
        for edge in &self.edges {
            degrees[edge.tail as usize].0 += 1;
            degrees[edge.head as usize].1 += 1;
        }
        let all = || degrees.iter().flat_map(|(out, into)| [*out, *into]);
        let (min, max) = (all().min().unwrap_or(0), all().max().unwrap_or(0));
        if min == max { Ok(min) } else { Err(Refusal::NotRegular { min, max }) }
    }
    /// The graph with every edge turned around; edge ids stay.
    #[must_use]
    pub fn transposed(&self) -> Graph {
        let edges = self.edges.iter().map(|edge| Edge { tail: edge.head, head: edge.tail }).collect();
        Graph { n: self.n, edges, symmetry: self.symmetry }
    }
    /// Has it a self-loop? The first vertex with one.
    pub fn self_loop(&self) -> Option<u32> {
        self.edges.iter().find(|edge| edge.tail == edge.head).map(|edge| edge.head)
    }
    /// Neither parallel edges nor self-loops?
    pub fn is_simple(&self) -> bool {
        let mut sorted = self.edges.clone();
        sorted.sort_unstable();
        self.self_loop().is_none() && sorted.windows(2).all(|pair| pair[0] != pair[1])
    }
    /// Is every edge paired with its reverse, parallel copies one to one?
    pub fn is_bidirectional(&self) -> bool {
        let mut there = self.edges.clone();
        let mut back = self.transposed().edges;
        there.sort_unstable();
        back.sort_unstable();
        there == back
    }
}

/// The sizes if ids fit them.
pub(super) fn fitting(n: u64, d: u64) -> Result<(u32, u32), Refusal> {
    let edges = n.saturating_mul(d);
    if n > MAX_VERTICES.into() || edges > MAX_EDGES as u64 {
        return Err(Refusal::TopologyTooLarge { vertices: n, edges });
    }
    // Both are below 2²⁴ now: a graph without edges has one vertex and degree 0.
    Ok((n as u32, d as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(n: u32, edges: &[(u32, u32)]) -> Result<Graph, Refusal> {
        Graph::new(n, edges.iter().map(|&(tail, head)| Edge { tail, head }).collect())
    }

    #[test]
    fn a_ring_is_regular_and_one_way() {
        let ring = graph(3, &[(0, 1), (1, 2), (2, 0)]).unwrap();
        assert_eq!(ring.degree(), Ok(1));
        assert!(ring.is_simple() && !ring.is_bidirectional());
        assert_eq!(ring.transposed().edges()[0], Edge { tail: 1, head: 0 });
    }

    #[test]
    fn loops_and_copies_count_toward_the_degree() {
        let pair = graph(2, &[(0, 1), (1, 0), (0, 0), (1, 1), (0, 1), (1, 0)]).unwrap();
        assert_eq!(pair.degree(), Ok(3));
        assert_eq!(pair.self_loop(), Some(0));
        assert!(!pair.is_simple() && pair.is_bidirectional());
    }

    #[test]
    fn what_is_no_graph_is_refused() {
        assert_eq!(graph(0, &[]), Err(Refusal::EmptyTopology));
        assert_eq!(graph(2, &[(0, 2)]), Err(Refusal::VertexOutOfRange { edge: 0, vertex: 2, n: 2 }));
        assert_eq!(graph(3, &[(0, 1), (1, 0)]).unwrap().degree(), Err(Refusal::NotRegular { min: 0, max: 1 }));
        assert!(matches!(graph(u32::MAX, &[]), Err(Refusal::TopologyTooLarge { .. })));
    }
}
