//! What may be wrong with a plan.

use serde::{Serialize, Serializer};

use sluice_formats::json::words;

words! {
    /// What may be wrong with a plan; the words are stable, for programs.
    pub enum Code {
        /// The plan carries no topology and none was given.
        TopologyMissing = "TOPOLOGY_MISSING",
        /// The topology inside the plan breaks the rules of its format.
        TopologyInvalid = "TOPOLOGY_INVALID",
        /// The topology is not the one the plan was made for.
        DigestMismatch = "DIGEST_MISMATCH",
        /// This kind of content cannot do this collective.
        UnsupportedCollective = "UNSUPPORTED_COLLECTIVE",
        /// The topology has a key that this kind of content knows nothing of, and the plan does not say it was ignored.
        UnsupportedField = "UNSUPPORTED_FIELD",
        /// An id that no node of the topology has.
        UnknownNode = "UNKNOWN_NODE",
        /// Fewer than two participants, or one twice.
        BadParticipants = "BAD_PARTICIPANTS",
        /// The root is missing, takes no part, or is one too many.
        BadRoot = "BAD_ROOT",
        /// Not the forests, or not the directions, that the collective needs.
        WrongForests = "WRONG_FORESTS",
        /// A tree's root takes no part.
        RootNotParticipant = "ROOT_NOT_PARTICIPANT",
        /// A weight or an amount that is not above zero.
        BadWeight = "BAD_WEIGHT",
        /// Weights or amounts without a reasonable common denominator, so that adding them up would not end; sizes, rates or times
        /// of flows that lie too far apart to be counted together.
        TooFine = "TOO_FINE",
        /// The weights of a root's trees, or the amounts of a pair, do not add up to its share.
        WrongShare = "WRONG_SHARE",
        /// The two forests of an all-reduce give a root different shares.
        UnequalForests = "UNEQUAL_FORESTS",
        /// A tree whose ends are not those of a demand of its root, or that has ends where everybody is one.
        WrongEnds = "WRONG_ENDS",
        /// Data flows into the root of an out-tree, or out of the root of an in-tree.
        EdgeAtRoot = "EDGE_AT_ROOT",
        /// A node gets a tree's data twice, or gives it away twice.
        TwoParents = "TWO_PARENTS",
        /// A participant is not in a tree.
        NotSpanning = "NOT_SPANNING",
        /// A part of a tree hangs on a circle instead of the root.
        Cycle = "CYCLE",
        /// There is no link between two nodes of a path.
        NoLink = "NO_LINK",
        /// A path leads through a node that would have to take part.
        PathThroughCompute = "PATH_THROUGH_COMPUTE",
        /// A node sends on what it keeps, and cannot copy.
        CannotCopy = "CANNOT_COPY",
        /// A node adds up, and cannot reduce.
        CannotReduce = "CANNOT_REDUCE",
        /// A leaf that takes no part in the collective.
        IdleLeaf = "IDLE_LEAF",
        /// A hop carries data that never came there, or that goes nowhere.
        HopWithoutData = "HOP_WITHOUT_DATA",
        /// The hops leave out a participant.
        HopMissesNode = "HOP_MISSES_NODE",
        /// The hops bring a participant the same data twice, or take it twice.
        HopTwice = "HOP_TWICE",
        /// A node forwards more or less than what comes, without being able to copy or reduce.
        HopUnbalanced = "HOP_UNBALANCED",
        /// A path does not go from its source to its destination.
        BrokenPath = "BROKEN_PATH",
        /// `P` or a part of a shard that cannot be one.
        InvalidChunking = "INVALID_CHUNKING",
        /// A step that copies or reduces where the collective does the other.
        WrongSteps = "WRONG_STEPS",
        /// A shard that the collective does not have.
        WrongShard = "WRONG_SHARD",
        /// A step uses a node that takes no part, and has no length of its own.
        NotParticipant = "NOT_PARTICIPANT",
        /// Somebody never gets what it is owed, or keeps what should have been added up.
        MissingData = "MISSING_DATA",
        /// More on a link, or in a step, than there is room or time for.
        Overload = "OVERLOAD",
        /// `T_L`, `loads`, `load_sum` or `T_B` are not what the sends say.
        WrongLoads = "WRONG_LOADS",
        /// A model of time that makes no sense.
        BadModel = "BAD_MODEL",
        /// Demands that make no sense.
        BadDemands = "BAD_DEMANDS",
        /// A send of something that is not there, or in a way the model does not have.
        BadSend = "BAD_SEND",
        /// The same chunk over the same link in the same epoch.
        DuplicateSend = "DUPLICATE_SEND",
        /// A node holds more for others than it has room for.
        BufferFull = "BUFFER_FULL",
        /// The schedule does not end when it says.
        WrongFinish = "WRONG_FINISH",
        /// A flow of no bytes, or two with one id.
        BadFlow = "BAD_FLOW",
        /// A route that does not lead from source to destination.
        BadRoute = "BAD_ROUTE",
        /// The orders of a group leave a gap.
        NotAChain = "NOT_A_CHAIN",
        /// The flows of a collective are not those of a ring all-reduce, which the plan calls itself.
        NotARing = "NOT_A_RING",
        /// A rate that is none, missing, or given where it says nothing.
        BadRate = "BAD_RATE",
        /// A group without flows, twice, without weight, or with too little reserved.
        BadGroup = "BAD_GROUP",
        /// A flow that begins too early or later than it has to, waits for what is not there, or has no place in the order, or one
        /// where there is none.
        BadOrder = "BAD_ORDER",
        /// A way to carry out that this kind of content does not have.
        BadExecution = "BAD_EXECUTION",
        /// `U` is not what the loads say.
        WrongU = "WRONG_U",
        /// The claimed time is not what the loads say.
        WrongTime = "WRONG_TIME",
        /// The claimed bandwidth is not what the loads say.
        WrongBandwidth = "WRONG_BANDWIDTH",
        /// A certificate that cannot be one.
        BadCertificate = "BAD_CERTIFICATE",
        /// The certificate proves another bound than the claimed one.
        WrongBound = "WRONG_BOUND",
        /// The claimed bound is above what the plan achieves: one of them is wrong.
        BoundAboveTime = "BOUND_ABOVE_TIME",
        /// The claimed cost is not what the loads say.
        WrongCost = "WRONG_COST",
        /// The prices prove another bound of the cost than the claimed one.
        WrongCostBound = "WRONG_COST_BOUND",
        /// The claimed bound of the cost is above what the plan costs: one of them is wrong.
        CostBoundAboveCost = "COST_BOUND_ABOVE_COST",
        /// The plan calls itself optimal, and its time is above its bound.
        NotOptimal = "NOT_OPTIMAL",
        /// The plan calls itself optimal and brings no proof.
        UnprovedOptimal = "UNPROVED_OPTIMAL",
        /// A claim that this kind of content cannot make.
        ForeignClaim = "FOREIGN_CLAIM",
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

/// The first thing that is wrong.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Violation {
    /// What kind of thing is wrong.
    pub code: Code,
    /// Where, as JSON pointer into the plan.
    pub at: String,
    /// What is wrong, in a sentence with the figures seen.
    pub message: String,
}

impl Violation {
    /// Something wrong at a place.
    pub fn new(code: Code, at: impl Into<String>, message: impl Into<String>) -> Violation {
        Violation { code, at: at.into(), message: message.into() }
    }
}
