//! The finder: which graphs of N vertices and degree d are worth having, and how they are made.
//!
//! For every size and degree that the target can be made from, the best graphs known are kept: families, whose values
//! are computed exactly, and expansions of smaller graphs, whose costs follow from theirs. What is given back is the
//! frontier: graphs that no other beats in steps without being worse in time. Only what is chosen need be built.

mod base;
mod build;
mod cell;
mod frontier;
mod known;
mod picture;
mod search;
mod values;
mod workload;

pub use build::measured;
pub use known::FOUND;
pub use picture::frontier_svg;
pub use values::{CACHE_VERSION, StaleCache, Value, Values};
pub use workload::Workload;

use std::collections::HashMap;

use super::family::Family;
use super::{Expr, Refusal};
use crate::run::Run;
use sluice_formats::quantity::Rational;

/// What a candidate is, beside its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags {
    /// Its time is exact, not an upper bound.
    pub exact: bool,
    /// Neither parallel links nor self-loops.
    pub simple: bool,
    /// No link from a vertex to itself, as degree expansions need.
    pub loop_free: bool,
    /// Every link has its opposite.
    pub bidirectional: bool,
    /// A map onto the transposed graph is known, so a reduce-scatter costs what an all-gather costs.
    pub mirrored: bool,
    /// It can be built, and is not known from a picture only.
    pub constructible: bool,
}

/// How the schedule of a candidate is made; in step with its expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recipe {
    /// The best breadth-first schedule of the whole graph.
    Bfb,
    /// The line expansion of the base's schedule.
    Line(Box<Recipe>),
    /// The degree expansion of the base's schedule.
    Degree(Box<Recipe>),
    /// The power of the base's schedule.
    Power(Box<Recipe>),
    /// Half of the base's schedule each way.
    Bidirectional(Box<Recipe>),
    /// Published as a picture.
    Published,
}

/// A graph with what its all-gather costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// How it is made.
    pub expr: Expr,
    /// How its schedule is made.
    pub recipe: Recipe,
    /// Vertices, N in the formulas.
    pub n: u32,
    /// Links out of each vertex, and as many in.
    pub d: u32,
    /// Steps of its all-gather, T_L.
    pub t_l: u32,
    /// τ, in units of M/B.
    pub t_b: Rational,
    /// What is known of the graph beside its cost.
    pub flags: Flags,
}

/// What is looked for.
#[derive(Clone, Debug)]
pub struct Options {
    /// Only graphs whose links all have their opposites, as cables need.
    pub bidirectional: bool,
    /// Only graphs that can be built.
    pub constructible: bool,
    /// Words of the families that may be used; empty: all.
    pub allow: Vec<String>,
    /// Words of the families that may not.
    pub deny: Vec<String>,
    /// Expansions of at most so many vertices are evaluated exactly, beside what the formulas say of them.
    pub exact_limit: u32,
    /// Links looked at while offsets of circulants are sought, per size and degree.
    pub search_work: u64,
    /// Further graphs to start from, such as a longer search has found.
    pub extra: Vec<Expr>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            bidirectional: false,
            constructible: true,
            allow: Vec::new(),
            deny: Vec::new(),
            exact_limit: 512,
            search_work: 10_000_000,
            extra: Vec::new(),
        }
    }
}

impl Options {
    fn allows(&self, family: &Family) -> bool {
        let named = |words: &[String]| words.iter().any(|word| word == family.word());
        (self.allow.is_empty() || named(&self.allow)) && !named(&self.deny)
    }

    fn allows_all(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Family(family) => self.allows(family),
            Expr::Product(factors) => factors.iter().all(|factor| self.allows_all(factor)),
            Expr::Line(_, base)
            | Expr::Degree(base, _)
            | Expr::Power(base, _)
            | Expr::Bidirectional(base)
            | Expr::Transposed(base) => self.allows_all(base),
        }
    }
}

/// Which graphs a cell of the table is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Mode {
    Any,
    Bidirectional,
}

type Cell = (u32, u32, Mode);

/// The table of the best graphs by size and degree, filled as it is asked.
pub struct Finder<'a, 'b> {
    options: &'a Options,
    values: &'a mut Values<'b>,
    run: &'a Run<'a>,
    best: HashMap<Cell, Vec<Candidate>>,
    /// Simple graphs with BFB schedules of the least time: only these make products.
    worthy: HashMap<Cell, Vec<Candidate>>,
}

impl<'a, 'b> Finder<'a, 'b> {
    /// A finder that computes what it needs through `values`.
    pub fn new(options: &'a Options, values: &'a mut Values<'b>, run: &'a Run<'a>) -> Finder<'a, 'b> {
        Finder { options, values, run, best: HashMap::new(), worthy: HashMap::new() }
    }

    /// The frontier for `n` vertices of degree `d`: fewest steps first. Of equal costs the one in fewest expansions, then
    /// the first by its expression. Empty for degree 0 and more than one vertex.
    ///
    /// # Errors
    /// `EmptyTopology`, `TopologyTooLarge`, `Cancelled`, `TimeLimit`; `Internal` where a value is none.
    pub fn frontier(&mut self, n: u32, d: u32) -> Result<Vec<Candidate>, Refusal> {
        if n == 0 {
            return Err(Refusal::EmptyTopology);
        }
        super::graph::fitting(n.into(), d.into())?;
        if n == 1 {
            return Ok(vec![base::trivial(d)]);
        }
        let mode = if self.options.bidirectional { Mode::Bidirectional } else { Mode::Any };
        let mut all = self.cell((n, d, mode))?;
        if self.options.constructible {
            all.retain(|candidate| candidate.flags.constructible);
        }
        Ok(frontier::least(all))
    }

    /// τ of the candidate's reduce-scatter, which is that of its all-gather where a mirror is known; a bound where that
    /// is one, or where the schedule is not breadth-first. `None` of what cannot be built.
    ///
    /// # Errors
    /// `Cancelled`, `TimeLimit`; `Internal` where a value is none.
    pub fn reduce_scatter(&mut self, candidate: &Candidate) -> Result<Option<Rational>, Refusal> {
        if !candidate.flags.constructible {
            return Ok(None);
        }
        if candidate.flags.mirrored {
            return Ok(Some(candidate.t_b.clone()));
        }
        let turned = cell::transposed(&candidate.expr, &candidate.recipe, self)?;
        Ok(Some(turned.1))
    }

    /// The values known by now.
    pub fn values(&self) -> &Values<'b> {
        self.values
    }

    /// The exact value of a graph under a breadth-first schedule.
    fn value(&mut self, expr: &Expr) -> Result<Value, Refusal> {
        self.run.check()?;
        self.values.of(expr)
    }
}

#[cfg(test)]
mod tests;
