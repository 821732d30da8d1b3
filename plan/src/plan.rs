//! plan.json, version 1: what a planner decided, what it claims about it, and on which fabric.
//!
//! A plan stands on its own: nodes are named by id, and the topology is inside unless somebody left it out. Reading
//! checks form and bounds only; whether the plan does what it says is for [`crate::check`]. The same plan is always
//! written as the same bytes.

mod claim;
mod content;
mod demands;
mod flows;
mod schedule;
mod trees;

pub use claim::{Certificate, CertificateKind, Claim, CompletionRow, Exact, PerByte, Status};
pub use content::{Content, ContentKind};
pub use demands::{Demands, MAX_DEMANDS, Tenant};
pub use flows::{
    Execution, Flow, Flows, MAX_FLOWS, MAX_FLOWS_BYTES, Ordered, Rates, Reserve, ReserveGroup, TOO_LARGE, WeightGroup,
    Weights,
};
pub use schedule::{Model, Op, Pair, Paths, Send, SendEntry, Sends, Shard, Step, StepSend, Steps, Straggler};
pub use sluice_formats::json::{Decimal, Duration, Names, NodeId, Nullable, RateText, Size, Text, Version};
pub use trees::{Direction, Edge, Forest, Hop, Tree, Trees};

use sluice_formats::json::{Json, Limits, Reader, Writer, form, words};
use sluice_formats::problem::Problems;
use sluice_formats::topology::{File, Topology};

/// Bytes of a plan at most.
pub const MAX_BYTES: usize = 2 << 30;
/// Bytes of a plan that a daemon loads at most.
pub const MAX_DAEMON_BYTES: usize = 16 << 20;
/// Tree edges or sends of a plan at most; of its flows, they and the links of their routes and those they wait for together.
pub const MAX_EDGES: u64 = 20_000_000;

words! {
    /// What is to be done with the data.
    pub enum Collective {
        /// Everybody ends with everything.
        AllGather = "allgather",
        /// Everybody ends with the sum of all vectors.
        AllReduce = "allreduce",
        /// Everybody has something for everybody.
        AllToAll = "alltoall",
        /// The root's data goes to everybody.
        Broadcast = "broadcast",
        /// As the demands say.
        Custom = "custom",
        /// The parts of all come together at the root.
        Gather = "gather",
        /// The root ends with the sum of all vectors.
        Reduce = "reduce",
        /// Everybody ends with its part of the sum of all vectors.
        ReduceScatter = "reduce_scatter",
        /// The parts of the root's data go to their owners.
        Scatter = "scatter",
    }
}

impl Collective {
    /// Does it have a root?
    pub fn is_rooted(self) -> bool {
        matches!(self, Collective::Broadcast | Collective::Reduce | Collective::Scatter | Collective::Gather)
    }
    /// Reads a word of the command line: also with hyphens and capitals, `all-gather`, `AllToAll`.
    pub fn parse_loosely(word: &str) -> Option<Collective> {
        if word.len() > 32 {
            return None;
        }
        let plain = |word: &str| word.replace(['-', '_'], "").to_ascii_lowercase();
        Collective::ALL.iter().copied().find(|collective| plain(collective.word()) == plain(word))
    }
}

form! {
    /// Who made a plan, and how to make it again.
    pub struct MadeBy {
        /// The command line that makes the same plan again.
        pub command: Option<Text> = "command",
        /// How long it took; only where timing was asked for, since it differs from run to run.
        pub seconds: Option<Decimal> = "seconds",
        /// What randomness began with.
        pub seed: Option<u64> = "seed",
        /// Version of the program that made it.
        pub version: Option<Text> = "version",
    }
}

form! {
    /// The fabric a plan is for.
    pub struct TopologyRef {
        /// The topology itself; absent where somebody left it out.
        pub inline: Option<Box<File>> = "inline",
        /// What it is called.
        pub name: Option<Text> = "name",
        /// Its digest, in hexadecimal.
        pub sha256: Text = "sha256",
    }
}

form! {
    /// What stands in the file; [`Plan`] is this with its names.
    pub struct Body {
        /// What the plan claims about itself.
        pub claim: Claim = "claim",
        /// What is to be done with the data.
        pub collective: Collective = "collective",
        /// How it is done.
        pub content: Content = "content",
        /// Demands that are no plain collective.
        pub demands: Option<Demands> = "demands",
        /// Keys of the topology that the planner was told to ignore.
        pub ignored: Option<Vec<Text>> = "ignored",
        /// The program and the command line that made it.
        pub made_by: Option<MadeBy> = "made_by",
        /// Who takes part, by rank; absent: all gpu, host and site nodes in file order.
        pub participants: Option<Vec<NodeId>> = "participants",
        /// The root of a broadcast, reduce, scatter or gather.
        pub root: Option<NodeId> = "root",
        /// The version, always 1.
        pub version: Version = "sluice_plan",
        /// The fabric it is for: its digest, and mostly the topology itself.
        pub topology: TopologyRef = "topology",
    }
}

/// A plan: its body, and the ids that its [`NodeId`]s stand for.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The ids of nodes.
    pub names: Names,
    /// What stands in the file, with nodes as places in `names`.
    pub body: Body,
}

impl Plan {
    /// A plan for this fabric, which it carries inside; claims nothing yet.
    pub fn new(topology: &Topology, collective: Collective, names: Names, content: Content) -> Plan {
        let topology = TopologyRef {
            inline: Some(Box::new(topology.file().clone())),
            name: topology.file().name.clone(),
            sha256: topology.digest().into(),
        };
        let body = Body {
            claim: Claim::default(),
            collective,
            content,
            demands: None,
            ignored: None,
            made_by: None,
            participants: None,
            root: None,
            version: Version,
            topology,
        };
        Plan { names, body }
    }
    /// Reads a plan; `file` is the name used in messages.
    ///
    /// # Errors
    /// All mistakes of form with their JSON pointers, in the order of the codes.
    pub fn read(bytes: &[u8], file: &str) -> Result<Plan, Problems> {
        Plan::read_at_most(bytes, file, MAX_BYTES)
    }
    /// Reads a plan of at most so many bytes.
    ///
    /// # Errors
    /// As [`Plan::read`].
    pub fn read_at_most(bytes: &[u8], file: &str, most: usize) -> Result<Plan, Problems> {
        let limits = Limits { bytes: most, elements: 400_000_000, charged: (MAX_EDGES, "tree edges or sends") };
        let (body, names) = Reader::new(bytes, limits, file)?.document(Body::read)?;
        Ok(Plan { names, body })
    }
    /// The plan as a file: keys sorted, the same bytes for the same plan.
    pub fn to_text(&self) -> String {
        Writer::lines(&self.body, Some(&self.names))
    }
    /// The id of a node.
    pub fn id(&self, node: NodeId) -> &str {
        self.names.text(node)
    }
}

impl PartialEq for Plan {
    fn eq(&self, other: &Plan) -> bool {
        self.names.all() == other.names.all() && self.body == other.body
    }
}

#[cfg(test)]
mod tests;
