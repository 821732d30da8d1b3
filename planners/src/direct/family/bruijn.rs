//! De Bruijn and Kautz graphs, plain and generalized: few steps for their degree.

use super::{Family, by_tail, power};
use crate::direct::{Graph, Refusal, expand};

pub fn size(family: &Family) -> Result<(u64, u64), Refusal> {
    match family {
        Family::GeneralizedKautz { d, m } => {
            family.require(*d >= 2, "the degree is at least 2")?;
            family.require(*m > *d, "more vertices than the degree are needed")?;
            Ok(((*m).into(), (*d).into()))
        }
        Family::Kautz { d, k } => {
            family.require(*d >= 2, "the degree is at least 2")?;
            Ok((power(*d, *k).saturating_mul(u64::from(*d) + 1), (*d).into()))
        }
        Family::DeBruijn { d, k } => {
            family.require(*d >= 2 && *k >= 1, "the degree is at least 2, the digits at least 1")?;
            Ok((power(*d, *k), (*d).into()))
        }
        Family::GeneralizedDeBruijn { d, m } => {
            family.require(*d >= 2 && *m >= 2, "degree and vertices are at least 2")?;
            Ok(((*m).into(), (*d).into()))
        }
        _ => Err(family.refuse("neither de Bruijn nor Kautz")),
    }
}

/// Vertices and degree of the modified de Bruijn graphs there are.
pub fn modified(d: u32, k: u32) -> Result<(u64, u64), Refusal> {
    match (d, k) {
        (2, 3) | (2, 4) | (3, 2) | (4, 2) => Ok((power(d, k), d.into())),
        _ => Err(Family::ModifiedDeBruijn { d, k }.refuse("known are (2,3), (2,4), (3,2) and (4,2)")),
    }
}

/// The graph on `n` vertices, after the parameters were checked.
pub fn graph(family: &Family, n: u32) -> Result<Graph, Refusal> {
    match *family {
        Family::Kautz { d, k } => {
            let mut graph = Family::Complete { m: d + 1 }.graph()?;
            for _ in 0..k {
                graph = expand::line(&graph)?;
            }
            Ok(graph)
        }
        Family::GeneralizedKautz { d, .. } => {
            let m = u64::from(n);
            // −d·x−a modulo m: n·d is below 2²⁴, so the difference of the two needs no more than one turn each.
            by_tail(n, d, |x, heads| {
                let back = u64::from(d) * u64::from(x) % m;
                heads.extend((1..=u64::from(d)).map(|a| ((2 * m - back - a) % m) as u32));
            })
        }
        Family::DeBruijn { d, .. } | Family::GeneralizedDeBruijn { d, .. } => by_tail(n, d, |x, heads| {
            heads.extend((0..u64::from(d)).map(|a| ((u64::from(d) * u64::from(x) + a) % u64::from(n)) as u32));
        }),
        _ => Err(family.refuse("neither de Bruijn nor Kautz")),
    }
}
