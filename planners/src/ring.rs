//! The ring: every participant passes on to the next what it got from the last. What other plans are compared with.
//!
//! The ring goes over links and switches, never through a participant out of turn; where links lead both ways it is taken in
//! both directions with half of the data each, if that is faster. Its plan is made of trees that are chains, or for
//! collectives of pairs, of paths along it. It claims nothing.

mod order;
#[cfg(test)]
mod tests;

use crate::front::{Asked, Draft, Request, Support, reduces};
use order::Hop;
use sluice_formats::problem::{Code, E_LIMIT, INTERNAL_INVARIANT, Problem, Problems, UNSUPPORTED_FIELD};
use sluice_formats::quantity::Rational;
use sluice_formats::topology::{Can, Topology};
use sluice_plan::cost::Cost;
use sluice_plan::plan::{
    Claim, Collective, Content, Direction, Edge, Forest, Names, NodeId, Nullable, Pair, Paths, Plan, Tree, Trees,
};

/// There is no such ring, or none was found.
pub const NO_RING: Code = "NO_RING";
/// Participants at most: a ring has a chain of all of them for each.
const MAX_PARTICIPANTS: usize = 1024;
/// The same where every pair has a path.
const MAX_IN_PAIRS: usize = 256;

/// What a ring serves and knows.
pub const SUPPORT: Support = Support {
    makes: "rings",
    collectives: &[
        Collective::AllGather,
        Collective::ReduceScatter,
        Collective::AllReduce,
        Collective::AllToAll,
        Collective::Broadcast,
        Collective::Reduce,
        Collective::Scatter,
        Collective::Gather,
    ],
    ignorable: &["buffer", "capacity_per_epoch"],
    relays: true,
    weights: true,
    self_loop: None,
    unlimited: None,
    needs: |collective| Can {
        store: false,
        copy: matches!(collective, Collective::AllGather | Collective::AllReduce | Collective::Broadcast),
        reduce: reduces(collective),
    },
    own_fault: INTERNAL_INVARIANT,
};

/// The plan of a ring, which has passed the checker.
///
/// # Errors
/// Those of [`Asked::new`]; [`NO_RING`] where none is found; `E_LIMIT` for too many participants; `UNSUPPORTED_FIELD` for
/// unequal weights in an all-to-all.
pub fn make(topology: &Topology, request: &Request<'_>, file: &str) -> Result<Plan, Problems> {
    let asked = Asked::new(topology, request, file, &SUPPORT)?;
    let pairs = matches!(asked.collective, Collective::AllToAll | Collective::Scatter | Collective::Gather);
    let (n, most) = (asked.participants.len(), if pairs { MAX_IN_PAIRS } else { MAX_PARTICIPANTS });
    if n > most {
        let error = Problem::new(E_LIMIT, "participants", "too many for a ring").found(n.to_string());
        return Err(error.allowed(format!("at most {most}")).into());
    }
    let weight = |node: &usize| topology.nodes()[*node].weight;
    if let Some(node) =
        asked.participants.iter().find(|node| asked.collective == Collective::AllToAll && weight(node) != 1)
    {
        let error = Problem::new(UNSUPPORTED_FIELD, format!("/nodes/{node}/weight"), "an all-to-all knows no weights");
        return Err(asked.in_file(error.found(weight(node).to_string()).allowed("1")));
    }
    let no_ring = || Problem::new(NO_RING, "", "no ring over all participants was found");
    let forward = order::ring(topology, &asked.participants).ok_or_else(no_ring)?;
    let mut best: Option<(Plan, Rational)> = None;
    let backward = order::reversed(topology, &forward);
    for rings in [Some(vec![forward.clone()]), backward.map(|backward| vec![forward, backward])].into_iter().flatten() {
        let mut names = Names::default();
        let nodes: Vec<NodeId> = topology.nodes().iter().map(|node| names.intern(&node.id)).collect();
        let ways = Ways { asked: &asked, nodes: &nodes, rings: &rings };
        let content = if pairs { ways.paths() } else { ways.trees() };
        let plan = asked.plan(Draft { names, content, claim: Claim::default(), demands: None })?;
        let per_byte = Cost::new(&plan, topology)?.per_byte();
        if best.as_ref().is_none_or(|(_, least)| per_byte < *least) {
            best = Some((plan, per_byte));
        }
    }
    best.map(|(plan, _)| plan).ok_or_else(|| no_ring().into())
}

