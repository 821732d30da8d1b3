//! Cayley graphs of metacyclic groups: two cyclic groups, one acting on the other.

use super::{Family, by_tail};
use crate::direct::graph::fitting;
use crate::direct::{Graph, Refusal, Symmetry};

/// Elements `(i,j)`, `i` below `a`, `j` below `b`, with
/// `(i,j)(k,l) = (i + r^j·k + c·[j+l ≥ b], j+l)`; vertex `i·b+j` leads to its products with the generators.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Metacyclic {
    /// Order of the normal subgroup.
    pub a: u32,
    /// Order of the quotient.
    pub b: u32,
    /// How the quotient acts: `r^b ≡ 1` modulo `a`.
    pub r: u32,
    /// What a full turn of the quotient adds: `r·c ≡ c` modulo `a`.
    pub c: u32,
    /// Elements other than `(0,0)`, whose products reach the whole group.
    pub generators: Vec<(u32, u32)>,
}

impl Metacyclic {
    /// Vertices and degree, where the group exists and the generators reach all of it.
    pub(super) fn size(&self) -> Result<(u64, u64), Refusal> {
        let Metacyclic { a, b, r, c, generators } = self;
        let family = Family::Metacyclic(self.clone());
        family.require(*a >= 1 && *b >= 1 && u64::from(*a) * u64::from(*b) >= 2, "at least 2 elements are needed")?;
        let (n, d) = fitting(u64::from(*a) * u64::from(*b), generators.len() as u64)?;
        family.require(self.powers().1 == 1 % a, "r to the power b is 1 modulo a")?;
        let turned = u64::from(*r) * u64::from(*c) % u64::from(*a);
        family.require(turned == u64::from(c % a), "r·c is c modulo a")?;
        let inside = |&(i, j): &(u32, u32)| i < *a && j < *b && (i, j) != (0, 0);
        family.require(
            !generators.is_empty() && generators.iter().all(inside),
            "at least 1 generator is needed, each (i,j) with i < a, j < b, not (0,0)",
        )?;
        if let Some(to) = self.unreached(n) {
            return Err(Refusal::NotStronglyConnected { from: 0, to });
        }
        Ok((n.into(), d.into()))
    }

    pub(super) fn graph(&self) -> Result<Graph, Refusal> {
        let powers = self.powers().0;
        let graph = by_tail(self.a * self.b, self.generators.len() as u32, |v, heads| {
            heads.extend(self.generators.iter().map(|generator| self.product(&powers, v, *generator)));
        })?;
        Ok(graph.with_symmetry(Symmetry::VertexTransitive))
    }

    /// `r^j` modulo `a` for every `j` below `b`, and `r^b`.
    fn powers(&self) -> (Vec<u32>, u32) {
        let mut power = 1 % self.a;
        let step = |power: &mut u32| {
            let next = (u64::from(*power) * u64::from(self.r) % u64::from(self.a)) as u32;
            std::mem::replace(power, next)
        };
        ((0..self.b).map(|_| step(&mut power)).collect(), power)
    }

    fn product(&self, powers: &[u32], v: u32, (k, l): (u32, u32)) -> u32 {
        let (i, j) = (v / self.b, v % self.b);
        let turn = if j + l >= self.b { self.c } else { 0 };
        let i = (u64::from(i) + u64::from(powers[j as usize]) * u64::from(k) + u64::from(turn)) % u64::from(self.a);
        i as u32 * self.b + (j + l) % self.b
    }

    /// A vertex that the generators do not lead to.
    fn unreached(&self, n: u32) -> Option<u32> {
        let powers = self.powers().0;
        let mut seen = vec![false; n as usize];
        seen[0] = true;
        let mut open = vec![0];
        while let Some(v) = open.pop() {
            for generator in &self.generators {
                let next = self.product(&powers, v, *generator);
                if !std::mem::replace(&mut seen[next as usize], true) {
                    open.push(next);
                }
            }
        }
        seen.iter().position(|seen| !seen).map(|v| v as u32)
    }
}
