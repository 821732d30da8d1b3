//! Candidates to start from: the families that have a member of this size and degree.

use super::{Candidate, FOUND, Finder, Flags, Mode, Recipe, Value, search};
use crate::direct::bfb::least_bandwidth;
use crate::direct::expand::cost::fraction;
use crate::direct::family::{CATALOGUE, Family, Half};
use crate::direct::{Expr, Refusal};
use sluice_formats::quantity::Rational;

/// Graphs that look different from each vertex are evaluated up to this size: time grows with its square.
const MAX_EVALUATED: u32 = 8192;

/// The graph of one vertex.
pub fn trivial(d: u32) -> Candidate {
    let flags =
        Flags { exact: true, simple: true, loop_free: true, bidirectional: true, mirrored: true, constructible: true };
    let expr = Family::Complete { m: 1 }.into();
    Candidate { expr, recipe: Recipe::Bfb, n: 1, d, t_l: 0, t_b: Rational::ZERO, flags }
}

/// What is known of a family's member without building it.
fn flags(family: &Family) -> Flags {
    let bidirectional = match family {
        Family::UniRing { m, .. } => *m == 2,
        Family::DirectedCirculant { n, offsets } => {
            let count = |wanted: u32| offsets.iter().filter(|offset| *offset % n == wanted).count();
            offsets.iter().all(|offset| count(offset % n) == count((n - offset % n) % n))
        }
        Family::GeneralizedKautz { d, m } => *m == d + 1,
        Family::Kautz { k, .. } => *k == 0,
        Family::DeBruijn { .. }
        | Family::GeneralizedDeBruijn { .. }
        | Family::Metacyclic(_)
        | Family::Diamond
        | Family::ModifiedDeBruijn { .. } => false,
        _ => true,
    };
    let alike = |offsets: &[u32]| offsets.iter().enumerate().any(|(i, offset)| offsets[..i].contains(offset));
    let loop_free = match family {
        Family::GeneralizedKautz { d, m } => m.is_multiple_of(d + 1),
        Family::DeBruijn { .. } | Family::GeneralizedDeBruijn { .. } => false,
        _ => true,
    };
    let simple = loop_free
        && match family {
            Family::UniRing { d, .. } => *d == 1,
            Family::BiRing { d, .. } => *d == 2,
            Family::Circulant { offsets, half, .. } => *half != Half::Double && !alike(offsets),
            Family::DirectedCirculant { offsets, .. } => !alike(offsets),
            Family::Metacyclic(group) => {
                (1..group.generators.len()).all(|i| !group.generators[..i].contains(&group.generators[i]))
            }
            _ => true,
        };
    let mirrored = match family {
        Family::UniRing { .. }
        | Family::DirectedCirculant { .. }
        | Family::Kautz { .. }
        | Family::DeBruijn { .. }
        | Family::ModifiedDeBruijn { d: 2, k: 3 } => true,
        Family::Metacyclic(_) => Expr::from(family.clone()).mirror().is_ok(),
        _ => bidirectional,
    };
    Flags { exact: true, simple, loop_free, bidirectional, mirrored, constructible: family.is_constructible() }
}

/// A member whose cost a theorem gives, or whose exact value was computed.
fn member(family: Family, n: u32, d: u32, t_l: u32, t_b: Rational) -> Candidate {
    let flags = flags(&family);
    let recipe = if flags.constructible { Recipe::Bfb } else { Recipe::Published };
    Candidate { expr: family.into(), recipe, n, d, t_l, t_b, flags }
}

/// The number that to this power gives `n`.
pub fn root(n: u32, power: u32) -> Option<u32> {
    let near = f64::from(n).powf(1.0 / f64::from(power)).round() as u32;
    (near.saturating_sub(1)..=near + 1).find(|root| root.checked_pow(power) == Some(n))
}

impl Finder<'_, '_> {
    /// Simple members with breadth-first schedules of the least time.
    pub(super) fn worthy_base(&mut self, n: u32, d: u32, mode: Mode) -> Result<Vec<Candidate>, Refusal> {
        let mut found = Vec::new();
        // By theorem: the time is the least, the steps are known.
        let mut known = vec![];
        if n == d + 1 {
            known.push((Family::Complete { m: n }, 1));
        }
        if n == 2 * d && d >= 2 {
            known.push((Family::Bipartite { d }, 2));
        }
        if d < 20 && n == 1 << d && d >= 2 {
            known.push((Family::Hypercube { k: d }, d));
        }
        for k in 2..d {
            if let Some(q) = root(n, k).filter(|q| *q >= 3 && k * (q - 1) == d) {
                known.push((Family::Hamming { k, q }, k));
            }
        }
        if (n, d) == (8, 3) {
            known.push((Family::TwistedCube, 2));
        }
        if d == 1 && n >= 2 {
            known.push((Family::UniRing { d: 1, m: n }, n - 1));
        }
        if d == 2 && n >= 3 {
            known.push((Family::BiRing { d: 2, m: n }, n / 2));
        }
        let known = known.into_iter().map(|(family, t_l)| member(family, n, d, t_l, least_bandwidth(n)));
        found.extend(known.filter(|candidate| self.options.allows_all(&candidate.expr)));
        // By value.
        let mut tried = Vec::new();
        if d == 4 && n > 6 {
            tried.push(narrowest(n, 1));
        }
        if d == 4 && CATALOGUE.iter().any(|(size, _)| *size == n) {
            tried.push(Family::DistanceRegular { n });
        }
        if d != 4 && self.options.allows(&Family::Circulant { n, offsets: Vec::new(), half: Half::Single }) {
            tried.extend(search::undirected(n, d, self.options.search_work));
        }
        if mode == Mode::Any && self.options.allows(&Family::DirectedCirculant { n, offsets: Vec::new() }) {
            tried.extend(search::directed(n, d, self.options.search_work));
        }
        for family in tried {
            found.extend(self.valued(family.into(), n, d)?);
        }
        for candidate in self.given(n, d)? {
            found.push(candidate);
        }
        found.retain(|candidate| is_worthy(candidate) && (mode == Mode::Any || candidate.flags.bidirectional));
        Ok(found)
    }

