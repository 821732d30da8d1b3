//! What is refused of a wide-area allocation: the name of the method's page, the flow, link or group, and what was expected.

use sluice_formats::problem::{Code, Problem};

/// What is wrong with a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It has no links.
    #[error("the route has no links")]
    Empty,
    /// The sender or the receiver is no node.
    #[error("node {node} does not exist: there are {nodes}, numbered from 0")]
    UnknownNode {
        /// The number that was given.
        node: usize,
        /// How many there are.
        nodes: usize,
    },
    /// A number on it is no link.
    #[error("link {link} does not exist: there are {links}, numbered from 0")]
    UnknownLink {
        /// The number that was given.
        link: usize,
        /// How many there are.
        links: usize,
    },
    /// It does not begin at the sender.
    #[error("it begins at node {node}, not at the sender")]
    Start {
        /// Where it begins.
        node: usize,
    },
    /// A link does not begin where the one before it ends.
    #[error("link {link} does not begin where the link before it ends")]
    Broken {
        /// The later link.
        link: usize,
    },
    /// It does not end at the receiver.
    #[error("it ends at node {node}, not at the receiver")]
    End {
        /// Where it ends.
        node: usize,
    },
    /// It comes to a node twice.
    #[error("it comes to node {node} twice")]
    Repeated {
        /// That node.
        node: usize,
    },
}

