//! Demands that are no plain collective: who wants what, tenant by tenant.

use super::{Collective, Names, NodeId, Text, Version};
use sluice_formats::json::{Json, Limits, Reader, form};
use sluice_formats::problem::Problems;
use sluice_formats::quantity::Rational;

/// Bytes of a file of demands at most.
pub const MAX_DEMANDS: usize = 64 << 20;

form! {
    /// What one tenant wants.
    pub struct Tenant {
        /// Chunks per source of the collective; absent: as the model says, else 1.
        pub chunks: Option<u64> = "chunks",
        /// A plain collective, in place of `triples`.
        pub collective: Option<Collective> = "collective",
        /// What it is called.
        pub name: Text = "name",
        /// Who takes part in the collective; absent: all who take part in the plan.
        pub participants: Option<Vec<NodeId>> = "participants",
        /// The root of the collective, where it has one.
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
        /// What each tenant wants; no two have one name.
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
