//! Which blocks and steps a tree becomes.
//!
//! Outwards: the root sends (`s`), ranks of a chain receive, keep and send on (`rcs`), its last one receives (`r`). Where
//! a chain begins at a rank that an earlier one has reached, a block of its own sends there once the data has arrived.
//! Inwards it is the other way round: the last rank of a chain sends, the others add their own and send on (`rrs`), and
//! what comes over other chains is added before that (`rrc`), one after the other. All-reduce over one tree is both,
//! and the root's `rrcs` turns the data round; over two different trees the root begins when all sums it sends are done.
//!
//! A step of a rank waits for another block of that rank only where both touch the same chunks and no message puts them
//! in order.

use std::collections::HashMap;

use super::chains::{Chain, chains};
use crate::export::lower::{Lowered, Piece};
use crate::export::messages::OwnPart;
use crate::export::rails::Rail;
use crate::interpret::{Buffer, Dependency, Op, Place, Program, Step};
use crate::plan::{Collective, Direction};
use sluice_formats::problem::Problems;

/// Fills in the blocks of a program.
///
/// With `sharing`, chains are cut after so many hops, and those over the same ranks are one row of blocks, in which every
/// piece has its steps behind those of the pieces before it; so everything waits only for what comes earlier in this
/// order, and nothing for itself.
pub fn build(program: &mut Program, lowered: &Lowered, instances: u32, sharing: Option<usize>) -> Result<(), Problems> {
    let mut before = 0;
    let shards = lowered.shards.iter().map(|shard| {
        before += shard * instances;
        before - shard * instances
    });
    let shards: Vec<u32> = shards.collect();
    let gathers = matches!(program.collective, Collective::AllGather | Collective::Broadcast);
    let buffer = if gathers { Buffer::Output } else { Buffer::Input };
    let (hops, rows) = (sharing.unwrap_or(usize::MAX), sharing.map(|_| HashMap::new()));
    let mut builder = Builder { program, channels: HashMap::new(), hops, rows, buffer };
    if gathers {
        for (rank, shard) in (0_u32..).zip(&lowered.shards).filter(|(_, shard)| **shard > 0) {
            builder.program.add_own_part(rank, OwnPart::gathered(shards[rank as usize], shard * instances));
        }
    }
    for instance in 0..instances {
        // Instances are there to be side by side: they share nothing.
        builder.rows.iter_mut().for_each(HashMap::clear);
        // All chunks of a shard's first instance, then all of its second.
        let span = |piece: &Piece| {
            let root = piece.tree.root as usize;
            Span { first: shards[root] + instance * lowered.shards[root] + piece.first, count: piece.count }
        };
        match &lowered.forests[..] {
            [only] if only.direction == Direction::Out => {
                for piece in &only.pieces {
                    let root = piece.tree.root as usize;
                    let at = span(piece);
                    let source = Place { buffer: Buffer::Input, offset: at.first - shards[root] };
                    builder.outwards(piece, at, source, &[]);
                }
            }
            [only] => {
                for piece in &only.pieces {
                    builder.inwards(piece, span(piece));
                }
            }
            [inward, outward, ..] => builder.both(&inward.pieces, &outward.pieces, span),
            [] => {}
        }
    }
    Ok(())
}

/// Consecutive chunks of the whole.
#[derive(Clone, Copy, PartialEq)]
struct Span {
    first: u32,
    count: u32,
}

/// How data runs over the ranks of a chain, which is given from its head.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Run {
    /// From the head to the leaf.
    Out,
    /// From the leaf to the head.
    In,
    /// In and then out again; at the head it comes in and goes out through one block.
    Round,
}

/// The blocks of a chain, by place in it.
#[derive(Clone)]
struct Row {
    /// Outwards, or inwards; of [`Run::Round`] the way in.
    blocks: Vec<u32>,
    /// Of [`Run::Round`] the way out, without the head.
    back: Vec<u32>,
}

/// Rows of blocks by how they run, their rail and their ranks.
type Rows = HashMap<(Run, Option<Rail>, Vec<u32>), Row>;

struct Builder<'a> {
    program: &'a mut Program,
    /// Per directed link the channels in use, one bit each.
    channels: HashMap<(u32, u32), Vec<u64>>,
    /// Hops of a chain at most.
    hops: usize,
    /// Where chains share blocks: the rows there are.
    rows: Option<Rows>,
    /// Where all data is gathered or added up.
    buffer: Buffer,
}

