//! Which chunks there are and who wants them: what a plain collective asks for, or what the demands in the plan say.
//!
//! What is added up is the reverse of what is copied: who wants a chunk of an all-gather has something to add to that
//! chunk of a reduce-scatter, and where the chunk begins its sum ends.

use std::collections::{BTreeSet, HashMap};

use crate::check::fabric::Fabric;
use crate::check::violation::{Code, Violation};
use crate::plan::{Collective, Model, NodeId, Plan, Tenant};

/// Source, chunk and destination of all demands at most.
const MAX_TRIPLES: u64 = 20_000_000;

/// A chunk as a plan names it: tenant, source, number.
type Name = (usize, usize, u64);

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

#[derive(Debug, Default)]
pub struct Demand {
    pub work: Work,
    /// Who wants which chunk, or has something to add to it.
    pub wanted: BTreeSet<(usize, u64)>,
    names: Vec<Name>,
    places: HashMap<Name, u64>,
    tenants: HashMap<Box<str>, usize>,
}

/// Who takes part in a collective, and its root.
struct Group {
    participants: Vec<usize>,
    root: Option<usize>,
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
                let group = Group { participants: fabric.participants.clone(), root: fabric.root };
                demand.collective(0, forwards, &group, model.chunks, "/collective")?;
            }
            Some(_) if collective != Collective::Custom => {
                let message = "demands are for plans whose collective is `custom`";
                return Err(Violation::new(Code::BadDemands, "/demands", message));
            }
            Some(demands) => {
                for (number, tenant) in demands.tenants.iter().enumerate() {
                    if demand.tenants.insert((*tenant.name).into(), number).is_some() {
                        let message = "two tenants with one name";
                        return Err(Violation::new(
                            Code::BadDemands,
                            format!("/demands/tenants/{number}/name"),
                            message,
                        ));
                    }
                    demand.tenant(plan, fabric, model, number, tenant)?;
                }
            }
        }
        if demand.wanted.is_empty() {
            return Err(Violation::new(Code::BadDemands, "/demands", "nobody wants anything"));
        }
        let switch = demand.wanted.iter().map(|(node, chunk)| (*node, demand.source(*chunk)));
        let ends = switch.flat_map(|(node, source)| [Some(node), source]).flatten();
        let forwards = |node: &usize| !fabric.topology.nodes()[*node].is_compute();
        if let Some(node) = ends.into_iter().find(forwards) {
            let message = format!("{} only forwards and owns and wants nothing", fabric.id(node));
            return Err(Violation::new(Code::BadDemands, "/demands", message));
        }
        if model.divisible == Some(true) {
            let mut by_chunk: Vec<u64> = demand.wanted.iter().map(|(_, chunk)| *chunk).collect();
            by_chunk.sort_unstable();
            if by_chunk.windows(2).any(|pair| pair[0] == pair[1]) {
                let message = "two nodes want the same chunk: chunks that are cut are not copied";
                return Err(Violation::new(Code::BadDemands, "/content/model/divisible", message));
            }
        }
        Ok(demand)
    }

    fn tenant(
        &mut self,
        plan: &Plan,
        fabric: &Fabric<'_>,
        model: &Model,
        number: usize,
        tenant: &Tenant,
    ) -> Result<(), Violation> {
        let at = |key: &str| format!("/demands/tenants/{number}{key}");
        let bad = |key: &str, message: &str| Err(Violation::new(Code::BadDemands, at(key), message));
        let node = |node: NodeId, key: &str| fabric.node(plan, node, || at(key));
        match (&tenant.triples, tenant.collective) {
            (Some(triples), None) => {
                for (i, (source, chunk, target)) in triples.iter().enumerate() {
                    let key = format!("/triples/{i}");
                    let (source, target) = (node(*source, &key)?, node(*target, &key)?);
                    if source == target {
                        return bad(&key, "nobody sends to itself");
                    }
                    if !self.want(number, source, *chunk, target) {
                        return bad(&key, "the same demand twice");
                    }
                }
                Ok(())
            }
            (None, Some(collective)) => {
                let mut participants = fabric.participants.clone();
                if let Some(list) = &tenant.participants {
                    participants = list.iter().map(|id| node(*id, "/participants")).collect::<Result<_, _>>()?;
                    let all: BTreeSet<usize> = participants.iter().copied().collect();
                    if all.len() < participants.len() || all.len() < 2 {
                        return bad("/participants", "fewer than two, or one twice");
                    }
                }
                let root = tenant.root.map(|root| node(root, "/root")).transpose()?;
                let inside = root.is_none_or(|root| participants.contains(&root));
                if root.is_some() != collective.is_rooted() || !inside {
                    return bad("/root", "a root that takes part, where the collective has one");
                }
                let group = Group { participants, root };
                let chunks = tenant.chunks.unwrap_or(model.chunks);
                self.collective(number, collective, &group, chunks, &at("/collective"))
            }
            _ => bad("", "has either a collective or triples"),
        }
    }

    fn collective(
        &mut self,
        tenant: usize,
        collective: Collective,
        group: &Group,
        chunks: u64,
        at: &str,
    ) -> Result<(), Violation> {
        let n = group.participants.len() as u64;
        let pairs = if collective.is_rooted() { n - 1 } else { n * (n - 1) };
        if chunks == 0 || chunks.saturating_mul(pairs) > MAX_TRIPLES {
            let message = format!("{chunks} chunks for each of {pairs} pairs; 1 to {MAX_TRIPLES} in all are possible");
            return Err(Violation::new(Code::BadDemands, "/content/model/chunks", message));
        }
        for source in &group.participants {
            for (rank, target) in (0_u64..).zip(&group.participants).filter(|(_, target)| *target != source) {
                // Who gets something of its own has its own numbers.
                let first = match collective {
                    Collective::AllGather => 0,
                    Collective::AllToAll => rank * chunks,
                    Collective::Broadcast if group.root == Some(*source) => 0,
                    Collective::Scatter if group.root == Some(*source) => rank * chunks,
                    Collective::Gather if group.root == Some(*target) => 0,
                    Collective::Broadcast | Collective::Scatter | Collective::Gather => continue,
                    other => {
                        let mut violation = Fabric::unserved(other, "sends");
                        at.clone_into(&mut violation.at);
                        return Err(violation);
                    }
                };
                for chunk in first..first + chunks {
                    self.want(tenant, *source, chunk, *target);
                }
            }
        }
        Ok(())
    }

    /// Adds a demand; is it a new one?
    fn want(&mut self, tenant: usize, source: usize, chunk: u64, target: usize) -> bool {
        let name = (tenant, source, chunk);
        let next = self.names.len() as u64;
        let place = *self.places.entry(name).or_insert(next);
        if place == next {
            self.names.push(name);
        }
        self.wanted.insert((target, place))
    }

    /// The chunk that a send names; a single tenant need not be named.
    pub fn chunk(&self, tenant: Option<&str>, source: usize, chunk: u64) -> Option<u64> {
        let tenant = match tenant {
            None if self.tenants.len() < 2 => 0,
            None => return None,
            Some(name) => *self.tenants.get(name)?,
        };
        self.places.get(&(tenant, source, chunk)).copied()
    }
    /// Chunks are below this.
    pub fn chunks(&self) -> u64 {
        self.names.len() as u64
    }
    /// Where a chunk begins, or its sum ends.
    pub fn source(&self, chunk: u64) -> Option<usize> {
        self.names.get(chunk as usize).map(|(_, source, _)| *source)
    }
    /// A chunk in words.
    pub fn name(&self, fabric: &Fabric<'_>, chunk: u64) -> String {
        let Some((tenant, source, number)) = self.names.get(chunk as usize) else { return "a chunk".into() };
        let of = self.tenants.iter().find(|(_, number)| *number == tenant);
        let of = of.map_or(String::new(), |(name, _)| format!(" for {}", super::super::quoted(name)));
        format!("chunk {number} of {}{of}", fabric.id(*source))
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
