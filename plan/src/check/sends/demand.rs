//! Which chunks there are and who wants them: what a plain collective asks for, or what the demands in the plan say.
//!
//! What is added up is the reverse of what is copied: who wants a chunk of an all-gather has something to add to that
//! chunk of a reduce-scatter, and where the chunk begins its sum ends.

use crate::check::chunks::{Chunks, Party};
use crate::check::fabric::Fabric;
use crate::check::violation::{Code, Violation};
use crate::plan::{Collective, Model, Plan};

/// What is to be done with every chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Work {
    /// It goes from its source to all who want it.
    #[default]
    Copy,
    /// All who have something to add send it to the chunk's own node.
    Reduce,
    /// The one after the other, with the sum as what is copied.
    ReduceThenCopy,
}

/// The chunks, and what is to be done with them.
#[derive(Debug, Default)]
pub struct Demand {
    pub work: Work,
    pub chunks: Chunks,
}

impl Demand {
    /// Reads the demands of a plan.
    pub fn new(plan: &Plan, fabric: &Fabric<'_>, model: &Model) -> Result<Demand, Violation> {
        let mut demand = Demand::default();
        let collective = plan.body.collective;
        match &plan.body.demands {
            None => {
                let weights = fabric.topology.nodes();
                if let Some(node) = fabric.participants.iter().find(|node| weights[**node].weight != 1) {
                    let message = format!("{} has a weight, which means nothing here", fabric.id(*node));
                    return Err(Violation::new(Code::UnsupportedField, "/topology/inline/nodes", message));
                }
                let (work, forwards) = match collective {
                    Collective::ReduceScatter => (Work::Reduce, Collective::AllGather),
                    Collective::Reduce => (Work::Reduce, Collective::Broadcast),
                    Collective::AllReduce => (Work::ReduceThenCopy, Collective::AllGather),
                    other => (Work::Copy, other),
                };
                if work != Work::Copy {
                    only_copied(fabric, model)?;
                }
                demand.work = work;
                let party = Party { participants: fabric.participants.clone(), root: fabric.root };
                demand.chunks.collective(plan, 0, forwards, &party, model.chunks, "/collective")?;
            }
            Some(_) if collective != Collective::Custom => {
                let message = "demands are for plans whose collective is `custom`";
                return Err(Violation::new(Code::BadDemands, "/demands", message));
            }
            Some(demands) => demand.chunks = Chunks::of_tenants(plan, fabric, demands, model.chunks)?,
        }
        let wanted = &demand.chunks.wanted;
        if wanted.is_empty() {
            return Err(Violation::new(Code::BadDemands, "/demands", "nobody wants anything"));
        }
        let switch = wanted.iter().map(|(node, chunk)| (*node, demand.chunks.source(*chunk)));
        let ends = switch.flat_map(|(node, source)| [Some(node), source]).flatten();
        let forwards = |node: &usize| !fabric.topology.nodes()[*node].is_compute();
        if let Some(node) = ends.into_iter().find(forwards) {
            let message = format!("{} only forwards and owns and wants nothing", fabric.id(node));
            return Err(Violation::new(Code::BadDemands, "/demands", message));
        }
        if model.divisible == Some(true) {
            let mut by_chunk: Vec<u64> = wanted.iter().map(|(_, chunk)| *chunk).collect();
            by_chunk.sort_unstable();
            if by_chunk.windows(2).any(|pair| pair[0] == pair[1]) {
                let message = "two nodes want the same chunk: chunks that are cut are not copied";
                return Err(Violation::new(Code::BadDemands, "/content/model/divisible", message));
            }
        }
        Ok(demand)
    }
}

/// Refuses what is defined for copies alone.
fn only_copied(fabric: &Fabric<'_>, model: &Model) -> Result<(), Violation> {
    if model.divisible == Some(true) {
        let message = "chunks that are cut are moved, not added up";
        return Err(Violation::new(Code::BadModel, "/content/model/divisible", message));
    }
    let topology = fabric.topology;
    let limited = |node: &usize| topology.nodes()[*node].buffer.is_some() && !fabric.ignores_buffers;
    if let Some(node) = (0..topology.nodes().len()).find(limited) {
        let message = format!("{} has room for so much of others', and what is added up takes none", fabric.id(node));
        return Err(Violation::new(Code::UnsupportedField, "/topology/inline/nodes", message));
    }
    if !fabric.ignores_epochs
        && let Some(link) = topology.links().iter().find(|link| link.per_epoch.is_some())
    {
        let (from, to) = (fabric.id(link.from), fabric.id(link.to));
        let message = format!("{from} → {to}: a capacity that varies is for collectives that add nothing up");
        return Err(Violation::new(Code::UnsupportedField, "/topology/inline/links", message));
    }
    Ok(())
}
