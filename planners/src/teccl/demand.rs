//! Who wants which chunk: what a plain collective asks for, or what tenants say in a file.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sluice_formats::problem::{E_DUP, E_KEY, E_LIMIT, E_MISSING, E_RANGE, MAX_PROBLEMS, Problem, Problems};
use sluice_formats::quantity::Rational;
use sluice_formats::topology::Topology;
use sluice_plan::plan::{Collective, Demands, Names, NodeId, Text};

/// Source, chunk and destination of all demands at most.
pub const MAX_TRIPLES: u64 = 20_000_000;

/// A chunk that somebody wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Whose demand it serves; 0 where there is one tenant.
    pub tenant: usize,
    /// The node it begins at.
    pub source: usize,
    /// Its number at its source, as the plan names it.
    pub number: u64,
    /// The nodes that want it, ascending.
    pub wanted_by: Vec<usize>,
}

/// Somebody whose demands are served together with those of others.
#[derive(Clone, Debug, PartialEq)]
pub struct Tenant {
    /// What it is called.
    pub name: Text,
    /// How much its demands count.
    pub weight: Rational,
}

/// All chunks, by tenant, source and number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Demand {
    /// What schedules send; they name each by its place here.
    pub chunks: Vec<Chunk>,
    /// The tenants of a file of demands; none of a plain collective.
    pub tenants: Vec<Tenant>,
}

/// A file of demands as it was read.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// What stands in it.
    pub demands: Demands,
    /// The ids in it.
    pub names: Names,
    /// The file's name in messages.
    pub file: String,
}

impl Demand {
    /// What a plain collective asks for: nodes by rank, the root's rank, chunks per source (of an all-to-all, a scatter and
    /// a gather per pair). `None`: it is none of those that copies serve.
    pub fn of(collective: Collective, nodes: &[usize], root: Option<usize>, chunks: u64) -> Option<Demand> {
        Some(Demand { chunks: plain(0, collective, nodes, root, chunks)?, tenants: Vec::new() })
    }

    /// What tenants want; a tenant that names nobody means these participants.
    ///
    /// # Errors
    /// With pointers into the file: `BadNode`, `SwitchEndpoint`, `SelfDemand`, `DuplicateDemand`, `EmptyDemand`, `E_DUP`
    /// for two tenants of one name, `E_KEY`, `E_MISSING` and `E_RANGE` for keys that do not fit together, `E_LIMIT`.
    pub fn of_tenants(topology: &Topology, participants: &[usize], wanted: &Wanted) -> Result<Demand, Problems> {
        let mut reading = Reading { topology, wanted, errors: Vec::new() };
        let (mut demand, mut names) = (Demand::default(), BTreeSet::new());
        for (number, tenant) in wanted.demands.tenants.iter().enumerate() {
            let at = |key: &str| format!("/tenants/{number}{key}");
            if !names.insert(&tenant.name) {
                reading.refuse(Problem::new(E_DUP, at("/name"), "two tenants with one name").found(&*tenant.name));
            }
            let weight = tenant.weight.clone().unwrap_or(Rational::ONE);
            if !weight.is_positive() {
                let error = Problem::new(E_RANGE, at("/weight"), "a tenant without weight").found(weight.to_string());
                reading.refuse(error.allowed("more than 0"));
            }
            match (&tenant.triples, tenant.collective) {
                (Some(triples), None) => demand.chunks.extend(reading.triples(number, triples)),
                (None, Some(collective)) => {
                    let chunks = reading.collective(number, collective, participants).unwrap_or_default();
                    demand.chunks.extend(chunks);
                }
                (Some(_), Some(_)) => {
                    let message = "a tenant has a collective or triples, not both";
                    reading.refuse(Problem::new(E_KEY, at("/triples"), message).allowed("one of the two"));
                }
                (None, None) => {
                    let message = "a tenant says what it wants";
                    reading.refuse(Problem::new(E_MISSING, at(""), message).allowed("`collective` or `triples`"));
                }
            }
            demand.tenants.push(Tenant { name: tenant.name.clone(), weight });
        }
        if reading.errors.is_empty() && demand.chunks.is_empty() {
            reading.refuse(Problem::new("EmptyDemand", "/tenants", "nobody wants anything"));
        }
        if demand.triples() as u64 > MAX_TRIPLES {
            let error = Problem::new(E_LIMIT, "/tenants", "more demands than can be planned");
            reading.refuse(error.allowed(format!("at most {MAX_TRIPLES} in all")));
        }
        match Problems::collect(reading.errors, &wanted.file) {
            Some(problems) => Err(problems),
            None => Ok(demand),
        }
    }

    /// How many times a chunk is wanted by somebody.
    pub fn triples(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.wanted_by.len()).sum()
    }
    /// Does somebody want what somebody else wants too?
    pub(super) fn needs_copies(&self) -> bool {
        self.chunks.iter().any(|chunk| chunk.wanted_by.len() > 1)
    }
    /// How much a chunk counts.
    pub fn weight(&self, chunk: usize) -> f64 {
        self.tenants.get(self.chunks[chunk].tenant).map_or(1.0, |tenant| tenant.weight.to_f64())
    }
}