/// Ways along rings that all begin at the same participant.
struct Ways<'a> {
    asked: &'a Asked<'a>,
    /// By index of the topology.
    nodes: &'a [NodeId],
    rings: &'a [Vec<Hop>],
}

impl Ways<'_> {
    fn trees(&self) -> Content {
        let forest = |direction: Direction| {
            let weight = |node: usize| match self.asked.root {
                Some(rank) => u64::from(self.asked.participants[rank] == node),
                None => self.asked.topology.nodes()[node].weight,
            };
            let roots = self.asked.participants.iter().filter(|node| weight(**node) > 0);
            let trees = roots.flat_map(|root| {
                self.rings.iter().map(|ring| Tree {
                    edges: self.chain(ring, *root, direction),
                    ends: None,
                    hops: None,
                    root: self.nodes[*root],
                    weight: Rational::from(weight(*root)),
                })
            });
            let (trees, k) = (trees.collect(), Nullable(Some(self.rings.len() as u64)));
            Forest { u: None, direction, fixed_k: None, k, trees }
        };
        let directions: &[Direction] = match self.asked.collective {
            Collective::AllReduce => &[Direction::In, Direction::Out],
            Collective::ReduceScatter | Collective::Reduce => &[Direction::In],
            _ => &[Direction::Out],
        };
        Content::Trees(Trees { forests: directions.iter().map(|direction| forest(*direction)).collect() })
    }

    /// All of the ring from its root on, but for the last hop back to it; or all of it up to the root.
    fn chain(&self, ring: &[Hop], root: usize, direction: Direction) -> Vec<Edge> {
        let place = ring.iter().position(|hop| hop.from() == root).unwrap_or(0);
        let first = if direction == Direction::Out { place } else { place + 1 };
        let hops = (first..first + ring.len() - 1).map(|place| &ring[place % ring.len()]);
        let edge = |hop: &Hop| {
            let via = hop.path[1..hop.path.len() - 1].iter().map(|node| self.nodes[*node]).collect();
            Edge { src: self.nodes[hop.from()], dst: self.nodes[hop.to()], via }
        };
        hops.map(edge).collect()
    }

    /// Every pair the shorter way round, or half of it each way.
    fn paths(&self) -> Content {
        let n = self.asked.participants.len();
        let root = self.asked.root.map(|rank| self.asked.participants[rank]);
        let ring = &self.rings[0];
        let (mut pairs, mut targets): (Vec<Pair>, Vec<usize>) = (Vec::new(), Vec::new());
        targets.extend(ring.iter().map(Hop::from));
        for (i, from) in targets.iter().enumerate() {
            for (j, to) in targets.iter().enumerate().filter(|(j, _)| *j != i) {
                let owes = match self.asked.collective {
                    Collective::Scatter => root == Some(*from),
                    Collective::Gather => root == Some(*to),
                    _ => true,
                };
                if !owes {
                    continue;
                }
                let ahead = (j + n - i) % n;
                let shorter = ahead.min(n - ahead);
                let ways: Vec<(&Vec<Hop>, usize)> = match self.rings {
                    [forward, backward] => {
                        let both = [(forward, ahead), (backward, n - ahead)];
                        both.into_iter().filter(|(_, length)| *length == shorter).collect()
                    }
                    _ => vec![(ring, ahead)],
                };
                let amount = Rational::new(1, ways.len() as i64).unwrap_or(Rational::ONE);
                pairs.extend(ways.into_iter().map(|(ring, length)| Pair {
                    amount: amount.clone(),
                    src: self.nodes[*from],
                    dst: self.nodes[*to],
                    path: self.along(ring, *from, length),
                }));
            }
        }
        Content::Paths(Paths { pairs })
    }

    fn along(&self, ring: &[Hop], from: usize, length: usize) -> Vec<NodeId> {
        let place = ring.iter().position(|hop| hop.from() == from).unwrap_or(0);
        let hops = (place..place + length).map(|place| &ring[place % ring.len()]);
        let rest = hops.flat_map(|hop| &hop.path[1..]);
        std::iter::once(&from).chain(rest).map(|node| self.nodes[*node]).collect()
    }
}
