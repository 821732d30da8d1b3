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

pub use classes::Classes;
pub use refusal::Refusal;

use links::Links;
use sluice_formats::quantity::Rational;
use sluice_planners::Run;
use sluice_planners::direct::Graph;

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
    /// The first-order method, whose bounds end within a tolerance.
    Descent,
}

/// How to find a throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// One source where classes are given or found, the program where it is small, else the first-order method.
    Auto,
    /// This method, or a refusal where it does not fit.
    By(Method),
}

/// What the caller may choose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Which method finds the throughput.
    pub way: Way,
    /// The first-order method ends at this distance of rate and bound, as a share of the bound.
    pub gap: f64,
}

impl Default for Options {
    /// Half a per cent is close enough.
    fn default() -> Options {
        Options { way: Way::Auto, gap: 0.005 }
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
/// `classes` are edges that translations carry onto one another; then one source stands for all. Where none are given
/// and the way is left open, [`Classes::found`] looks for them. At the deadline the best that is proved is the answer.
///
/// # Errors
/// `E_RANGE` below two vertices, `NotStronglyConnected`, `TopologyTooLarge`, `TimeLimit` where not even a bad flow was
/// found in time, `Solver`, `CANCELLED`.
pub fn throughput(
    graph: &Graph,
    classes: Option<&Classes>,
    options: &Options,
    run: &Run,
) -> Result<Throughput, Refusal> {
    let links = Links::new(graph)?;
    let numbers = links.n as u64 * links.len() as u64;
    let found = classes.is_none().then(|| Classes::found(graph).filter(|_| options.way == Way::Auto)).flatten();
    let classes = classes.or(found.as_ref());
    let method = match (options.way, classes) {
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
    going_on(run)?;
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
            program::solve(&links, sources, &share, classes.count() as usize, run)?
        }
        (Method::Descent, _) => descend::solve(&links, &by_distance, options.gap, run)?,
        _ => {
            let share: Vec<u32> = (0..links.len() as u32).collect();
            program::solve(&links, sources, &share, links.len(), run)?
        }
    };
    let bound = solved.bound.filter(|bound| *bound < by_distance).unwrap_or_else(|| by_distance.clone());
    Ok(Throughput { rate: solved.rate, bound, by_distance, method })
}

/// Ends the work where it was called off; a deadline ends it with what there is.
fn going_on(run: &Run) -> Result<(), Refusal> {
    if run.is_cancelled() { Err(Refusal::Cancelled) } else { Ok(()) }
}