/// The chunks of a plain collective, by source and number.
fn plain(
    tenant: usize,
    collective: Collective,
    nodes: &[usize],
    root: Option<usize>,
    chunks: u64,
) -> Option<Vec<Chunk>> {
    let mut made = Vec::new();
    let at_root = |rank: usize| root == Some(rank);
    for (rank, source) in nodes.iter().enumerate() {
        let others = (0..nodes.len()).filter(|other| *other != rank);
        let mut add = |first: u64, wanted_by: Vec<usize>| {
            let chunk = |number| Chunk { tenant, source: *source, number, wanted_by: wanted_by.clone() };
            made.extend((first..first + chunks).map(chunk));
        };
        let mut all: Vec<usize> = others.clone().map(|other| nodes[other]).collect();
        all.sort_unstable();
        match collective {
            Collective::AllGather => add(0, all),
            Collective::Broadcast if at_root(rank) => add(0, all),
            Collective::Scatter if !at_root(rank) => {}
            Collective::AllToAll | Collective::Scatter => {
                others.for_each(|other| add(other as u64 * chunks, vec![nodes[other]]));
            }
            Collective::Gather if !at_root(rank) => add(0, root.map(|root| nodes[root]).into_iter().collect()),
            Collective::Broadcast | Collective::Gather => {}
            _ => return None,
        }
    }
    Some(made)
}

/// A file of demands that is being read, and what is wrong with it.
struct Reading<'a> {
    topology: &'a Topology,
    wanted: &'a Wanted,
    errors: Vec<Problem>,
}

impl Reading<'_> {
    fn refuse(&mut self, error: Problem) {
        if self.errors.len() < MAX_PROBLEMS {
            self.errors.push(error);
        }
    }

    /// The topology's index of an end of a demand.
    fn node(&mut self, node: NodeId, at: &str) -> Option<usize> {
        let id = self.wanted.names.text(node);
        let Some(found) = self.topology.node(id) else {
            let error = Problem::new("BadNode", at, "no node has this id").found(id).allowed("an id of /nodes");
            self.refuse(error);
            return None;
        };
        if !self.topology.nodes()[found].is_compute() {
            let error = Problem::new("SwitchEndpoint", at, "this node only forwards, and owns and wants nothing");
            self.refuse(error.found(id).allowed("gpu, host or site"));
            return None;
        }
        Some(found)
    }

    fn triples(&mut self, tenant: usize, triples: &[(NodeId, u64, NodeId)]) -> Vec<Chunk> {
        let mut by_chunk: BTreeMap<(usize, u64), BTreeSet<usize>> = BTreeMap::new();
        for (i, (source, number, target)) in triples.iter().enumerate() {
            let at = format!("/tenants/{tenant}/triples/{i}");
            let (Some(source), Some(target)) = (self.node(*source, &at), self.node(*target, &at)) else { continue };
            let found = || format!("chunk {number} of {}", self.topology.nodes()[source].id);
            if source == target {
                let error = Problem::new("SelfDemand", at, "nobody sends to itself").found(found());
                self.refuse(error.allowed("a destination other than the source"));
            } else if !by_chunk.entry((source, *number)).or_default().insert(target) {
                let error = Problem::new("DuplicateDemand", at, "the same demand twice").found(found());
                self.refuse(error.allowed("each once"));
            }
        }
        let chunk = |((source, number), wanted_by): ((usize, u64), BTreeSet<usize>)| Chunk {
            tenant,
            source,
            number,
            wanted_by: wanted_by.into_iter().collect(),
        };
        by_chunk.into_iter().map(chunk).collect()
    }

    fn collective(&mut self, number: usize, collective: Collective, all: &[usize]) -> Option<Vec<Chunk>> {
        let tenant = &self.wanted.demands.tenants[number];
        let at = |key: &str| format!("/tenants/{number}/{key}");
        let mut nodes = all.to_vec();
        if let Some(list) = &tenant.participants {
            let at = at("participants");
            nodes = list.iter().map(|id| self.node(*id, &at)).collect::<Option<_>>()?;
        }
        let ranks: HashMap<usize, usize> = nodes.iter().enumerate().map(|(rank, node)| (*node, rank)).collect();
        if nodes.len() < 2 || ranks.len() < nodes.len() {
            let error = Problem::new("EmptyDemand", at("participants"), "fewer than two participants, or one twice");
            self.refuse(error.found(nodes.len().to_string()).allowed("two or more, each once"));
            return None;
        }
        let root = match (tenant.root, collective.is_rooted()) {
            (Some(root), true) => {
                let node = self.node(root, &at("root"))?;
                let rank = ranks.get(&node).copied();
                if rank.is_none() {
                    let error = Problem::new(E_RANGE, at("root"), "the root takes no part");
                    self.refuse(error.found(self.wanted.names.text(root)).allowed("one of the participants"));
                }
                Some(rank?)
            }
            (None, false) => None,
            (given, _) => {
                let (code, what) = if given.is_some() { (E_KEY, "has no root") } else { (E_MISSING, "has a root") };
                self.refuse(Problem::new(code, at("root"), format!("`{}` {what}", collective.word())));
                return None;
            }
        };
        let (n, chunks) = (nodes.len() as u64, tenant.chunks.unwrap_or(1));
        let pairs = if collective.is_rooted() { n - 1 } else { n * (n - 1) };
        if chunks == 0 || chunks.saturating_mul(pairs) > MAX_TRIPLES {
            let error = Problem::new("BadChunk", at("chunks"), "no chunks, or more than can be planned");
            self.refuse(error.found(chunks.to_string()).allowed(format!("1 to {}", MAX_TRIPLES / pairs)));
            return None;
        }
        let made = plain(number, collective, &nodes, root, chunks);
        if made.is_none() {
            let error =
                Problem::new(E_RANGE, at("collective"), "tenants share links, and sums are not planned for them");
            let served = "allgather, alltoall, broadcast, scatter, gather";
            self.refuse(error.found(collective.word()).allowed(served));
        }
        made
    }
}
