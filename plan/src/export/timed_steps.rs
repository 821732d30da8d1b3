//! Steps of a given length as a runtime sees them: messages from rank to rank, as of a schedule of sends whose epochs are
//! the steps.
//!
//! What crosses switches is one message. All chunks of a program are equally large: as large as the greatest common part of
//! everything that is sent.

use std::collections::HashMap;

use num_integer::Integer;

use super::messages::Messages;
use super::sends::{COLLECTIVES, Lowered, MAX_CELLS, lower, participants};
use super::{INTERNAL_INVARIANT, UNSUPPORTED_FIELD};
use crate::check::Timed;
use crate::merge::crossings;
use crate::plan::{Collective, Op, Plan, Shard, Step, StepSend, Steps};
use sluice_formats::problem::{E_LIMIT, Problem, Problems};
use sluice_formats::topology::Topology;

/// Chunks of all sends at most.
const MAX_SENT: u64 = 1 << 24;

/// Puts steps that the checker found right into ranks and messages.
pub fn messages(plan: &Plan, topology: &Topology, steps: &Steps) -> Result<Lowered, Problems> {
    let collective = plan.body.collective;
    if !COLLECTIVES.contains(&collective) {
        let error = Problem::new(UNSUPPORTED_FIELD, "/collective", "steps for this collective are not exported");
        let allowed: Vec<&str> = COLLECTIVES.iter().map(|collective| collective.word()).collect();
        return Err(error.found(collective.word()).allowed(allowed.join(", ")).into());
    }
    let participants = participants(plan, topology);
    let ranks: HashMap<usize, u32> = participants.iter().copied().zip(0..).collect();
    for link in topology.links() {
        let waits = |node: &usize| !ranks.contains_key(node) && topology.nodes()[*node].can.store;
        if let Some(node) = [link.from, link.to].iter().find(|node| waits(node)) {
            let message = "data may wait at a node that takes no part, and programs have ranks only";
            let error = Problem::new(UNSUPPORTED_FIELD, format!("/topology/inline/nodes/{node}/can"), message);
            let found = format!("{}: store", topology.nodes()[*node].id);
            return Err(error.found(found).allowed("switches that cannot store").into());
        }
    }
    let grid = Grid::new(plan, topology, steps, &participants)?;
    let mut timed = Vec::new();
    for (epoch, step) in (0_u64..).zip(&steps.steps) {
        for op in [Op::Reduce, Op::Copy] {
            for send in step.doing(op).0 {
                let link = &topology.links()[send.link as usize];
                let (owner, chunks) = grid.chunks(send);
                let source = *participants.get(owner).ok_or_else(defect)?;
                for number in chunks {
                    timed.push(Timed {
                        at: timed.len(),
                        epoch,
                        busy: 1,
                        usable: epoch + 1,
                        from: link.from,
                        to: link.to,
                        link: send.link as usize,
                        out: None,
                        source,
                        number,
                        lo: 0,
                        hi: 1,
                        wanted: ranks.contains_key(&link.to),
                        reduces: op == Op::Reduce,
                    });
                }
            }
        }
    }
    let crossings = crossings(topology, &timed, &ranks)?;
    let lossy = crossings.iter().any(|crossing| crossing.copied.is_some() || crossing.summed.is_some());
    Ok(Lowered { messages: lower::lower(Messages::new(collective, grid.of_ranks), crossings), lossy })
}

fn defect() -> Problem {
    Problem::new(INTERNAL_INVARIANT, "/content/steps", "the checker let pass a bad send")
}

/// How shards are cut into chunks.
struct Grid {
    /// Units of a shard in a piece, which is one chunk times the shard's share.
    piece: u64,
    /// Pieces of a shard.
    pieces: u64,
    /// By rank the chunks of each piece.
    shares: Vec<u64>,
    /// By rank the chunks of its shard, or of its part for each rank.
    of_ranks: Vec<u32>,
}

impl Grid {
    fn new(plan: &Plan, topology: &Topology, steps: &Steps, participants: &[usize]) -> Result<Grid, Problems> {
        let (collective, n) = (plan.body.collective, participants.len());
        let all = || steps.steps.iter().flat_map(Step::all);
        let piece = all().fold(steps.p, |sum, send| sum.gcd(&send.lo).gcd(&send.hi));
        let pieces = steps.p.checked_div(piece).ok_or_else(defect)?;
        let root = plan.body.root.and_then(|root| topology.node(plan.id(root)));
        let share = |node: &usize| match collective {
            _ if collective.is_rooted() => u64::from(root == Some(*node)),
            Collective::AllToAll => 1,
            _ => topology.nodes()[*node].weight,
        };
        let by_weight = || participants.iter().map(share).collect();
        let mut shares: Vec<u64> = steps.shares.clone().unwrap_or_else(by_weight);
        let common = shares.iter().fold(0, |sum: u64, share| sum.gcd(share)).max(1);
        shares.iter_mut().for_each(|share| *share /= common);
        let total = shares.iter().fold(0, |sum: u64, share| sum.saturating_add(*share)).saturating_mul(pieces);
        let pairs = if collective == Collective::AllToAll { n as u64 } else { 1 };
        let held = total.saturating_mul(pairs).saturating_mul(n as u64);
        let mut grid = Grid { piece, pieces, shares, of_ranks: Vec::new() };
        let chunks = |send: &StepSend| {
            let numbers = grid.chunks(send).1;
            numbers.end.saturating_sub(numbers.start)
        };
        if held > MAX_CELLS || all().map(chunks).fold(0, u64::saturating_add) > MAX_SENT {
            let error = Problem::new(E_LIMIT, "/content/P", "the program would be too large");
            let error = error.found(format!("{total} equal chunks on each of {n} ranks"));
            let allowed = format!("{MAX_CELLS} chunks on all ranks together, {MAX_SENT} in all sends");
            return Err(error.allowed(allowed).help("plan with fewer steps: --steps").into());
        }
        // Below MAX_CELLS.
        grid.of_ranks = grid.shares.iter().map(|share| (share * pieces) as u32).collect();
        Ok(grid)
    }

    /// The rank whose chunks are sent, and their numbers there.
    fn chunks(&self, send: &StepSend) -> (usize, std::ops::Range<u64>) {
        let (lo, hi) = (send.lo / self.piece, send.hi / self.piece);
        match send.shard {
            Shard::Of(rank) => {
                let share = self.shares.get(rank as usize).copied().unwrap_or(0);
                (rank as usize, lo.saturating_mul(share)..hi.saturating_mul(share))
            }
            Shard::Between(from, to) => {
                let before = u64::from(to).saturating_mul(self.pieces);
                (from as usize, before.saturating_add(lo)..before.saturating_add(hi))
            }
        }
    }
}
