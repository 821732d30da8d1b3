//! Tori: plain ones of any dimension, and twisted ones of two.

use super::{Family, by_tail};
use crate::direct::{Graph, Refusal, Symmetry};

pub fn size(family: &Family) -> Result<(u64, u64), Refusal> {
    match family {
        Family::Torus { sizes } => {
            family.require(!sizes.is_empty() && sizes.iter().all(|size| *size >= 1), "every size is at least 1")?;
            let n = sizes.iter().fold(1_u64, |n, size| n.saturating_mul((*size).into()));
            Ok((n, sizes.iter().map(|size| u64::from(*size).min(3) - 1).sum()))
        }
        Family::TwistedTorus { a, b, s } => {
            family.require(*a >= 3 && *b >= 3, "both sizes are at least 3")?;
            family.require(s < a, "the twist is less than the first size")?;
            Ok((u64::from(*a) * u64::from(*b), 4))
        }
        _ => Err(family.refuse("not a torus")),
    }
}

/// The digits of a vertex are its coordinates, the first most significant; up before down in each.
pub fn torus(sizes: &[u32], n: u32, degree: u32) -> Result<Graph, Refusal> {
    let graph = by_tail(n, degree, |v, heads| {
        let mut weight = n;
        for &size in sizes {
            weight /= size;
            let digit = v / weight % size;
            let moved = |to: u32| v - digit * weight + to * weight;
            if size >= 2 {
                heads.push(moved((digit + 1) % size));
            }
            if size >= 3 {
                heads.push(moved((digit + size - 1) % size));
            }
        }
    })?;
    Ok(graph.with_symmetry(Symmetry::VertexTransitive))
}

/// `(x,y)` is `x·b+y`; `(x,b−1)` goes on to `(x+s,0)`. A Cayley graph of Z² modulo (a,0) and (−s,b).
pub fn twisted(a: u32, b: u32, s: u32, n: u32) -> Result<Graph, Refusal> {
    let graph = by_tail(n, 4, |v, heads| {
        let (x, y) = (v / b, v % b);
        let id = |x: u32, y: u32| x % a * b + y;
        heads.push(id(x + 1, y));
        heads.push(id(x + a - 1, y));
        heads.push(if y + 1 < b { id(x, y + 1) } else { id(x + s, 0) });
        heads.push(if y > 0 { id(x, y - 1) } else { id(x + a - s, b - 1) });
    })?;
    Ok(graph.with_symmetry(Symmetry::VertexTransitive))
}
