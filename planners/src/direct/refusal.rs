//! What is refused of graphs, expansions, schedules and searches: code, reason, what is allowed.

use crate::run::Stopped;
use sluice_formats::problem::Code;

/// Why there is no graph or no schedule. [`Refusal::code`] gives the stable name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are; a reason says what is wrong and what is allowed")]
pub enum Refusal {
    /// No vertex at all.
    #[error("the topology has no vertex; at least 1 is needed")]
    EmptyTopology,
    /// An edge ends at a vertex that does not exist.
    #[error("edge {edge} ends at vertex {vertex}; vertices are numbered 0 to {}", .n - 1)]
    VertexOutOfRange { edge: u32, vertex: u32, n: u32 },
    /// Data of a vertex cannot get to another one.
    #[error("vertex {from} cannot reach vertex {to}; every vertex must reach all others")]
    NotStronglyConnected { from: u32, to: u32 },
    /// Where one degree is needed, there are several.
    #[error("degrees go from {min} to {max}; every vertex needs the same number of ports in and out")]
    NotRegular { min: u32, max: u32 },
    /// A self-loop where none may be.
    #[error("vertex {vertex} has a self-loop; a degree expansion needs a graph without any")]
    SelfLoop { vertex: u32 },
    /// A line graph of a graph of degree 1.
    #[error("the line graph of a graph of degree {degree} is the same cycle; at least degree 2 is needed")]
    DegreeTooSmall { degree: u32 },
    /// Chunks that cannot be.
    #[error("bad chunking: {reason}")]
    InvalidChunking { reason: String },
    /// Latency or bandwidth of a link that cannot be.
    #[error("edge {edge}: {reason}")]
    InvalidLinkParameter { edge: u32, reason: String },
    /// Parameters of a family outside its range.
    #[error("{family}: {reason}")]
    InvalidFamily { family: String, reason: String },
    /// An offset of a circulant that is no link or twice the same.
    #[error("offset {offset} modulo {n}: {reason}")]
    InvalidOffset { offset: i64, n: u32, reason: &'static str },
    /// More vertices or edges than ids.
    #[error("the topology would have {vertices} vertices and {edges} edges; at most 1048576 and 16777216 are allowed")]
    TopologyTooLarge { vertices: u64, edges: u64 },
    /// Tables of neighbours by vertices that would not fit in memory.
    #[error(
        "vertex {vertex} has {found} in-neighbours; on a topology of this size at most {most} are allowed. \
         Regular topologies are not limited so"
    )]
    TooManyNeighbours { vertex: u32, found: u32, most: u64 },
    /// More sends than a plan may have.
    #[error("the schedule would have {sends} sends or more; at most {most} are allowed")]
    ScheduleTooLarge { sends: u64, most: u64 },
    /// No map onto the transposed graph is known.
    #[error("the graph is not reverse-symmetric, so its transpose does not serve as its second half")]
    NotReverseSymmetric,
    /// The planner's own result is wrong: a defect, never the input's fault.
    #[error("internal error: {reason}; please report the command and the topology")]
    Internal { reason: String },
    /// Somebody called it off, or the deadline passed.
    #[error("{}", .0.said("interrupted", "a result"))]
    Stopped(#[from] Stopped),
}

impl Refusal {
    /// The name that scripts go by: it stays the same when the text changes.
    pub fn code(&self) -> Code {
        match self {
            Refusal::EmptyTopology => "EmptyTopology",
            Refusal::VertexOutOfRange { .. } => "VertexOutOfRange",
            Refusal::NotStronglyConnected { .. } => "NotStronglyConnected",
            Refusal::NotRegular { .. } => "NotRegular",
            Refusal::SelfLoop { .. } => "SelfLoop",
            Refusal::DegreeTooSmall { .. } => "DegreeTooSmall",
            Refusal::InvalidChunking { .. } => "InvalidChunking",
            Refusal::InvalidLinkParameter { .. } => "InvalidLinkParameter",
            Refusal::InvalidFamily { .. } => sluice_formats::problem::E_RANGE,
            Refusal::InvalidOffset { .. } => "InvalidOffset",
            Refusal::TopologyTooLarge { .. } | Refusal::TooManyNeighbours { .. } | Refusal::ScheduleTooLarge { .. } => {
                "TopologyTooLarge"
            }
            Refusal::NotReverseSymmetric => "NotReverseSymmetric",
            Refusal::Internal { .. } => "INTERNAL_INVARIANT",
            Refusal::Stopped(stopped) => stopped.code(),
        }
    }
}
