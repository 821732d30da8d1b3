//! All-to-all throughput: the rate f at which every vertex can send to every other at once, links having capacity 1.
//!
//! Data of M bytes per machine, M/N for each pair, at bandwidth B per machine of d ports takes (M/B)·d/(N·f). The rate
//! says nothing of a schedule: it is what routing by any mixture of paths achieves in the long run. Parallel links add
//! up; self-loops carry nothing.
//!
//! Every result is a pair of proved numbers: a rate that a flow achieves and a bound that no flow exceeds.

mod bounds;
mod certified;
mod classes;
mod descend;
mod lengths;
mod links;
mod program;
mod refusal;

pub use bounds::by_degree;
pub use classes::Classes;
pub use refusal::Refusal;

use links::Links;
use sluice_formats::quantity::Rational;
use sluice_planners::direct::Graph;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Vertices times links up to which the linear program of all sources is chosen: a second or two.
const MAX_CHOSEN: u64 = 1 << 14;
/// Vertices times links of that program at most, if it is asked for: some minutes, a gigabyte.
const MAX_PROGRAM: u64 = 1 << 18;
/// Vertices times links of the first-order method at most: a gigabyte.
const MAX_DESCENT: u64 = 1 << 28;

/// How a throughput was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// The linear program of one source, by translations.
    OneSource,
    /// The linear program of all sources.
    Program,
    /// The first-order method.
    Descent,
}

/// How to find a throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// One source where classes are given, the program where it is small, else the first-order method.
    Auto,
    /// This one.
    By(Method),
}

/// How far a computation is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// The best rate so far.
    pub rate: f64,
    /// No flow has more.
    pub bound: f64,
    /// Passes over all sources before.
    pub pass: u32,
}

/// The terms under which a throughput is computed.
#[derive(Clone, Copy)]
pub struct Limits<'a> {
    /// Which method.
    pub way: Way,
    /// The first-order method ends at this distance of rate and bound, as a share of the bound.
    pub gap: f64,
    /// When to end with what there is.
    pub deadline: Option<Instant>,
    /// Who watches; called from time to time.
    pub progress: &'a (dyn Fn(Progress) + Sync),
    /// Set to true by another thread, it ends the work with [`Refusal::Cancelled`].
    pub cancel: &'a AtomicBool,
}

static NEVER: AtomicBool = AtomicBool::new(false);

impl Limits<'static> {
    /// Nobody watches, there is no end of time, and half a per cent is close enough.
    pub fn quiet() -> Limits<'static> {
        Limits { way: Way::Auto, gap: 0.005, deadline: None, progress: &|_| {}, cancel: &NEVER }
    }
}

impl Limits<'_> {
    fn check(&self) -> Result<(), Refusal> {
        if self.cancel.load(Ordering::Relaxed) { Err(Refusal::Cancelled) } else { Ok(()) }
    }
    fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}

/// A throughput with its proof.
#[derive(Clone, Debug, PartialEq)]
pub struct Throughput {
    /// Some flow gives every pair this rate, in capacities of a link.
    pub rate: f64,
    /// No flow gives every pair more: the best of prices of links and distances, exact.
    pub bound: Rational,
    /// The bound by distances alone.
    pub by_distance: Rational,
    /// How the rate was found.
    pub method: Method,
}

impl Throughput {
    /// Distance of rate and bound, as a share of the bound.
    pub fn gap(&self) -> f64 {
        (1.0 - self.rate / self.bound.to_f64()).max(0.0)
    }
    /// Time of an all-to-all in units of M/B on `n` machines of `d` ports: d/(N·f).
    pub fn time(&self, n: u32, d: u32) -> f64 {
        f64::from(d) / (f64::from(n) * self.rate)
    }
}

/// The all-to-all throughput of a graph.
///
/// `classes` are edges that translations carry onto one another; then one source stands for all.
///
/// # Errors
/// `E_RANGE` below two vertices, `NotStronglyConnected`, `TopologyTooLarge`, `TimeLimit` where not even a bad flow was
/// found in time, `Solver`, `CANCELLED`.
pub fn throughput(graph: &Graph, classes: Option<&Classes>, limits: &Limits<'_>) -> Result<Throughput, Refusal> {
    let links = Links::new(graph)?;
    let numbers = links.n as u64 * links.len() as u64;
    let method = match (limits.way, classes) {
        (Way::By(method), _) => method,
        (Way::Auto, Some(_)) => Method::OneSource,
        (Way::Auto, None) if numbers <= MAX_CHOSEN => Method::Program,
        (Way::Auto, None) => Method::Descent,
    };
    let (sources, most) = match method {
        Method::OneSource => (1, u64::MAX),
        Method::Program => (links.n, MAX_PROGRAM),
        Method::Descent => (links.n, MAX_DESCENT),
    };
    if numbers > most {
        return Err(Refusal::TooLarge { numbers, most });
    }
    limits.check()?;
    // The classes may be another graph's; looking again costs next to nothing.
    let classes = match (method, classes) {
        (Method::OneSource, Some(classes)) => Some(Classes::new(graph, classes.of_edges().to_vec())?),
        (Method::OneSource, None) => return Err(Refusal::Classes { reason: "one source needs them".into() }),
        _ => None,
    };
    let by_distance = bounds::by_distance(&links, sources).ok_or(Refusal::NoPair)?;
    let solved = match (method, &classes) {
        (_, Some(classes)) => {
            let share: Vec<u32> = links.edge.iter().map(|&edge| classes.of_edges()[edge as usize]).collect();
            program::solve(&links, sources, &share, classes.count() as usize, limits)?
        }
        (Method::Descent, _) => descend::solve(&links, &by_distance, limits)?,
        _ => {
            let share: Vec<u32> = (0..links.len() as u32).collect();
            program::solve(&links, sources, &share, links.len(), limits)?
        }
    };
    let bound = solved.bound.filter(|bound| *bound < by_distance).unwrap_or_else(|| by_distance.clone());
    Ok(Throughput { rate: solved.rate, bound, by_distance, method })
}