    pub(super) fn other_base(&mut self, n: u32, d: u32, mode: Mode) -> Result<Vec<Candidate>, Refusal> {
        let mut found = Vec::new();
        let mut known = vec![];
        if d >= 2 {
            known.push((Family::UniRing { d, m: n }, n - 1, least_bandwidth(n)));
        }
        if d >= 4 && d.is_multiple_of(2) && n >= 3 {
            known.push((Family::BiRing { d, m: n }, n / 2, least_bandwidth(n)));
        }
        if d >= 2
            && let Some(k) = (1..32).find(|k| d.checked_pow(*k) == Some(n))
        {
            let reached = (0..k).map(|k| u64::from(d.pow(k))).sum::<u64>();
            known.push((Family::DeBruijn { d, k }, k, fraction(u64::from(d) * reached, n.into())));
        }
        for (family, steps) in [
            (Family::Diamond, 3),
            (Family::ModifiedDeBruijn { d: 2, k: 3 }, 4),
            (Family::ModifiedDeBruijn { d: 2, k: 4 }, 5),
            (Family::ModifiedDeBruijn { d: 3, k: 2 }, 3),
            (Family::ModifiedDeBruijn { d: 4, k: 2 }, 3),
        ] {
            if !self.options.constructible && family.size() == Ok((n, d)) {
                known.push((family, steps, least_bandwidth(n)));
            }
        }
        let known = known.into_iter().map(|(family, t_l, t_b)| member(family, n, d, t_l, t_b));
        found.extend(known.filter(|candidate| self.options.allows_all(&candidate.expr)));
        let mut tried = Vec::new();
        if d >= 8 && d.is_multiple_of(4) && n > 6 {
            tried.push(narrowest(n, d / 4));
        }
        if mode == Mode::Any && d >= 2 && n > d && n <= MAX_EVALUATED {
            tried.push(Family::GeneralizedKautz { d, m: n });
            if n <= self.options.exact_limit {
                tried.push(Family::GeneralizedDeBruijn { d, m: n });
            }
        }
        for family in tried {
            found.extend(self.valued(family.into(), n, d)?);
        }
        found.extend(self.given(n, d)?);
        found.retain(|candidate| mode == Mode::Any || candidate.flags.bidirectional);
        Ok(found)
    }

    /// Graphs of this size that were found by search, here or by the caller.
    fn given(&mut self, n: u32, d: u32) -> Result<Vec<Candidate>, Refusal> {
        let known = FOUND.iter().filter_map(|text| Expr::parse(text).ok());
        let all: Vec<Expr> = known.chain(self.options.extra.iter().cloned()).collect();
        let mut found = Vec::new();
        for expr in all.into_iter().filter(|expr| expr.size() == Ok((n, d))) {
            found.extend(self.valued(expr, n, d)?);
        }
        Ok(found)
    }

    /// The graph with its exact value, if its families are allowed.
    pub(super) fn valued(&mut self, expr: Expr, n: u32, d: u32) -> Result<Option<Candidate>, Refusal> {
        if !self.options.allows_all(&expr) {
            return Ok(None);
        }
        let Value { t_l, t_b } = self.value(&expr)?;
        let flags = match &expr {
            Expr::Family(family) => flags(family),
            other => {
                let graph = other.graph()?;
                Flags {
                    exact: true,
                    simple: graph.is_simple(),
                    loop_free: graph.self_loop().is_none(),
                    bidirectional: graph.is_bidirectional(),
                    mirrored: other.mirror().is_ok(),
                    constructible: true,
                }
            }
        };
        Ok(Some(Candidate { expr, recipe: Recipe::Bfb, n, d, t_l, t_b, flags }))
    }
}

/// May the candidate be a factor of a product whose time is the least again?
pub fn is_worthy(candidate: &Candidate) -> bool {
    candidate.recipe == Recipe::Bfb && candidate.flags.simple && candidate.t_b == least_bandwidth(candidate.n)
}

/// The circulant of two offsets with the least diameter, each offset so many times.
fn narrowest(n: u32, times: u32) -> Family {
    // The smallest m with (2m+1)² ≥ 2n−1; n is at most 2²⁰.
    let m = (1_u32..).find(|m| u64::from(2 * m + 1).pow(2) >= 2 * u64::from(n) - 1).unwrap_or(1);
    let offsets = (0..times).flat_map(|_| [m, m + 1]).collect();
    Family::Circulant { n, offsets, half: Half::Refused }
}
