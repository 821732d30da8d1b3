//! From a topology and what is asked of it to what the planner sees: participants first, by rank, then the nodes that
//! only forward; links in the input's unit.
//!
//! A GPU, host or site that takes no part is left out with its links: it neither forwards nor copies. Keys of a
//! topology that this planner knows nothing of are refused, or left out where the caller says so.

mod refused;
#[cfg(test)]
mod tests;

use super::{Collective, Fabric};
use crate::front::{Asked, Request, Support};
use sluice_formats::problem::{
    Code, E_RANGE, INTERNAL_INVARIANT, NON_POSITIVE_BANDWIDTH, Problem, Problems, SELF_LOOP,
};
use sluice_formats::topology::{Can, Text, Topology};
use sluice_plan::plan::Collective as Word;
use std::collections::{BTreeMap, HashSet};

/// A number beyond exact arithmetic in machine integers.
pub const OVERFLOW: Code = "OVERFLOW";

/// What trees serve, and which keys of a topology this planner knows.
pub const SUPPORT: Support = Support {
    makes: "trees",
    collectives: &[Word::AllGather, Word::ReduceScatter, Word::AllReduce, Word::Broadcast, Word::Reduce],
    ignorable: &["buffer", "capacity_per_epoch", "groups"],
    relays: true,
    weights: true,
    self_loop: Some(SELF_LOOP),
    unlimited: Some(NON_POSITIVE_BANDWIDTH),
    needs: |collective| Can {
        store: false,
        copy: !matches!(collective, Word::ReduceScatter | Word::Reduce),
        reduce: !matches!(collective, Word::AllGather | Word::Broadcast),
    },
    own_fault: INTERNAL_INVARIANT,
};

/// A topology as the planner sees it.
#[derive(Clone, Debug)]
pub struct Instance<'a> {
    pub(super) asked: Asked<'a>,
    pub(super) collective: Collective,
    pub(super) fabric: Fabric,
    /// For each node of the fabric its index in the topology.
    pub(super) nodes: Vec<usize>,
}

impl<'a> Instance<'a> {
    /// Reads what is asked; `file` is the topology's name in messages.
    ///
    /// # Errors
    /// Those of [`Asked::new`], with the codes of [`SUPPORT`]; then `OVERFLOW` with a pointer into the topology.
    pub fn new(topology: &'a Topology, request: &Request<'_>, file: &str) -> Result<Instance<'a>, Problems> {
        let asked = Asked::new(topology, request, file, &SUPPORT)?;
        let collective = collective(&asked)?;
        let mut nodes = asked.participants.clone();
        let part: HashSet<usize> = nodes.iter().copied().collect();
        let forwards = |node: &usize| {
            let of = &topology.nodes()[*node];
            // A node that can neither copy nor add up only passes data on, whatever it is called.
            !part.contains(node) && (!of.is_compute() || !(of.can.copy || of.can.reduce))
        };
        let compute = nodes.len();
        nodes.extend((0..topology.nodes().len()).filter(forwards));
        let fabric = fabric(topology, &nodes, compute).map_err(|errors| errors.in_file(file))?;
        Ok(Instance { asked, collective, fabric, nodes })
    }
    /// Nodes by index, participants first, and the links between them.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }
    /// What the planner is to do.
    pub fn collective(&self) -> Collective {
        self.collective
    }
    /// What is wrong with a fabric, in the words of its file.
    pub fn refused(&self, refusal: &super::Refusal) -> Problems {
        refused::errors(self, refusal)
    }
    /// The id of a node of the fabric.
    pub(super) fn id(&self, node: u32) -> &Text {
        &self.asked.topology.nodes()[self.nodes[node as usize]].id
    }
}

/// The collective in the planner's word; the front has let through only those that trees serve.
fn collective(asked: &Asked<'_>) -> Result<Collective, Problems> {
    match (asked.collective, asked.root) {
        (Word::AllGather, _) => Ok(Collective::AllGather),
        (Word::ReduceScatter, _) => Ok(Collective::ReduceScatter),
        (Word::AllReduce, _) => Ok(Collective::AllReduce),
        (Word::Broadcast, Some(root)) => Ok(Collective::Broadcast { root }),
        (Word::Reduce, Some(root)) => Ok(Collective::Reduce { root }),
        (other, _) => Err(Problem::new(E_RANGE, "collective", "no such trees").found(other.word()).into()),
    }
}

fn fabric(topology: &Topology, nodes: &[usize], compute: usize) -> Result<Fabric, Problems> {
    let mut place = vec![None; topology.nodes().len()];
    (0_u32..).zip(nodes).for_each(|(new, &old)| place[old] = Some(new));
    let mut links = Vec::with_capacity(topology.links().len());
    for link in topology.links() {
        let (Some(from), Some(to), Some(capacity)) = (place[link.from], place[link.to], link.capacity.finite()) else {
            continue;
        };
        let capacity = topology.unit().express(capacity);
        if capacity.parts().is_none() {
            let error = Problem::new(OVERFLOW, format!("/links/{}/capacity", link.entry), "beyond 64-bit integers");
            return Err(error.found(capacity.to_string()).allowed("a fraction of machine integers").into());
        }
        links.push((from, to, capacity));
    }
    let mut machines: BTreeMap<&Text, u32> = BTreeMap::new();
    let boxes = nodes.iter().map(|node| {
        let machine = topology.nodes()[*node].machine.as_ref()?;
        let next = machines.len() as u32;
        Some(*machines.entry(machine).or_insert(next))
    });
    let of = |node: &usize| &topology.nodes()[*node];
    Ok(Fabric {
        names: nodes.iter().map(|node| of(node).id.to_string()).collect(),
        compute,
        weights: nodes[..compute].iter().map(|node| of(node).weight).collect(),
        multicast: nodes.iter().map(|node| of(node).can.copy).collect(),
        aggregate: nodes.iter().map(|node| of(node).can.reduce).collect(),
        links,
        boxes: boxes.collect(),
    })
}
