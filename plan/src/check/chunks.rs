//! Which chunks there are and who wants them: of a plain collective, or of the tenants in a plan's demands.

use std::collections::{BTreeSet, HashMap};

use super::fabric::Fabric;
use super::violation::{Code, Violation};
use crate::plan::{Collective, ContentKind, Demands, NodeId, Plan, Tenant};

/// Source, chunk and destination of all demands at most.
const MAX_TRIPLES: u64 = 20_000_000;

/// A chunk as a plan names it: tenant, source, number.
type Name = (usize, usize, u64);

/// All chunks, numbered.
#[derive(Debug, Default)]
pub struct Chunks {
    /// Which node wants which chunk, or has something to add to it.
    pub wanted: BTreeSet<(usize, u64)>,
    names: Vec<Name>,
    places: HashMap<Name, u64>,
    tenants: HashMap<Box<str>, usize>,
}

/// Who takes part in a collective, and its root.
pub struct Party {
    pub participants: Vec<usize>,
    pub root: Option<usize>,
}

impl Chunks {
    /// What the tenants of a plan want; a collective has `chunks` per source and destination where it does not say how many.
    pub fn of_tenants(plan: &Plan, fabric: &Fabric<'_>, demands: &Demands, chunks: u64) -> Result<Chunks, Violation> {
        let mut all = Chunks::default();
        for (number, tenant) in demands.tenants.iter().enumerate() {
            if all.tenants.insert((*tenant.name).into(), number).is_some() {
                let message = "two tenants with one name";
                return Err(Violation::new(Code::BadDemands, format!("/demands/tenants/{number}/name"), message));
            }
            all.tenant(plan, fabric, chunks, number, tenant)?;
        }
        Ok(all)
    }

    fn tenant(
        &mut self,
        plan: &Plan,
        fabric: &Fabric<'_>,
        chunks: u64,
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
                let party = Party { participants, root };
                let chunks = tenant.chunks.unwrap_or(chunks);
                self.collective(plan, number, collective, &party, chunks, &at("/collective"))
            }
            _ => bad("", "has either a collective or triples"),
        }
    }

    /// Adds what a collective wants that copies; `at` is where it is named.
    pub fn collective(
        &mut self,
        plan: &Plan,
        tenant: usize,
        collective: Collective,
        party: &Party,
        chunks: u64,
        at: &str,
    ) -> Result<(), Violation> {
        let n = party.participants.len() as u64;
        let pairs = if collective.is_rooted() { n - 1 } else { n * (n - 1) };
        if chunks == 0 || chunks.saturating_mul(pairs) > MAX_TRIPLES {
            let message = format!("{chunks} chunks for each of {pairs} pairs; 1 to {MAX_TRIPLES} in all are possible");
            let at = match plan.body.content.kind() {
                ContentKind::Sends => "/content/model/chunks".into(),
                _ => format!("/demands/tenants/{tenant}/chunks"),
            };
            return Err(Violation::new(Code::BadDemands, at, message));
        }
        for source in &party.participants {
            for (rank, target) in (0_u64..).zip(&party.participants).filter(|(_, target)| *target != source) {
                // Who gets something of its own has its own numbers.
                let first = match collective {
                    Collective::AllGather => 0,
                    Collective::AllToAll => rank * chunks,
                    Collective::Broadcast if party.root == Some(*source) => 0,
                    Collective::Scatter if party.root == Some(*source) => rank * chunks,
                    Collective::Gather if party.root == Some(*target) => 0,
                    Collective::Broadcast | Collective::Scatter | Collective::Gather => continue,
                    other => {
                        let mut violation = Fabric::unserved(other, plan.body.content.kind().word());
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
    pub fn count(&self) -> u64 {
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
        let of = of.map_or(String::new(), |(name, _)| format!(" for {}", super::quoted(name)));
        format!("chunk {number} of {}{of}", fabric.id(*source))
    }
}