/// Why there is no answer. [`Refusal::code`] gives the stable name.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum Refusal {
    /// Nothing to transfer.
    #[error("there are no flows; at least one is needed")]
    NoFlows,
    /// A collective that moves nothing.
    #[error("collective {collective} has no flows; collectives are numbered from 0 without a gap")]
    EmptyCollective { collective: usize },
    /// A flow without a usable size.
    #[error("flow {flow}: a size of {size} MB; finite and more than 0 is needed")]
    BadSize { flow: usize, size: f64 },
    /// A flow that may never begin.
    #[error("flow {flow}: release at {release} s; at least 0 and at most 1e100 is needed")]
    BadRelease { flow: usize, release: f64 },
    /// Sizes that cannot be drawn.
    #[error("sizes: {what}")]
    BadSizes { what: String },
    /// A link without a usable capacity.
    #[error("link {link}: a capacity of {capacity} MB/s; finite and more than 0 is needed")]
    BadCapacity { link: usize, capacity: f64 },
    /// Capacities that cannot be drawn.
    #[error("capacities: {what}")]
    BadCapacities { what: String },
    /// A route that leads nowhere or astray.
    #[error("flow {flow}: {fault}")]
    BadRoute { flow: usize, fault: Fault },
    /// A link between nodes that do not exist.
    #[error("link {link}: {fault}")]
    BadLink { link: usize, fault: Fault },
    /// A flow that does not leave its node.
    #[error("flow {flow} goes from node {node} to itself")]
    SelfFlow { flow: usize, node: usize },
    /// No way leads there.
    #[error("no way leads from node {src} to node {dst}")]
    Unreachable { src: usize, dst: usize },
    /// A number that two things have.
    #[error("two {what} have the number {id}")]
    DuplicateId { what: &'static str, id: usize },
    /// A number that nothing has.
    #[error("{what} {id} does not exist: there are {count}, numbered from 0 without a gap")]
    GapInIds { what: &'static str, id: usize, count: usize },
    /// Flows that are no chain, where chains are needed.
    #[error(
        "collective {collective}, group {group}: {what}; chains of orders 0, 1, 2 … without other dependencies are needed"
    )]
    NotAChain { collective: usize, group: usize, what: &'static str },
    /// Flows that wait for each other.
    #[error("flow {flow} waits, through its dependencies, for itself")]
    Cycle { flow: usize },
    /// A ring that is none.
    #[error("participants: {what}")]
    BadParticipants { what: String },
    /// A weight that divides nothing.
    #[error("group {group}: a weight of {weight}; finite and more than 0 is needed")]
    BadWeight { group: usize, weight: f64 },
    /// A list that does not go with the instance.
    #[error("{found} {what} for {expected}; one each is needed")]
    BadLength { what: &'static str, found: usize, expected: usize },
    /// Numbers too far apart, too large or too small for a trustworthy answer.
    #[error("{what} from {least} to {largest}: more than a factor of 1e9 apart, or not between 1e-100 and 1e100")]
    Range { what: &'static str, least: f64, largest: f64 },
    /// Rates that a link cannot carry.
    #[error("link {link} carries {load} MB/s at {t} s; its capacity is {capacity} MB/s")]
    Capacity { link: usize, t: f64, load: f64, capacity: f64 },
    /// A rate that is none.
    #[error("flow {flow} has a rate of {rate} MB/s at {t} s; finite and at least 0 is needed")]
    BadRate { flow: usize, t: f64, rate: f64 },
    /// Flows are ready and none of them moves.
    #[error("at {t} s flows are ready, flow {flow} among them, and all rates are 0")]
    Deadlock { t: f64, flow: usize },
    /// The solver came to another end than an optimum.
    #[error("the solver ended with {status} after {iterations} iterations, gap {gap}")]
    Solver { status: String, iterations: usize, gap: f64 },
    /// A topology that cannot be read or used.
    #[error("{file}, line {line}: {what}")]
    BadTopology { file: String, line: usize, what: String },
    /// More than can be planned.
    #[error("{what}: {found}; at most {allowed}")]
    TooLarge { what: &'static str, found: usize, allowed: usize },
    /// Somebody called it off.
    #[error("cancelled")]
    Stopped,
}

impl Refusal {
    /// The name that scripts go by: it stays the same when the text changes.
    pub fn code(&self) -> Code {
        match self {
            Refusal::NoFlows | Refusal::EmptyCollective { .. } => "Empty",
            Refusal::BadSize { .. } | Refusal::BadRelease { .. } | Refusal::BadSizes { .. } => "BadSize",
            Refusal::BadCapacity { .. } | Refusal::BadCapacities { .. } => "BadCapacity",
            Refusal::BadRoute { .. } | Refusal::BadLink { .. } => "BadRoute",
            Refusal::SelfFlow { .. } => "SelfFlow",
            Refusal::Unreachable { .. } => "Unreachable",
            Refusal::DuplicateId { .. } => "DuplicateId",
            Refusal::GapInIds { .. } => "GapInIds",
            Refusal::NotAChain { .. } => "NotAChain",
            Refusal::Cycle { .. } => "Cycle",
            Refusal::BadParticipants { .. } => "BadParticipants",
            Refusal::BadWeight { .. } | Refusal::BadLength { .. } => "BadWeight",
            Refusal::Range { .. } => "Range",
            Refusal::Capacity { .. } | Refusal::BadRate { .. } => "Capacity",
            Refusal::Deadlock { .. } => "Deadlock",
            Refusal::Solver { .. } => "Solver",
            Refusal::BadTopology { .. } => "BadTopology",
            Refusal::TooLarge { .. } => "TooLarge",
            Refusal::Stopped => "CANCELLED",
        }
    }

    /// The problem that this is, for those who tell mistakes in files: with what it names as details.
    pub fn problem(&self) -> Problem {
        let problem = Problem::new(self.code(), "", self.to_string());
        match self {
            Refusal::EmptyCollective { collective } => problem.detail("collective", *collective),
            Refusal::BadSize { flow, .. }
            | Refusal::BadRelease { flow, .. }
            | Refusal::BadRoute { flow, .. }
            | Refusal::SelfFlow { flow, .. }
            | Refusal::Cycle { flow } => problem.detail("flow", *flow),
            Refusal::BadCapacity { link, .. } | Refusal::BadLink { link, .. } => problem.detail("link", *link),
            Refusal::Unreachable { src, dst } => problem.detail("src", *src).detail("dst", *dst),
            Refusal::DuplicateId { id, .. } | Refusal::GapInIds { id, .. } => problem.detail("id", *id),
            Refusal::NotAChain { collective, group, .. } => {
                problem.detail("collective", *collective).detail("group", *group)
            }
            Refusal::BadWeight { group, .. } => problem.detail("group", *group),
            Refusal::Capacity { link, t, .. } => problem.detail("link", *link).detail("t", *t),
            Refusal::BadRate { flow, t, .. } | Refusal::Deadlock { flow, t } => {
                problem.detail("flow", *flow).detail("t", *t)
            }
            Refusal::Solver { status, iterations, gap } => {
                problem.detail("status", status.as_str()).detail("iterations", *iterations).detail("gap", *gap)
            }
            Refusal::BadTopology { file, line, .. } => {
                Problem { file: file.clone(), line: *line, ..problem.detail("line", *line) }
            }
            Refusal::NoFlows
            | Refusal::BadSizes { .. }
            | Refusal::BadCapacities { .. }
            | Refusal::BadParticipants { .. }
            | Refusal::BadLength { .. }
            | Refusal::Range { .. }
            | Refusal::TooLarge { .. }
            | Refusal::Stopped => problem,
        }
    }
}