impl Builder<'_> {
    /// The least channel that no chain uses yet on any of these links, which are taken, and that leads over the rail.
    fn channel(&mut self, links: &[(u32, u32)], rail: Option<Rail>) -> u32 {
        let words = links.iter().filter_map(|link| self.channels.get(link)).map(Vec::len).max().unwrap_or(0);
        let used = |word: usize| {
            let bits = links.iter().filter_map(|link| self.channels.get(link)?.get(word));
            bits.fold(0, |used, bits| used | bits)
        };
        let leads = |word: usize| {
            let takes = |bit: &u32| rail.is_none_or(|rail| rail.takes(word as u32 * 64 + bit));
            (0..64).filter(takes).fold(0_u64, |bits, bit| bits | 1 << bit)
        };
        // Beyond the words in use every channel is free; the first that leads over the rail is at most `of` further.
        let most = words + rail.map_or(0, |rail| rail.of as usize / 64) + 1;
        let mut free = (0..=most).map(|word| (word, (!used(word) & leads(word)).trailing_zeros()));
        let (word, bit) = free.find(|(_, bit)| *bit < 64).unwrap_or((most, 0));
        for link in links {
            let bits = self.channels.entry(*link).or_default();
            if bits.len() <= word {
                bits.resize(word + 1, 0);
            }
            bits[word] |= 1 << bit;
        }
        word as u32 * 64 + bit
    }

    /// The blocks for a chain: new ones on a channel of their own, or those of an earlier chain over the same ranks.
    fn row(&mut self, run: Run, Chain { ranks: chain, rail }: &Chain) -> Row {
        let key = (run, *rail, chain.clone());
        if let Some(row) = self.rows.as_ref().and_then(|rows| rows.get(&key)) {
            return row.clone();
        }
        let pairs = chain.windows(2);
        let links: Vec<(u32, u32)> = match run {
            Run::Out => pairs.map(|pair| (pair[0], pair[1])).collect(),
            Run::In => pairs.map(|pair| (pair[1], pair[0])).collect(),
            Run::Round => pairs.flat_map(|pair| [(pair[0], pair[1]), (pair[1], pair[0])]).collect(),
        };
        let channel = self.channel(&links, *rail);
        let mut row = Row { blocks: Vec::with_capacity(chain.len()), back: Vec::new() };
        for (i, rank) in chain.iter().enumerate() {
            let (above, below) = (i.checked_sub(1).map(|above| chain[above]), chain.get(i + 1).copied());
            let (receive, send) = match run {
                Run::Out => (above, below),
                Run::In => (below, above),
                Run::Round => (below, above.or(below)),
            };
            row.blocks.push(self.program.gpus[*rank as usize].add_block(receive, send, channel));
            if run == Run::Round && i > 0 {
                row.back.push(self.program.gpus[*rank as usize].add_block(above, below, channel));
            }
        }
        if let Some(rows) = &mut self.rows {
            rows.insert(key, row.clone());
        }
        row
    }

    fn place(&self, at: Span) -> Place {
        Place { buffer: self.buffer, offset: at.first }
    }

    /// Data leaves the root: it has it at `source`, once these steps are done.
    fn outwards(&mut self, piece: &Piece, at: Span, source: Place, ready: &[Dependency]) {
        let (tree, here) = (&piece.tree, self.place(at));
        let mut arrived: Vec<Option<Dependency>> = vec![None; tree.parents.len()];
        for chain in chains(tree, self.hops) {
            let row = self.row(Run::Out, &chain);
            let chain = chain.ranks;
            let mut held = if chain[0] == tree.root { source } else { here };
            let after = arrived[chain[0] as usize];
            let after = if chain[0] == tree.root { ready } else { after.as_slice() };
            self.program.add_step(chain[0], row.blocks[0], Op::Send, [held, here], at.count, after);
            for (i, (rank, block)) in chain.iter().zip(&row.blocks).enumerate().skip(1) {
                let op = if i + 1 < chain.len() { Op::ReceiveCopySend } else { Op::Receive };
                arrived[*rank as usize] = Some(self.program.add_step(*rank, *block, op, [held, here], at.count, &[]));
                held = here;
            }
        }
    }

    /// Data comes together in the root; gives the step after which it is complete there.
    fn inwards(&mut self, piece: &Piece, at: Span) -> Option<Dependency> {
        let tree = &piece.tree;
        let mut branches = Branches::new(tree.parents.len());
        for chain in chains(tree, self.hops) {
            let row = self.row(Run::In, &chain);
            for (i, (rank, block)) in chain.ranks.iter().zip(row.blocks).enumerate() {
                branches.add(*rank, i > 0 || branches.main[*rank as usize].is_none(), block);
            }
        }
        let mut complete = None;
        for rank in 0..tree.parents.len() as u32 {
            complete = self.collect(&branches, rank, rank == tree.root, Op::ReceiveReduceCopy, at).or(complete);
        }
        complete
    }

    /// A rank adds up what arrives over extra chains and then does its main step; gives the root's main step.
    fn collect(&mut self, branches: &Branches, rank: u32, is_root: bool, last: Op, at: Span) -> Option<Dependency> {
        let here = [self.place(at); 2];
        let mut added = None;
        for block in &branches.extra[rank as usize] {
            added = Some(self.program.add_step(rank, *block, Op::ReceiveReduceCopy, here, at.count, added.as_slice()));
        }
        let block = branches.main[rank as usize]?;
        let receives = self.program.gpus[rank as usize].blocks[block as usize].receive.is_some();
        let op = match (is_root, receives) {
            (true, _) => last,
            (false, true) => Op::ReceiveReduceSend,
            (false, false) => Op::Send,
        };
        let main = self.program.add_step(rank, block, op, here, at.count, added.as_slice());
        is_root.then_some(main)
    }

    /// All-reduce: pieces whose tree is the same both ways are turned round at the root, the others go one after the
    /// other.
    fn both(&mut self, inward: &[Piece], outward: &[Piece], span: impl Fn(&Piece) -> Span) {
        let key = |piece: &Piece| (piece.tree.root, piece.first);
        let same = |other: &Piece, piece: &Piece| {
            let (trees, rails) = ([&other.tree, &piece.tree], [&other.tree.rails, &piece.tree.rails]);
            other.count == piece.count && trees[0].parents == trees[1].parents && rails[0] == rails[1]
        };
        let down: HashMap<(u32, u32), &Piece> = outward.iter().map(|piece| (key(piece), piece)).collect();
        let up: HashMap<(u32, u32), &Piece> = inward.iter().map(|piece| (key(piece), piece)).collect();
        // Where sums are complete: root, chunks, step.
        let mut sums: HashMap<u32, Vec<(Span, Dependency)>> = HashMap::new();
        for piece in inward {
            let at = span(piece);
            if down.get(&key(piece)).is_some_and(|other| same(other, piece)) {
                self.round(piece, at);
            } else if let Some(complete) = self.inwards(piece, at) {
                sums.entry(piece.tree.root).or_default().push((at, complete));
            }
        }
        for piece in outward {
            if up.get(&key(piece)).is_some_and(|other| same(other, piece)) {
                continue;
            }
            let at = span(piece);
            let of_root = sums.get(&piece.tree.root).map_or(&[][..], Vec::as_slice);
            // Pieces come by chunk: those that share chunks with this one stand together.
            let from = of_root.partition_point(|(span, _)| span.first + span.count <= at.first);
            let these = of_root[from..].iter().take_while(|(span, _)| span.first < at.first + at.count);
            let ready: Vec<Dependency> = these.map(|(_, step)| *step).collect();
            self.outwards(piece, at, self.place(at), &ready);
        }
    }

    /// All-reduce over one tree: up every chain and down it again on the same channel.
    fn round(&mut self, piece: &Piece, at: Span) {
        let (tree, here) = (&piece.tree, [self.place(at); 2]);
        let (mut up, mut down) = (Branches::new(tree.parents.len()), vec![None; tree.parents.len()]);
        for chain in chains(tree, self.hops) {
            let row = self.row(Run::Round, &chain);
            let chain = chain.ranks;
            up.add(chain[0], up.main[chain[0] as usize].is_none(), row.blocks[0]);
            for ((rank, block), back) in chain.iter().zip(row.blocks).skip(1).zip(row.back) {
                up.add(*rank, true, block);
                down[*rank as usize] = Some(back);
            }
        }
        for rank in 0..tree.parents.len() as u32 {
            let turned = self.collect(&up, rank, rank == tree.root, Op::ReceiveReduceCopySend, at);
            let arrived = match down[rank as usize] {
                None => turned,
                Some(block) => {
                    let sends = self.program.gpus[rank as usize].blocks[block as usize].send.is_some();
                    let op = if sends { Op::ReceiveCopySend } else { Op::Receive };
                    // It overwrites what the step up has sent, and comes after it: the answer follows the question.
                    Some(self.program.add_step(rank, block, op, here, at.count, &[]))
                }
            };
            for block in &up.extra[rank as usize] {
                self.program.add_step(rank, *block, Op::Send, here, at.count, arrived.as_slice());
            }
        }
    }
}

