//! Why there is no throughput.

use sluice_formats::problem::Code;
use sluice_planners::{CANCELLED, TIME_LIMIT, direct};

/// Why there is no throughput. [`Refusal::code`] gives the stable name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The graph is none for this.
    Graph(direct::Refusal),
    /// Nobody has anybody to send to.
    NoPair,
    /// The edge classes are not those of translations.
    Classes {
        /// What is wrong, and what is allowed.
        reason: String,
    },
    /// More numbers than the method may keep.
    TooLarge {
        /// How many there would be: vertices times links.
        numbers: u64,
        /// As many are allowed.
        most: u64,
    },
    /// Time ran out before there was any feasible flow.
    TimeLimit,
    /// The solver of linear programs gave up.
    Solver {
        /// How it ended, in its own words.
        status: String,
    },
    /// The run was called off.
    Cancelled,
}

impl Refusal {
    /// The name that scripts go by: it stays the same when the text changes.
    pub fn code(&self) -> Code {
        match self {
            Refusal::Graph(refusal) => refusal.code(),
            Refusal::NoPair | Refusal::Classes { .. } => sluice_formats::problem::E_RANGE,
            Refusal::TooLarge { .. } => "TopologyTooLarge",
            Refusal::TimeLimit => TIME_LIMIT,
            Refusal::Solver { .. } => "Solver",
            Refusal::Cancelled => CANCELLED,
        }
    }
}

impl From<direct::Refusal> for Refusal {
    fn from(refusal: direct::Refusal) -> Refusal {
        Refusal::Graph(refusal)
    }
}

impl std::error::Error for Refusal {}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refusal::Graph(refusal) => refusal.fmt(f),
            Refusal::NoPair => f.write_str("all-to-all needs at least 2 vertices"),
            Refusal::Classes { reason } => write!(f, "edge classes: {reason}"),
            Refusal::TooLarge { numbers, most } => {
                write!(f, "vertices times links are {numbers}; at most {most} are allowed without edge classes")
            }
            Refusal::TimeLimit => f.write_str("time ran out before there was a flow; allow more time"),
            Refusal::Solver { status } => write!(f, "HiGHS ended with {status}; please report the topology"),
            Refusal::Cancelled => f.write_str("interrupted"),
        }
    }
}
