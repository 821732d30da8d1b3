//! What the planner refuses, with the code, the reason and what would be allowed.

use crate::run::Stopped;
use sluice_formats::quantity::Rational;

/// Why there is no plan. [`Refusal::code`] gives the stable name; the message names nodes and says what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum Refusal {
    /// Two nodes have the same name.
    #[error("node {name:?} is listed twice (as nodes {first} and {second}); every node needs a name of its own")]
    DuplicateNode { name: String, first: usize, second: usize },
    /// A link ends at a node that does not exist.
    #[error("link {link} ends at node {node}; nodes are numbered 0 to {last}")]
    UnknownNode { link: usize, node: u32, last: usize },
    /// A link leads from a node to itself.
    #[error("link {link} leads from {name:?} to itself; links join two different nodes")]
    SelfLoop { link: usize, name: String },
    /// A link's bandwidth is not a positive exact fraction.
    #[error("link {link} ({from:?} to {to:?}) has bandwidth {bandwidth}; a bandwidth is above zero")]
    NonPositiveBandwidth { link: usize, from: String, to: String, bandwidth: Rational },
    /// Fewer than two compute nodes.
    #[error("{found} compute node(s); a collective has at least 2")]
    TooFewCompute { found: usize },
    /// Shares that no collective has.
    #[error("bad weights: {reason}")]
    BadWeights { reason: String },
    /// Some nodes do not send what they receive.
    #[error("not Eulerian: {}; at every node the bandwidth in and out must be equal", imbalances(.nodes))]
    NotEulerian {
        /// Name, bandwidth in, bandwidth out; the first ten.
        nodes: Vec<(String, Rational, Rational)>,
    },
    /// Data of a compute node cannot get to another one.
    #[error("{from:?} cannot reach {to:?}; every compute node that owns data must reach all others")]
    NotConnected { from: String, to: String },
    /// Numbers too large for exact arithmetic.
    #[error(
        "{what} exceeds 64-bit integers; use bandwidths with a smaller common multiple, smaller weights or a smaller k"
    )]
    Overflow { what: &'static str },
    /// A fixed k below one.
    #[error("k = {k}; a fixed number of trees per root is at least 1")]
    BadK { k: i64 },
    /// The optimum needs more trees than the caller allows.
    #[error(
        "the optimum needs k = {k} trees per root, above the limit of {limit}; plan with a fixed k up to the limit instead"
    )]
    KTooLarge { k: u64, limit: u64 },
    /// Rounding down the bandwidths for a fixed k unbalances a node while there are switches.
    #[error(
        "with k = {k} the rounded bandwidths of {name:?} differ in and out; give links equal rates both ways, or use the optimal k"
    )]
    FixedKNotEulerian { k: u64, name: String },
    /// The linear program of all-reduce is too large for the exact solver.
    #[error(
        "{what}: {found} exceeds {allowed} of the exact all-reduce program; use reduce-scatter and all-gather instead"
    )]
    ProgramTooLarge { what: &'static str, found: usize, allowed: usize },
    /// A property that holds on every valid input does not: a defect of the planner.
    #[error("internal error: {what}; please report it with the topology")]
    InternalInvariant { what: &'static str },
    /// Somebody called it off, or the deadline passed.
    #[error("{}", .0.said("cancelled", "a plan"))]
    Stopped(#[from] Stopped),
}

impl Refusal {
    /// The stable code of the refusal, as results and documents write it.
    pub fn code(&self) -> &'static str {
        match self {
            Self::DuplicateNode { .. } => "DUPLICATE_NODE",
            Self::UnknownNode { .. } => "UNKNOWN_NODE",
            Self::SelfLoop { .. } => "SELF_LOOP",
            Self::NonPositiveBandwidth { .. } => "NON_POSITIVE_BANDWIDTH",
            Self::TooFewCompute { .. } => "TOO_FEW_COMPUTE",
            Self::BadWeights { .. } => "BAD_WEIGHTS",
            Self::NotEulerian { .. } => "NOT_EULERIAN",
            Self::NotConnected { .. } => "NOT_CONNECTED",
            Self::Overflow { .. } => "OVERFLOW",
            Self::BadK { .. } => "BAD_K",
            Self::KTooLarge { .. } => "K_TOO_LARGE",
            Self::FixedKNotEulerian { .. } => "FIXED_K_NOT_EULERIAN",
            Self::ProgramTooLarge { .. } => "PROGRAM_TOO_LARGE",
            Self::InternalInvariant { .. } => "INTERNAL_INVARIANT",
            Self::Stopped(stopped) => stopped.code(),
        }
    }
}

fn imbalances(nodes: &[(String, Rational, Rational)]) -> String {
    let each: Vec<String> =
        nodes.iter().map(|(name, into, out)| format!("{name:?} has {into} in and {out} out")).collect();
    each.join(", ")
}