impl Program {
    /// Adds a step to a block. A step waits for one other at most: for further ones, steps that do nothing wait first.
    pub(super) fn add_step(
        &mut self,
        rank: u32,
        block: u32,
        op: Op,
        [src, dst]: [Place; 2],
        count: u32,
        after: &[Dependency],
    ) -> Dependency {
        let gpu = &mut self.gpus[rank as usize];
        for other in after {
            gpu.blocks[other.block as usize].steps[other.step as usize].awaited = true;
        }
        let steps = &mut gpu.blocks[block as usize].steps;
        let others = &after[..after.len().saturating_sub(1)];
        steps.extend(others.iter().copied().map(Step::wait));
        steps.push(Step { op, src, dst, count, after: after.last().copied(), awaited: false });
        Dependency { block, step: steps.len() as u32 - 1 }
    }
    /// A rank's own part goes to its place in the output, in a block of its own.
    pub(super) fn add_own_part(&mut self, rank: u32, own: OwnPart) {
        let block = self.gpus[rank as usize].add_block(None, None, 0);
        self.add_step(rank, block, Op::Copy, [own.source, own.target], own.count, &[]);
    }
}

/// The blocks of every rank that add up: the one on its main chain, and those where other chains arrive.
struct Branches {
    main: Vec<Option<u32>>,
    extra: Vec<Vec<u32>>,
}

impl Branches {
    fn new(ranks: usize) -> Branches {
        Branches { main: vec![None; ranks], extra: vec![Vec::new(); ranks] }
    }
    fn add(&mut self, rank: u32, main: bool, block: u32) {
        if main { self.main[rank as usize] = Some(block) } else { self.extra[rank as usize].push(block) }
    }
}
