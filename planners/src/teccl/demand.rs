//! Who wants which chunk.

use sluice_plan::plan::Collective;

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

/// All chunks, by tenant, source and number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// The chunks.
    pub chunks: Vec<Chunk>,
}

impl Demand {
    /// What a plain collective asks for: nodes by rank, the root's rank, chunks per source (of an all-to-all, a scatter and
    /// a gather per pair). `None`: it is none of those that sends serve.
    pub fn of(collective: Collective, nodes: &[usize], root: Option<usize>, chunks: u64) -> Option<Demand> {
        let mut made = Vec::new();
        let at_root = |rank: usize| root == Some(rank);
        for (rank, source) in nodes.iter().enumerate() {
            let others = (0..nodes.len()).filter(|other| *other != rank);
            let mut add = |first: u64, wanted_by: Vec<usize>| {
                let chunk = |number| Chunk { tenant: 0, source: *source, number, wanted_by: wanted_by.clone() };
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
        Some(Demand { chunks: made })
    }

    /// How many times a chunk is wanted by somebody.
    pub fn triples(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.wanted_by.len()).sum()
    }
    /// Does somebody want what somebody else wants too?
    pub fn needs_copies(&self) -> bool {
        self.chunks.iter().any(|chunk| chunk.wanted_by.len() > 1)
    }
}
