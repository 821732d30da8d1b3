//! Small graphs for tests.

use proptest::prelude::*;

use crate::direct::{Edge, Graph, Symmetry};

/// The vertex that an element leads to over a generator, both as numbers.
type Step<'a> = dyn Fn(u32, u32) -> u32 + 'a;

pub fn graph(n: u32, pairs: impl IntoIterator<Item = (u32, u32)>) -> Graph {
    Graph::new(n, pairs.into_iter().map(|(tail, head)| Edge { tail, head }).collect()).unwrap()
}

/// Every vertex leads to `step(vertex, 0..d)`.
pub fn regular(n: u32, d: u32, step: &Step<'_>) -> Graph {
    graph(n, (0..n).flat_map(|vertex| (0..d).map(move |place| (vertex, place))).map(|(v, place)| (v, step(v, place))))
}

pub fn circulant(n: u32, offsets: &[u32]) -> Graph {
    let both: Vec<u32> = offsets.iter().flat_map(|offset| [*offset, n - offset]).collect();
    directed(n, &both)
}

pub fn directed(n: u32, offsets: &[u32]) -> Graph {
    regular(n, offsets.len() as u32, &|v, place| (v + offsets[place as usize]) % n)
        .with_symmetry(Symmetry::VertexTransitive)
}

pub fn kautz(d: u32, n: u32) -> Graph {
    regular(n, d, &|v, place| (u64::from(n) * u64::from(d) - u64::from(d * v + place + 1) % u64::from(n)) as u32 % n)
}

pub fn hypercube(k: u32) -> Graph {
    regular(1 << k, k, &|v, bit| v ^ 1 << bit).with_symmetry(Symmetry::VertexTransitive)
}

/// Cartesian product; the first factor is the most significant.
pub fn product(a: &Graph, b: &Graph) -> Graph {
    let n = b.n();
    let along_a = a.edges().iter().flat_map(|edge| (0..n).map(move |y| (edge.tail * n + y, edge.head * n + y)));
    let along_b = (0..a.n()).flat_map(|x| b.edges().iter().map(move |edge| (x * n + edge.tail, x * n + edge.head)));
    graph(a.n() * n, along_a.chain(along_b)).with_symmetry(a.symmetry())
}

pub fn torus(sides: &[u32]) -> Graph {
    let ring = |side: u32| if side == 2 { directed(2, &[1]) } else { circulant(side, &[1]) };
    sides.iter().map(|side| ring(*side)).reduce(|a, b| product(&a, &b)).unwrap()
}

pub fn bipartite(d: u32) -> Graph {
    regular(2 * d, d, &|v, place| if v < d { d + place } else { place })
}

pub fn line(base: &Graph) -> Graph {
    let edges = base.edges();
    let follows = |e: usize| (0..edges.len()).filter(move |f| edges[*f].tail == edges[e].head);
    graph(edges.len() as u32, (0..edges.len()).flat_map(|e| follows(e).map(move |f| (e as u32, f as u32))))
}

pub fn copies(base: &Graph, n: u32) -> Graph {
    let arcs = |edge: &Edge| {
        (0..n).flat_map(move |i| (0..n).map(move |j| (i, j))).map({
            let edge = *edge;
            move |(i, j)| (edge.tail * n + i, edge.head * n + j)
        })
    };
    graph(base.n() * n, base.edges().iter().flat_map(arcs))
}

/// Random multigraphs with a ring through all vertices, so that everybody reaches everybody.
pub fn multigraphs() -> impl Strategy<Value = (u32, Vec<(u32, u32)>)> {
    (2..9_u32).prop_flat_map(|n| {
        let ring: Vec<_> = (0..n).map(|vertex| (vertex, (vertex + 1) % n)).collect();
        proptest::collection::vec((0..n, 0..n), 0..2 * n as usize)
            .prop_map(move |more| (n, [ring.clone(), more].concat()))
            .prop_filter("few links into each vertex", |(n, pairs)| {
                (0..*n).all(|vertex| pairs.iter().filter(|(_, head)| *head == vertex).count() <= 6)
            })
    })
}
