//! Circulants, directed circulants and rings: vertices modulo n, the same steps from each.

use super::{Family, by_tail};
use crate::direct::{Graph, Refusal, Symmetry};

/// What an offset of exactly n/2 means, where forward and backward are the same neighbour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Half {
    /// It is refused: an expression says which of the two it means.
    #[default]
    Refused,
    /// One cable: the degree is one less.
    Single,
    /// Two parallel cables, which count twice in the degree.
    Double,
}

impl Half {
    /// How an expression says it.
    pub fn word(self) -> Option<&'static str> {
        match self {
            Half::Refused => None,
            Half::Single => Some("single"),
            Half::Double => Some("double"),
        }
    }
}

/// Vertices and degree of a ring.
pub fn ring_size(family: &Family) -> Result<(u64, u64), Refusal> {
    match family {
        Family::UniRing { d, m } => {
            family.require(*d >= 1 && *m >= 2, "at least 1 link and 2 vertices are needed")?;
            Ok(((*m).into(), (*d).into()))
        }
        Family::BiRing { d, m } => {
            family.require(*d >= 2 && d % 2 == 0, "the degree is even, 2 or more")?;
            family.require(*m >= 3, "at least 3 vertices are needed; two vertices are UniRing(d,2)")?;
            Ok(((*m).into(), (*d).into()))
        }
        _ => Err(family.refuse("not a ring")),
    }
}

/// Vertices and degree of a circulant.
pub fn size(n: u32, offsets: &[u32], half: Half) -> Result<(u64, u64), Refusal> {
    check(n, offsets)?;
    let halves = offsets.iter().filter(|&&offset| is_half(offset, n)).count() as u64;
    if halves > 0 && half == Half::Refused {
        let reason = "it is n/2, forward and backward the same; say `single` for one cable or `double` for two";
        return Err(Refusal::InvalidOffset { offset: i64::from(n / 2), n, reason });
    }
    let degree = 2 * offsets.len() as u64;
    Ok((n.into(), if half == Half::Single { degree - halves } else { degree }))
}

/// Vertices and degree of a directed circulant.
pub fn directed_size(n: u32, offsets: &[u32]) -> Result<(u64, u64), Refusal> {
    check(n, offsets)?;
    Ok((n.into(), offsets.len() as u64))
}

/// `i` to `i+a` and `i−a`, offset by offset.
pub fn graph(n: u32, offsets: &[u32], half: Half) -> Result<Graph, Refusal> {
    let mut steps = Vec::with_capacity(2 * offsets.len());
    for &offset in offsets {
        steps.push(offset % n);
        if half != Half::Single || !is_half(offset, n) {
            steps.push(n - offset % n);
        }
    }
    directed(n, &steps)
}

/// `i` to `i+o`, offset by offset.
pub fn directed(n: u32, offsets: &[u32]) -> Result<Graph, Refusal> {
    let graph = by_tail(n, offsets.len() as u32, |v, heads| {
        heads.extend(offsets.iter().map(|offset| ((u64::from(v) + u64::from(*offset)) % u64::from(n)) as u32));
    })?;
    Ok(graph.with_symmetry(Symmetry::VertexTransitive))
}

fn is_half(offset: u32, n: u32) -> bool {
    n.is_multiple_of(2) && offset % n == n / 2
}

/// Offsets that lead somewhere, and everywhere.
fn check(n: u32, offsets: &[u32]) -> Result<(), Refusal> {
    if n < 2 || offsets.is_empty() {
        let reason = "at least 2 vertices and 1 offset are needed".into();
        return Err(Refusal::InvalidFamily { family: format!("circulant of {n} vertices"), reason });
    }
    if let Some(offset) = offsets.iter().find(|offset| *offset % n == 0) {
        let reason = "it leads nowhere; offsets are 1 to n-1";
        return Err(Refusal::InvalidOffset { offset: (*offset).into(), n, reason });
    }
    let common = offsets.iter().fold(n, |common, offset| num_integer::gcd(common, *offset));
    if common == 1 { Ok(()) } else { Err(Refusal::NotStronglyConnected { from: 0, to: 1 }) }
}
