//! Contents `rates`, `weights` and `order`, the flows they are about, and demands that are no plain collective.

use super::{Collective, Decimal, Names, NodeId, RateText, Size, Text, Version};
use sluice_formats::json::{Json, Limits, Reader, form, words};
use sluice_formats::problem::Problems;
use sluice_formats::quantity::Rational;

form! {
    /// A flow of a collective, and what a plan decides for it.
    pub struct Flow {
        /// The collective it belongs to.
        pub collective: u64 = "collective",
        /// Where it ends.
        pub dst: NodeId = "dst",
        /// The group of flows within the collective.
        pub group: u64 = "group",
        /// Its number.
        pub id: u64 = "id",
        /// Its place in the order of its group; each waits for the one before.
        pub order: u64 = "order",
        /// Indices of the links it takes.
        pub path: Vec<u32> = "path",
        /// Flows that go first.
        pub pred: Option<Vec<u64>> = "pred",
        /// Its place in a priority order.
        pub rank: Option<u64> = "rank",
        /// What it gets; of an order, what it gets at least.
        pub rate: Option<RateText> = "rate",
        /// When it may begin, in seconds.
        pub release_s: Option<Decimal> = "release_s",
        /// How much.
        pub size: Size = "size",
        /// Where it begins.
        pub src: NodeId = "src",
        /// When it begins, in seconds.
        pub start_s: Option<Decimal> = "start_s",
    }
}

words! {
    /// How rates and orders are carried out.
    pub enum Execution {
        /// Flows keep the order on every link.
        OrderPreserving = "order_preserving",
        /// The lower rank goes first.
        Priority = "priority",
        /// Ranks are computed anew when a flow ends.
        PriorityRecomputed = "priority_recomputed",
        /// Rates stay as they are.
        Static = "static",
        /// What one flow does not use others get.
        WorkConserving = "work_conserving",
    }
}

/// A rate kept free on a link.
pub type Reserve = (u32, RateText);

form! {
    /// Rates of a group of flows.
    pub struct ReserveGroup {
        /// The collective.
        pub collective: u64 = "collective",
        /// The group within it.
        pub group: u64 = "group",
        /// What it has on each link.
        pub reserve: Vec<Reserve> = "reserve",
    }
}

form! {
    /// The weight of a group of flows.
    pub struct WeightGroup {
        /// The collective.
        pub collective: u64 = "collective",
        /// The group within it.
        pub group: u64 = "group",
        /// Its weight.
        pub weight: Rational = "weight",
    }
}

/// Content `rates`.
#[derive(Clone, Debug, PartialEq)]
pub struct Rates {
    /// The flows, each with its rate.
    pub flows: Vec<Flow>,
    /// What groups have on links.
    pub groups: Option<Vec<ReserveGroup>>,
    /// How it is carried out.
    pub execution: Execution,
}

/// Content `weights`.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    /// The flows.
    pub flows: Vec<Flow>,
    /// The weights.
    pub groups: Vec<WeightGroup>,
    /// How it is carried out.
    pub execution: Execution,
}

/// Content `order`.
#[derive(Clone, Debug, PartialEq)]
pub struct Ordered {
    /// The flows, each with start or rank.
    pub flows: Vec<Flow>,
    /// How it is carried out.
    pub execution: Execution,
}

form! {
    /// A file of flows.
    pub struct Flows {
        /// Pairs of flows, the first before the second; absent: as the orders say.
        pub deps: Option<Vec<(u64, u64)>> = "deps",
        /// The flows.
        pub flows: Vec<Flow> = "flows",
        /// The version, always 1.
        pub version: Version = "sluice_flows",
    }
}

/// Bytes of a file of demands at most.
pub const MAX_DEMANDS: usize = 64 << 20;

form! {
    /// What one tenant wants.
    pub struct Tenant {
        /// Chunks per source.
        pub chunks: Option<u64> = "chunks",
        /// A plain collective.
        pub collective: Option<Collective> = "collective",
        /// What it is called.
        pub name: Text = "name",
        /// Who takes part.
        pub participants: Option<Vec<NodeId>> = "participants",
        /// The root.
        pub root: Option<NodeId> = "root",
        /// Source, chunk, destination of every demand.
        pub triples: Option<Vec<(NodeId, u64, NodeId)>> = "triples",
        /// How much it counts.
        pub weight: Option<Rational> = "weight",
    }
}

form! {
    /// Demands that are no plain collective.
    pub struct Demands {
        /// The version, always 1.
        pub version: Version = "sluice_demands",
        /// Who wants what.
        pub tenants: Vec<Tenant> = "tenants",
    }
}

/// Numbers, ids and brackets of a file of demands at most.
const MAX_ELEMENTS: u64 = 80_000_000;

impl Demands {
    /// Reads a file of demands, and the ids that its nodes stand for; `file` is the name used in messages.
    ///
    /// # Errors
    /// All mistakes of form with their JSON pointers, in the order of the codes.
    pub fn read(bytes: &[u8], file: &str) -> Result<(Demands, Names), Problems> {
        let limits = Limits { bytes: MAX_DEMANDS, elements: MAX_ELEMENTS, charged: (0, "edges") };
        Reader::new(bytes, limits, file)?.document(<Demands as Json>::read)
    }

    /// The same demands with ids of other names.
    #[must_use]
    pub fn renamed(&self, names: &Names, into: &mut Names) -> Demands {
        let mut node = |node: &NodeId| into.intern(names.text(*node));
        let tenants = self.tenants.iter().map(|tenant| Tenant {
            participants: tenant.participants.as_ref().map(|list| list.iter().map(&mut node).collect()),
            root: tenant.root.as_ref().map(&mut node),
            triples: tenant
                .triples
                .as_ref()
                .map(|list| list.iter().map(|(source, chunk, target)| (node(source), *chunk, node(target))).collect()),
            ..tenant.clone()
        });
        let tenants = tenants.collect();
        Demands { version: Version, tenants }
    }
}
