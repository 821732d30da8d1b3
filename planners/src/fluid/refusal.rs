//! What is refused of fluid programs: code, reason, what is allowed. Nodes are told by their index until a topology names them.

use crate::run::Stopped;
use sluice_formats::problem::Code;

/// Why there is no answer. [`Refusal::code`] gives the stable name.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum Refusal {
    /// Nobody to exchange anything with.
    #[error("{found} participant(s) or demands; a collective has at least 2")]
    EmptyCollective { found: usize },
    /// A node that sends on what it keeps cannot copy.
    #[error("node {node} sends on or keeps what others get too, and cannot copy")]
    EndpointCannotCopy { node: u32 },
    /// A node that adds to a sum cannot reduce.
    #[error("node {node} adds to a sum, and cannot reduce")]
    EndpointCannotReduce { node: u32 },
    /// No place where an all-reduce can be summed up.
    #[error("no participant can both reduce and copy, so that no sum has a place to be made at and spread from")]
    NoRoot,
    /// No way leads there.
    #[error("no way leads from node {origin} to node {destination}")]
    Unreachable { origin: u32, destination: u32 },
    /// Data has more links to go than there are steps.
    #[error("{horizon} steps are too few: some data has {need} links to go")]
    HorizonTooShort { horizon: usize, need: usize },
    /// A parameter that cannot be.
    #[error("{name} is {found}; {allowed}")]
    BadParameter { name: &'static str, found: String, allowed: &'static str },
    /// A latency that nothing reaches.
    #[error("no schedule has this latency; the least is {needed}")]
    Infeasible { needed: f64 },
    /// A permutation that changes the fabric.
    #[error("not an automorphism: {what}")]
    NotAnAutomorphism { what: String },
    /// More than can be solved.
    #[error("{what}: {found}; at most {allowed}")]
    TooLarge { what: &'static str, found: usize, allowed: usize },
    /// Parts cut so finely that the plan would be too large.
    #[error("{found} chunks of every part make a plan that is too large; at most {allowed}")]
    TooManyChunks { found: u64, allowed: u64 },
    /// The solver came to another end than an optimum.
    #[error("the solver ended with {status}")]
    Solver { status: String },
    /// Somebody called it off, or the deadline passed before there was anything.
    #[error("{}", .0.said("cancelled", "a plan"))]
    Stopped(#[from] Stopped),
}

impl Refusal {
    /// The name that scripts go by: it stays the same when the text changes.
    pub fn code(&self) -> Code {
        match self {
            Refusal::EmptyCollective { .. } => "EmptyCollective",
            Refusal::EndpointCannotCopy { .. } => "EndpointCannotCopy",
            Refusal::EndpointCannotReduce { .. } => "EndpointCannotReduce",
            Refusal::NoRoot => "NoRoot",
            Refusal::Unreachable { .. } => "Unreachable",
            Refusal::HorizonTooShort { .. } => "HorizonTooShort",
            Refusal::BadParameter { .. } => "BadParameter",
            Refusal::Infeasible { .. } => "Infeasible",
            Refusal::NotAnAutomorphism { .. } => "NotAnAutomorphism",
            Refusal::TooLarge { .. } | Refusal::TooManyChunks { .. } => "TooLarge",
            Refusal::Solver { .. } => "Solver",
            Refusal::Stopped(stopped) => stopped.code(),
        }
    }
}
