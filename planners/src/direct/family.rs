//! The families of graphs: each with its parameters, its numbering of vertices, and what is known of it.
//!
//! The numbering is part of a family, so that everybody who names a graph means the same one. Edges stand in the order
//! of their tails.

mod bruijn;
mod circulant;
mod distance_regular;
mod geometry;
mod grid;
mod metacyclic;
mod plain;

pub use circulant::Half;
pub use distance_regular::CATALOGUE;
pub use metacyclic::Metacyclic;

use std::fmt;

use super::graph::fitting;
use super::{Edge, Graph, Refusal};

/// A graph by rule. [`fmt::Display`] writes it as expressions do.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "how a family is written says what its parameters are")]
pub enum Family {
    /// `K(m)`: every vertex to every other.
    Complete { m: u32 },
    /// `K(d,d)`: vertices below `d` and the others, each to all of the other side.
    Bipartite {
        /// Vertices of a side.
        d: u32,
    },
    /// `H(k,q)`: the product of `k` complete graphs of `q` vertices.
    Hamming { k: u32, q: u32 },
    /// `Q(k)`: words of `k` bits, one bit apart.
    Hypercube { k: u32 },
    /// `TQ(3)`: `Q(3)` with the cables 0–1 and 4–5 replaced by 0–5 and 1–4.
    TwistedCube,
    /// `UniRing(d,m)`: to the next vertex, `d` times.
    UniRing { d: u32, m: u32 },
    /// `BiRing(d,m)`: to both neighbours, `d/2` cables each.
    BiRing {
        /// The degree: even, half of it each way round.
        d: u32,
        m: u32,
    },
    /// `Torus(a,b,…)`: a ring in every dimension; a size of 2 is one cable, of 1 nothing.
    Torus {
        /// Sizes, the first most significant.
        sizes: Vec<u32>,
    },
    /// `TwistedTorus(a,b,s)`: a torus whose second dimension comes back `s` further on.
    TwistedTorus { a: u32, b: u32, s: u32 },
    /// `C(n,{…})`: `i` to `i±a` for every offset, modulo `n`; an offset that stands twice is two cables.
    Circulant {
        n: u32,
        offsets: Vec<u32>,
        /// What an offset of `n/2` means.
        half: Half,
    },
    /// `DC(n,{…})`: `i` to `i+o` for every offset, modulo `n`.
    DirectedCirculant { n: u32, offsets: Vec<u32> },
    /// `Pi(d,m)`, generalized Kautz: `x` to `−d·x−a` modulo `m`, `a` from 1 to `d`.
    GeneralizedKautz { d: u32, m: u32 },
    /// `Kautz(d,k)`: the `k`-fold line graph of `K(d+1)`.
    Kautz { d: u32, k: u32 },
    /// `DBJ(d,k)`, de Bruijn: `x` to `d·x+a` modulo `d^k`, `a` from 0 to `d−1`.
    DeBruijn { d: u32, k: u32 },
    /// `GDBJ(d,m)`, generalized de Bruijn: the same rule modulo any `m`.
    GeneralizedDeBruijn { d: u32, m: u32 },
    /// `MC(a,b,r,c;(i,j),…)`: a Cayley graph of a metacyclic group.
    Metacyclic(Metacyclic),
    /// `DistReg(4,n)`: the distance-regular graph of degree 4 with so many vertices, of [`CATALOGUE`].
    DistanceRegular { n: u32 },
    /// `Diamond`: 8 vertices of degree 2, published as a picture only.
    Diamond,
    /// `DBJMod(d,k)`, modified de Bruijn: published as pictures only.
    ModifiedDeBruijn { d: u32, k: u32 },
}

impl Family {
    /// Vertices and degree, after all parameters were checked; nothing is built.
    ///
    /// # Errors
    /// `E_RANGE`, `InvalidOffset`, `NotStronglyConnected`, `TopologyTooLarge`.
    pub fn size(&self) -> Result<(u32, u32), Refusal> {
        let (n, d) = match self {
            Family::Complete { .. }
            | Family::Bipartite { .. }
            | Family::Hamming { .. }
            | Family::Hypercube { .. }
            | Family::TwistedCube => plain::size(self)?,
            Family::UniRing { .. } | Family::BiRing { .. } => circulant::ring_size(self)?,
            Family::Torus { .. } | Family::TwistedTorus { .. } => grid::size(self)?,
            Family::Circulant { n, offsets, half } => circulant::size(*n, offsets, *half)?,
            Family::DirectedCirculant { n, offsets } => circulant::directed_size(*n, offsets)?,
            Family::GeneralizedKautz { .. }
            | Family::Kautz { .. }
            | Family::DeBruijn { .. }
            | Family::GeneralizedDeBruijn { .. } => bruijn::size(self)?,
            Family::Metacyclic(group) => group.size()?,
            Family::DistanceRegular { n } => distance_regular::size(*n)?,
            Family::Diamond => (8, 2),
            Family::ModifiedDeBruijn { d, k } => bruijn::modified(*d, *k)?,
        };
        fitting(n, d)
    }

