//! Expressions: graphs written as families and expansions, as in `L^2(K(4,4))` or `(UniRing(1,4) x UniRing(1,8))^2`.
//!
//! An expression is a construction tree: it says its size without building anything, builds its graph, knows a map onto
//! its transpose where there is one, and is printed so that reading it gives the same tree.

mod mirror;
mod parse;

pub use parse::{MAX_CHARACTERS, MAX_DEPTH, Misread};

use std::fmt;

use super::family::Family;
use super::graph::fitting;
use super::{Graph, Refusal, expand};

/// How a graph is made.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Expr {
    /// A graph of a family.
    Family(Family),
    /// `L(G)`, `L^2(G)` …: the line graph, so many times (1 or more).
    Line(u32, Box<Expr>),
    /// `G*n`: every vertex `n` times (2 or more).
    Degree(Box<Expr>, u32),
    /// `G^n`: the product of `n` copies (2 or more).
    Power(Box<Expr>, u32),
    /// `G x H`: the product of two or more.
    Product(Vec<Expr>),
    /// `Bi(G)`: the graph and its transpose together.
    Bidirectional(Box<Expr>),
    /// `T(G)`: every link turned around.
    Transposed(Box<Expr>),
}

impl Expr {
    /// Reads an expression.
    ///
    /// # Errors
    /// The place, what stands there, and what is allowed.
    pub fn parse(text: &str) -> Result<Expr, Misread> {
        parse::parse(text)
    }

    /// Vertices and degree, after all parameters were checked; nothing is built.
    ///
    /// # Errors
    /// Those of the families; `TopologyTooLarge`, `DegreeTooSmall`.
    pub fn size(&self) -> Result<(u32, u32), Refusal> {
        let times = |a: u32, b: u32| u64::from(a) * u64::from(b);
        match self {
            Expr::Family(family) => family.size(),
            Expr::Line(times_over, base) => {
                let (n, d) = base.size()?;
                if d < 2 {
                    return Err(Refusal::DegreeTooSmall { degree: d });
                }
                let grown = u64::from(d).checked_pow(*times_over).and_then(|grown| grown.checked_mul(n.into()));
                fitting(grown.unwrap_or(u64::MAX), d.into())
            }
            Expr::Degree(base, copies) => {
                let (n, d) = base.size()?;
                fitting(times(n, *copies), times(d, *copies))
            }
            Expr::Power(base, exponent) => {
                let (n, d) = base.size()?;
                fitting(u64::from(n).checked_pow(*exponent).unwrap_or(u64::MAX), times(d, *exponent))
            }
            Expr::Product(factors) => {
                let (mut n, mut d) = (1, 0);
                for factor in factors {
                    let (size, degree) = factor.size()?;
                    (n, d) = fitting(times(n, size), u64::from(d) + u64::from(degree))?;
                }
                Ok((n, d))
            }
            Expr::Bidirectional(base) => {
                let (n, d) = base.size()?;
                fitting(n.into(), times(d, 2))
            }
            Expr::Transposed(base) => base.size(),
        }
    }

    /// The graph; its size is checked before anything is built.
    ///
    /// # Errors
    /// Those of [`Expr::size`]; `SelfLoop`; `E_RANGE` for graphs known from pictures only.
    pub fn graph(&self) -> Result<Graph, Refusal> {
        self.size()?;
        self.build()
    }

    fn build(&self) -> Result<Graph, Refusal> {
        match self {
            Expr::Family(family) => family.graph(),
            Expr::Line(times, base) => {
                let mut graph = base.build()?;
                for _ in 0..*times {
                    graph = expand::line(&graph)?;
                }
                Ok(graph)
            }
            Expr::Degree(base, copies) => expand::degree(&base.build()?, *copies),
            Expr::Power(base, exponent) => expand::power(&base.build()?, *exponent),
            Expr::Product(factors) => {
                let graphs = factors.iter().map(Expr::build).collect::<Result<Vec<Graph>, Refusal>>()?;
                expand::product(&graphs.iter().collect::<Vec<&Graph>>())
            }
            Expr::Bidirectional(base) => expand::bidirectional(&base.build()?),
            Expr::Transposed(base) => Ok(base.build()?.transposed()),
        }
    }

    /// A map onto the transposed graph, where the construction shows one: `(u,v)` is an edge if and only if
    /// `(map[v], map[u])` is, as often.
    ///
    /// # Errors
    /// Those of [`Expr::graph`]; `NotReverseSymmetric` where no map is known.
    pub fn mirror(&self) -> Result<Vec<u32>, Refusal> {
        mirror::mirror(self)
    }

    /// Can the graph be built, or is it known from a picture only?
    pub fn is_constructible(&self) -> bool {
        match self {
            Expr::Family(family) => family.is_constructible(),
            Expr::Product(factors) => factors.iter().all(Expr::is_constructible),
            Expr::Line(_, base)
            | Expr::Degree(base, _)
            | Expr::Power(base, _)
            | Expr::Bidirectional(base)
            | Expr::Transposed(base) => base.is_constructible(),
        }
    }

    /// How many expansions it has; a graph that is built in fewer is preferred to an equal one.
    pub fn expansions(&self) -> u32 {
        match self {
            Expr::Family(_) => 0,
            Expr::Line(times, base) => times + base.expansions(),
            Expr::Product(factors) => factors.len() as u32 - 1 + factors.iter().map(Expr::expansions).sum::<u32>(),
            Expr::Degree(base, _) | Expr::Power(base, _) | Expr::Bidirectional(base) | Expr::Transposed(base) => {
                1 + base.expansions()
            }
        }
    }

    /// The line graph of this one.
    #[must_use]
    pub fn line(self) -> Expr {
        match self {
            Expr::Line(times, base) => Expr::Line(times + 1, base),
            other => Expr::Line(1, Box::new(other)),
        }
    }
}

impl From<Family> for Expr {
    fn from(family: Family) -> Expr {
        Expr::Family(family)
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Only a product needs brackets, everywhere but at the top and inside those of a function.
        let bracketed = |f: &mut fmt::Formatter<'_>, expr: &Expr| match expr {
            Expr::Product(_) => write!(f, "({expr})"),
            _ => write!(f, "{expr}"),
        };
        match self {
            Expr::Family(family) => write!(f, "{family}"),
            Expr::Line(1, base) => write!(f, "L({base})"),
            Expr::Line(times, base) => write!(f, "L^{times}({base})"),
            Expr::Bidirectional(base) => write!(f, "Bi({base})"),
            Expr::Transposed(base) => write!(f, "T({base})"),
            Expr::Degree(base, copies) => {
                bracketed(f, base)?;
                write!(f, "*{copies}")
            }
            Expr::Power(base, exponent) => {
                bracketed(f, base)?;
                write!(f, "^{exponent}")
            }
            Expr::Product(factors) => {
                for (i, factor) in factors.iter().enumerate() {
                    if i > 0 {
                        f.write_str(" x ")?;
                    }
                    bracketed(f, factor)?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests;
