//! Complete graphs, complete bipartite graphs, Hamming graphs, cubes.

use super::{Family, by_tail, power};
use crate::direct::{Graph, Refusal, Symmetry};

pub fn size(family: &Family) -> Result<(u64, u64), Refusal> {
    match family {
        Family::Complete { m } => {
            family.require(*m >= 1, "at least 1 vertex is needed")?;
            Ok(((*m).into(), u64::from(*m) - 1))
        }
        Family::Bipartite { d } => {
            family.require(*d >= 1, "at least 1 vertex on each side is needed")?;
            Ok((2 * u64::from(*d), (*d).into()))
        }
        Family::Hamming { k, q } => {
            family.require(*k >= 1 && *q >= 2, "k is at least 1 and q at least 2")?;
            Ok((power(*q, *k), u64::from(*k) * (u64::from(*q) - 1)))
        }
        Family::Hypercube { k } => {
            family.require((1..=20).contains(k), "k is 1 to 20")?;
            Ok((power(2, *k), (*k).into()))
        }
        _ => Ok((8, 3)),
    }
}

/// Those without coordinates of any size.
pub fn graph(family: &Family, n: u32, degree: u32) -> Result<Graph, Refusal> {
    let graph = by_tail(n, degree, |v, heads| match family {
        Family::Complete { .. } => heads.extend((0..n).filter(|&u| u != v)),
        Family::Bipartite { d } => heads.extend(if v < *d { *d..2 * d } else { 0..*d }),
        // Bits from the least significant on; in the twisted cube the lowest bit of 0, 1, 4, 5 leads across.
        _ => heads.extend((0..degree).map(|bit| match (family, v, bit) {
            (Family::TwistedCube, 0 | 1 | 4 | 5, 0) => v ^ 5,
            _ => v ^ (1 << bit),
        })),
    })?;
    Ok(match family {
        Family::TwistedCube => graph,
        _ => graph.with_symmetry(Symmetry::VertexTransitive),
    })
}

/// Words of `k` digits below `q`, one digit apart; the first digit is the most significant.
pub fn hamming(k: u32, q: u32, n: u32, degree: u32) -> Result<Graph, Refusal> {
    let graph = by_tail(n, degree, |v, heads| {
        let mut weight = n;
        for _ in 0..k {
            weight /= q;
            let digit = v / weight % q;
            heads.extend((0..q).filter(|&other| other != digit).map(|other| v - digit * weight + other * weight));
        }
    })?;
    Ok(graph.with_symmetry(Symmetry::VertexTransitive))
}