    /// The graph.
    ///
    /// # Errors
    /// Those of [`Family::size`]; `E_RANGE` for graphs known from pictures only.
    pub fn graph(&self) -> Result<Graph, Refusal> {
        let (n, degree) = self.size()?;
        match self {
            Family::Complete { .. } | Family::Bipartite { .. } | Family::Hypercube { .. } | Family::TwistedCube => {
                plain::graph(self, n, degree)
            }
            Family::Hamming { k, q } => plain::hamming(*k, *q, n, degree),
            Family::UniRing { d, m } => circulant::directed(*m, &vec![1; *d as usize]),
            Family::BiRing { d, m } => circulant::graph(*m, &vec![1; *d as usize / 2], Half::Refused),
            Family::Torus { sizes } => grid::torus(sizes, n, degree),
            Family::TwistedTorus { a, b, s } => grid::twisted(*a, *b, *s, n),
            Family::Circulant { n, offsets, half } => circulant::graph(*n, offsets, *half),
            Family::DirectedCirculant { n, offsets } => circulant::directed(*n, offsets),
            Family::GeneralizedKautz { .. }
            | Family::Kautz { .. }
            | Family::DeBruijn { .. }
            | Family::GeneralizedDeBruijn { .. } => bruijn::graph(self, n),
            Family::Metacyclic(group) => group.graph(),
            Family::DistanceRegular { n } => distance_regular::graph(*n),
            Family::Diamond | Family::ModifiedDeBruijn { .. } => {
                let reason = "it is published as a picture only and cannot be built; see `sluice topology gen --help`";
                Err(self.refuse(reason))
            }
        }
    }

    /// Can the graph be built?
    pub fn is_constructible(&self) -> bool {
        !matches!(self, Family::Diamond | Family::ModifiedDeBruijn { .. })
    }

    /// The first word of how it is written; finders allow and deny families by it.
    pub fn word(&self) -> &'static str {
        match self {
            Family::Complete { .. } | Family::Bipartite { .. } => "K",
            Family::Hamming { .. } => "H",
            Family::Hypercube { .. } => "Q",
            Family::TwistedCube => "TQ",
            Family::UniRing { .. } => "UniRing",
            Family::BiRing { .. } => "BiRing",
            Family::Torus { .. } => "Torus",
            Family::TwistedTorus { .. } => "TwistedTorus",
            Family::Circulant { .. } => "C",
            Family::DirectedCirculant { .. } => "DC",
            Family::GeneralizedKautz { .. } => "Pi",
            Family::Kautz { .. } => "Kautz",
            Family::DeBruijn { .. } => "DBJ",
            Family::GeneralizedDeBruijn { .. } => "GDBJ",
            Family::Metacyclic(_) => "MC",
            Family::DistanceRegular { .. } => "DistReg",
            Family::Diamond => "Diamond",
            Family::ModifiedDeBruijn { .. } => "DBJMod",
        }
    }

    fn refuse(&self, reason: impl Into<String>) -> Refusal {
        Refusal::InvalidFamily { family: self.to_string(), reason: reason.into() }
    }

    fn require(&self, allowed: bool, reason: &str) -> Result<(), Refusal> {
        if allowed { Ok(()) } else { Err(self.refuse(reason)) }
    }
}

/// The words of all families, for messages and options.
pub const WORDS: [&str; 18] = [
    "K",
    "H",
    "Q",
    "TQ",
    "UniRing",
    "BiRing",
    "Torus",
    "TwistedTorus",
    "C",
    "DC",
    "Pi",
    "Kautz",
    "DBJ",
    "GDBJ",
    "MC",
    "DistReg",
    "Diamond",
    "DBJMod",
];

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())?;
        match self {
            Family::Complete { m } => write!(f, "({m})"),
            Family::Bipartite { d } => write!(f, "({d},{d})"),
            Family::Hamming { k, q } => write!(f, "({k},{q})"),
            Family::Hypercube { k } => write!(f, "({k})"),
            Family::TwistedCube => write!(f, "(3)"),
            Family::UniRing { d, m }
            | Family::BiRing { d, m }
            | Family::GeneralizedKautz { d, m }
            | Family::GeneralizedDeBruijn { d, m } => write!(f, "({d},{m})"),
            Family::Kautz { d, k } | Family::DeBruijn { d, k } | Family::ModifiedDeBruijn { d, k } => {
                write!(f, "({d},{k})")
            }
            Family::Torus { sizes } => write!(f, "({})", list(sizes)),
            Family::TwistedTorus { a, b, s } => write!(f, "({a},{b},{s})"),
            Family::Circulant { n, offsets, half } => {
                let half = half.word().map(|word| format!(",{word}")).unwrap_or_default();
                write!(f, "({n},{{{}}}{half})", list(offsets))
            }
            Family::DirectedCirculant { n, offsets } => write!(f, "({n},{{{}}})", list(offsets)),
            Family::Metacyclic(Metacyclic { a, b, r, c, generators }) => {
                let pairs: Vec<String> = generators.iter().map(|(i, j)| format!("({i},{j})")).collect();
                write!(f, "({a},{b},{r},{c};{})", pairs.join(","))
            }
            Family::DistanceRegular { n } => write!(f, "(4,{n})"),
            Family::Diamond => Ok(()),
        }
    }
}

fn list(numbers: &[u32]) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// `base` to the power `k`, or a number no graph may have.
fn power(base: u32, k: u32) -> u64 {
    u64::from(base).checked_pow(k).unwrap_or(u64::MAX)
}

/// The graph whose vertex `v` has the links that `heads` pushes for it, in that order.
fn by_tail(n: u32, degree: u32, mut heads: impl FnMut(u32, &mut Vec<u32>)) -> Result<Graph, Refusal> {
    let mut edges = Vec::with_capacity(n as usize * degree as usize);
    let mut out = Vec::with_capacity(degree as usize);
    for tail in 0..n {
        out.clear();
        heads(tail, &mut out);
        edges.extend(out.iter().map(|&head| Edge { tail, head }));
    }
    Graph::new(n, edges)
}

#[cfg(test)]
mod tests;
